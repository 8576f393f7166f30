"""The stream as the program holds it."""

from __future__ import annotations

import pytest

from racer.errors import LocalProtocolError
from tests.transports.soar.client.peer import TARGET, Rig
from transports.soar.core.client.events import StreamReadable, StreamStopped
from transports.soar.core.client.stream import MOST_BEFORE_OPEN
from transports.soar.core.crypto import EndCode, Notice
from transports.soar.core.streams.frames import Opened, Stop, StreamData


def test_before_the_target_is_connected_it_takes_64_kilobytes() -> None:
    rig = Rig()
    stream = rig.client.dial(TARGET, rig.now).stream
    assert stream.room() == MOST_BEFORE_OPEN
    stream.write(bytes(MOST_BEFORE_OPEN))
    assert stream.room() == 0
    with pytest.raises(LocalProtocolError, match="before the target is connected"):
        stream.write(b"x")


def test_after_its_end_it_takes_nothing() -> None:
    rig = Rig()
    stream = rig.dialed().stream
    stream.finish()
    stream.finish()
    assert stream.room() == 0
    with pytest.raises(LocalProtocolError, match="after its end"):
        stream.write(b"x")


def test_an_end_that_was_said_early_goes_out_with_the_repair() -> None:
    rig = Rig()
    rig.client._pool.acquire(rig.now)
    rig.welcomed()
    stream = rig.client.dial(TARGET, rig.now, early_data=b"GET").stream
    stream.finish()
    poll = next(each for each in rig.send() if each.may_park)
    rig.tell(poll, rig.peer.notice(poll, Notice(EndCode.SHUTDOWN, 0.0, None)))
    asked = rig.send()
    frames = rig.peer.halves[asked[0].sid].frames
    assert [(frame.data, frame.fin) for frame in frames if isinstance(frame, StreamData)] == [
        (TARGET.to_wire() + b"GET", True)
    ]


def test_a_stream_that_was_given_up_does_nothing_more() -> None:
    rig = Rig()
    stream = rig.dialed().stream
    stream.reset()
    stream.reset()
    stream.write(b"x")
    stream.finish()
    assert (stream.room(), stream.read(9), stream.at_end()) == (0, b"", False)


def test_a_peer_that_reads_no_more_is_told_of() -> None:
    rig = Rig()
    stream = rig.dialed().stream
    poll = next(each for _, each in rig.log if each.may_park)
    rig.tell(poll, rig.peer.answer(poll, Stop(0, 0)))
    (stopped,) = rig.events(StreamStopped)
    assert stopped.stream is stream
    assert stream.room() == 0


def test_the_end_can_be_read_of() -> None:
    rig = Rig()
    stream = rig.dialed().stream
    poll = next(each for _, each in rig.log if each.may_park)
    rig.tell(poll, rig.peer.answer(poll, Opened(0), StreamData(0, 0, b"bye", True)))
    assert len(rig.events(StreamReadable)) == 1
    assert not stream.at_end()
    assert stream.read(99) == b"bye"
    assert stream.at_end()


def test_a_stream_that_is_closed_while_it_is_held_back_was_never_there() -> None:
    rig = Rig()
    stream = rig.client.dial(TARGET, rig.now, replay_safe=False).stream
    stream.write(b"POST")
    stream.close()
    rig.welcomed()
    frames = [frame for each in rig.send() for frame in each.frames]
    assert not [frame for frame in frames if isinstance(frame, StreamData) and frame.data]
    stream.close()
    stream.reset()
    assert stream.room() == 0
