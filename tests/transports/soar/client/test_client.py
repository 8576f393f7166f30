"""The whole client: paths that come, fail and go; forks; its end."""

from __future__ import annotations

import pytest

from racer.errors import ConfigError, LocalProtocolError
from tests.transports.soar.client.peer import KEY, RTT, TARGET, ZONE, Asked, Echo, Rig
from transports.soar.core.client.client import Client
from transports.soar.core.client.events import DialFailed, DialOpened, SessionChanged, StreamFailed
from transports.soar.core.client.reasons import Failure
from transports.soar.core.client.settings import ClientSettings
from transports.soar.core.client.states import SessionState
from transports.soar.core.crypto import Kind
from transports.soar.core.dns.zone import Zone
from transports.soar.core.streams.frames import End, StreamData, Zones
from transports.soar.core.streams.targets import Target


def test_a_client_that_has_nothing_to_do_has_no_timer_and_nothing_to_say() -> None:
    rig = Rig()
    assert rig.client.next_timeout() is None
    assert rig.send() == []
    assert rig.client.next_timeout() is None
    assert rig.client.next_event() is None


def test_there_are_sixteen_paths_and_numbers_are_used_again() -> None:
    rig = Rig(paths=16)
    assert rig.paths == list(range(16))
    with pytest.raises(LocalProtocolError, match="at most 16"):
        rig.client.add_path()
    rig.client.remove_path(5, rig.now)
    assert rig.client.add_path() == 5


@pytest.mark.parametrize("message", [b"", b"\0" * 11, b"\0" * 12, bytes(range(256))])
def test_what_is_no_answer_is_dropped(message: bytes) -> None:
    rig = Rig()
    rig.dialed()
    rig.client.receive_message(0, message, rig.now)
    rig.client.receive_message(9, message, rig.now)
    assert len(rig.sessions) == 1


def test_a_dial_takes_one_round_trip() -> None:
    rig = Rig()
    dial = rig.client.dial(TARGET, rig.now)
    rig.run(5.0, Echo(rig), stop=lambda: bool(rig.events(DialOpened)))
    assert rig.time == pytest.approx(RTT)
    assert dial.stream.is_connected


class TestFork:
    def test_the_child_drops_everything_without_a_word(self) -> None:
        rig = Rig()
        rig.dialed()
        rig.client.dial(TARGET, rig.now)
        rig.client.check_owner(2)
        assert rig.client.next_event() is None
        assert rig.client.messages_to_send(rig.now) == []
        assert rig.client.status(rig.now).sessions == ()
        assert rig.client.next_timeout() is None

    def test_it_makes_sessions_of_its_own(self) -> None:
        rig = Rig()
        rig.dialed()
        old = rig.log[0][1].sid
        rig.client.check_owner(2)
        rig.client.dial(TARGET, rig.now)
        asked = rig.send()
        assert asked[0].kind is Kind.FRAGMENT
        assert asked[0].sid != old

    def test_the_same_process_keeps_them(self) -> None:
        rig = Rig()
        rig.dialed()
        rig.client.check_owner(1)
        assert len(rig.sessions) == 1

    def test_answers_to_the_parents_questions_are_nobodys(self) -> None:
        rig = Rig()
        rig.dialed()
        poll = next(each for _, each in rig.log if each.may_park)
        rig.client.check_owner(2)
        rig.tell(poll, rig.peer.answer(poll))
        assert rig.sessions == []


class TestClose:
    def test_sessions_end_with_a_word_and_dials_fail(self) -> None:
        rig = Rig()
        dial = rig.dialed()
        waiting = rig.client.dial(TARGET, rig.now)
        rig.client.close(rig.now)
        said = [frame for each in rig.send() for frame in each.of(End)]
        assert [(end.code, end.last_stream) for end in said] == [(2, 1)]
        assert rig.events(StreamFailed)[0].stream is dial.stream
        (failed,) = rig.events(DialFailed)
        assert failed.dial is waiting
        assert failed.error.failure is Failure.CLOSED
        rig.run(rig.time + 100.0)
        assert rig.sessions == []

    def test_a_handshake_ends_without_one(self) -> None:
        rig = Rig()
        rig.client.dial(TARGET, rig.now)
        rig.send()
        rig.client.close(rig.now)
        assert rig.send() == []
        assert rig.events(SessionChanged)[-1].after is SessionState.CLOSED

    def test_then_nothing_is_dialed(self) -> None:
        rig = Rig()
        rig.client.close(rig.now)
        with pytest.raises(LocalProtocolError, match="closed"):
            rig.client.dial(TARGET, rig.now)


