"""Frames other than STREAM: queued, taken, lost, settled, replaced (SPEC 9.4)."""

from __future__ import annotations

import pytest

from racer.errors import LocalProtocolError
from transports.soar.core.streams import controls as module
from transports.soar.core.streams.controls import Control, Controls
from transports.soar.core.streams.frames import (
    Challenge,
    ControlFrame,
    End,
    Lease,
    MaxData,
    MaxStreamData,
    Opened,
    Refused,
    Reset,
    Response,
    Stop,
    Zones,
    encode_frame,
)


def taken(controls: Controls, room: int = 1000) -> list[Control]:
    out = bytearray()
    found = controls.take(out, room)
    assert out == b"".join(encode_frame(c.frame) for c in found)
    assert len(out) <= room
    return found


@pytest.mark.parametrize(
    "frame", [Opened(1), Refused(1, 2), Reset(1, 0, 9), Stop(1, 0), End(2, 0), Lease(5)]
)
def test_spec_9_4_a_frame_is_sent_until_it_has_arrived(frame: ControlFrame) -> None:
    controls = Controls()
    controls.queue(frame)
    for _ in range(3):
        assert controls.octets == len(encode_frame(frame))
        (control,) = taken(controls)
        assert control.frame == frame
        assert not controls
        assert taken(controls) == []
        controls.lost(control)
        controls.lost(control)
    (control,) = taken(controls)
    assert controls.acked(control)
    assert not controls.acked(control)
    controls.lost(control)
    assert (bool(controls), len(controls), controls.octets) == (False, 0, 0)


def test_an_acknowledgement_takes_back_what_is_queued_again() -> None:
    controls = Controls()
    controls.queue(Opened(1))
    (control,) = taken(controls)
    controls.lost(control)
    controls.acked(control)
    assert not controls
    assert controls.octets == 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (MaxData(1), MaxData(2)),
        (MaxStreamData(3, 1), MaxStreamData(3, 2)),
        (Lease(100), Lease(1)),
        (End(4, 1), End(5, 1)),
    ],
)
def test_only_the_newest_is_sent_again(old: ControlFrame, new: ControlFrame) -> None:
    controls = Controls()
    controls.queue(old)
    (first,) = taken(controls)
    controls.queue(new)
    controls.lost(first)
    assert [c.frame for c in taken(controls)] == [new]
    assert not controls.acked(first)
    assert len(controls) == 1


def test_a_value_that_was_never_sent_gives_way_to_a_newer_one() -> None:
    controls = Controls()
    for octets in range(50):
        controls.queue(MaxData(octets))
    assert controls.octets == len(encode_frame(MaxData(49)))
    assert [c.frame for c in taken(controls)] == [MaxData(49)]


def test_frames_about_other_streams_do_not_give_way() -> None:
    controls = Controls()
    frames: list[ControlFrame] = [
        MaxStreamData(1, 5),
        MaxStreamData(2, 5),
        Stop(1, 0),
        Reset(1, 0, 0),
        Challenge(b"abcd"),
        Challenge(b"efgh"),
        Response(b"abcd"),
    ]
    for frame in frames:
        controls.queue(frame)
    assert [c.frame for c in taken(controls)] == frames


def test_the_oldest_goes_first_and_what_does_not_fit_waits_for_a_larger_packet() -> None:
    controls = Controls()
    zones = Zones(((0, bytes(60)),))
    for frame in (Opened(1), zones, Opened(2), Opened(3)):
        controls.queue(frame)
    assert [c.frame for c in taken(controls, 4)] == [Opened(1), Opened(2)]
    assert [c.frame for c in taken(controls, 100)] == [zones, Opened(3)]


def test_a_row_of_frames_that_do_not_fit_is_not_searched_to_its_end() -> None:
    controls = Controls()
    for stream in range(100):
        controls.queue(Reset(stream, 0, 1 << 40))
    controls.queue(Opened(1))
    assert taken(controls, 5) == []


def test_what_is_said_of_a_stream_ends_with_it() -> None:
    controls = Controls()
    for frame in (Opened(1), Stop(1, 0), MaxStreamData(1, 9), Opened(2), MaxData(1)):
        controls.queue(frame)
    controls.drop_stream(1)
    assert [c.frame for c in taken(controls)] == [Opened(2), MaxData(1)]


def test_there_is_a_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CONTROLS", 3)
    controls = Controls()
    for stream in range(3):
        controls.queue(Opened(stream))
    controls.queue(Opened(2))
    with pytest.raises(LocalProtocolError):
        controls.queue(Opened(3))


def test_a_record_tells_its_frame() -> None:
    controls = Controls()
    controls.queue(Opened(1))
    (control,) = taken(controls)
    assert repr(control) == "<Control Opened(stream=1)>"
    controls.acked(control)
    assert repr(control) == "<Control Opened(stream=1) settled>"
