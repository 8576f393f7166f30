"""The flight, what may answer it, and what comes of that (SPEC 7)."""

from __future__ import annotations

import pytest

from tests.transports.soar.client.peer import RTT, TARGET, Asked, Echo, Rig, grant
from transports.soar.core.client.events import (
    DialFailed,
    DialOpened,
    DialRepaired,
    HandshakeEnded,
    HandshakeStarted,
    SessionChanged,
    StreamReadable,
)
from transports.soar.core.client.reasons import Failure
from transports.soar.core.client.states import SessionState
from transports.soar.core.crypto import EndCode, Kind, Notice, RetryCode, Status
from transports.soar.core.crypto.retries import wrap
from transports.soar.core.dns.answers import Form
from transports.soar.core.dns.messages import Rcode
from transports.soar.core.streams.frames import Opened, Reset, StreamData


def kinds(asked: list[Asked]) -> list[str]:
    return [each.kind.name for each in asked]


def fragments(asked: list[Asked]) -> list[Asked]:
    return [each for each in asked if each.kind is Kind.FRAGMENT]


def test_one_flight_carries_the_opening_and_two_polls() -> None:
    rig = Rig()
    rig.client.dial(TARGET, rig.now)
    asked = rig.send()
    assert kinds(asked) == ["FRAGMENT"] * 3 + ["EARLY"] * 2
    assert {(each.form, each.name_class) for each in asked} == {(Form.DS, 1)}
    assert {len(each.name) for each in asked} == {79}
    half = rig.peer.halves[asked[0].sid]
    assert half.frames == [StreamData(0, 0, TARGET.to_wire(), False)]
    assert [each.may_park for each in asked[3:]] == [True, True]
    assert [each.number for each in asked[3:]] == [0, 1]
    assert rig.send() == []


@pytest.mark.parametrize(
    ("host", "with_grant", "count"),
    [("a.example", False, 3), ("a.example", True, 4), ("a" * 30 + ".example", False, 4)],
)
def test_the_first_message_takes_as_many_pieces_as_it_needs(
    host: str, with_grant: bool, count: int
) -> None:
    rig = Rig(grant=grant() if with_grant else None)
    rig.client.dial(TARGET._replace(host=host), rig.now)
    assert len(fragments(rig.send())) == count


def test_what_has_no_room_in_four_pieces_goes_in_early_packets() -> None:
    rig = Rig()
    rig.client.dial(TARGET._replace(host="x" * 50 + ".example"), rig.now, early_data=b"hello")
    asked = rig.send()
    assert len(fragments(asked)) == 4
    half = rig.peer.halves[asked[0].sid]
    octets: dict[int, bytes] = {}
    for frame in [*half.frames, *(frame for each in asked for frame in each.frames)]:
        if isinstance(frame, StreamData):
            octets[frame.offset] = frame.data
    whole = b"".join(octets[offset] for offset in sorted(octets))
    assert whole == TARGET._replace(host="x" * 50 + ".example").to_wire() + b"hello"


@pytest.mark.parametrize("which", [0, 1, 2])
def test_any_one_answer_completes_it(which: int) -> None:
    rig = Rig()
    rig.client.dial(TARGET, rig.now)
    asked = rig.send()
    rig.time = RTT
    rig.tell(asked[which], rig.peer.terms(asked[which]))
    (session,) = rig.sessions
    assert session.state is SessionState.LIVE
    ended = rig.events(HandshakeEnded)[0]
    assert (ended.seconds, ended.waves, ended.form, ended.path, ended.error) == (
        pytest.approx(RTT), 1, "DS", 0, None,
    )  # fmt: skip
    assert session.table.has_queued() is False


def test_the_other_answers_are_authentic_too_and_change_nothing() -> None:
    rig = Rig()
    rig.client.dial(TARGET, rig.now)
    asked = fragments(rig.send())
    rig.time = RTT
    for each in asked:
        rig.tell(each, rig.peer.terms(each))
    assert len(rig.events(HandshakeEnded)) == 1
    path = rig.client._paths[0]
    assert path.window.in_flight == 2  # the polls


