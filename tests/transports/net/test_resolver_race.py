"""Several resolvers in a race, on a virtual clock: who is asked when, for what, and whose word counts."""

from __future__ import annotations

import gc
import socket
import weakref
from typing import TYPE_CHECKING

import anyio
import pytest

from racer.errors import NetworkError, TransportBusy
from racer.testing import cancel_everywhere
from tests.transports.net.dns_world import Said, look_up, says
from tests.transports.net.world import BOTH, V4, V6, Oracle, answer4, answer6, answers
from transports._net.resolve import Answer
from transports._net.resolver_race import RacedResolvers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from transports._net.addresses import Family

pytestmark = pytest.mark.virtual_time

NO_NAME = socket.gaierror(socket.EAI_NONAME, "no such name")
BROKEN = NetworkError("broken")

Timetable = list[tuple[float, Answer]]

FOUND: Timetable = [(0.1, answers("::1", "1.1.1.1"))]
SLOW: Timetable = [(9, answers("::9", "9.9.9.9"))]
NOTHING: Timetable = [(0.1, answers())]
NO_SUCH: Timetable = [(0.1, Answer(families=BOTH, error=NO_NAME))]
FAILED: Timetable = [(0.1, Answer(families=BOTH, error=BROKEN))]
FAILED_SPLIT: Timetable = [(0.1, answer6(error=BROKEN)), (0.1, answer4(error=BROKEN))]  # type: ignore[arg-type]


def both(at: float, *addresses: str) -> list[Said]:
    six = tuple(a for a in addresses if ":" in a)
    four = tuple(a for a in addresses if ":" not in a)
    return [(at, V6, six), (at, V4, four)]


class Clocked(Oracle):
    """An oracle that knows when it was asked."""

    async def resolve(
        self, name: str, families: Sequence[Family], report: Callable[[Answer], None]
    ) -> None:
        self.times = [*getattr(self, "times", []), round(anyio.current_time(), 6)]
        await super().resolve(name, families, report)


@pytest.mark.parametrize(
    ("tables", "said", "asked_at"),
    [
        pytest.param(
            [FOUND, SLOW], both(0.1, "::1", "1.1.1.1"), [0, None], id="the first is enough"
        ),
        pytest.param(
            [SLOW, FOUND], both(0.35, "::1", "1.1.1.1"), [0, 0.25], id="the first is slow"
        ),
        pytest.param(
            [SLOW, SLOW, FOUND], both(0.6, "::1", "1.1.1.1"), [0, 0.25, 0.5], id="each 250 ms later"
        ),
        pytest.param(
            [[(0.3, answers("::1", "1.1.1.1"))], SLOW],
            both(0.3, "::1", "1.1.1.1"),
            [0, 0.25],
            id="who is slow is still listened to",
        ),
        pytest.param([FAILED, FOUND], both(0.2, "::1", "1.1.1.1"), [0, 0.1], id="the first failed"),
        pytest.param(
            [FAILED_SPLIT, FOUND], both(0.2, "::1", "1.1.1.1"), [0, 0.1], id="for both, one by one"
        ),
        pytest.param([NO_SUCH, FOUND], both(0.2, "::1", "1.1.1.1"), [0, 0.1], id="no such name"),
        pytest.param([NOTHING, FOUND], both(0.2, "::1", "1.1.1.1"), [0, 0.1], id="no address"),
        pytest.param(
            [[(0.1, answers("1.1.1.1"))], SLOW], both(0.1, "1.1.1.1"), [0, None], id="IPv4 only"
        ),
        pytest.param(
            [[(0.1, answer6()), (0.2, answer4("1.1.1.1"))], SLOW],
            both(0.2, "1.1.1.1"),
            [0, None],
            id="that there is no IPv6 is believed when there is IPv4",
        ),
        pytest.param(
            [[(0.1, answer4("1.1.1.1")), (0.2, answer6())], SLOW],
            [(0.1, V4, ("1.1.1.1",)), (0.2, V6, ())],
            [0, None],
            id="and the other way round",
        ),
        pytest.param(
            [[(0.1, answer6()), (9, answer4("9.9.9.9"))], [(0.1, answer4("1.1.1.1"))]],
            both(0.35, "1.1.1.1"),
            [0, 0.25],
            id="whoever knows the IPv4",
        ),
        pytest.param(
            [[(0.1, answer4("1.1.1.1")), (9, answer6("::9"))], [(0.1, answer6("::2"))]],
            [(0.1, V4, ("1.1.1.1",)), (0.35, V6, ("::2",))],
            [0, 0.25],
            id="each family from whom it comes first",
        ),
        pytest.param(
            [[(0.1, answers("::1", "no address"))], FOUND],
            both(0.2, "::1", "1.1.1.1"),
            [0, 0.1],
            id="an answer that is none",
        ),
    ],
)
async def test_who_is_asked_when_and_whose_word_counts(
    tables: list[Timetable], said: list[Said], asked_at: list[float | None]
) -> None:
    oracles = [Clocked(table) for table in tables]
    found, errors = await look_up(RacedResolvers(oracles))
    assert (found, errors) == (said, [])
    assert [getattr(each, "times", [None])[0] for each in oracles] == asked_at