class TestPaths:
    def only(self, rig: Rig, alive: set[int]) -> Echo:
        echo = Echo(rig)

        class Selective(Echo):
            def __call__(self, asked: Asked) -> bytes | None:
                return echo(asked) if asked.path in alive else None

        return Selective(rig)

    def test_a_stream_goes_on_over_another_when_one_dies(self) -> None:
        rig = Rig(paths=2)
        dial = rig.client.dial(TARGET, rig.now)
        both = Echo(rig)
        rig.run(1.0, both)
        best = min(rig.client._paths.values(), key=lambda path: path.expected()).index
        dial.stream.write(bytes(2000))
        session = rig.sessions[0]
        other = 1 - best

        def reply(asked: Asked) -> bytes | None:
            return both(asked) if asked.path == other else None

        rig.run(rig.time + 3.0, reply)
        assert len(both.got[0]) == len(TARGET.to_wire()) + 2000
        assert rig.sessions == [session]
        rig.run(rig.time + 10.0, reply)
        late = [at for at, each in rig.log if each.path == best and at > rig.time - 5.0]
        assert len(late) <= 3

    def test_a_path_that_never_answers_is_dead_and_only_probed(self) -> None:
        rig = Rig(paths=2)
        rig.client.dial(TARGET, rig.now)
        echo = Echo(rig)
        rig.run(1.0, lambda asked: echo(asked) if asked.path == 0 else None)
        silent = rig.client._paths[1]
        silent.silence._since, silent.silence._asked = rig.now.awake - 6 * silent.patience, 3
        rig.run(12.0, lambda asked: echo(asked) if asked.path == 0 else None)
        assert rig.client.status(rig.now).paths[1].is_dead
        assert not rig.client.status(rig.now).paths[0].is_dead

    def test_a_carrier_that_failed_has_its_questions_asked_elsewhere_at_once(self) -> None:
        rig = Rig(paths=2, datagram=False)
        dial = rig.client.dial(TARGET, rig.now)
        rig.run(1.0, Echo(rig))
        best = min(rig.client._paths.values(), key=lambda path: path.expected()).index
        dial.stream.write(b"0123456789")
        sent = [each for each in rig.send() if each.of(StreamData)]
        assert [each.path for each in sent] == [best]
        rig.client.remove_path(best, rig.now)
        again = [each for each in rig.send() if each.of(StreamData)]
        assert {each.path for each in again} == {1 - best}
        assert b"".join(each.of(StreamData)[0].data for each in again) == b"0123456789"

    def test_an_unknown_carrier_is_nothing(self) -> None:
        rig = Rig()
        rig.client.carrier_failed(7, rig.now)
        rig.client.remove_path(7, rig.now)

    def test_a_second_zone_is_used_once_the_server_says_so(self) -> None:
        other = Zone.parse("u.example.net")
        rig = Rig(zones=(ZONE, other))
        path = rig.client.add_path(1)
        rig.dialed()
        assert {each.path for _, each in rig.log} == {0}
        poll = next(each for _, each in rig.log if each.may_park)
        rig.tell(poll, rig.peer.answer(poll, Zones(((1, other.wire),))))
        rig.client.carrier_failed(0, rig.now)
        rig.client._paths.pop(0)
        assert {each.path for each in rig.send()} == {path}


def test_status_shows_sessions_and_paths() -> None:
    rig = Rig()
    rig.dialed(lease=100)
    rig.time += 3.0
    status = rig.client.status(rig.now)
    (session,) = status.sessions
    assert (session.number, session.state, session.streams) == (1, SessionState.LIVE, 1)
    assert session.idle == pytest.approx(3.0 + RTT)
    assert session.lease == pytest.approx(97.0)
    (path,) = status.paths
    assert (path.index, path.form, path.is_dead) == (0, "DS", False)
    assert path.round_trip == pytest.approx(RTT)


@pytest.mark.parametrize("wrong", [{"zones": ()}, {"session_idle": 0.0}, {"max_stale": -1.0}])
def test_settings_that_cannot_work(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        ClientSettings(**{"public_key": KEY.public, "zones": (ZONE,), **wrong})  # type: ignore[arg-type]


def test_settings_show_no_grant() -> None:
    from tests.transports.soar.client.peer import grant

    text = repr(ClientSettings(public_key=KEY.public, zones=(ZONE,), grant=grant()))
    assert grant().secret.hex() not in text
    assert "grant" not in text


def test_a_target_that_no_stream_can_lead_to_is_refused() -> None:
    rig = Rig()
    with pytest.raises(LocalProtocolError):
        rig.client.dial(Target("bad host", 443), rig.now)


def test_the_same_dice_give_the_same_run() -> None:
    def messages(seed: str) -> list[bytes]:
        rig = Rig(seed=seed)
        dial = rig.client.dial(TARGET, rig.now)
        rig.run(1.0, Echo(rig))
        dial.stream.write(bytes(100))
        rig.run(2.0, Echo(rig))
        return [each.message for _, each in rig.log]

    assert messages("a") == messages("a") != messages("b")
    assert isinstance(Client, type)