def test_without_an_answer_the_forms_are_tried_in_turn_under_new_names() -> None:
    rig = Rig()
    rig.client.dial(TARGET, rig.now)
    rig.run(1.5)
    waves: dict[float, list[tuple[str, int]]] = {}
    for at, each in rig.log:
        if each.kind is Kind.FRAGMENT:
            waves.setdefault(round(at, 3), []).append((each.form.name, each.name_class))
    assert waves == {
        0.0: [("DS", 1)] * 3,
        0.4: [("DS", 1)] * 3 + [("TXT", 1)] * 3,
        0.8: [("SOA", 1)] * 3,
        1.2: [("TXT", 3)],
    }
    names = [each.name for _, each in rig.log]
    assert len(set(names)) == len(names)
    assert len({each.sid for _, each in rig.log}) == 1


def test_the_long_name_has_an_odd_flag_and_any_answer_to_it_will_do() -> None:
    rig = Rig()
    rig.client.dial(TARGET, rig.now)
    rig.run(1.3)
    long = next(each for _, each in rig.log if each.name_class > 1)
    labels = [len(label) for label in _labels(long.name)]
    rightmost = _labels(long.name)[len(labels) - 4]
    assert "abcdefghijklmnopqrstuvwxyz234567".index(chr(rightmost[0])) & 1 == 1
    rig.tell(long, rig.peer.terms(long))
    assert rig.sessions[0].state is SessionState.LIVE
    assert rig.client._paths[0].forms.current is Form.TXT


def _labels(name: bytes) -> list[bytes]:
    labels = []
    at = 0
    while name[at]:
        labels.append(name[at + 1 : at + 1 + name[at]])
        at += 1 + name[at]
    return labels


@pytest.mark.parametrize("paths", [1, 2, 3])
def test_a_path_of_unknown_quality_gets_the_flight_as_well(paths: int) -> None:
    rig = Rig(paths=paths)
    rig.client.dial(TARGET, rig.now)
    first = {each.path for each in fragments(rig.send())}
    assert len(first) == min(2, paths)
    rig.run(0.85)
    assert {each.path for _, each in rig.log if each.kind is Kind.FRAGMENT} == set(range(paths))


def test_an_open_failure_brings_the_next_form_forward() -> None:
    rig = Rig()
    rig.client.dial(TARGET, rig.now)
    asked = fragments(rig.send())
    rig.time = 0.05
    for each in asked:
        rig.tell(each, rig.peer.failure(each, Rcode.REFUSED))
    again = fragments(rig.send())
    assert [each.form.name for each in again] == ["DS"] * 3 + ["TXT"] * 3
    rig.time = 0.06
    assert rig.send() == []


def test_forged_failures_make_no_flood() -> None:
    rig = Rig()
    rig.client.dial(TARGET, rig.now)
    rig.run(5.0, lambda asked: rig.peer.failure(asked, Rcode.SERVFAIL), delay=0.001)
    assert rig.sessions[0].state is SessionState.HANDSHAKING
    assert len(rig.log) < 60


def test_nothing_for_thirty_seconds_and_it_is_lost() -> None:
    rig = Rig()
    rig.client.dial(TARGET, rig.now)
    rig.run(29.99)
    assert rig.events(DialFailed) == []
    rig.run(30.01)
    (failed,) = rig.events(DialFailed)
    assert failed.error.failure is Failure.SILENT
    assert failed.error.may_have_reached is True
    (change,) = rig.events(SessionChanged)
    assert (change.before.value, change.after.value) == ("handshaking", "lost")
    asked = len(rig.log)
    rig.run(200.0)
    assert len(rig.log) == asked


def test_while_nothing_comes_it_asks_at_most_two_questions_a_second() -> None:
    rig = Rig()
    rig.client.dial(TARGET, rig.now)
    rig.run(29.0)
    late = [at for at, _ in rig.log if at > 3.0]
    assert len(late) <= 2 * 26 * 1.3


