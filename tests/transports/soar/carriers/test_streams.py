"""Messages behind their lengths, cut anywhere."""

from __future__ import annotations

from itertools import cycle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from racer.errors import RemoteProtocolError
from transports.soar.carriers.streams import StreamMachine

MESSAGES = st.lists(st.binary(min_size=12, max_size=600), max_size=6)


def framed(messages: list[bytes]) -> bytes:
    return b"".join(len(each).to_bytes(2) + each for each in messages)


@given(MESSAGES, st.lists(st.integers(1, 700), min_size=1, max_size=20))
def test_what_comes_in_pieces_is_put_together(messages: list[bytes], cuts: list[int]) -> None:
    machine = StreamMachine()
    octets, at = framed(messages), 0
    found: list[bytes] = []
    for size in cycle(cuts):
        found += machine.receive_data(octets[at : at + size])
        at += size
        if at >= len(octets):
            break
    assert found == messages


@given(MESSAGES)
def test_what_is_asked_goes_out_once(messages: list[bytes]) -> None:
    machine = StreamMachine()
    machine.ask(messages)
    assert machine.bytes_to_send() == framed(messages)
    assert machine.bytes_to_send() == b""


@pytest.mark.parametrize("length", [0, 1, 11])
def test_no_message_is_shorter_than_its_header(length: int) -> None:
    machine = StreamMachine()
    with pytest.raises(RemoteProtocolError, match="shorter than a header"):
        machine.receive_data(length.to_bytes(2))


def test_a_backlog_that_nobody_takes_is_bounded() -> None:
    machine = StreamMachine()
    machine.ask([bytes(1000)] * 1000)
    assert 262_144 <= len(machine.bytes_to_send()) <= 264_144
    machine.ask([bytes(12)])
    assert machine.bytes_to_send() == framed([bytes(12)])


@given(st.binary(max_size=200))
def test_garbage_gives_messages_or_the_one_error(octets: bytes) -> None:
    try:
        found = StreamMachine().receive_data(octets)
    except RemoteProtocolError:
        return
    assert all(len(message) >= 12 for message in found)
