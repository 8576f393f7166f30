from __future__ import annotations

from transports.soar.core.server.receipts import MAX_PREFIXES, UNPROVEN_OCTETS, Receipts

HERE = b"\xc0\x00\x02"


def test_an_unproven_prefix_gets_8_kilobytes() -> None:
    receipts = Receipts(b"secret", b"sid1")
    assert receipts.allowance(HERE) == UNPROVEN_OCTETS == 8192
    receipts.sent(HERE, 8000)
    assert receipts.allowance(HERE) == 192
    receipts.sent(HERE, 1232)
    assert receipts.allowance(HERE) == 0
    assert receipts.allowance(b"abc") == 8192


def test_a_response_frees_the_prefix_it_is_for_and_no_other() -> None:
    receipts = Receipts(b"secret", b"sid1")
    token = receipts.token(HERE)
    other = receipts.token(b"abc")
    assert len(token) == 4
    assert token != other
    receipts.receive(b"\0\0\0\0")
    assert receipts.allowance(HERE) == 8192
    receipts.receive(token)
    assert receipts.allowance(HERE) is None
    assert receipts.allowance(b"abc") == 8192
    receipts.sent(HERE, 1 << 30)
    assert receipts.allowance(HERE) is None


def test_tokens_are_the_servers_and_the_sessions_own() -> None:
    tokens = {
        Receipts(secret, sid).token(HERE)
        for secret in (b"one", b"two")
        for sid in (b"sid1", b"sid2")
    }
    assert len(tokens) == 4


def test_prefixes_are_bounded_and_proven_ones_stay() -> None:
    receipts = Receipts(b"secret", b"sid1")
    receipts.receive(receipts.token(HERE))
    for number in range(10 * MAX_PREFIXES):
        receipts.sent(number.to_bytes(3), 100)
    assert len(receipts._prefixes) == MAX_PREFIXES
    assert receipts.allowance(HERE) is None


def test_when_all_are_proven_the_longest_known_gives_way() -> None:
    receipts = Receipts(b"secret", b"sid1")
    for number in range(MAX_PREFIXES + 1):
        receipts.receive(receipts.token(number.to_bytes(3)))
    assert len(receipts._prefixes) == MAX_PREFIXES
    assert receipts.allowance((1).to_bytes(3)) is None
    assert receipts.allowance((0).to_bytes(3)) == UNPROVEN_OCTETS