class TestRetry:
    def start(self) -> tuple[Rig, list[Asked]]:
        rig = Rig()
        rig.client.dial(TARGET, rig.now)
        asked = fragments(rig.send())
        rig.time = RTT
        return rig, asked

    def test_it_begins_anew_with_cookie_and_old_sid_and_a_new_key(self) -> None:
        rig, asked = self.start()
        rig.tell(asked[0], rig.peer.retry(asked[0], RetryCode.BUSY))
        again = rig.send()
        sid = again[0].sid
        assert sid != asked[0].sid
        half = rig.peer.halves[sid]
        assert half.first is not None
        assert half.first.claims.cookie == (b"cookie..", asked[0].sid)
        assert half.frames == [StreamData(0, 0, TARGET.to_wire(), False)]
        assert [each.number for each in again if each.kind is Kind.EARLY] == [0, 1]
        assert [event.is_retry for event in rig.events(HandshakeStarted)] == [False, True]

    @pytest.mark.parametrize(
        ("code", "time"), [(RetryCode.BUSY, 1_800_000_000), (RetryCode.CLOCK, 1_700_000_000)]
    )
    def test_the_servers_clock_is_taken_over_when_ours_is_wrong(
        self, code: RetryCode, time: int
    ) -> None:
        rig, asked = self.start()
        rig.tell(asked[0], rig.peer.retry(asked[0], code, time=1_700_000_000))
        first = rig.peer.halves[rig.send()[0].sid].first
        assert first is not None
        assert first.claims.time == time

    def test_one_is_obeyed_not_two(self) -> None:
        rig, asked = self.start()
        rig.tell(asked[0], rig.peer.retry(asked[0], RetryCode.BUSY))
        again = fragments(rig.send())
        rig.tell(again[0], rig.peer.retry(again[0], RetryCode.BUSY))
        rig.tell(asked[1], rig.peer.retry(asked[1], RetryCode.BUSY))
        assert rig.send() == []
        rig.tell(again[1], rig.peer.terms(again[1]))
        assert rig.sessions[0].state is SessionState.LIVE

    def test_what_was_under_way_by_the_old_one_ends_without_a_trace(self) -> None:
        rig, asked = self.start()
        rig.tell(asked[0], rig.peer.retry(asked[0], RetryCode.BUSY))
        again = fragments(rig.send())
        rig.time += RTT
        rig.tell(again[0], rig.peer.terms(again[0]))
        session = rig.sessions[0]
        rig.run(4.0, lambda each: rig.peer.answer(each) if each.kind is Kind.DATA else None)
        assert session.packets.outstanding >= 0
        assert session.packets.owed == 0

    def test_a_welcome_ends_it_for_good(self) -> None:
        rig, asked = self.start()
        rig.tell(asked[0], rig.peer.terms(asked[0]))
        rig.tell(asked[1], rig.peer.retry(asked[1], RetryCode.BUSY))
        assert rig.sessions[0].state is SessionState.LIVE
        assert len(rig.events(HandshakeStarted)) == 1


@pytest.mark.parametrize(
    ("status", "failure"),
    [
        (Status.GRANT_NEEDED, Failure.CREDENTIAL),
        (Status.GRANT_REJECTED, Failure.CREDENTIAL),
        (Status.GRANT_EXPIRED, Failure.CREDENTIAL),
        (Status.GRANT_REVOKED, Failure.CREDENTIAL),
        (Status.VERSION, Failure.UNUSABLE),
    ],
)
def test_a_rejection_is_final(status: Status, failure: Failure) -> None:
    rig = Rig()
    rig.client.dial(TARGET, rig.now)
    asked = fragments(rig.send())
    rig.tell(asked[0], rig.peer.terms(asked[0], status=status))
    (failed,) = rig.events(DialFailed)
    assert (failed.error.failure, failed.error.code) == (failure, status)
    assert failed.error.may_have_reached is False
    assert rig.sessions == []
    assert rig.send() == []


@pytest.mark.parametrize("status", [Status.CAPACITY, Status.SHUTTING_DOWN])
def test_a_rejection_for_now_is_tried_once_more(status: Status) -> None:
    rig = Rig()
    rig.client.dial(TARGET, rig.now)
    for turn in range(2):
        asked = fragments(rig.send())
        assert asked, turn
        rig.tell(asked[0], rig.peer.terms(asked[0], status=status))
    (failed,) = rig.events(DialFailed)
    assert failed.error.failure is Failure.ENDED
    assert rig.send() == []


