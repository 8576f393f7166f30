"""What becomes of a dial whose session ends under it (SPEC 16, S11)."""

from __future__ import annotations

import pytest

from tests.transports.soar.client.peer import RTT, TARGET, Asked, Rig
from transports.soar.core.client.dial import DialState
from transports.soar.core.client.events import (
    DialFailed,
    DialOpened,
    DialRepaired,
    StreamFailed,
    StreamReadable,
    StreamReset,
)
from transports.soar.core.client.reasons import Failure
from transports.soar.core.crypto import EndCode, Kind, Notice
from transports.soar.core.streams.frames import (
    Opened,
    RefusalReason,
    Refused,
    Reset,
    Stop,
    StreamData,
)


def opening(*, replay_safe: bool = True, early: bytes = b"") -> tuple[Rig, Asked]:
    """Return a rig with a dial on a session that is established, and the poll that waits at the server."""
    rig = Rig()
    rig.client._pool.acquire(rig.now)
    rig.welcomed()
    rig.time += 1.0
    rig.client.dial(TARGET, rig.now, replay_safe=replay_safe, early_data=early)
    asked = rig.send()
    return rig, next(each for each in asked if each.may_park)


@pytest.mark.parametrize("code", [code for code in EndCode if code is not EndCode.OTHER])
@pytest.mark.parametrize("proven", [False, True])
@pytest.mark.parametrize("replay_safe", [False, True])
def test_every_notice(code: EndCode, proven: bool, replay_safe: bool) -> None:
    rig, poll = opening(replay_safe=replay_safe)
    rig.time += RTT
    if code is EndCode.UNKNOWN:
        notice = Notice(code, 120.0 if proven else 0.0, None)
    else:
        notice = Notice(code, 120.0, None if proven else 0)
    rig.tell(poll, rig.peer.notice(poll, notice))
    final = code in {EndCode.OPERATOR, EndCode.REVOKED, EndCode.EXPIRED}
    if (proven or replay_safe) and not final:
        (repaired,) = rig.events(DialRepaired)
        assert repaired.proven is proven
        assert repaired.reason.code == code
        assert rig.events(DialFailed) == []
        asked = [each for each in rig.send() if each.kind is Kind.FRAGMENT]
        assert rig.peer.halves[asked[0].sid].frames == [StreamData(0, 0, TARGET.to_wire(), False)]
    else:
        (failed,) = rig.events(DialFailed)
        assert failed.error.code == code
        assert failed.error.may_have_reached is not proven
        assert rig.events(DialRepaired) == []
        assert rig.send() == []


def test_a_dial_is_repaired_once() -> None:
    rig, poll = opening()
    rig.tell(poll, rig.peer.notice(poll, Notice(EndCode.UNKNOWN, 100.0, None)))
    rig.welcomed()
    poll = next(each for each in [*rig.send(), *(e for _, e in reversed(rig.log))] if each.may_park)
    rig.tell(poll, rig.peer.notice(poll, Notice(EndCode.UNKNOWN, 100.0, None)))
    (failed,) = rig.events(DialFailed)
    assert failed.error.failure is Failure.LOST
    assert len(rig.events(DialRepaired)) == 1


def test_all_octets_written_by_then_go_again() -> None:
    rig, poll = opening(early=b"ClientHello ")
    stream = next(iter(rig.sessions[0].intake.streams.values()))
    stream.write(b"and more")
    rig.send()
    rig.tell(poll, rig.peer.notice(poll, Notice(EndCode.SHUTDOWN, 0.0, None)))
    asked = rig.send()
    half = rig.peer.halves[asked[0].sid]
    frames = [frame for frame in [*half.frames, *(f for each in asked for f in each.frames)]
              if isinstance(frame, StreamData)]  # fmt: skip
    octets = b"".join(frame.data for frame in sorted(frames, key=lambda frame: frame.offset))
    assert octets == TARGET.to_wire() + b"ClientHello and more"


def test_fifty_dials_on_one_lost_session_share_one_handshake() -> None:
    rig, poll = opening()
    for _ in range(49):
        rig.client.dial(TARGET, rig.now)
    rig.tell(poll, rig.peer.notice(poll, Notice(EndCode.UNKNOWN, 100.0, None)))
    assert len(rig.events(DialRepaired)) == 50
    assert len(rig.sessions) == 1
    assert rig.sessions[0].table.live == 50


