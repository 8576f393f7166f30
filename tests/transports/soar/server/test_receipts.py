from __future__ import annotations

from transports.soar.core.server.receipts import MAX_PREFIXES, UNPROVEN_OCTETS, Receipt, Receipts

HERE = bytes([192, 0, 2, 1])
THERE = bytes([203, 0, 113, 1])


def open_receipt(receipts: Receipts, address: bytes) -> Receipt:
    receipt = receipts.of(address)
    assert receipt is not None
    return receipt


def test_an_unproven_prefix_gets_8_kilobytes() -> None:
    receipts = Receipts(b"secret", b"sid1")
    receipt = open_receipt(receipts, HERE)
    assert receipt.allowance == UNPROVEN_OCTETS == 8192
    receipt.spend(8000)
    assert open_receipt(receipts, HERE[:3] + b"\x09").allowance == 192
    receipt.spend(1232)
    assert receipt.allowance == 0
    assert open_receipt(receipts, THERE).allowance == 8192


def test_a_response_frees_the_prefix_it_is_for_and_no_other() -> None:
    receipts = Receipts(b"secret", b"sid1")
    here, there = open_receipt(receipts, HERE), open_receipt(receipts, THERE)
    assert len(here.token) == 4
    assert here.token != there.token
    receipts.receive(b"\0\0\0\0")
    assert receipts.of(HERE) is here
    receipts.receive(here.token)
    assert receipts.of(HERE) is None
    assert receipts.of(THERE) is there


def test_tokens_are_the_servers_and_the_sessions_own() -> None:
    tokens = {
        open_receipt(Receipts(secret, sid), HERE).token
        for secret in (b"one", b"two")
        for sid in (b"sid1", b"sid2")
    }
    assert len(tokens) == 4


def test_prefixes_are_bounded_and_proven_ones_stay() -> None:
    receipts = Receipts(b"secret", b"sid1")
    receipts.receive(open_receipt(receipts, HERE).token)
    for number in range(10 * MAX_PREFIXES):
        receipts.of(number.to_bytes(3) + b"\x01")
    assert len(receipts._prefixes) == MAX_PREFIXES
    assert receipts.of(HERE) is None


def test_when_all_are_proven_the_longest_known_gives_way() -> None:
    receipts = Receipts(b"secret", b"sid1")
    addresses = [number.to_bytes(3) + b"\x01" for number in range(MAX_PREFIXES + 1)]
    for address in addresses:
        receipts.receive(open_receipt(receipts, address).token)
    assert len(receipts._prefixes) == MAX_PREFIXES
    assert receipts.of(addresses[1]) is None
    assert open_receipt(receipts, addresses[0]).allowance == UNPROVEN_OCTETS