def broken_welcome(rig: Rig, asked: Asked) -> bytes:
    """Return a welcome that a server's own code refuses to say, so the octets are changed under its seal."""
    half = rig.peer.halves[asked.sid]
    assert half.first is not None
    payload = bytearray(
        bytes.fromhex("00 00 00")
        + bytes(4)
        + bytes.fromhex("0000 04b0")
        + bytes(4)
        + bytes.fromhex("0080 0100 0400 03")
    )
    payload += bytes(16)
    message, _ = half.first._noise.seal(bytes(payload), ephemeral=bytes(range(32)))
    return rig.peer.carry(asked, wrap(half.first._header_key, 0, message))


def test_a_welcome_that_breaks_the_rules_makes_no_session() -> None:
    rig = Rig()
    rig.client.dial(TARGET, rig.now)
    asked = fragments(rig.send())
    rig.tell(asked[0], broken_welcome(rig, asked[0]))
    (failed,) = rig.events(DialFailed)
    assert failed.error.failure is Failure.UNUSABLE
    assert "shards" in failed.error.words


class TestEarlyAnswers:
    def test_they_are_kept_until_they_can_be_opened(self) -> None:
        rig = Rig()
        rig.client.dial(TARGET, rig.now)
        asked = rig.send()
        first = rig.peer.halves[asked[0].sid].first
        assert first is not None
        welcome = rig.peer.terms(asked[0])
        rig.time = RTT
        rig.tell(asked[3], rig.peer.answer(asked[3], Opened(0), StreamData(0, 0, b"hi", False)))
        assert [type(event).__name__ for event in rig.told] == ["HandshakeStarted"]
        rig.tell(asked[0], welcome)
        readable = rig.told[-1]
        assert isinstance(readable, StreamReadable)
        dial = readable.stream.dial
        assert [type(event).__name__ for event in rig.told[1:]] == [
            "HandshakeEnded",
            "SessionChanged",
            "DialOpened",
            "StreamReadable",
        ]
        assert dial.stream.read(10) == b"hi"
        assert rig.time == RTT

    def test_what_they_waited_is_no_round_trip(self) -> None:
        rig = Rig()
        rig.client.dial(TARGET, rig.now)
        asked = rig.send()
        rig.peer.terms(asked[0])  # it is lost
        rig.time = RTT
        rig.tell(asked[3], rig.peer.answer(asked[3], Opened(0)))
        rig.time = 5.0
        again = fragments(rig.send())
        rig.time += RTT
        rig.tell(again[0], rig.peer.terms(again[0]))
        (path,) = rig.client._paths.values()
        assert path.polls.srtt == pytest.approx(RTT)
        assert rig.sessions[0].activity == 5000.0, "the server may count from the first copy"

    def test_forged_ones_do_not_keep_the_true_one_out(self) -> None:
        rig = Rig()
        rig.client.dial(TARGET, rig.now)
        asked = rig.send()
        welcome = rig.peer.terms(asked[0])
        for turn in range(3):
            rig.tell(asked[3], rig.peer.carry(asked[3], bytes([turn]) * 40))
        rig.tell(asked[3], rig.peer.answer(asked[3], Opened(0)))
        rig.tell(asked[0], welcome)
        assert rig.sessions[0].packets.outstanding == 1

    def test_they_are_bounded(self) -> None:
        rig = Rig()
        rig.client.dial(TARGET, rig.now, early_data=bytes(500))
        asked = rig.send()
        for turn in range(50):
            for each in asked:
                if each.kind is Kind.EARLY:
                    rig.tell(each, rig.peer.carry(each, bytes([turn]) * 40))
        handshake = rig.sessions[0]._handshake
        assert handshake is not None
        assert len(handshake.held) == 16

    def test_one_question_does_not_take_all_their_room(self) -> None:
        rig = Rig()
        rig.client.dial(TARGET, rig.now)
        early = rig.send()[-1]
        for turn in range(50):
            rig.tell(early, rig.peer.carry(early, bytes([turn]) * 40))
        handshake = rig.sessions[0]._handshake
        assert handshake is not None
        assert len(handshake.held) == 4


