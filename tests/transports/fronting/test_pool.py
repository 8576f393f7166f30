"""What a pool of fronts learns: who comes first, who rests and returns, whose network has fallen from grace."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.transports.fronting.lists import catalog, provider
from transports.fronting import _pool
from transports.fronting._pool import Choice, Pool

if TYPE_CHECKING:
    from transports.fronting._catalog import Front

HOST = "api.example.com"
REST = _pool.REST_FIRST * 1.25


def pool(**counts: int) -> Pool:
    made = catalog(**{name: provider(name, count) for name, count in counts.items()})
    return Pool(made, rng=random.Random(7))


def chosen(pool: Pool, now: float, **options: Any) -> Choice:
    choice = pool.choose(HOST, now, **options)
    assert choice is not None
    return choice


def prove(pool: Pool, now: float, count: int, *, took: float = 0.1) -> list[Front]:
    tried: set[Any] = set()
    fronts = []
    for number in range(count):
        choice = chosen(pool, now, tried=tried)
        tried.add(choice.front.key)
        pool.succeeded(choice, now, took=took + number / 10)
        fronts.append(choice.front)
    return fronts


def test_providers_take_turns_while_nothing_is_known() -> None:
    fresh = pool(one=4, two=4, three=4)
    tried: set[Any] = set()
    names = []
    for _ in range(6):
        choice = chosen(fresh, 0, tried=tried)
        assert not choice.is_proven
        tried.add(choice.front.key)
        names.append(choice.front.provider)
    assert sorted(names[:3]) == sorted(names[3:]) == ["one", "three", "two"]


def test_what_answered_fastest_comes_first() -> None:
    known = pool(one=2, two=2)
    first, *_ = prove(known, 0, 3)
    choice = chosen(known, 1)
    assert choice.is_proven
    assert choice.front == first
    # While that one is in use, the next fastest is.
    assert chosen(known, 1).front != first


def test_proof_grows_old() -> None:
    known = pool(one=2)
    (front,) = prove(known, 0, 1)
    assert chosen(known, _pool.PROVEN_FOR - 1).is_proven
    again = chosen(known, _pool.PROVEN_FOR)
    assert not again.is_proven
    assert again.front in known.catalog.providers["one"].fronts
    assert known.proven(_pool.PROVEN_FOR) == 0
    assert front in known.catalog.providers["one"].fronts


def test_what_fails_rests_longer_each_time_and_returns() -> None:
    known = pool(one=2)
    tired = chosen(known, 0)
    now = 0.0
    rests = []
    for _ in range(10):
        known.failed(tired, now)
        other = chosen(known, now)
        assert other.front != tired.front  # it rests
        known.released(other)
        ends = known._standings[tired.front.key].rests_until
        rests.append(ends - now)
        now = ends
        back = known.take(tired.front.key, now)
        assert back is not None
        assert not back.is_proven  # back, and to be proven again
        tired = back
    for number, rest in enumerate(rests):
        usual = min(_pool.REST_MOST, _pool.REST_FIRST * 2**number)
        assert 0.75 * usual <= rest <= 1.25 * usual
    known.succeeded(tired, now, took=0.1)
    known.failed(chosen(known, now, tried={f.key for f in known.catalog.providers["one"].fronts if f != tired.front}), now)  # fmt: skip
    assert known._standings[tired.front.key].rests_until - now <= REST


def test_when_all_rest_the_nearest_to_its_return_is_tried() -> None:
    """An hour without a network costs an hour, and not the fronts."""
    known = pool(one=3)
    for now in (0.0, 1.0, 2.0):
        known.failed(chosen(known, now), now)
    assert known.resting(3.0) == 3
    ends = {key: s.rests_until for key, s in known._standings.items()}
    assert chosen(known, 3.0).front.key == min(ends, key=lambda key: ends[key])


def test_a_provider_whose_fronts_all_fail_is_demoted_and_one_success_lifts_it() -> None:
    """lantern#3106: a network switches fronting off, for everybody at once."""
    known = pool(off=40, on=2)
    now = 0.0
    for _ in range(_pool.STRIKES):
        tries = {f.key for f in known.catalog.providers["on"].fronts}
        known.failed(chosen(known, now, tried=tries), now)
    assert known.demoted(now) == ("off",)
    names = [chosen(known, now).front.provider for _ in range(3)]
    assert names == ["on", "on", "off"]  # it comes last, and one at a time
    assert known.demoted(now + _pool.DEMOTED_FIRST) == ()
    late = now + _pool.DEMOTED_FIRST
    for _ in range(_pool.STRIKES):
        tries = {f.key for f in known.catalog.providers["on"].fronts}
        known.failed(chosen(known, late, tried=tries), late)
    assert known.demoted(late + 2 * _pool.DEMOTED_FIRST - 1) == ("off",)  # longer the second time
    off = chosen(known, late, tried={f.key for f in known.catalog.providers["on"].fronts})
    known.succeeded(off, late, took=0.1)
    assert known.demoted(late) == ()


def test_a_success_between_failures_is_no_fall() -> None:
    known = pool(mixed=40)
    for now in range(100):
        choice = chosen(known, now, tried={k for k, s in known._standings.items() if s.proven_until > now})  # fmt: skip
        if now % 3:
            known.failed(choice, now)
        else:
            known.succeeded(choice, now, took=0.1)
        assert known.demoted(now) == ()