async def test_a_resolver_is_asked_only_for_what_is_still_open() -> None:
    first = Oracle([(0.1, answer4("1.1.1.1"))], error=BROKEN)
    second = Oracle([(0.1, answer6("::2"))])
    said, errors = await look_up(RacedResolvers([first, second]))
    assert (said, errors) == ([(0.1, V4, ("1.1.1.1",)), (0.2, V6, ("::2",))], [])
    assert second.asked == [("both.example", (V6,))]


async def test_an_order_of_both_families_is_kept() -> None:
    """RFC 6724: who sorts may say that IPv4 is to begin."""
    reports: list[Answer] = []
    oracle = Oracle([(0, answers("1.1.1.1", "::1"))])
    await RacedResolvers([oracle, Oracle([])]).resolve("a.example", BOTH, reports.append)
    assert reports == [answers("1.1.1.1", "::1")]


async def test_what_a_resolver_adds_later_joins_for_the_open_family() -> None:
    reports: list[Answer] = []
    oracle = Oracle([(0, answer4("1.1.1.1")), (0.1, answers("::1", "1.1.1.1"))])
    await RacedResolvers([oracle, Oracle([])]).resolve("a.example", BOTH, reports.append)
    assert reports == [answer4("1.1.1.1"), answer6("::1")]


async def test_what_a_resolver_says_again_is_not_news() -> None:
    again = [(0.1, answer4("1.1.1.1")), (0.2, answer4("2.2.2.2")), (0.2, answer6("::1"))]
    said, errors = await look_up(RacedResolvers([Oracle(again), Oracle([])]))
    assert (said, errors) == ([(0.1, V4, ("1.1.1.1",)), (0.2, V6, ("::1",))], [])


async def test_when_all_say_that_there_is_nothing_that_is_the_answer() -> None:
    said, errors = await look_up(RacedResolvers([Oracle(NOTHING), Oracle(NOTHING)]))
    assert errors == []
    assert set(said) == set(both(0.2))


async def test_when_all_fail_every_word_is_told_in_the_order_of_the_list() -> None:
    race = RacedResolvers(
        [
            Oracle([(0.3, Answer(families=BOTH, error=NO_NAME))]),
            Oracle([], error=TransportBusy("8 are stuck")),
            Oracle([(0.1, answer4("no address"))], error=OSError(5, "for the rest")),
            Oracle(FAILED),
        ]
    )
    said, errors = await look_up(race)
    assert said == []
    assert says(errors) == [
        "no such name",
        "8 are stuck",
        "the answer for both.example has 'no address' in it, which is no IPv4 address",
        "for the rest",
        "broken",
    ]


async def test_a_bug_in_a_resolver_is_raised_bare() -> None:
    bug = RuntimeError("bug")
    with pytest.raises(RuntimeError) as caught:
        await RacedResolvers([Oracle(SLOW), Oracle([], error=bug)]).resolve(
            "a.example", BOTH, lambda answer: None
        )
    assert caught.value is bug
    assert anyio.current_time() == 0.25


async def test_cancelled_anywhere_nobody_is_left() -> None:
    left: list[int] = [0]

    class Counted(Oracle):
        async def resolve(
            self, name: str, families: Sequence[Family], report: Callable[[Answer], None]
        ) -> None:
            left[0] += 1
            try:
                await super().resolve(name, families, report)
            finally:
                left[0] -= 1

    async def story() -> None:
        race = RacedResolvers([Counted(SLOW), Counted([(0.3, answer6("::1"))]), Counted(FOUND)])
        assert (await look_up(race))[1] == []

    async def verify() -> None:
        assert left == [0]

    assert (await cancel_everywhere(story, verify=verify, passes=6)).cancelled > 10


class Failure(OSError):
    """One that can be referred to weakly."""


async def test_nothing_of_a_failed_race_waits_for_the_garbage_collector() -> None:
    found: list[weakref.ref[Failure]] = []

    class Failing(Oracle):
        async def resolve(
            self, name: str, families: Sequence[Family], report: Callable[[Answer], None]
        ) -> None:
            failure = Failure("no")
            found.append(weakref.ref(failure))
            try:
                raise failure
            finally:
                del failure

    gc.collect()
    gc.disable()
    try:
        race = RacedResolvers([Failing([]), Failing([])])
        await race.resolve("a.example", BOTH, lambda answer: None)
        await anyio.sleep(0.1)
        assert [each() for each in found] == [None, None]
    finally:
        gc.enable()


def test_it_shows_whom_it_asks() -> None:
    assert repr(RacedResolvers([])) == "RacedResolvers([])"
