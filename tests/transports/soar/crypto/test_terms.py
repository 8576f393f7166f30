"""What the handshake's messages say (SPEC 7.2, 7.6, 7.8)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from racer.errors import LocalProtocolError, RemoteProtocolError
from transports.soar.core.crypto import Claims, Status, Terms

CLAIMS = Claims(
    time=1_800_000_000,
    max_version=0,
    cookie=(b"12345678", b"abcd"),
    grant=(b"grant1", b"0123456789abcdef"),
    frames=b"frames",
)
TERMS = Terms(
    status=Status.WELCOME,
    version=0,
    early_refused=True,
    time=1_800_000_000,
    known_for=77.5,
    idle_timeout=120.0,
    lease=3600,
    max_streams=128,
    stream_window=262_144,
    session_window=1_048_576,
    shards=4,
    status_key=b"status key 16 oc",
    frames=b"frames",
)


@pytest.mark.parametrize(
    ("claims", "octets"),
    [
        (
            CLAIMS,
            b"\x6b\x49\xd2\x00\x03\x0012345678abcdgrant10123456789abcdefframes",
        ),
        (replace(CLAIMS, cookie=None), b"\x6b\x49\xd2\x00\x02\x00grant10123456789abcdefframes"),
        (replace(CLAIMS, grant=None), b"\x6b\x49\xd2\x00\x01\x0012345678abcdframes"),
        (replace(CLAIMS, grant=None, cookie=None, frames=b""), b"\x6b\x49\xd2\x00\x00\x00"),
    ],
)
def test_claims_are_written_as_specified_and_read_back(claims: Claims, octets: bytes) -> None:
    assert claims.encode() == octets
    assert Claims.decode(octets) == claims


def test_claims_that_are_cut_short_are_none() -> None:
    octets = replace(CLAIMS, frames=b"").encode()
    for at in range(len(octets)):
        assert Claims.decode(octets[:at]) is None


def test_flags_that_nobody_knows_are_not_read() -> None:
    octets = bytearray(replace(CLAIMS, cookie=None, grant=None).encode())
    octets[4] |= 0xFC
    assert Claims.decode(bytes(octets)) == replace(CLAIMS, cookie=None, grant=None)


@pytest.mark.parametrize(
    "wrong",
    [
        {"cookie": (b"1234567", b"abcd")},
        {"cookie": (b"12345678", b"abc")},
        {"grant": (b"grant", b"0123456789abcdef")},
        {"grant": (b"grant1", b"0123456789abcde")},
    ],
)
def test_claims_of_a_wrong_size_are_not_written(wrong: dict[str, Any]) -> None:
    with pytest.raises(LocalProtocolError, match="octets"):
        replace(CLAIMS, **wrong).encode()


@given(st.binary(max_size=80))
def test_garbage_gives_claims_or_none(garbage: bytes) -> None:
    claims = Claims.decode(garbage)
    if claims is not None:
        # Nothing is lost on the way, but for flags that aren't read.
        assert claims.encode()[6:] == garbage[6:]


def test_terms_are_written_as_specified_and_read_back() -> None:
    octets = TERMS.encode()
    assert octets.hex(" ") == (
        "00 00 01 6b 49 d2 00 4d 80 04 b0 00 00 0e 10 00 80 01 00 04 00 04 "
        + b"status key 16 ocframes".hex(" ")
    )
    assert Terms.decode(octets) == TERMS


@pytest.mark.parametrize(
    ("known_for", "said"), [(0.0, 0.0), (0.1, 25 / 256), (255.0, 255.0), (7000.0, 255.0)]
)
def test_what_is_known_is_said_with_less_than_it_is_never_with_more(
    known_for: float, said: float
) -> None:
    """A client proves with it what has NOT happened (SPEC 16.3)."""
    assert Terms.decode(replace(TERMS, known_for=known_for).encode()).known_for == said


def test_a_refusal_gives_no_status_key_away() -> None:
    refused = replace(TERMS, status=Status.CAPACITY)
    assert refused.encode()[22:38] == bytes(16)
    assert Terms.decode(refused.encode()) == replace(refused, status_key=bytes(16))


def test_terms_that_are_cut_short_are_the_server_s_fault() -> None:
    octets = replace(TERMS, frames=b"").encode()
    for at in range(len(octets)):
        with pytest.raises(RemoteProtocolError, match=f"{at} octets"):
            Terms.decode(octets[:at])


def altered(at: int, value: int) -> bytes:
    octets = bytearray(TERMS.encode())
    octets[at] = value
    return bytes(octets)


@pytest.mark.parametrize(
    ("octets", "words"),
    [
        (altered(1, 1), "version 1"),
        (altered(21, 0), "0 shards"),
        (altered(21, 3), "3 shards"),
        (altered(21, 64), "64 shards"),
        (TERMS.encode()[:9] + bytes(2) + TERMS.encode()[11:], "idle timeout"),
    ],
)
def test_a_welcome_to_no_session_that_can_be_is_the_server_s_fault(
    octets: bytes, words: str
) -> None:
    with pytest.raises(RemoteProtocolError, match=words):
        Terms.decode(octets)
    refused = Terms.decode(
        b"\x05" + octets[1:]
    )  # where there is no session nothing is wrong with it
    assert refused.status is Status.CAPACITY


@pytest.mark.parametrize("status", [8, 100, 254, 255])
def test_a_status_that_nobody_knows_is_no_welcome(status: int) -> None:
    assert Terms.decode(altered(0, status)).status is Status.OTHER


@pytest.mark.parametrize(
    "wrong",
    [
        {"status": Status.OTHER},
        {"version": 1},
        {"version": 256, "status": Status.CAPACITY},
        {"known_for": -1.0},
        {"idle_timeout": 0.04},
        {"idle_timeout": -1.0},
        {"idle_timeout": 6553.6},
        {"lease": -1},
        {"lease": 2**32},
        {"max_streams": 2**16},
        {"stream_window": 2**26},
        {"session_window": 2**26},
        {"shards": 3},
        {"status_key": bytes(15)},
        {"status_key": bytes(16)},
        {"status_key": bytes(17)},
    ],
)
def test_terms_that_cannot_be_said_are_not(wrong: dict[str, Any]) -> None:
    with pytest.raises(LocalProtocolError, match="no answer says") as caught:
        replace(TERMS, **wrong).encode()
    assert "status key 16" not in str(caught.value)


@given(st.binary(max_size=120))
def test_garbage_gives_terms_or_the_one_error(garbage: bytes) -> None:
    try:
        terms = Terms.decode(garbage)
    except RemoteProtocolError:
        return
    if terms.status is not Status.OTHER and any(terms.status_key) == (
        terms.status is Status.WELCOME
    ):
        assert terms.encode()[3:] == garbage[3:]
