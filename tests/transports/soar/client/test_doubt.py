"""Paths beside one that answers: a dial and its octets wait for none that does not."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from tests.transports.soar.client.peer import RTT, TARGET, Asked, Echo, Rig
from transports.soar.core.client.events import DialOpened
from transports.soar.core.streams.frames import StreamData

if TYPE_CHECKING:
    from collections.abc import Callable

SILENT, HONEST = 0, 1  # the first in the list is the one that is asked first


def only(echo: Echo, *paths: int) -> Callable[[Asked], bytes | None]:
    return lambda asked: echo(asked) if asked.path in paths else None


def octets_on(rig: Rig, path: int, *, since: float = 0.0) -> list[Asked]:
    return [
        each for at, each in rig.log if each.path == path and at >= since and each.of(StreamData)
    ]


def test_a_dial_takes_two_round_trips_where_the_first_resolver_is_dead() -> None:
    rig = Rig(paths=2)
    rig.client.dial(TARGET, rig.now)
    rig.run(10.0, only(Echo(rig), HONEST), stop=lambda: bool(rig.events(DialOpened)))
    assert octets_on(rig, SILENT) or rig.log[0][1].path == SILENT
    assert round(rig.time, 3) == 2 * RTT


def test_nothing_that_matters_goes_where_no_answer_ever_came_from() -> None:
    rig = Rig(paths=2)
    dial = rig.client.dial(TARGET, rig.now)
    echo = Echo(rig)
    rig.run(1.0, only(echo, HONEST))
    dial.stream.write(bytes(15_000))
    began = rig.time
    rig.run(began + 5.0, only(echo, HONEST))
    assert len(echo.got[0]) == len(TARGET.to_wire()) + 15_000
    assert octets_on(rig, SILENT, since=RTT) == []
    asked = [at for at, each in rig.log if each.path == SILENT and at >= began]
    assert all(after - before >= 0.5 for before, after in pairwise(asked))


def test_a_path_that_is_only_slow_joins_with_its_first_answer() -> None:
    rig = Rig(paths=2)
    dial = rig.client.dial(TARGET, rig.now)
    echo = Echo(rig)

    def reply(asked: Asked) -> bytes | None:
        if asked.path == HONEST:
            return echo(asked)
        rig.post(asked, echo(asked), 3 * RTT)
        return None

    rig.run(2 * RTT, reply)
    slow = rig.client._paths[SILENT]
    assert slow.is_doubted
    rig.run(1.0, reply)
    assert slow.is_known
    assert not slow.is_doubted
    dial.stream.write(bytes(15_000))
    began = rig.time
    rig.run(began + 5.0, reply)
    assert octets_on(rig, SILENT, since=began)


def test_a_path_that_fell_silent_gets_octets_again_once_it_has_answered() -> None:
    rig = Rig(paths=2)
    dial = rig.client.dial(TARGET, rig.now)
    echo = Echo(rig)
    rig.run(1.0, echo)
    dial.stream.write(bytes(10_000))
    rig.run(rig.time + 3.0, only(echo, HONEST))
    assert rig.client._paths[SILENT].is_doubted
    silent_from = rig.time
    rig.run(rig.time + 3.0, only(echo, HONEST))
    assert octets_on(rig, SILENT, since=silent_from) == []
    again_from = rig.time
    dial.stream.write(bytes(10_000))
    rig.run(rig.time + 2.0, echo)
    assert not rig.client._paths[SILENT].is_doubted
    assert octets_on(rig, SILENT, since=again_from)


def test_a_doubted_path_takes_over_when_the_other_dies() -> None:
    rig = Rig(paths=2)
    dial = rig.client.dial(TARGET, rig.now)
    echo = Echo(rig)
    rig.run(1.0, only(echo, HONEST))
    assert rig.client._paths[SILENT].is_doubted
    dial.stream.write(bytes(5_000))
    rig.run(rig.time + 20.0, only(echo, SILENT))
    assert len(echo.got[0]) == len(TARGET.to_wire()) + 5_000
    assert len(rig.sessions) == 1


def test_where_the_last_good_path_dies_nothing_is_waited_for_there_any_more() -> None:
    """Many polls wait on it: given up a few each five seconds, they would stand for those that a busy client sends."""
    rig = Rig(paths=2)
    rig.client.dial(TARGET, rig.now)
    rig.run(1.0, Echo(rig))
    silent, honest = rig.client._paths[SILENT], rig.client._paths[HONEST]

    def more(asked: Asked) -> bytes | None:
        return rig.peer.answer(asked, backlog=40) if asked.path == HONEST else None

    rig.run(rig.time + 8.0, more)
    assert silent.is_doubted
    assert honest.window.in_flight > 40
    rig.run(rig.time + 30.0, stop=lambda: not silent.is_doubted)
    assert not silent.is_doubted
    assert honest.window.in_flight <= 1
    assert silent.recovery.probes <= 1, "it is asked as if anew"
    began = rig.time
    rig.run(began + 10.0)
    asked = [at for at, each in rig.log if at >= began and each.path == SILENT]
    assert max(after - before for before, after in pairwise([began, *asked])) < 2.5


def test_a_silent_spare_that_is_asked_already_is_no_reason_to_wake_up() -> None:
    """It gets one question at a time, so when it may be asked by its silence alone nothing could be done."""
    rig = Rig(paths=2)
    rig.client.dial(TARGET, rig.now)
    rig.run(1.0, Echo(rig))
    rig.run(rig.time + 5.0)
    packets, now = rig.sessions[0].packets, rig.now.awake
    spare, other = rig.client._paths[SILENT], rig.client._paths[HONEST]
    for path in (spare, other):
        path.is_doubted = False
        path.silence.sent(now)
        assert path.is_slow(now)
    spare.silence._last = now - 1.0
    assert packets.unheard_at(now) == now - 0.5
    spare.is_spare, spare.window.in_flight = True, 1
    assert packets.unheard_at(now) == now + 0.5
    assert spare.room(now, poll=True) == 0
