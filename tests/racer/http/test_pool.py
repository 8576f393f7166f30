"""The pool's decisions, without IO: who gets which connection, who waits, and that no place is ever lost."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from racer.errors import ConfigError
from racer.http import Limits
from racer.http._memory import DOUBT, MAX_ORIGINS, RouteMemory
from racer.http._messages import Origin
from racer.http._pool import Entry, Permit, Pool, Ticket

A = Origin("https", "a.example", 443)
B = Origin("https", "b.example", 443)
PLAIN = Origin("http", "a.example", 80)
NOTHING: frozenset[str] = frozenset()


class Fake:
    """A connection that only counts."""

    def __init__(self, route: str = "direct", *, most: int = 1) -> None:
        self.transport_name = route
        self.max_requests = most
        self.report: Any = None
        self.alive = True
        self.aborted = 0
        self.idled = 0

    def is_alive(self) -> bool:
        return self.alive

    def become_idle(self) -> None:
        self.idled += 1

    def abort(self) -> None:
        self.aborted += 1

    async def exchange(self, *args: Any) -> Any:
        raise NotImplementedError


def pool_of(*, h2: bool = True, memory: RouteMemory | None = None, **limits: Any) -> Pool:
    return Pool(
        Limits(**limits), memory or RouteMemory(), lambda origin: h2 and origin.scheme == "https"
    )


def ask(
    pool: Pool,
    origin: Origin = A,
    now: float = 0.0,
    *,
    exclude: frozenset[str] = NOTHING,
    fresh_only: frozenset[str] = NOTHING,
) -> Ticket:
    ticket = Ticket(origin, exclude, fresh_only)
    pool.ask(ticket, now)
    return ticket


def made(pool: Pool, ticket: Ticket, connection: Fake, now: float = 0.0) -> Entry:
    assert isinstance(ticket.grant, Permit)
    return pool.add(ticket.grant, connection, now)


def kept(pool: Pool, connection: Fake, origin: Origin = A, now: float = 0.0) -> Entry:
    """Return an idle entry."""
    entry = made(pool, ask(pool, origin, now), connection, now)
    pool.release(entry, now, reusable=True)
    return entry


# --- kept connections -----------------------------------------------------------------------------


def test_an_idle_connection_is_taken_again_and_the_one_used_last_first() -> None:
    pool = pool_of(h2=False)
    tickets = [ask(pool) for _ in range(2)]
    first, second = (made(pool, ticket, Fake()) for ticket in tickets)
    pool.release(second, 1.0, reusable=True)
    pool.release(first, 2.0, reusable=True)
    assert ask(pool).grant is first
    assert ask(pool).grant is second
    assert isinstance(ask(pool).grant, Permit)


@pytest.mark.parametrize("why", ["dead", "expired", "unusable"])
def test_what_is_no_good_any_more_is_closed_and_not_taken(why: str) -> None:
    pool = pool_of(h2=False)
    entry = made(pool, ask(pool), Fake())
    connection = entry.connection
    assert isinstance(connection, Fake)
    pool.release(entry, 0.0, reusable=why != "unusable")
    connection.alive = why != "dead"
    ticket = ask(pool, now=60.0 if why == "expired" else 59.9)
    assert isinstance(ticket.grant, Permit)
    assert (connection.aborted, pool.connections, pool.idle) == (1, 1, 0)


def test_an_expiry_of_none_keeps_for_ever() -> None:
    pool = pool_of(keepalive_expiry=None)
    entry = kept(pool, Fake())
    assert pool.expire(1e9) is None
    assert ask(pool, now=1e9).grant is entry


def test_the_best_route_comes_first_and_one_in_doubt_last() -> None:
    memory = RouteMemory()
    pool = pool_of(h2=False, memory=memory)
    tickets = [ask(pool) for _ in range(3)]
    entries = {}
    for ticket, route in zip(tickets, "xyz", strict=True):
        entries[route] = made(pool, ticket, Fake(route))
    for route in "xyz":
        pool.release(entries[route], 0.0, reusable=True)
    memory.worked(A, "z")
    memory.worked(A, "y")
    memory.failed(A, "y", 0.0)
    assert ask(pool).grant is entries["z"]
    assert ask(pool).grant is entries["x"]
    assert ask(pool).grant is entries["y"]
    assert isinstance(ask(pool, exclude=frozenset("xyz")).grant, Permit)


def test_a_used_connection_of_a_route_that_went_stale_is_left_alone() -> None:
    pool = pool_of(h2=False)
    entry = kept(pool, Fake("x"))
    entry.served = 1
    assert isinstance(ask(pool, fresh_only=frozenset("x")).grant, Permit)
    assert ask(pool).grant is entry


# --- limits ---------------------------------------------------------------------------------------


def test_beyond_the_limit_requests_wait_their_turn() -> None:
    pool = pool_of(h2=False, max_connections=2)
    entries = [made(pool, ask(pool), Fake()) for _ in range(2)]
    waiting = [ask(pool, now=n) for n in range(3)]
    woken: list[int] = []
    for n, ticket in enumerate(waiting):
        ticket.wake = lambda n=n: woken.append(n)
    assert (pool.waiting, pool.connections) == (3, 2)
    pool.release(entries[0], 1.0, reusable=True)
    pool.release(entries[1], 1.0, reusable=False)
    assert woken == [0, 1]
    assert waiting[0].grant is entries[0]
    assert isinstance(waiting[1].grant, Permit)
    pool.withdraw(waiting[2], 1.0)
    assert pool.waiting == 0


def test_an_idle_connection_elsewhere_makes_room() -> None:
    pool = pool_of(h2=False, max_connections=2)
    old, new = kept(pool, Fake(), B, 1.0), kept(pool, Fake(), PLAIN, 2.0)
    assert isinstance(ask(pool, A).grant, Permit)
    assert (old.connection.aborted, new.connection.aborted) == (1, 0)  # type: ignore[attr-defined]
    assert pool.connections == 2


def test_no_more_are_kept_than_allowed() -> None:
    pool = pool_of(h2=False, max_keepalive_connections=1)
    entries = [made(pool, ask(pool), Fake()) for _ in range(3)]
    for now, entry in enumerate(entries):
        pool.release(entry, now, reusable=True)
    assert [entry.connection.aborted for entry in entries] == [1, 1, 0]  # type: ignore[attr-defined]
    assert (pool.idle, pool.connections) == (1, 1)


def test_one_origins_waiting_holds_up_no_other() -> None:
    pool = pool_of(h2=False, max_connections=2)
    a, b = made(pool, ask(pool, A), Fake()), made(pool, ask(pool, B), Fake())
    first, second = ask(pool, A, exclude=frozenset({"direct"})), ask(pool, B)
    pool.release(b, 0.0, reusable=True)
    # The place on B's connection could become one for A, which was first; what is there is taken first.
    assert second.grant is b or isinstance(first.grant, Permit)
    assert (first.grant is None) != (second.grant is None)
    pool.release(a, 0.0, reusable=True)
    assert first.grant is not None


def test_idle_time_runs_out_by_itself() -> None:
    pool = pool_of(h2=False, keepalive_expiry=10.0)
    tickets = [ask(pool) for _ in range(2)]
    first, second = (made(pool, ticket, Fake()) for ticket in tickets)
    pool.release(first, 1.0, reusable=True)
    pool.release(second, 2.0, reusable=True)
    assert pool.expire(10.9) == 11.0
    assert pool.expire(11.0) == 12.0
    assert pool.expire(12.0) is None
    assert pool.connections == 0


def test_a_held_response_does_not_count() -> None:
    pool = pool_of(h2=False, max_connections=1)
    entry = made(pool, ask(pool), Fake())
    waiting = ask(pool)
    pool.detach(entry, 0.0)
    assert isinstance(waiting.grant, Permit)
    pool.release(entry, 0.0, reusable=True)
    assert entry.connection.aborted == 1  # type: ignore[attr-defined]
    assert pool.connections == 1


# --- one race for many (H6) -----------------------------------------------------------------------


def test_while_the_first_connection_is_raced_others_wait_for_what_it_becomes() -> None:
    pool = pool_of()
    leader, *followers = (ask(pool) for _ in range(4))
    assert isinstance(leader.grant, Permit)
    assert leader.grant.is_leader
    assert [follower.grant for follower in followers] == [None] * 3
    entry = made(pool, leader, Fake(most=100))
    assert [follower.grant for follower in followers] == [entry] * 3
    assert (entry.in_use, pool.connections) == (4, 1)


def test_when_it_turns_out_to_take_one_request_everybody_races_for_himself() -> None:
    pool = pool_of()
    leader, *followers = (ask(pool) for _ in range(4))
    made(pool, leader, Fake())
    assert all(isinstance(follower.grant, Permit) for follower in followers)
    assert isinstance(ask(pool).grant, Permit)


def test_a_cancelled_leader_is_replaced() -> None:
    pool = pool_of()
    leader, second, third = (ask(pool) for _ in range(3))
    pool.withdraw(leader, 0.0)
    assert isinstance(second.grant, Permit)
    assert third.grant is None


def test_after_a_failed_race_the_others_do_not_fail_one_by_one() -> None:
    pool = pool_of()
    leader, *followers = (ask(pool) for _ in range(4))
    assert isinstance(leader.grant, Permit)
    pool.give_up(leader.grant, 0.0, failed=True)
    assert all(isinstance(follower.grant, Permit) for follower in followers)


def test_without_tls_nobody_waits() -> None:
    pool = pool_of()
    assert all(isinstance(ask(pool, PLAIN).grant, Permit) for _ in range(3))


def test_a_full_connection_gets_a_second_beside_it() -> None:
    pool = pool_of()
    entry = made(pool, ask(pool), Fake(most=2))
    assert ask(pool).grant is entry
    third, fourth = ask(pool), ask(pool)
    assert isinstance(third.grant, Permit)
    assert fourth.grant is None
    pool.release(entry, 0.0, reusable=True)
    assert fourth.grant is entry


def test_room_that_opens_is_used() -> None:
    pool = pool_of(max_connections=1)
    connection = Fake(most=2)
    entry = made(pool, ask(pool), connection)
    ask(pool)
    waiting = ask(pool)
    connection.max_requests = 3
    pool.changed(0.0)
    assert waiting.grant is entry


def test_a_connection_that_is_leaving_goes_with_its_last_request() -> None:
    pool = pool_of()
    connection = Fake(most=10)
    entry = made(pool, ask(pool), connection)
    ask(pool)
    connection.max_requests, connection.alive = 0, False
    pool.release(entry, 0.0, reusable=False)
    assert connection.aborted == 0
    pool.release(entry, 0.0, reusable=False)
    assert (connection.aborted, pool.connections) == (1, 0)


def test_one_that_died_while_idle_is_forgotten_as_soon_as_that_is_heard() -> None:
    pool = pool_of(h2=False, max_connections=1)
    connection = Fake()
    kept(pool, connection)
    assert connection.idled == 1
    connection.alive = False
    pool.changed(0.0)
    assert (connection.aborted, pool.connections) == (1, 0)


# --- the end --------------------------------------------------------------------------------------


def test_closing_spares_what_is_in_use() -> None:
    pool = pool_of(h2=False)
    busy = made(pool, ask(pool), Fake())
    idle = kept(pool, Fake())
    making = ask(pool, exclude=frozenset({"direct"}))
    pool.close()
    assert (busy.connection.aborted, idle.connection.aborted) == (0, 1)  # type: ignore[attr-defined]
    pool.release(busy, 0.0, reusable=True)
    assert busy.connection.aborted == 1  # type: ignore[attr-defined]
    late = made(pool, making, Fake())
    pool.release(late, 0.0, reusable=True)
    assert late.connection.aborted == 1  # type: ignore[attr-defined]
    assert pool.connections == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_connections": 0},
        {"max_connections": 1.5},
        {"max_connections": True},
        {"max_keepalive_connections": -1},
        {"keepalive_expiry": -0.1},
        {"keepalive_expiry": math.nan},
        {"keepalive_expiry": "5"},
    ],
)
def test_limits_that_cannot_be_are_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        Limits(**wrong)


# --- memory ---------------------------------------------------------------------------------------


def test_doubt_wears_off_and_ends_with_an_answer() -> None:
    memory = RouteMemory()
    memory.failed(A, "x", 5.0)
    assert memory.doubted(A, 5.0 + DOUBT - 0.1) == {"x"}
    assert memory.is_doubted(A, "x", 6.0)
    assert memory.doubted(B, 6.0) == NOTHING
    assert memory.doubted(A, 5.0 + DOUBT) == NOTHING
    memory.failed(A, "x", 5.0)
    memory.worked(A, "x")
    assert memory.doubted(A, 6.0) == NOTHING
    assert memory.last_good(A) == "x"
    assert memory.last_good(B) is None


def test_origins_are_remembered_in_bounds() -> None:
    memory = RouteMemory()
    for n in range(MAX_ORIGINS + 10):
        memory.worked(Origin("https", f"{n}.example", 443), "x")
        memory.worked(A, "x")
    assert memory.last_good(A) == "x"
    assert memory.last_good(Origin("https", "0.example", 443)) is None
    assert len(memory._origins) == MAX_ORIGINS


# --- whatever happens, in whatever order ----------------------------------------------------------


class AnyOrder(RuleBasedStateMachine):
    """Requests come, win, fail, are cancelled; connections die, fill up and expire. No place is lost."""

    MOST = 3

    def __init__(self) -> None:
        super().__init__()
        self.pool = pool_of(
            max_connections=self.MOST, max_keepalive_connections=2, keepalive_expiry=10.0
        )
        self.now = 0.0
        self.tickets: list[Ticket] = []
        self.held: list[Entry] = []
        self.fakes: list[Fake] = []

    @rule(
        origin=st.sampled_from([A, B, PLAIN]),
        exclude=st.frozensets(st.sampled_from(["x", "y"]), max_size=1),
    )
    def request(self, origin: Origin, exclude: frozenset[str]) -> None:
        self.tickets.append(ask(self.pool, origin, self.now, exclude=exclude))

    def _granted(self, kind: type) -> list[Ticket]:
        return [ticket for ticket in self.tickets if isinstance(ticket.grant, kind)]

    @precondition(lambda self: self._granted(Permit))
    @rule(data=st.data(), route=st.sampled_from(["x", "y"]), most=st.sampled_from([1, 1, 3]))
    def connected(self, data: Any, route: str, most: int) -> None:
        ticket = data.draw(st.sampled_from(self._granted(Permit)))
        self.tickets.remove(ticket)
        if ticket.origin is PLAIN:
            most = 1
        self.fakes.append(Fake(route, most=most))
        self.held.append(made(self.pool, ticket, self.fakes[-1], self.now))

    @precondition(lambda self: self._granted(Permit))
    @rule(data=st.data())
    def failed(self, data: Any) -> None:
        ticket = data.draw(st.sampled_from(self._granted(Permit)))
        self.tickets.remove(ticket)
        self.pool.give_up(ticket.grant, self.now, failed=True)

    @precondition(lambda self: self._granted(Entry))
    @rule(data=st.data())
    def sent(self, data: Any) -> None:
        ticket = data.draw(st.sampled_from(self._granted(Entry)))
        self.tickets.remove(ticket)
        ticket.grant.served += 1
        self.held.append(ticket.grant)

    @precondition(lambda self: self.tickets)
    @rule(data=st.data())
    def cancelled(self, data: Any) -> None:
        ticket = data.draw(st.sampled_from(self.tickets))
        self.tickets.remove(ticket)
        self.pool.withdraw(ticket, self.now)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), reusable=st.booleans())
    def answered(self, data: Any, reusable: bool) -> None:
        entry = data.draw(st.sampled_from(self.held))
        self.held.remove(entry)
        self.pool.release(entry, self.now, reusable=reusable)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def held_back(self, data: Any) -> None:
        self.pool.detach(data.draw(st.sampled_from(self.held)), self.now)

    @precondition(lambda self: self.fakes)
    @rule(data=st.data())
    def died(self, data: Any) -> None:
        fake = data.draw(st.sampled_from(self.fakes))
        fake.alive = False
        if fake.max_requests > 1:
            fake.max_requests = 0
        self.pool.changed(self.now)

    @rule(seconds=st.floats(0, 20))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.pool.expire(self.now)

    @invariant()
    def books_agree(self) -> None:
        pool = self.pool
        entries = list(pool._entries())
        permits = self._granted(Permit)
        assert pool.connections == len(entries) + len(permits) <= self.MOST
        assert pool.idle == sum(not entry.in_use for entry in entries) <= 2
        assert pool.waiting == sum(ticket.grant is None for ticket in self.tickets)
        holders = self.held + [ticket.grant for ticket in self._granted(Entry)]
        for entry in entries:
            assert entry.in_use == holders.count(entry)
            assert entry.connection.aborted == 0  # type: ignore[attr-defined]
        assert all(fake.aborted <= 1 for fake in self.fakes)

    @invariant()
    def nobody_waits_for_nothing(self) -> None:
        if self.pool.waiting and not self.held:
            assert self._granted(Permit) or self._granted(Entry)

    def teardown(self) -> None:
        for ticket in list(self.tickets):
            self.cancelled_last(ticket)
        for entry in self.held:
            self.pool.release(entry, self.now, reusable=True)
        self.pool.close()
        assert self.pool.connections == self.pool.waiting == self.pool.idle == 0
        assert self.pool._origins == {}
        assert self.pool._waiting == {}
        assert all(fake.aborted == 1 for fake in self.fakes)

    def cancelled_last(self, ticket: Ticket) -> None:
        self.tickets.remove(ticket)
        self.pool.withdraw(ticket, self.now)


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=30, stateful_step_count=40, deadline=None)