def test_a_refusal_for_one_host_is_held_against_that_host_alone() -> None:
    other = "www.example.com"
    both = {HOST: "a.example.net", other: "b.example.net"}
    known = Pool(
        catalog(one=provider("one", 4, hostaliases=both), two=provider("two", 4, hostaliases=both)),
        rng=random.Random(7),
    )
    two = {f.key for f in known.catalog.providers["two"].fronts}
    for _ in range(2):
        known.refused(chosen(known, 0, tried=two), 0, host=HOST)
    assert [chosen(known, 0).front.provider for _ in range(4)] == ["two"] * 4
    elsewhere = {known.choose(other, 0).front.provider for _ in range(4)}  # type: ignore[union-attr]
    assert "one" in elsewhere
    assert chosen(known, _pool.REFUSED_FOR, tried=two).front.provider == "one"


def test_a_provider_to_avoid_is_the_last_resort() -> None:
    known = pool(one=2, two=2)
    prove(known, 0, 4)
    names = []
    tried: set[Any] = set()
    while (choice := known.choose(HOST, 1, tried=tried, avoid={"one"})) is not None:
        tried.add(choice.front.key)
        names.append(choice.front.provider)
    assert names == ["two", "two", "one", "one"]


def test_hosts_that_nobody_knows() -> None:
    known = pool(one=1, empty=0)
    assert known.serves(HOST)
    assert not known.serves("elsewhere.example.com")
    assert known.choose("elsewhere.example.com", 0) is None
    only_empty = catalog(one=provider("one", 1, hostaliases={}), empty=provider("empty", 0))
    assert not Pool(only_empty, rng=random.Random(7)).serves(HOST)


def test_nothing_is_vetted_for_nobody() -> None:
    known = pool(one=10)
    assert known.choose_to_vet(0) is None
    assert known.next_deadline(0) == float("inf")
    (front,) = prove(known, 0, 1)
    ahead = []
    while (choice := known.choose_to_vet(1)) is not None:
        ahead.append(choice)
    assert len(ahead) == _pool.WANTED - 1
    assert front not in [choice.front for choice in ahead]
    for choice in ahead:
        known.succeeded(choice, 2, took=0.1)
    assert known.choose_to_vet(3) is None  # enough
    assert known.next_deadline(3) == _pool.DEMAND_FOR
    assert known.choose_to_vet(_pool.DEMAND_FOR + 1) is None
    assert known.next_deadline(_pool.DEMAND_FOR + 1) == float("inf")


def test_vetting_ahead_passes_by_what_rests_and_who_is_demoted() -> None:
    known = pool(one=3)
    for now in (0, 1):
        known.failed(chosen(known, now), now)
    last = known.choose_to_vet(2)
    assert last is not None
    known.failed(last, 2)
    assert known.choose_to_vet(3) is None
    deadline = known.next_deadline(3)
    chosen(known, deadline)  # somebody asks again
    assert known.resting(deadline) < 3


def test_a_new_list_keeps_what_is_known_of_both() -> None:
    known = pool(one=4, gone=2)
    fronts = prove(known, 0, 6)
    underway = chosen(known, 1)
    known.replace(catalog(one=provider("one", 6), new=provider("new", 1)))
    assert known.proven(1) == 4
    gone = next(front for front in fronts if front.provider == "gone")
    assert known.take(gone.key, 1) is None
    known.succeeded(underway, 2, took=0.1)  # of the old list: no harm done
    known.failed(Choice(gone, underway.provider, is_proven=True), 2)


def test_memory_of_a_day() -> None:
    known = pool(one=6)
    fronts = prove(known, 1000, 3)
    remembered = known.remember(1600)
    assert {one.key for one in remembered} == {front.key for front in fronts}
    assert {one.age for one in remembered} == {600}
    later = pool(one=6)
    assert later.recall(remembered, 50) == 3
    order = [chosen(later, 50).front.key for _ in range(3)]
    assert set(order) == {one.key for one in remembered}  # before all others
    assert known.remember(1000 + _pool.REMEMBERED_FOR) == []
    assert pool(other=2).recall(remembered, 50) == 0


class Life(RuleBasedStateMachine):
    """Any order of verdicts: a pool with fronts always has one to try, and counts its leases right."""

    @initialize()
    def begin(self) -> None:
        self.pool = pool(one=3, two=2)
        self.now = 0.0
        self.leased: list[Choice] = []

    @rule(dt=st.floats(0, 4000))
    def wait(self, dt: float) -> None:
        self.now += dt

    @rule(avoid=st.sets(st.sampled_from(["one", "two"])))
    def choose(self, avoid: set[str]) -> None:
        self.leased.append(chosen(self.pool, self.now, avoid=avoid))

    @rule()
    def vet(self) -> None:
        choice = self.pool.choose_to_vet(self.now)
        if choice is not None:
            assert not choice.is_proven
            self.leased.append(choice)

    @precondition(lambda self: self.leased)
    @rule(verdict=st.sampled_from(["succeeded", "failed", "refused", "released"]))
    def judge(self, verdict: str) -> None:
        choice = self.leased.pop()
        match verdict:
            case "succeeded":
                self.pool.succeeded(choice, self.now, took=0.1, host=HOST)
            case "failed":
                self.pool.failed(choice, self.now)
            case "refused":
                self.pool.refused(choice, self.now, host=HOST)
            case _:
                self.pool.released(choice)

    @rule(counts=st.fixed_dictionaries({"one": st.integers(1, 4), "two": st.integers(0, 3)}))
    def replace(self, counts: dict[str, int]) -> None:
        self.pool.replace(catalog(**{n: provider(n, c) for n, c in counts.items()}))

    @invariant()
    def leases_are_counted(self) -> None:
        if not hasattr(self, "pool"):
            return
        assert all(s.leases >= 0 for s in self.pool._standings.values())
        assert self.pool.next_deadline(self.now) > self.now
        choice = chosen(self.pool, self.now)
        self.pool.released(choice)


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=20, stateful_step_count=25)
