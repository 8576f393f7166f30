"""What answers a fragment (SPEC 7.6, 7.7)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.transports.soar.crypto.parties import SERVER_KEY, FixedEntropy, flips
from transports.soar.core.crypto import Retry, RetryCode, ServerKey, build_retry
from transports.soar.core.crypto.retries import BodyType, read_retry, unwrap, wrap

KEY = SERVER_KEY.public.header_key
SID = b"abcd"
RETRY = Retry(RetryCode.CLOCK, b"12345678", 1_800_000_000)


def read(payload: bytes, sid: bytes = SID) -> Retry | None:
    unwrapped = unwrap(KEY, payload)
    if unwrapped is None or unwrapped[0] != BodyType.RETRY:
        return None
    return read_retry(KEY, sid, unwrapped[1])


@given(
    code=st.sampled_from(RetryCode),
    cookie=st.binary(min_size=8, max_size=8),
    time=st.integers(0, 0xFFFFFFFF),
)
def test_a_retry_reads_back(code: RetryCode, cookie: bytes, time: int) -> None:
    retry = Retry(code, cookie, time)
    payload = build_retry(KEY, SID, retry)
    assert len(payload) == 22
    assert read(payload) == retry


def test_a_time_beyond_2106_keeps_its_low_bits() -> None:
    assert read(build_retry(KEY, SID, RETRY._replace(time=2**32 + 7))) == RETRY._replace(time=7)


def test_any_bit_flipped_or_cut_anywhere_is_none() -> None:
    payload = build_retry(KEY, SID, RETRY)
    for forged in [*flips(payload), *(payload[:at] for at in range(len(payload))), payload + b"\0"]:
        assert read(forged) is None


def test_a_retry_is_for_one_first_message_of_one_server() -> None:
    assert read(build_retry(KEY, SID, RETRY), b"abce") is None
    other = ServerKey.generate(FixedEntropy("another")).public.header_key
    assert read(build_retry(other, SID, RETRY)) is None


@pytest.mark.parametrize("code", [0, 3, 255])
def test_a_code_that_nobody_knows_is_none(code: int) -> None:
    fields = bytes([code]) + bytes(12)
    assert read_retry(KEY, SID, fields + KEY.retry_mac(SID + fields)) is None


@given(body=st.binary(min_size=16, max_size=255), body_type=st.integers(0, 255))
def test_a_known_type_is_unwrapped(body: bytes, body_type: int) -> None:
    expected = (body_type, body) if body_type < 2 else None
    assert unwrap(KEY, wrap(KEY, body_type, body)) == expected


def test_the_type_is_masked() -> None:
    first = {wrap(KEY, BodyType.MSG2, bytes([n]) * 16)[0] for n in range(64)}
    assert len(first) > 40


@given(st.binary(max_size=300))
def test_garbage_gives_none(garbage: bytes) -> None:
    assert read(garbage) is None
    assert read_retry(KEY, SID, garbage) is None
