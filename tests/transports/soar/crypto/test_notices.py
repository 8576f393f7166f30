"""The notice (SPEC 15.4)."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from racer.errors import LocalProtocolError
from tests.transports.soar.crypto.parties import SERVER_KEY, flips
from transports.soar.core.crypto import EndCode, Notice, build_notice, read_notice
from transports.soar.core.crypto.hashes import digest

KEY = SERVER_KEY.status_key(b"abcd")
NAME = b"\x05hello\x01t\x07example\x03com\x00"
NOTICE = Notice(EndCode.SHUTDOWN, 119.9, 41)


@given(
    code=st.sampled_from([code for code in EndCode if code is not EndCode.OTHER]),
    known_for=st.floats(0, 6553.5),
    last_stream=st.none() | st.integers(0, 2**32 - 2),
    name=st.binary(max_size=255),
)
def test_a_notice_reads_back(
    code: EndCode, known_for: float, last_stream: int | None, name: bytes
) -> None:
    octets = build_notice(KEY, Notice(code, known_for, last_stream), name)
    assert len(octets) == 23
    read = read_notice(octets, KEY, name)
    assert read is not None
    assert (read.code, read.last_stream) == (code, last_stream)
    # It must never claim to know more than it does (SPEC 16.2).
    assert known_for - 0.1 < read.known_for <= known_for + 1e-9


def test_the_octets_are_those_of_the_specification() -> None:
    fields = bytes.fromhex("04 04af 00000029")
    assert build_notice(KEY, NOTICE, NAME) == fields + digest(16, KEY, fields + NAME)
    none = build_notice(KEY, Notice(EndCode.UNKNOWN, 0.0, None), NAME)
    assert none[:7].hex() == "010000ffffffff"


@pytest.mark.parametrize("known_for", [6553.5, 6554.0, 1e9, math.inf])
def test_a_long_memory_is_said_as_the_longest_that_can_be(known_for: float) -> None:
    read = read_notice(build_notice(KEY, NOTICE._replace(known_for=known_for), NAME), KEY, NAME)
    assert read is not None
    assert read.known_for == 6553.5


def test_any_bit_flipped_or_cut_anywhere_proves_nothing() -> None:
    octets = build_notice(KEY, NOTICE, NAME)
    for forged in [*flips(octets), *(octets[:at] for at in range(len(octets))), octets + b"\0"]:
        assert read_notice(forged, KEY, NAME) is None


def test_a_notice_is_for_one_question_of_one_session() -> None:
    octets = build_notice(KEY, NOTICE, NAME)
    assert read_notice(octets, KEY, NAME) == NOTICE
    for name in [*flips(NAME), NAME[1:], NAME + b"\0", NAME.upper()]:
        assert read_notice(octets, KEY, name) is None
    for key in flips(KEY):
        assert read_notice(octets, key, NAME) is None


@pytest.mark.parametrize("code", [0, 9, 255])
def test_an_end_that_is_proven_is_an_end_whatever_its_name(code: int) -> None:
    fields = bytes([code]) + bytes(6)
    read = read_notice(fields + digest(16, KEY, fields + NAME), KEY, NAME)
    assert read is not None
    assert read.code is EndCode.OTHER


@pytest.mark.parametrize(
    "wrong",
    [
        Notice(EndCode.OTHER, 1.0, None),
        Notice(EndCode.UNKNOWN, -0.1, None),
        Notice(EndCode.UNKNOWN, math.nan, None),
        Notice(EndCode.UNKNOWN, 1.0, -1),
        Notice(EndCode.UNKNOWN, 1.0, 2**32 - 1),
        Notice(EndCode.UNKNOWN, 1.0, 2**32),
    ],
)
def test_what_no_notice_can_say_is_refused(wrong: Notice) -> None:
    with pytest.raises(LocalProtocolError, match="no notice says"):
        build_notice(KEY, wrong, NAME)


@given(st.binary(max_size=40))
def test_garbage_proves_nothing(garbage: bytes) -> None:
    assert read_notice(garbage, KEY, NAME) is None
