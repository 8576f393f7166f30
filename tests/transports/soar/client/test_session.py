"""A session's life: what keeps it, what ends it, what cannot (SPEC 14, 15; S3 to S12)."""

from __future__ import annotations

import copy
import itertools
import random
from typing import TYPE_CHECKING, Any

import pytest

from tests.transports.soar.client.peer import KEY, RTT, TARGET, Asked, Echo, Rig
from transports.soar.core.client.events import (
    DialFailed,
    DialOpened,
    SessionChanged,
    StreamFailed,
    StreamReadable,
)
from transports.soar.core.client.reasons import Failure
from transports.soar.core.client.states import RETIRED, SessionState
from transports.soar.core.crypto import EndCode, Kind, Notice
from transports.soar.core.dns.messages import Rcode
from transports.soar.core.streams.frames import (
    Challenge,
    End,
    Floor,
    Lease,
    Lost,
    MaxStreams,
    Opened,
    Ping,
    Reset,
    Response,
    Stop,
    StreamData,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from transports.soar.core.client.session import Session

HEADER = TARGET.to_wire()


def changes(rig: Rig) -> list[str]:
    return [f"{event.before.value} {event.after.value}" for event in rig.events(SessionChanged)]


def finish(rig: Rig, dial: Any) -> None:
    """Let both directions of the stream end, and the session become idle."""
    dial.stream.finish()
    rig.run(
        rig.time + 3.0,
        lambda asked: rig.peer.answer(asked, Opened(0), StreamData(0, 0, b"", True)),
        stop=lambda: rig.sessions[0].state is SessionState.IDLE,
    )
    assert rig.sessions[0].state is SessionState.IDLE


def quiet(rig: Rig) -> None:
    """Let everything that is under way be answered, and the linger pass."""
    rig.run(rig.time + 5.0, lambda asked: rig.peer.answer(asked) if asked.number >= 0 else None)


def idle(**settings: Any) -> tuple[Rig, Session]:
    rig = Rig(**settings)
    dial = rig.dialed()
    finish(rig, dial)
    quiet(rig)
    return rig, rig.sessions[0]


# --- states -----------------------------------------------------------------------------------


def test_a_session_is_live_while_it_is_busy_and_idle_when_not() -> None:
    rig, session = idle()
    assert changes(rig) == ["handshaking live", "live idle"]
    assert session.try_open(HEADER, rig.now) == 1
    assert session.state is SessionState.LIVE


def test_what_is_idle_asks_nothing() -> None:
    rig, _ = idle()
    asked = len(rig.log)
    rig.run(rig.time + 1000.0)
    assert len(rig.log) == asked
    assert rig.client.next_timeout() is None


def test_the_last_thing_said_is_what_the_server_may_forget() -> None:
    rig, session = idle()
    last = rig.log[-1][1]
    assert not last.may_park
    (floor,) = last.of(Floor)
    assert last.number - floor.delta == session.packets.numbers.confirmed
    assert session.packets.outstanding == session.packets.owed == session.packets.parked == 0


def test_the_linger_is_three_questions_if_nothing_answers_it() -> None:
    rig = Rig()
    dial = rig.dialed()
    finish(rig, dial)
    fell = rig.time
    rig.run(fell + 60.0)
    late = [at for at, _ in rig.log if at > fell]
    assert len(late) <= 3
    assert max(late, default=fell) - fell < 3.0


# --- retirement (S5, S6) ----------------------------------------------------------------------


@pytest.mark.parametrize("asleep", [False, True], ids=["awake", "asleep"])
@pytest.mark.parametrize(
    ("share", "kept"), [(0.0, True), (0.19, True), (0.99, True), (1.01, False)]
)
def test_after_session_idle_it_is_retired_instead_of_used(
    share: float, kept: bool, asleep: bool
) -> None:
    rig, session = idle()
    pause = share * session.session_idle - (rig.now.elapsed - session.activity)
    if asleep:
        rig.sleep(max(0.0, pause))
    else:
        rig.time += max(0.0, pause)
    opened = session.try_open(HEADER, rig.now)
    rig._listen()
    if kept:
        assert opened == 1
    else:
        assert opened is RETIRED
        assert changes(rig)[-1] == "idle retired"
        assert rig.send() == []


def test_17_seconds_keep_it_and_91_retire_one_that_drew_90() -> None:
    for pause, expected in ((17.0, 1), (91.0, RETIRED)):
        rig, session = idle()
        session.session_idle = 90.0
        session.activity = rig.now.elapsed
        rig.sleep(pause)
        assert session.try_open(HEADER, rig.now) == expected


def test_each_session_draws_its_own_idle_time_within_ten_percent() -> None:
    drawn = []
    for seed in range(20):
        rig = Rig(seed=str(seed))
        rig.dialed()
        drawn.append(rig.sessions[0].session_idle)
    assert all(81.0 <= each <= 99.0 for each in drawn)
    assert max(drawn) - min(drawn) > 9.0


def test_a_busy_session_is_never_retired() -> None:
    rig = Rig()
    rig.dialed()
    session = rig.sessions[0]
    rig.sleep(10_000.0)
    assert session.try_open(HEADER, rig.now) == 1


def test_activity_is_when_the_question_was_sent_not_when_its_answer_came() -> None:
    rig = Rig()
    rig.dialed()
    session = rig.sessions[0]
    asked = [each for each in rig.send() if each.kind is Kind.DATA] or rig.log[-1:]
    poll = next(each for _, each in rig.log if each.number >= 0)
    sent = session.activity
    rig.time += 9.0
    rig.tell(poll, rig.peer.answer(poll))
    assert session.activity == sent
    del asked


def test_an_old_answer_does_not_refresh_it() -> None:
    rig, session = idle()
    before = session.activity
    rig.time += 3.0
    assert session.ping(rig.now)
    (ping,) = rig.send()
    assert Ping() in ping.frames
    rig.time += 2.0
    rig.tell(ping, rig.peer.answer(ping))
    assert session.activity == rig.now.elapsed - 2.0 > before


# --- liveness (S8) ----------------------------------------------------------------------------


def silent_after(rig: Rig) -> float:
    began = rig.time
    rig.run(began + 200.0, stop=lambda: bool(not rig.sessions))
    return rig.time - began


def test_an_opening_stream_bears_fifteen_seconds_of_silence() -> None:
    rig = Rig()
    rig.client.dial(TARGET, rig.now)
    rig.welcomed()
    assert 15.0 - RTT <= silent_after(rig) < 17.0
    (failed,) = rig.events(DialFailed)
    assert failed.error.failure is Failure.SILENT
    assert changes(rig)[-1] == "live lost"


def test_an_established_one_bears_sixty() -> None:
    rig = Rig()
    rig.dialed()
    assert 60.0 - RTT <= silent_after(rig) < 62.0
    (failed,) = rig.events(StreamFailed)
    assert failed.error.failure is Failure.SILENT


def test_a_link_that_is_away_for_thirty_seconds_resumes_on_the_same_session() -> None:
    rig = Rig()
    rig.dialed()
    rig.run(rig.time + 30.0)
    session = rig.sessions[0]
    rig.run(rig.time + 8.0, lambda asked: rig.peer.answer(asked) if asked.number >= 0 else None)
    assert rig.sessions == [session]
    assert session.state is SessionState.LIVE
    assert rig.events(StreamFailed) == []


def test_sleep_is_no_silence() -> None:
    rig = Rig()
    rig.dialed()
    rig.run(rig.time + 10.0)
    rig.sleep(3600.0)
    rig.run(rig.time + 10.0)
    assert len(rig.sessions) == 1


def test_ten_questions_are_needed_however_long_it_takes() -> None:
    rig = Rig()
    rig.client.dial(TARGET, rig.now)
    session = rig.welcomed()
    for _ in range(5):
        session._liveness.sent(rig.now.awake)
    rig.time += 100.0
    session.tick(rig.now)
    assert session.state is SessionState.LIVE


# --- notices (S9, S10, S12) -------------------------------------------------------------------


def parked(rig: Rig) -> Asked:
    return next(each for _, each in rig.log if each.number >= 0 and each.may_park)


@pytest.mark.parametrize("code", [code for code in EndCode if code is not EndCode.OTHER])
def test_a_proven_notice_ends_the_session_of_its_question_at_once(code: EndCode) -> None:
    rig = Rig()
    rig.dialed()
    poll = parked(rig)
    rig.tell(poll, rig.peer.notice(poll, Notice(code, 100.0, 0)))
    expected = "lost" if code is EndCode.UNKNOWN else "ended"
    assert changes(rig)[-1] == f"live {expected}"
    (failed,) = rig.events(StreamFailed)
    assert failed.error.code == code
    assert failed.error.failure is (Failure.LOST if code is EndCode.UNKNOWN else Failure.ENDED)
    assert rig.sessions == []
    rig.run(rig.time + 100.0)
    assert not [each for at, each in rig.log if at > RTT]


def test_words_of_an_end_ask_for_a_new_session_and_of_a_loss_say_so() -> None:
    words = {}
    for code in (EndCode.UNKNOWN, EndCode.SHUTDOWN, EndCode.OPERATOR):
        rig = Rig()
        rig.dialed()
        poll = parked(rig)
        rig.tell(poll, rig.peer.notice(poll, Notice(code, 0.0, None)))
        words[code] = rig.events(StreamFailed)[0].error.words
    assert words[EndCode.UNKNOWN] == "the server lost the session"
    assert "a new session is needed" in words[EndCode.SHUTDOWN]
    assert "a new session is needed" in words[EndCode.OPERATOR]


@pytest.mark.parametrize("code", [EndCode.SHUTDOWN, EndCode.REVOKED, EndCode.CAPACITY])
def test_an_end_in_an_answer_says_the_same(code: EndCode) -> None:
    rig = Rig()
    rig.dialed()
    poll = parked(rig)
    rig.tell(poll, rig.peer.answer(poll, End(code, 0)))
    assert changes(rig)[-1] == "live ended"
    assert rig.events(StreamFailed)[0].error.code == code


def snapshot(rig: Rig) -> dict[str, Any]:
    """Return all that a forged answer may not change: sessions, streams, pending questions, clocks of life."""
    found: dict[str, Any] = {}
    for session in rig.sessions:
        packets = session.packets
        numbers = packets.numbers
        found[f"session {session.number}"] = (
            session.state,
            session.activity,
            session.table.live,
            session.table.has_queued(),
            packets.outstanding,
            packets.parked,
            packets.owed,
            numbers.next,
            numbers.floor,
            numbers.confirmed,
            bool(numbers.to_report),
            session._liveness.asked,
            packets.polls.backlog,
            dict(packets.zones),
        )
    for path in rig.client._paths.values():
        found[f"path {path.index}"] = (
            {id_: (q.number, q.fate) for id_, q in path.recovery.pending.items()},
            path.answered_at,
            path.polls.srtt,
            path.forms.is_proven,
            path.sizes.up.current,
        )
    found["events"] = len(rig.told)
    return copy.deepcopy(found)


def forgeries(rig: Rig, asked: Asked) -> dict[str, bytes]:
    peer = rig.peer
    notice = Notice(EndCode.UNKNOWN, 100.0, None)
    true = peer.notice(asked, notice)
    other = next(each for _, each in rig.log if each.number >= 0 and each is not asked)
    label = true.index(b"\x25", len(asked.message) - 15) + 7
    dice = random.Random(1)
    return {
        "nodata": peer.nodata(asked),
        "nxdomain": peer.nxdomain(asked),
        "another session's key": peer.notice(asked, notice, key=KEY.status_key(b"else")),
        "octets": peer.carry(asked, dice.randbytes(60)),
        "short octets": peer.carry(asked, dice.randbytes(4)),
        "a flipped bit": true[:label] + bytes([true[label] ^ 1]) + true[label + 1 :],
        "another question's notice": asked.message[:2] + peer.notice(other, notice)[2:],
        "cut short": true[:40],
        "empty": b"",
        "noise": dice.randbytes(200),
        "the question itself": asked.message,
        "refused": peer.failure(asked, Rcode.REFUSED),
        "servfail": peer.failure(asked, Rcode.SERVFAIL),
        "formerr": peer.failure(asked, Rcode.FORMERR),
        "notimp": peer.failure(asked, Rcode.NOTIMP),
        "truncated": peer.truncated(asked),
    }


FORGED = [
    "nodata", "nxdomain", "another session's key", "octets", "short octets", "a flipped bit",
    "another question's notice", "cut short", "empty", "noise", "the question itself", "refused", "servfail", "formerr",
    "notimp", "truncated",
]  # fmt: skip


@pytest.mark.parametrize("kind", FORGED)
def test_what_is_not_proven_changes_nothing(kind: str) -> None:
    rig = Rig()
    rig.dialed()
    rig.client._paths[0]._tries = 0.0  # no new try at once
    asked = parked(rig)
    before = snapshot(rig)
    rig.time += 0.2
    for _ in range(5):
        rig.tell(asked, forgeries(rig, asked)[kind])
    assert snapshot(rig) == before
    # And the true answer still counts.
    rig.tell(asked, rig.peer.answer(asked, StreamData(0, 0, b"yes", False)))
    assert rig.events(StreamReadable)[0].stream.read(9) == b"yes"


@pytest.mark.parametrize("what", ["id", "question", "type", "path"])
def test_an_answer_counts_only_for_its_own_question(what: str) -> None:
    rig = Rig(paths=2)
    rig.dialed()
    asked = parked(rig)
    message = bytearray(rig.peer.notice(asked, Notice(EndCode.OPERATOR, 1.0, None)))
    before = snapshot(rig)
    match what:
        case "id":
            message[1] ^= 1
        case "question":
            message[20] = message[20] ^ 1 | 0x60
        case "type":
            message[12 + len(asked.name) + 1] ^= 1
        case _:
            asked = copy.replace(asked, path=1 - asked.path) if hasattr(copy, "replace") else asked
            rig.client.receive_message(1 - parked(rig).path, bytes(message), rig.now)
            assert snapshot(rig) == before
            return
    rig.tell(asked, bytes(message))
    assert snapshot(rig) == before


def test_letter_case_says_nothing() -> None:
    rig = Rig()
    rig.dialed()
    asked = parked(rig)
    message = bytearray(rig.peer.answer(asked, StreamData(0, 0, b"yes", False)))
    name = slice(13, 13 + 63)
    message[name] = bytes(message[name]).upper()
    rig.tell(asked, bytes(message))
    assert rig.events(StreamReadable)


@pytest.mark.parametrize("how", ["retired", "lost", "ended", "closed"])
def test_a_late_authentic_answer_revives_nothing_and_refreshes_no_successor(how: str) -> None:
    rig = Rig()
    rig.dialed()
    old = rig.sessions[0]
    late = parked(rig)
    if how == "retired":
        finish(rig, rig.events(DialOpened)[0].dial)
        rig.sleep(500.0)
        old.retire(rig.now)
    elif how == "closed":
        old.close(rig.now)
    else:
        code = EndCode.UNKNOWN if how == "lost" else EndCode.OPERATOR
        other = [each for _, each in rig.log if each.number >= 0][1]
        rig.tell(other, rig.peer.notice(other, Notice(code, 1.0, None)))
    rig.client.dial(TARGET, rig.now)
    rig.send()
    new = rig.sessions[-1]
    assert new is not old
    before = snapshot(rig)
    if late.number in rig.peer.halves[late.sid].seen and how != "retired":
        rig.tell(late, rig.peer.answer(late, Opened(0), StreamData(0, 0, b"x", False)))
        rig.tell(late, rig.peer.notice(late, Notice(EndCode.OPERATOR, 1.0, None)))
    after = snapshot(rig)
    assert old.state.value == how
    assert after[f"session {new.number}"] == before[f"session {new.number}"]
    assert new.activity == rig.now.elapsed


def test_a_notice_is_for_its_own_session_also_while_another_lives() -> None:
    rig = Rig()
    rig.dialed()
    old, poll = rig.sessions[0], parked(rig)
    old.drain("test", rig.now)
    rig.client.dial(TARGET, rig.now)
    rig.send()
    new = rig.sessions[-1]
    rig.tell(poll, rig.peer.notice(poll, Notice(EndCode.UNKNOWN, 1.0, None)))
    assert old.state is SessionState.LOST
    assert new.state is SessionState.HANDSHAKING


# --- draining and the rest --------------------------------------------------------------------


def test_a_draining_session_takes_no_stream_and_closes_when_it_is_done() -> None:
    rig = Rig()
    dial = rig.dialed()
    session = rig.sessions[0]
    session.drain("test", rig.now)
    assert session.try_open(HEADER, rig.now) is RETIRED
    dial.stream.finish()
    rig.run(
        rig.time + 2.0,
        lambda asked: (
            rig.peer.answer(asked, StreamData(0, 0, b"", True)) if asked.number >= 0 else None
        ),
        stop=lambda: not rig.sessions,
    )
    assert changes(rig) == ["handshaking live", "live draining", "draining closed"]
    assert rig.events(StreamFailed) == []
    ends = [frame for each in rig.send() for frame in each.of(End)] + [
        frame for _, each in rig.log for frame in each.of(End)
    ]
    assert ends[0].code == EndCode.CLOSED


def wear(session: Session, rig: Rig, how: str) -> None:
    if how == "age":
        rig.time += 24 * 3600.0
        session.activity = rig.now.elapsed
    elif how == "numbers":
        session.packets.numbers.next = 1 << 32
    else:
        rig.time += 61.0


@pytest.mark.parametrize("how", ["age", "numbers", "lease"])
def test_what_is_worn_takes_no_new_stream(how: str) -> None:
    rig = Rig()
    dial = rig.dialed(lease=60 if how == "lease" else 0)
    finish(rig, dial)
    session = rig.sessions[0]
    assert not session.is_worn(rig.now)
    wear(session, rig, how)
    assert session.is_worn(rig.now)
    rig.client.dial(TARGET, rig.now)
    assert rig.sessions == [rig.sessions[-1]]
    assert rig.sessions[-1] is not session
    assert session.state is SessionState.CLOSED


def test_a_lease_can_be_renewed_and_lifted() -> None:
    rig = Rig()
    rig.dialed(lease=60)
    session = rig.sessions[0]
    polls = [each for _, each in rig.log if each.number >= 0]
    assert session.intake.lease_until == rig.now.elapsed + 60
    rig.tell(polls[0], rig.peer.answer(polls[0], Lease(500)))
    assert session.intake.lease_until == rig.now.elapsed + 500
    rig.tell(polls[1], rig.peer.answer(polls[1], Lease(0)))
    assert session.intake.lease_until is None


def test_a_challenge_is_answered_once() -> None:
    rig = Rig()
    rig.dialed()
    polls = [each for _, each in rig.log if each.number >= 0]
    for poll in polls:
        rig.tell(poll, rig.peer.answer(poll, Challenge(b"1234")))
    responses = [frame for each in rig.send() for frame in each.of(Response)]
    assert responses == [Response(b"1234")]


@pytest.mark.parametrize(
    "octets",
    [b"\x01", b"\x3f", b"\x10\x05\x00\x00", b"\x08", b"\x12"],
    ids=["client's frame", "unknown", "no such stream", "cut short", "cut short control"],
)
def test_a_server_that_breaks_the_rules_ends_its_session(octets: bytes) -> None:
    rig = Rig()
    rig.dialed()
    poll = parked(rig)
    rig.tell(poll, rig.peer.answer(poll, octets=octets))
    assert changes(rig)[-1] == "live closed"
    assert rig.events(StreamFailed)[0].error.failure is Failure.PROTOCOL


def test_more_streams_than_the_server_takes_wait_for_another_session() -> None:
    rig = Rig()
    rig.dialed(max_streams=1)
    session = rig.sessions[0]
    assert session.try_open(HEADER, rig.now) is RETIRED
    assert session.state is SessionState.LIVE
    poll = parked(rig)
    rig.tell(poll, rig.peer.answer(poll, MaxStreams(2)))
    assert session.try_open(HEADER, rig.now) == 1


def test_losses_are_reported_and_the_frames_go_again_under_new_names() -> None:
    rig = Rig()
    dial = rig.dialed()
    rig.run(rig.time + 0.01)
    dial.stream.write(b"x" * 30)
    data = [each for each in rig.send() if each.of(StreamData)]
    assert len(data) == 3
    rig.time += RTT
    for each in data[1:]:
        rig.tell(each, rig.peer.answer(each))
    rig.run(rig.time + 1.0, lambda asked: rig.peer.answer(asked) if asked.number >= 0 else None)
    lost = data[0].number
    named = {
        each.number - delta
        for _, each in rig.log
        for frame in each.of(Lost)
        for delta in frame.deltas
    }
    assert lost in named
    again = [
        each for _, each in rig.log if each not in data and any(
            frame.offset == data[0].of(StreamData)[0].offset for frame in each.of(StreamData))
    ]  # fmt: skip
    assert again
    assert again[0].name != data[0].name
    assert rig.sessions[0].packets.numbers.floor > lost


def test_an_idle_stream_asks_at_most_once_a_second_and_finds_octets_within_two() -> None:
    rig = Rig()
    rig.dialed()
    echo = Echo(rig, park=False)
    rig.run(20.0, echo)
    late = [at for at, _ in rig.log if at > 5.0]
    assert len(late) <= 15
    gaps = [b - a for a, b in itertools.pairwise(late)]
    assert max(gaps) <= 2.0


def test_a_stream_that_is_given_up_is_reset_and_stopped() -> None:
    rig = Rig()
    dial = rig.dialed()
    dial.stream.reset()
    frames = [frame for each in rig.send() for frame in each.frames]
    assert [type(frame) for frame in frames if isinstance(frame, Reset | Stop)] == [Reset, Stop]
    assert rig.sessions[0].state is SessionState.LIVE


def drive(states: Callable[[Rig, Session], None]) -> SessionState:
    rig = Rig()
    rig.client.dial(TARGET, rig.now)
    session = rig.sessions[0]
    states(rig, session)
    return session.state


def test_every_other_end_of_a_handshake() -> None:
    assert drive(lambda rig, session: session.close(rig.now)) is SessionState.CLOSED
    assert drive(lambda rig, session: session.drain("", rig.now)) is SessionState.HANDSHAKING


def test_what_is_over_does_nothing_more() -> None:
    rig = Rig()
    rig.client._pool.acquire(rig.now)
    session = rig.welcomed()
    session.retire(rig.now)
    assert repr(session) == "<Session 1 retired>"
    assert repr(session.try_open(HEADER, rig.now)) == "RETIRED"
    told = len(rig.events())
    session.close(rig.now)
    session.send(rig.now)
    session.tick(rig.now)
    session.drain("late", rig.now)
    assert session.deadline(rig.now.awake) is None
    assert not session.ping(rig.now)
    assert len(rig.events()) == told


def test_a_welcome_with_frames_that_no_server_sends_ends_the_session() -> None:
    rig = Rig()
    rig.client.dial(TARGET, rig.now)
    asked = rig.send()
    (session,) = rig.sessions
    rig.tell(asked[0], rig.peer.terms(asked[0], frames=[Ping()]))
    assert session.state is SessionState.CLOSED
    (failed,) = rig.events(DialFailed)
    assert failed.error.failure is Failure.PROTOCOL


def test_a_client_without_a_path_waits_for_one() -> None:
    rig = Rig()
    rig.client.remove_path(0, rig.now)
    dial = rig.client.dial(TARGET, rig.now)
    assert dial.session == -1, "there is no zone to shake hands in"
    assert rig.send() == []
    (failed,) = rig.events(DialFailed)
    assert failed.error.failure is Failure.BUSY
    rig = Rig()
    rig.client.dial(TARGET, rig.now)
    rig.client.remove_path(0, rig.now)
    rig.run(5.0)
    assert rig.log == []
    rig.client.add_path()
    rig.run(7.0, Echo(rig))
    assert rig.sessions[0].state is SessionState.LIVE


def test_many_challenges_are_remembered_and_none_for_ever() -> None:
    rig = Rig()
    rig.dialed()
    session = rig.sessions[0]
    path = rig.client._paths[0]
    tokens = [Challenge(number.to_bytes(4)) for number in range(65)]
    assert session.intake.take([*tokens, tokens[-1]], path, rig.now) is None
    assert len(session.intake._responses) == 1


def test_a_notice_counts_once_and_only_where_there_is_a_session() -> None:
    rig = Rig()
    rig.client.dial(TARGET, rig.now)
    asked = rig.send()
    said = Notice(EndCode.UNKNOWN, 10.0, None)
    rig.tell(asked[3], rig.peer.notice(asked[3], said))
    assert rig.sessions[0].state is SessionState.HANDSHAKING, "it has no key of any status yet"
    rig.tell(asked[0], rig.peer.terms(asked[0], frames=[Opened(0)]))
    for each in asked[3:]:
        rig.tell(each, rig.peer.notice(each, said))
    assert [event.after for event in rig.events(SessionChanged)] == [
        SessionState.LIVE,
        SessionState.LOST,
    ]
