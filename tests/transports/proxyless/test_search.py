"""What a search does when, to the digit: stories of resolvers that lie and strategies that fail."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transports.proxyless._search import (
    DOUBT_DELAY,
    MAX_LOOKUPS,
    STEP_DELAY,
    Fallback,
    LookUp,
    Probe,
    Search,
    Step,
)

NEVER = (1e9, None)
LIE = "a lie"
World = Callable[[Step], tuple[float, Any]]


class Played:
    """A search in a world that says how long each step takes and what it comes to: addresses, True, or None."""

    def __init__(
        self, world: World, *, resolvers: int = 2, strategies: int = 3, **options: Any
    ) -> None:
        self.search = Search(
            resolvers=range(resolvers), strategies=range(strategies), now=0.0, **options
        )
        self.log: list[tuple[float, str]] = []
        self.ended_at = 0.0
        self.most_probes = self.most_lookups = 0
        self._play(world)

    def _play(self, world: World) -> None:
        now, count = 0.0, 0
        pending: list[tuple[float, int, Step, Any]] = []
        for _ in range(10_000):
            for step in self.search.start_due(now):
                self.log.append((now, name(step)))
                took, result = world(step)
                count += 1
                heapq.heappush(pending, (now + took, count, step, result))
            running = [step for _, _, step, _ in pending]
            self.most_lookups = max(self.most_lookups, sum(isinstance(s, LookUp) for s in running))
            self.most_probes = max(
                self.most_probes, sum(not isinstance(s, LookUp) for s in running)
            )
            if self.search.is_over(now):
                break
            events = pending[0][0] if pending else 1e9
            now = max(now, min(events, self.search.next_timeout()))
            while pending and pending[0][0] <= now:
                _, _, step, result = heapq.heappop(pending)
                self._tell(step, result, now)
        else:
            pytest.fail("a search without end")
        self.ended_at = now

    def _tell(self, step: Step, result: Any, now: float) -> None:
        if result is None or result == LIE:
            error = OSError(name(step))
            self.search.failed(step, error, now, wrong_address=result == LIE)
        elif isinstance(step, LookUp):
            self.search.looked_up(step.resolver, result, now)
        else:
            self.search.succeeded(step)


def name(step: Step) -> str:
    match step:
        case LookUp(number):
            return f"ask {number}"
        case Probe(resolver, strategy):
            return f"try {resolver}.{strategy}"
        case Fallback(number):
            return f"fall back {number}"


def world(**plays: tuple[float, Any]) -> World:
    """Return a world of steps by name, such as `ask_0` and `try_0_1`; what it does not name takes 0.1 s and fails."""
    return lambda step: plays.get(name(step).replace(" ", "_").replace(".", "_"), (0.1, None))


GOOD = (0.1, ("192.0.2.7",))
OTHER = (0.1, ("198.51.100.66",))
WORKS = (0.2, True)


def test_in_a_free_network_one_resolver_is_asked_and_one_strategy_tried() -> None:
    played = Played(world(ask_0=GOOD, try_0_0=WORKS))
    assert played.log == [(0.0, "ask 0"), (0.1, "try 0.0")]
    assert played.search.winner == Probe(0, 0, ("192.0.2.7",))
    assert played.ended_at == pytest.approx(0.3)


def test_a_strategy_that_fails_makes_room_at_once() -> None:
    played = Played(world(ask_0=GOOD, try_0_2=WORKS))
    assert [what for _, what in played.log] == ["ask 0", "try 0.0", "try 0.1", "try 0.2"]
    assert [at for at, _ in played.log] == pytest.approx([0.0, 0.1, 0.2, 0.3])
    assert played.search.winner == Probe(0, 2, ("192.0.2.7",))


def test_a_strategy_that_hangs_is_overlapped() -> None:
    played = Played(world(ask_0=GOOD, try_0_0=NEVER, try_0_1=WORKS))
    assert played.log == [(0.0, "ask 0"), (0.1, "try 0.0"), (0.1 + STEP_DELAY, "try 0.1")]
    assert played.ended_at == pytest.approx(0.1 + STEP_DELAY + 0.2)


def test_a_resolver_that_fails_makes_room_at_once_and_one_that_hangs_is_overlapped() -> None:
    played = Played(world(ask_1=NEVER, ask_2=GOOD, try_2_0=WORKS), resolvers=3)
    assert [what for _, what in played.log] == ["ask 0", "ask 1", "ask 2", "try 2.0"]
    times = [0.0, 0.1, 0.1 + STEP_DELAY, 0.2 + STEP_DELAY]
    assert [at for at, _ in played.log] == pytest.approx(times)


def test_dns_is_asked_again_when_every_strategy_fails() -> None:
    played = Played(world(ask_0=OTHER, ask_1=GOOD, try_1_0=WORKS))
    assert [what for _, what in played.log] == [
        "ask 0",
        "try 0.0",
        "try 0.1",
        "try 0.2",
        "ask 1",
        "try 1.0",
    ]
    assert played.search.winner == Probe(1, 0, ("192.0.2.7",))
    assert played.ended_at == pytest.approx(0.1 + 3 * 0.1 + 0.1 + 0.2)


def test_dns_is_doubted_when_nothing_has_worked_for_a_while() -> None:
    hangs = dict.fromkeys(("try_0_0", "try_0_1", "try_0_2"), NEVER)
    played = Played(world(ask_0=OTHER, ask_1=GOOD, try_1_0=WORKS, **hangs))
    assert [what for _, what in played.log[-2:]] == ["ask 1", "try 1.0"]
    times = [0.1 + DOUBT_DELAY, 0.2 + DOUBT_DELAY]
    assert [at for at, _ in played.log[-2:]] == pytest.approx(times)


def test_dns_is_doubted_at_once_when_the_address_is_wrong() -> None:
    lies = {f"try_0_{n}": (0.2, LIE) for n in range(3)}
    played = Played(world(ask_0=OTHER, ask_1=GOOD, try_1_0=WORKS, **lies))
    assert [what for _, what in played.log] == ["ask 0", "try 0.0", "ask 1", "try 1.0"]
    assert [at for at, _ in played.log] == pytest.approx([0.0, 0.1, 0.3, 0.4])
    assert played.search.winner == Probe(1, 0, ("192.0.2.7",))


def test_a_wrong_address_is_tried_further_when_others_are_slow_or_know_no_better() -> None:
    lies = {"try_0_0": (0.2, LIE), "try_0_1": WORKS}
    slow = Played(world(ask_0=OTHER, ask_1=NEVER, **lies))
    assert [what for _, what in slow.log] == ["ask 0", "try 0.0", "ask 1", "try 0.1"]
    assert slow.log[-1][0] == pytest.approx(0.3 + DOUBT_DELAY)
    alike = Played(world(ask_0=OTHER, ask_1=OTHER, **lies))
    assert [what for _, what in alike.log] == ["ask 0", "try 0.0", "ask 1", "try 0.1"]
    assert alike.log[-1][0] == pytest.approx(0.4)


def test_addresses_that_were_tried_are_not_tried_again() -> None:
    played = Played(world(ask_0=GOOD, ask_1=GOOD))
    assert [what for _, what in played.log].count("try 0.0") == 1
    assert not any(what.startswith("try 1") for _, what in played.log)
    mixed = Played(world(ask_0=GOOD, ask_1=(0.1, ("192.0.2.7", "192.0.2.8")), try_1_0=WORKS))
    assert mixed.search.winner == Probe(1, 0, ("192.0.2.8",))


def test_a_slow_network_does_not_make_it_ask_everybody_at_once() -> None:
    slow = dict.fromkeys(("try_0_0", "try_0_1", "try_0_2"), (2.4, True))
    played = Played(world(**{f"ask_{n}": GOOD for n in range(9)}, **slow), resolvers=9)
    asked = [at for at, what in played.log if what.startswith("ask")]
    assert asked == pytest.approx([0.0, 1.1, 1.35, 1.6, 1.85, 2.1, 2.35])


def test_a_lie_does_not_hold_up_the_truth() -> None:
    hangs = {f"try_0_{n}": NEVER for n in range(12)}
    played = Played(
        world(ask_0=OTHER, ask_1=GOOD, try_1_1=WORKS, **hangs), strategies=12, max_probes=12
    )
    tried = [what for _, what in played.log if what.startswith("try 1")]
    assert tried == ["try 1.0", "try 1.1"]
    assert played.ended_at < 2.0


def test_fallbacks_are_for_when_nothing_else_is_left() -> None:
    played = Played(world(ask_0=GOOD, fall_back_1=WORKS), fallbacks=[0, 1])
    assert [what for _, what in played.log][-2:] == ["fall back 0", "fall back 1"]
    assert [what for _, what in played.log][:5] == [
        "ask 0",
        "try 0.0",
        "try 0.1",
        "try 0.2",
        "ask 1",
    ]
    assert played.search.winner == Fallback(1)


def test_all_that_failed_is_told_in_order() -> None:
    played = Played(world(ask_0=GOOD), fallbacks=[0])
    assert played.search.winner is None
    assert [str(failure.error) for failure in played.search.failures] == [
        "try 0.0",
        "try 0.1",
        "try 0.2",
        "ask 1",
        "fall back 0",
    ]


def test_it_ends_in_time() -> None:
    played = Played(lambda _: NEVER, timeout=3.0)
    assert (played.ended_at, played.search.winner) == (3.0, None)


def test_it_is_bounded() -> None:
    everything: dict[str, tuple[float, Any]] = {
        f"ask_{n}": (0.0, (f"192.0.2.{n}",)) for n in range(5)
    }
    played = Played(
        lambda step: everything.get(name(step).replace(" ", "_"), (30.0, None)),
        resolvers=9,
        strategies=8,
        max_probes=5,
        timeout=100.0,
    )
    assert played.most_probes == 5
    slow = Played(lambda _: (50.0, None), resolvers=9, timeout=100.0)
    assert slow.most_lookups == MAX_LOOKUPS


def test_what_arrives_after_the_first_changes_nothing() -> None:
    search = Search(resolvers=[0], strategies=[0, 1], now=0.0)
    assert search.start_due(0.0) == [LookUp(0)]
    search.looked_up(0, ("192.0.2.7",), 0.0)
    (first,) = search.start_due(0.0)
    (second,) = search.start_due(STEP_DELAY)
    assert isinstance(first, Probe)
    assert isinstance(second, Probe)
    search.succeeded(second)
    search.succeeded(first)
    assert search.winner == second
    assert search.start_due(10.0) == []


def test_without_a_resolver_there_is_nothing_to_do() -> None:
    assert Search(resolvers=[], strategies=[0], now=0.0).is_over(0.0)


@settings(max_examples=50)
@given(
    st.data(),
    st.integers(1, 6),
    st.integers(1, 5),
    st.integers(0, 2),
    st.integers(1, 4),
)
def test_any_world_comes_to_an_end_and_nothing_is_tried_twice(
    data: st.DataObject, resolvers: int, strategies: int, fallbacks: int, probes: int
) -> None:
    took = st.sampled_from([0.0, 0.1, 0.25, 1.0, 4.0])
    said = st.sampled_from([None, (), ("192.0.2.7",), ("192.0.2.8", "192.0.2.7"), ("192.0.2.9",)])

    def anything(step: Step) -> tuple[float, Any]:
        if isinstance(step, LookUp):
            return data.draw(took), data.draw(said)
        return data.draw(took), data.draw(st.sampled_from([None, None, None, LIE, LIE, True]))

    played = Played(
        anything,
        resolvers=resolvers,
        strategies=strategies,
        fallbacks=range(fallbacks),
        max_probes=probes,
        timeout=60.0,
    )
    names = [what for _, what in played.log]
    assert len(set(names)) == len(names)
    assert played.most_probes <= probes
    assert played.most_lookups <= MAX_LOOKUPS
    if played.search.winner is None and played.ended_at < 60.0:
        # Everything that could be tried was.
        assert {f"ask {n}" for n in range(resolvers)} <= set(names)
        assert {f"fall back {n}" for n in range(fallbacks)} <= set(names)