def test_frames_that_were_not_executed_are_sent_again() -> None:
    rig = Rig()
    rig.client.dial(TARGET, rig.now, early_data=b"0123456789" * 3)
    asked = rig.send()
    rig.time = RTT
    rig.tell(asked[0], rig.peer.terms(asked[0], early_refused=True))
    session = rig.sessions[0]
    again = rig.send()
    assert {each.kind for each in again} == {Kind.DATA}
    octets = {
        frame.offset: frame.data for each in again for frame in each.frames
        if isinstance(frame, StreamData)
    }  # fmt: skip
    whole = b"".join(octets[offset] for offset in sorted(octets))
    assert whole == TARGET.to_wire() + b"0123456789" * 3
    # What early packets are answered acknowledges nothing.
    for each in asked:
        if each.kind is Kind.EARLY:
            rig.tell(each, rig.peer.answer(each))
    assert session.packets.owed == sum(bool(each.of(StreamData)) for each in again)
    for each in again:
        rig.tell(each, rig.peer.answer(each))
    assert session.packets.owed == 0


@pytest.mark.parametrize("known_for", [0.0, RTT - 0.01, RTT + 0.01])
@pytest.mark.parametrize("safe", [True, False])
def test_what_an_earlier_process_may_have_executed_is_sent_again_if_it_may_be_and_told(
    safe: bool, known_for: float
) -> None:
    rig = Rig()
    rig.client.dial(TARGET, rig.now, replay_safe=safe)
    asked = rig.send()
    rig.time = RTT
    rig.tell(asked[0], rig.peer.terms(asked[0], early_refused=True, known_for=known_for))
    (session,) = rig.sessions
    sent = rig.send()
    again = b"".join(frame.data for each in sent for frame in each.of(StreamData))
    if known_for > RTT:  # there was no other process
        assert again == TARGET.to_wire()
        assert not rig.events(DialRepaired)
    elif safe:
        assert again == TARGET.to_wire()
        (repaired,) = rig.events(DialRepaired)
        assert not repaired.proven
        rig.tell(sent[0], rig.peer.notice(sent[0], Notice(EndCode.UNKNOWN, 0.0, None)))
        (failed,) = rig.events(DialFailed)
        assert failed.error.failure is Failure.LOST, "it has had its repair"
    else:
        assert again == b""
        (failed,) = rig.events(DialFailed)
        assert failed.error.failure is Failure.LOST
        assert failed.error.may_have_reached
        assert session.state is SessionState.LIVE, "its RESET has to arrive"


