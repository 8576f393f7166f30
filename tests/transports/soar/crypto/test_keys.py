"""The server's keys (SPEC 3)."""

from __future__ import annotations

import pytest

from tests.transports.soar.crypto.parties import SERVER_KEY, FixedEntropy
from transports.soar.core.crypto import InvalidKey, PublicKey, ServerKey
from transports.soar.core.crypto.hashes import digest

# All points of order 1, 2, 4 and 8, each in every spelling of 255 bits; the 256th is not read.
LOW_ORDER = [
    bytes.fromhex(point)
    for point in (
        "00" * 32,
        "01" + "00" * 31,
        "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
        "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
        "ec" + "ff" * 30 + "7f",
        "ed" + "ff" * 30 + "7f",
        "ee" + "ff" * 30 + "7f",
    )
]
LOW_ORDER += [point[:31] + bytes([point[31] | 0x80]) for point in LOW_ORDER]


def test_a_pair_is_that_of_rfc_7748() -> None:
    # RFC 7748 section 6.1, Alice's.
    key = ServerKey(
        bytes.fromhex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a")
    )
    assert key.public.raw.hex() == (
        "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"
    )


@pytest.mark.parametrize("point", LOW_ORDER, ids=bytes.hex)
def test_a_point_of_low_order_is_no_public_key(point: bytes) -> None:
    with pytest.raises(InvalidKey, match="low order"):
        PublicKey(point)


@pytest.mark.parametrize("size", [0, 31, 33])
def test_a_key_has_its_size(size: int) -> None:
    with pytest.raises(InvalidKey, match=f"{size} octets"):
        PublicKey(bytes(size))
    with pytest.raises(InvalidKey, match=f"{size} octets"):
        ServerKey(bytes(size))


def test_a_restarted_server_derives_the_same() -> None:
    again = ServerKey.parse(SERVER_KEY.to_text())
    assert again.public == SERVER_KEY.public
    assert hash(again.public) == hash(SERVER_KEY.public)
    assert again.status_key(b"abcd") == SERVER_KEY.status_key(b"abcd")


def test_a_status_key_belongs_to_one_session_of_one_server() -> None:
    keys = {
        key.status_key(sid)
        for key in (SERVER_KEY, ServerKey.generate(FixedEntropy("another")))
        for sid in (b"abcd", b"abce")
    }
    assert len(keys) == 4
    assert {len(key) for key in keys} == {16}


def test_keys_compare_by_value() -> None:
    assert SERVER_KEY.public == PublicKey(SERVER_KEY.public.raw)
    assert SERVER_KEY.public != ServerKey.generate(FixedEntropy("another")).public
    assert SERVER_KEY.public != SERVER_KEY.public.raw


def test_what_the_header_key_makes_is_the_specification_s() -> None:
    public = SERVER_KEY.public
    key = digest(32, b"soar1 header", public.raw)
    data = bytes(range(16))
    for _ in range(2):  # what was begun is not used up
        assert public.header_key.mask(data) == digest(7, key, data)
        assert public.header_key.gate(data) == digest(4, key, data)
        assert public.header_key.retry_mac(data) == digest(8, key, data)
        assert bytes([public.header_key.type_mask(data)]) == digest(1, key, data)