def test_streams_that_were_open_fail_at_once_and_are_not_repaired() -> None:
    rig = Rig()
    opened = rig.dialed()
    waiting = rig.client.dial(TARGET, rig.now)
    poll = next(each for _, each in rig.log if each.may_park)
    rig.tell(poll, rig.peer.answer(poll, StreamData(0, 0, b"half an answ", False)))
    other = [each for _, each in rig.log if each.may_park][1]
    rig.tell(other, rig.peer.notice(other, Notice(EndCode.UNKNOWN, 100.0, None)))
    (failed,) = rig.events(StreamFailed)
    assert failed.stream is opened.stream
    assert opened.stream.failure is failed.error
    assert opened.stream.read(99) == b"half an answ"  # what had come
    assert opened.stream.room() == 0
    opened.stream.write(b"into the void")
    (repaired,) = rig.events(DialRepaired)
    assert repaired.dial is waiting


def test_a_stream_that_was_over_survives_its_session() -> None:
    rig = Rig()
    dial = rig.dialed()
    dial.stream.finish()
    data = rig.send()
    for each in data:
        rig.tell(each, rig.peer.answer(each))
    poll = next(each for _, each in rig.log if each.may_park)
    rig.tell(poll, rig.peer.answer(poll, StreamData(0, 0, b"all of it", True)))
    other = [each for _, each in rig.log if each.may_park][1]
    rig.tell(other, rig.peer.notice(other, Notice(EndCode.UNKNOWN, 100.0, None)))
    assert rig.events(StreamFailed) == []
    assert dial.stream.read(99) == b"all of it"
    assert dial.stream.at_end()


@pytest.mark.parametrize("reason", [*RefusalReason, 77])
def test_a_refusal_names_its_reason(reason: int) -> None:
    rig, poll = opening()
    rig.tell(poll, rig.peer.answer(poll, Refused(0, reason)))
    (failed,) = rig.events(DialFailed)
    assert (failed.error.failure, failed.error.code) == (Failure.REFUSED, reason)
    assert failed.error.may_have_reached is False


def test_octets_prove_that_the_target_is_connected() -> None:
    rig, poll = opening()
    rig.tell(poll, rig.peer.answer(poll, StreamData(0, 0, b"220 ", False)))
    kinds = [type(event) for event in rig.told[-2:]]
    assert kinds == [DialOpened, StreamReadable]


def test_opened_twice_is_said_once() -> None:
    rig, poll = opening()
    rig.tell(poll, rig.peer.answer(poll, Opened(0), Opened(0)))
    assert len(rig.events(DialOpened)) == 1


def test_a_reset_before_the_target_is_connected_fails_the_dial() -> None:
    rig, poll = opening()
    rig.tell(poll, rig.peer.answer(poll, Reset(0, 2, 0)))
    (failed,) = rig.events(DialFailed)
    assert failed.error.failure is Failure.RESET
    assert rig.events(StreamReset) == []


def test_a_reset_after_it_is_the_streams_own() -> None:
    rig, poll = opening()
    rig.tell(poll, rig.peer.answer(poll, Opened(0), Reset(0, 2, 0)))
    (reset,) = rig.events(StreamReset)
    assert reset.code == 2
    assert rig.events(DialFailed) == []


def test_a_cancelled_dial_reaches_the_server_and_leaves_the_session() -> None:
    rig, poll = opening()
    session = rig.sessions[0]
    next(iter(session.intake.streams.values())).dial.cancel(rig.now)
    frames = [frame for each in rig.send() for frame in each.frames]
    assert [type(frame) for frame in frames if isinstance(frame, Reset | Stop)] == [Reset, Stop]
    rig.tell(poll, rig.peer.answer(poll, Opened(0)))
    assert rig.events(DialOpened) == []
    assert rig.sessions == [session]


def test_a_cancelled_dial_is_not_repaired() -> None:
    rig, poll = opening()
    dial = next(iter(rig.sessions[0].intake.streams.values())).dial
    dial.cancel(rig.now)
    rig.tell(poll, rig.peer.notice(poll, Notice(EndCode.UNKNOWN, 100.0, None)))
    assert dial.state is DialState.CANCELLED
    assert rig.events(DialRepaired) == rig.events(DialFailed) == []


def test_without_a_path_a_dial_fails_at_once() -> None:
    rig = Rig(paths=0)
    rig.client.dial(TARGET, rig.now)
    rig._listen()
    (failed,) = rig.events(DialFailed)
    assert failed.error.failure is Failure.BUSY