class TestAForgedRetry:
    """Everybody with the public key can make one (SPEC 7.7), and be faster than the server."""

    def test_the_welcome_that_comes_after_it_counts(self) -> None:
        rig = Rig()
        rig.client.dial(TARGET, rig.now, replay_safe=False)
        asked = rig.send()
        rig.tell(asked[0], rig.peer.retry(asked[0], RetryCode.BUSY))
        again = rig.send()
        assert {each.sid for each in again} - {asked[0].sid}
        rig.time = RTT
        rig.tell(asked[1], rig.peer.terms(asked[1], frames=[Opened(0)]))
        (session,) = rig.sessions
        assert session.state is SessionState.LIVE
        assert session.activity == 5000.0
        assert session.packets.outstanding == session.packets.parked == 2
        assert len(rig.events(DialOpened)) == 1
        assert not rig.events(DialRepaired)
        # What the other message's answer says is of another session, which nobody uses.
        for each in fragments(again):
            rig.tell(each, rig.peer.terms(each, early_refused=True))
        for each in asked[2:3]:
            rig.tell(each, rig.peer.terms(each))
        assert not rig.events(DialFailed)
        # Packets go on where they were, under the first keys: one number seals one packet.
        later = rig.send()
        assert {each.sid for each in later} <= {asked[0].sid}
        echo = Echo(rig)
        echo.said.add(0)
        rig.post(asked[3], rig.peer.answer(asked[3], held=0.6), 0.6)  # the other one is lost
        rig.run(6.0, echo)
        data = [each for _, each in rig.log if each.kind is Kind.DATA]
        assert {each.sid for each in data} == {asked[0].sid}
        assert min(each.number for each in data) == 2
        numbers = session.packets.numbers
        assert numbers.floor == numbers.next - session.packets.outstanding

    def test_what_an_early_packet_carried_is_sent_again(self) -> None:
        rig = Rig()
        rig.client.dial(TARGET, rig.now, early_data=b"0123456789" * 12)
        asked = rig.send()
        rig.tell(asked[0], rig.peer.retry(asked[0], RetryCode.BUSY))
        rig.send()
        rig.time = RTT
        rig.tell(asked[0], rig.peer.terms(asked[0], frames=[Opened(0)]))
        rig.run(1.0, Echo(rig))
        half = rig.peer.halves[asked[0].sid]
        octets: dict[int, bytes] = {}
        data = [each for _, each in rig.log if each.kind is Kind.DATA]
        for frame in [*half.frames, *(f for each in data for f in each.of(StreamData))]:
            octets[frame.offset] = frame.data
        assert b"0123456789" * 2 in b"".join(octets[at] for at in sorted(octets))

    @pytest.mark.parametrize("said", ["refused", "noise", "broken", "retry"])
    def test_nothing_but_a_welcome_counts_after_it(self, said: str) -> None:
        rig = Rig()
        rig.client.dial(TARGET, rig.now)
        asked = rig.send()
        rig.tell(asked[0], rig.peer.retry(asked[0], RetryCode.BUSY))
        again = rig.send()
        if said == "refused":
            message = rig.peer.terms(asked[1], status=Status.CAPACITY)
        elif said == "retry":
            message = rig.peer.retry(asked[1], RetryCode.CLOCK)
        elif said == "noise":
            message = rig.peer.carry(asked[1], bytes(90))
        else:
            message = broken_welcome(rig, asked[1])
        rig.tell(asked[1], message)
        assert not rig.events(HandshakeEnded)
        for each in fragments(again):
            rig.tell(each, rig.peer.terms(each))
        assert rig.sessions[0].state is SessionState.LIVE
        assert rig.sessions[0].packets.first is not None
        assert rig.sessions[0].packets.first.sid == again[0].sid


@pytest.mark.parametrize("safe", [True, False])
def test_a_machine_that_slept_while_it_shook_hands_begins_anew(safe: bool) -> None:
    """The server keeps what it made of a first message for 40 s, and answers it no more after that (SPEC 14.5)."""
    rig = Rig()
    rig.client.dial(TARGET, rig.now, replay_safe=safe)
    first = rig.send()[0].sid
    rig.run(5.0)
    rig.sleep(24.9)
    assert {each.sid for each in rig.send()} <= {first}
    rig.sleep(0.2)
    again = {each.sid for each in rig.send()}
    (ended,) = rig.events(HandshakeEnded)
    assert ended.error.failure is Failure.LOST
    if safe:
        assert len(again - {first}) == 1
        assert [each.proven for each in rig.events(DialRepaired)] == [False]
    else:
        assert again == set()
        (failed,) = rig.events(DialFailed)
        assert failed.error.may_have_reached


def test_what_a_program_left_behind_is_not_sent_again_either() -> None:
    """It closed the stream before the welcome came: nobody is there to say whether it may reach the target twice."""
    rig = Rig()
    dial = rig.client.dial(TARGET, rig.now, early_data=b"hello")
    asked = rig.send()
    dial.stream.close()
    rig.time = RTT
    rig.tell(asked[0], rig.peer.terms(asked[0], early_refused=True))
    frames = [frame for each in rig.send() for frame in each.frames]
    assert not [frame for frame in frames if isinstance(frame, StreamData)]
    assert [frame.stream for frame in frames if isinstance(frame, Reset)] == [0]


@pytest.mark.parametrize("known_for", [0.0, 1.0])
def test_a_refusal_proves_no_more_than_its_server_knows(known_for: float) -> None:
    rig = Rig()
    rig.client.dial(TARGET, rig.now, replay_safe=False)
    for _ in range(2 if known_for else 1):
        asked = fragments(rig.send())
        rig.time += RTT
        rig.tell(asked[0], rig.peer.terms(asked[0], status=Status.CAPACITY, known_for=known_for))
    assert [each.proven for each in rig.events(DialRepaired)] == [True] * bool(known_for)
    (failed,) = rig.events(DialFailed)
    assert failed.error.may_have_reached is not bool(known_for)


