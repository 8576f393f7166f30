"""What a notice proves, and a welcome: SPEC 16.2 to 16.4, against a network and a server that do their worst.

A client opens streams in one session. Its questions reach the server whenever the network likes, and as often; the server
crashes and starts again, ends sessions, and forgets ends for want of room. Whenever a notice says by the rules that a
stream's target has got nothing, that has to be true, then and ever after.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.transports.soar.server.scripted import TARGET, Asked, Desk, Script
from transports.soar.core.crypto import EndCode, Kind
from transports.soar.core.server.events import StreamOpened
from transports.soar.core.server.tombstones import Tombstones
from transports.soar.core.streams.frames import StreamData

if TYPE_CHECKING:
    from transports.soar.core.crypto import Notice

FEW = 2  # tombstones, so that they overflow


class Letter(NamedTuple):
    """A question under way: its octets, and what it was if it carries a packet with an answer."""

    message: bytes
    asked: Asked | None


def syn(stream: int) -> StreamData:
    return StreamData(stream, 0, TARGET.to_wire(), False)


class World:
    """One client, one server with a few other clients, and the post between them."""

    def __init__(self, *, uptime: float, idle_timeout: float) -> None:
        self.desk = Desk(uptime=uptime, idle_timeout=idle_timeout)
        self._shrink()
        self.client = Script(self.desk, syn(0))
        self.first_sent: dict[int, float] = {}
        self.letters: list[Letter] = []
        self.reached: set[int] = set()
        self.free: set[int] = set()  # streams of which a notice said that the target got nothing
        self.notices: list[Notice] = []
        self.others = 0
        self.executed_from = float("-inf")
        self.cleared: set[int] = set()  # streams of which a welcome said the same
        self._note(0)
        self.letters += [Letter(message, None) for message in self.client.flight()]

    @property
    def elapsed(self) -> float:
        return self.desk.now.elapsed

    def _shrink(self) -> None:
        keeper = self.desk.server._keeper
        keeper.tombstones = Tombstones(began=keeper.tombstones._began, capacity=FEW)

    def _note(self, stream: int) -> None:
        self.first_sent.setdefault(stream, self.elapsed)

    def write(self, stream: int) -> None:
        """Send the opening of a stream, for the first time or again."""
        kind = Kind.EARLY if self.client.terms is None else Kind.DATA
        asked = self.client.packet(syn(stream), kind=kind, name_class=4)
        self._note(stream)
        self.letters.append(Letter(asked.message, asked))

    def deliver(self, letter: Letter, delay: float) -> None:
        """Let a copy reach the server; its answer arrives `delay` later."""
        answers = self.desk.ask(letter.message) + self.desk.run(self.desk.time + 0.7)
        self._watch()
        arrival = self.elapsed + delay
        for message in answers:
            if letter.asked is None:
                if self.client.terms is None and self.client.take_welcome(message) is not None:
                    self._trust(arrival)
            elif (said := self.client.notice(letter.asked, message)) is not None:
                self._believe(said, arrival)

    def _trust(self, arrival: float) -> None:
        """Take a welcome that came; what it proves has to be true until the client sends anew what was refused."""
        terms = self.client.terms
        if terms is not None and terms.early_refused:
            self.executed_from = arrival - terms.known_for
            early = {x for x, sent in self.first_sent.items() if sent >= self.executed_from}
            self.cleared |= early
            assert not early & self.reached

    def _believe(self, said: Notice, arrival: float) -> None:
        self.notices.append(said)
        for stream, sent in self.first_sent.items():
            if said.code is EndCode.UNKNOWN:
                if sent >= arrival - said.known_for:
                    self.free.add(stream)
            elif said.last_stream is not None and stream <= said.last_stream:
                pass  # it was accepted
            elif (
                sent >= self.executed_from
            ):  # what went out before, an earlier process may have executed
                self.free.add(stream)

    def _watch(self) -> None:
        for event in self.desk.events:
            if isinstance(event, StreamOpened) and event.stream.sid == self.client.sid:
                self.reached.add(event.stream.number)

    def restart(self, away: float) -> None:
        self.desk.flush()
        self._watch()
        self.desk.time += away
        self.desk.restart()
        self._shrink()

    def end(self, code: EndCode) -> None:
        self.desk.server.end(self.client.sid, code, self.desk.now)
        self.desk.flush()

    def crowd(self) -> None:
        """Have other sessions end, which takes the room of tombstones."""
        for _ in range(FEW):
            self.others += 1
            other = Script(self.desk, seed=f"other {self.others}")
            other.shake()
            self.desk.server.end(other.sid, EndCode.OPERATOR, self.desk.now)
        self.desk.flush()

    def check(self) -> None:
        assert not self.free & self.reached


WRITE = st.tuples(st.just("write"), st.integers(0, 3), st.just(0))
DELIVER = st.tuples(st.just("deliver"), st.integers(-4, 1), st.sampled_from([0.0, 0.0, 0.3, 4.0]))
STEPS = st.one_of(
    WRITE,
    DELIVER,
    DELIVER,  # half of all steps are the post's
    WRITE,
    DELIVER,
    DELIVER,
    st.tuples(st.just("flight"), st.just(0), st.just(0)),
    st.tuples(st.just("wait"), st.sampled_from([0.01, 0.7, 3.0, 9.5, 40.0, 100.0]), st.just(0)),
    st.tuples(st.just("restart"), st.sampled_from([0.0, 0.5, 30.0]), st.just(0)),
    st.tuples(
        st.just("end"),
        st.sampled_from([EndCode.OPERATOR, EndCode.SHUTDOWN, EndCode.CAPACITY]),
        st.just(0),
    ),
    st.tuples(st.just("crowd"), st.just(0), st.just(0)),
)
WORLDS = (
    st.lists(STEPS, min_size=8, max_size=30),
    st.sampled_from([0.0, 100.0, 1000.0]),
    st.sampled_from([2.0, 120.0]),
)


def tell(world: World, steps: list[tuple[str, Any, Any]]) -> None:
    for what, first, second in steps:
        match what:
            case "write":
                world.write(first)
            case "deliver":
                world.deliver(world.letters[first % len(world.letters)], second)
            case "flight":  # all pieces of the first message, in one go
                for letter in [each for each in world.letters if each.asked is None]:
                    world.desk.ask(letter.message)
                world._watch()
                world.deliver(world.letters[0], 0.0)
            case "wait":
                world.desk.wait(first)
            case "restart":
                world.restart(first)
            case "end":
                world.end(first)
            case _:
                world.crowd()
        world.check()


def play(steps: list[tuple[str, Any, Any]], *, uptime: float, idle_timeout: float) -> World:
    world = World(uptime=uptime, idle_timeout=idle_timeout)
    tell(world, steps)
    # Whoever recorded it all sends it all again, for as long as it may matter.
    for delay in (0.0, 1.0, 60.0, 130.0):
        world.desk.wait(delay)
        for letter in world.letters:
            world.desk.ask(letter.message)
        world._watch()
        world.check()
    return world


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(*WORLDS)
def test_what_a_notice_proves_is_true(
    steps: list[tuple[str, Any, Any]], uptime: float, idle_timeout: float
) -> None:
    play(steps, uptime=uptime, idle_timeout=idle_timeout)


@pytest.mark.soak
@settings(max_examples=5_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(*WORLDS)
def test_what_a_notice_proves_is_true_in_many_worlds(
    steps: list[tuple[str, Any, Any]], uptime: float, idle_timeout: float
) -> None:
    play(steps, uptime=uptime, idle_timeout=idle_timeout)


# --- the points of a session, one by one ------------------------------------------------------

OPEN = [("flight", 0, 0)]
SEND = [("write", 1, 0)]


def deliver(letter: int = -1) -> tuple[str, Any, Any]:
    return ("deliver", letter, 0.0)


@pytest.mark.parametrize(
    ("name", "steps", "free", "reached"),
    [
        # After 0.5 s down, anything sent since the start is vouched for; what went before isn't.
        ("before anything was accepted", [("restart", 0.5, 0), ("wait", 3.0, 0)], set(), set()),
        (
            "after the session began, before its stream was asked for",
            [*OPEN, ("restart", 0.5, 0), ("wait", 3.0, 0), *SEND, deliver()],
            {1},
            {0},
        ),
        (
            "while the question is under way",
            [*OPEN, *SEND, ("restart", 0.5, 0), deliver()],
            set(),
            {0},
        ),
        (
            "after the stream was accepted, whose answer was lost",
            [*OPEN, *SEND, deliver(), ("restart", 0.0, 0), deliver()],
            set(),
            {0, 1},
        ),
        (
            "after an end that is remembered",
            [*OPEN, ("end", EndCode.SHUTDOWN, 0), *SEND, deliver()],
            {1},
            {0},
        ),
        (
            "after an end that comes between two streams",
            [*OPEN, *SEND, deliver(), ("end", EndCode.CAPACITY, 0), ("write", 2, 0), deliver()],
            {2},
            {0, 1},
        ),
        (
            "after an end that was forgotten for want of room, a while ago",
            [*OPEN, ("end", EndCode.OPERATOR, 0), ("crowd", 0, 0), ("wait", 3.0, 0), *SEND, deliver()],
            {1},
            {0},
        ),
        (
            "after an end that was forgotten, of a stream sent before it",
            [*OPEN, *SEND, deliver(), ("end", EndCode.OPERATOR, 0), ("crowd", 0, 0), deliver()],
            set(),
            {0, 1},
        ),
        (
            "after an end of what a late copy of the first message had made anew",
            [*OPEN, ("restart", 0.0, 0), *OPEN, ("end", EndCode.SHUTDOWN, 0), *SEND, deliver()],
            {1},
            {0},
        ),
        (
            "after silence",
            [*OPEN, ("wait", 100.0, 0), ("wait", 40.0, 0), *SEND, deliver()],
            {1},
            {0},
        ),
    ],
)  # fmt: skip
def test_at_each_point(
    name: str, steps: list[tuple[str, Any, Any]], free: set[int], reached: set[int]
) -> None:
    world = play(steps, uptime=1000.0, idle_timeout=120.0)
    assert (world.free, world.reached) == (free, reached), name


@pytest.mark.parametrize(
    ("was_executed", "steps", "cleared"),
    [
        (False, [("restart", 0.5, 0)], set()),  # it was sent before the start
        (True, [("restart", 0.0, 0)], set()),
        (False, [("restart", 0.0, 0), ("wait", 3.0, 0), *SEND, ("wait", 3.0, 0)], {1}),
    ],
)
def test_a_welcome_that_executed_nothing_clears_what_was_sent_since_the_start(
    was_executed: bool, steps: list[tuple[str, Any, Any]], cleared: set[int]
) -> None:
    world = World(uptime=1000.0, idle_timeout=120.0)
    if was_executed:
        for letter in world.letters:  # the welcome is lost
            world.desk.ask(letter.message)
        world._watch()
    tell(world, steps + OPEN)
    assert world.client.terms is not None
    assert world.client.terms.early_refused
    assert (world.cleared, world.reached) == (cleared, {0} if was_executed else set())