def test_a_dial_that_is_not_replay_safe_sends_nothing_but_its_target_in_the_handshake() -> None:
    rig = Rig()
    dial = rig.client.dial(TARGET, rig.now, replay_safe=False)
    dial.stream.write(b"POST")
    asked = rig.send()
    sent = [*rig.peer.halves[asked[0].sid].frames, *(f for each in asked for f in each.frames)]
    assert sent == [StreamData(0, 0, TARGET.to_wire(), False)]
    rig.tell(asked[0], rig.peer.terms(asked[0]))
    later = [frame.data for each in rig.send() for frame in each.of(StreamData)]
    assert later == [b"POST"]


def test_all_names_of_one_first_message_go_to_one_shard() -> None:
    rig = Rig()
    rig.client.dial(TARGET, rig.now, early_data=bytes(60))
    asked = rig.send()
    assert len({each.selector for each in asked}) == 1
    rig.tell(asked[0], rig.peer.terms(asked[0], shards=4))
    rig.run(1.5, lambda each: rig.peer.answer(each) if each.kind is Kind.DATA else None)
    selectors = {each.selector for _, each in rig.log if each.kind is Kind.DATA}
    assert {selector % 4 for selector in selectors} == {asked[0].selector % 4}
    assert len(selectors) > 1


def test_a_warm_session_shakes_hands_without_a_stream() -> None:
    rig = Rig()
    rig.client.keep_warm(rig.now)
    asked = rig.send()
    assert kinds(asked) == ["FRAGMENT"] * 2
    assert rig.peer.halves[asked[0].sid].frames == []
    rig.tell(asked[0], rig.peer.terms(asked[0]))
    assert rig.sessions[0].state is SessionState.IDLE
    (confirms,) = (
        rig.send()
    )  # or the server would not know that anybody has its welcome (SPEC 15.2)
    assert (confirms.kind, confirms.may_park, confirms.frames) == (Kind.DATA, False, [])
    rig.run(RTT, None)
    rig.tell(confirms, rig.peer.answer(confirms))
    rig.run(30.0)
    assert rig.send() == []


def test_what_tells_the_server_of_its_welcome_is_asked_thrice_at_most() -> None:
    rig = Rig()
    rig.client.keep_warm(rig.now)
    asked = rig.send()
    rig.time = RTT
    rig.tell(asked[0], rig.peer.terms(asked[0]))
    rig.run(30.0)
    assert 1 < len([each for _, each in rig.log if each.kind is Kind.DATA]) <= 3


def test_a_second_handshake_goes_over_the_best_path_and_then_over_others_too() -> None:
    rig = Rig(paths=3)
    echo = Echo(rig)
    rig.client.dial(TARGET, rig.now)
    rig.run(3.0, echo)
    for path in rig.client._paths.values():
        path.is_known = True
        path.is_doubted = False
    rig.client.update_credential(grant(), rig.now)
    rig.client.dial(TARGET, rig.now)
    first = {each.path for each in fragments(rig.send())}
    assert len(first) == 1
    rig.run(rig.time + 1.0)
    later = {each.path for _, each in rig.log if each.kind is Kind.FRAGMENT and _ > 3.0}
    assert len(later) == 3


def test_an_early_answer_that_came_twice_counts_once() -> None:
    rig = Rig()
    rig.client.dial(TARGET, rig.now)
    asked = rig.send()
    welcome = rig.peer.terms(asked[0])
    answer = rig.peer.answer(asked[3], Opened(0))
    for _ in range(2):
        rig.tell(asked[3], answer)
    rig.tell(asked[0], welcome)
    assert len(rig.events(DialOpened)) == 1
    assert rig.sessions[0].packets.outstanding == 1


def test_an_answer_to_an_early_packet_of_the_message_before_a_retry_is_not_kept() -> None:
    rig = Rig()
    rig.client.dial(TARGET, rig.now)
    asked = rig.send()
    rig.tell(asked[0], rig.peer.retry(asked[0], RetryCode.BUSY))
    rig.send()
    rig.peer.terms(asked[0])  # it is still on its way
    rig.tell(asked[3], rig.peer.answer(asked[3], Opened(0)))
    handshake = rig.sessions[0]._handshake
    assert handshake is not None
    assert handshake.held == []
