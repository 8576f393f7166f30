"""Happy Eyeballs on a virtual clock: who is tried when, who wins, and what is left."""

from __future__ import annotations

import contextlib
import errno
import gc
import socket
import weakref
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
import pytest

from racer.abc import Stage
from racer.errors import (
    ErrorType,
    NetworkError,
    Severity,
    TransportBusy,
    TransportError,
    classify,
    error_type_of,
)
from racer.testing import cancel_everywhere
from tests.transports.net.world import (
    BOTH,
    V4,
    V6,
    Diary,
    Made,
    Oracle,
    World,
    answer4,
    answer6,
    answers,
    connect,
)
from transports._net.resolve import Answer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from transports._net.addresses import Family
    from transports._net.resolve import Resolver

pytestmark = pytest.mark.virtual_time

REFUSED = ConnectionRefusedError(errno.ECONNREFUSED, "refused")
UNREACHABLE = OSError(errno.ENETUNREACH, "unreachable")
RESET = ConnectionResetError(errno.ECONNRESET, "reset")
NO_SUCH_NAME = socket.gaierror(socket.EAI_NONAME, "no such name")
TRY_AGAIN = socket.gaierror(socket.EAI_AGAIN, "try again")

WINS = 0.1, None
STALLS = 100.0, None
FAILS = 0.1, REFUSED
FAILS_AT_ONCE = 0.001, REFUSED

Timetable = list[tuple[float, Answer]]
Spots = dict[str, tuple[float, BaseException | None]]


# --- who is tried when ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("timetable", "spots", "starts", "winner", "at"),
    [
        pytest.param(
            [(0, answers("::1", "1.1.1.1"))],
            {"::1": WINS, "1.1.1.1": WINS},
            [("::1", 0)],
            "::1",
            0.1,
            id="the first wins and nobody else is bothered",
        ),
        pytest.param(
            [(0, answers("::1", "1.1.1.1"))],
            {"::1": STALLS, "1.1.1.1": WINS},
            [("::1", 0), ("1.1.1.1", 0.25)],
            "1.1.1.1",
            0.35,
            id="the second wins when the first stalls",
        ),
        pytest.param(
            [(0, answers("::1", "1.1.1.1"))],
            {"::1": (0.3, None), "1.1.1.1": WINS},
            [("::1", 0), ("1.1.1.1", 0.25)],
            "::1",
            0.3,
            id="the stagger ends no attempt",
        ),
        pytest.param(
            [(0, answers("::1", "1.1.1.1"))],
            {"::1": (0.2499, None), "1.1.1.1": WINS},
            [("::1", 0)],
            "::1",
            0.2499,
            id="a win just before the delay has passed starts nobody",
        ),
        pytest.param(
            [(0, answers("::1", "1.1.1.1"))],
            {"::1": FAILS_AT_ONCE, "1.1.1.1": WINS},
            [("::1", 0), ("1.1.1.1", 0.001)],
            "1.1.1.1",
            0.101,
            id="a failure starts the next at once",
        ),
        pytest.param(
            [(0, answers("::1", "1.1.1.1", "::2", "2.2.2.2"))],
            {"::1": STALLS, "1.1.1.1": STALLS, "::2": STALLS, "2.2.2.2": WINS},
            [("::1", 0), ("1.1.1.1", 0.25), ("::2", 0.5), ("2.2.2.2", 0.75)],
            "2.2.2.2",
            0.85,
            id="each starts one delay after the last, neither more nor less",
        ),
        pytest.param(
            [(0, answers("::1", "1.1.1.1", "::2"))],
            {"::1": FAILS, "1.1.1.1": STALLS, "::2": WINS},
            [("::1", 0), ("1.1.1.1", 0.1), ("::2", 0.35)],
            "::2",
            0.45,
            id="the delay counts from the last start",
        ),
        pytest.param(
            [(0, answers("::1", "::2", "::3", "1.1.1.1"))],
            {"::1": STALLS, "::2": STALLS, "::3": WINS, "1.1.1.1": FAILS_AT_ONCE},
            [("::1", 0), ("1.1.1.1", 0.25), ("::2", 0.251), ("::3", 0.501)],
            "::3",
            0.601,
            id="one failure starts one, also while others run",
        ),
        pytest.param(
            [(0, answers("1.1.1.1", "::1"))],
            {"1.1.1.1": STALLS, "::1": WINS},
            [("1.1.1.1", 0), ("::1", 0.25)],
            "::1",
            0.35,
            id="the system's own preference counts",
        ),
        pytest.param(
            [(0, answer4("1.1.1.1")), (0.03, answer6("::1"))],
            {"::1": WINS, "1.1.1.1": WINS},
            [("::1", 0.03)],
            "::1",
            0.13,
            id="IPv4 first waits a little for IPv6",
        ),
        pytest.param(
            [(0, answer4("1.1.1.1")), (100, answer6("::1"))],
            {"1.1.1.1": WINS},
            [("1.1.1.1", 0.05)],
            "1.1.1.1",
            0.15,
            id="and only a little",
        ),
        pytest.param(
            [(0, answer4("1.1.1.1")), (0.02, answer6())],
            {"1.1.1.1": WINS},
            [("1.1.1.1", 0.02)],
            "1.1.1.1",
            0.12,
            id="no IPv6 ends the wait",
        ),
        pytest.param(
            [(0, answer4("1.1.1.1")), (0.02, answer6(error=TRY_AGAIN))],
            {"1.1.1.1": WINS},
            [("1.1.1.1", 0.02)],
            "1.1.1.1",
            0.12,
            id="a failed lookup of IPv6 ends the wait",
        ),
        pytest.param(
            [(0, answer6("::1")), (0.1, answer4("1.1.1.1"))],
            {"::1": STALLS, "1.1.1.1": WINS},
            [("::1", 0), ("1.1.1.1", 0.25)],
            "1.1.1.1",
            0.35,
            id="IPv6 waits for nothing, and IPv4 joins",
        ),
        pytest.param(
            [(0, answer4("1.1.1.1", "2.2.2.2", "3.3.3.3")), (0.4, answer6("::1"))],
            {"1.1.1.1": STALLS, "2.2.2.2": STALLS, "3.3.3.3": STALLS, "::1": WINS},
            [("1.1.1.1", 0.05), ("2.2.2.2", 0.3), ("::1", 0.55)],
            "::1",
            0.65,
            id="a late answer has the next turn",
        ),
        pytest.param(
            [(0, answer4("1.1.1.1")), (5, answer6("::1"))],
            {"1.1.1.1": FAILS, "::1": WINS},
            [("1.1.1.1", 0.05), ("::1", 5)],
            "::1",
            5.1,
            id="an answer that comes when all have failed is tried at once",
        ),
        pytest.param(
            [(0, answer4("1.1.1.1")), (0.3, answers("::1", "1.1.1.1", "2.2.2.2"))],
            {"1.1.1.1": STALLS, "::1": STALLS, "2.2.2.2": WINS},
            [("1.1.1.1", 0.05), ("::1", 0.3), ("2.2.2.2", 0.55)],
            "2.2.2.2",
            0.65,
            id="a second answer for a family adds to the first",
        ),
        pytest.param(
            [(0, answers(*(f"10.0.0.{n}" for n in range(9)), "10.0.0.9"))],
            {f"10.0.0.{n}": STALLS for n in range(9)} | {"10.0.0.9": WINS},
            [(f"10.0.0.{n}", 0.25 * n) for n in range(10)],
            "10.0.0.9",
            2.35,
            id="nine black holes cost nine delays and no share of a deadline",
        ),
        pytest.param(
            [(2, answers("1.1.1.1"))],
            {"1.1.1.1": WINS},
            [("1.1.1.1", 2)],
            "1.1.1.1",
            2.1,
            id="a lone address",
        ),
    ],
)
async def test_who_is_tried_when_and_who_wins(
    timetable: Timetable,
    spots: Spots,
    starts: list[tuple[str, float]],
    winner: str,
    at: float,
) -> None:
    world = World(spots)
    made = await connect(world, Oracle(timetable))
    assert made.address == winner
    assert round(anyio.current_time(), 9) == at
    assert [(address, round(when, 9)) for address, when in world.starts] == starts
    assert world.open == [winner]
    assert world.running == 0


async def test_a_refusal_is_not_held_up_by_a_long_delay() -> None:
    world = World({"::1": FAILS_AT_ONCE, "1.1.1.1": WINS})
    await connect(world, Oracle([(0, answers("::1", "1.1.1.1"))]), attempt_delay=10)
    assert world.starts == [("::1", 0), ("1.1.1.1", 0.001)]


@pytest.mark.parametrize("count", [2, 3, 8])
async def test_of_several_in_one_instant_the_one_begun_first_leaves_and_the_others_are_closed(
    count: int,
) -> None:
    addresses = [f"10.0.0.{n}" for n in range(count)]
    # Whoever starts k delays later answers k delays sooner.
    world = World({a: (0.25 * (count - n), None) for n, a in enumerate(addresses)})
    made = await connect(world, Oracle([(0, answers(*addresses))]))
    assert anyio.current_time() == 0.25 * count
    assert len(world.made) >= 2
    assert made.address == addresses[0]
    assert world.open == [addresses[0]]


async def test_a_name_has_no_more_than_thirty_two_connections_under_way() -> None:
    v6 = [f"2001:db8::{n:x}" for n in range(1, 101)]
    v4 = [f"10.0.0.{n}" for n in range(1, 101)]
    world = World(dict.fromkeys([*v6, *v4], (100.0, REFUSED)))
    with pytest.raises(ConnectionRefusedError):
        await connect(world, Oracle([(0, answers(*v6, *v4))]), attempt_delay=0.01)
    assert world.most_running == len(world.starts) == 32


async def test_only_the_families_asked_for_are_looked_up() -> None:
    oracle = Oracle([(0, answer4("1.1.1.1"))])
    await connect(World({"1.1.1.1": WINS}), oracle, families=(V4,))
    assert oracle.asked == [("name.example", (V4,))]


async def test_a_lone_address_is_dialed_by_the_caller_itself() -> None:
    world = World({"1.1.1.1": WINS, "::1": WINS})
    tasks: list[int] = []

    async def dial(address: str, port: int) -> Made:
        tasks.append(anyio.get_current_task().id)
        return Made(address)

    world.dial = dial  # type: ignore[method-assign]
    me = anyio.get_current_task().id
    await connect(world, Oracle([(0, answers("1.1.1.1"))]))
    await connect(world, Oracle([(0, answer4("1.1.1.1")), (0.01, answer6())]))
    assert tasks == [me, me]
    await connect(world, Oracle([(0, answers("::1", "1.1.1.1"))]))
    assert tasks[2] != me


async def test_progress_is_told_of_each_stage_and_peer_and_last_of_the_winner() -> None:
    diary = Diary()
    world = World({"::1": (0.3, None), "1.1.1.1": STALLS})
    await connect(world, Oracle([(0, answers("::1", "1.1.1.1"))]), progress=diary)
    assert diary.stages == [Stage.RESOLVE, Stage.CONNECT]
    assert diary.peers == [("::1", 443), ("1.1.1.1", 443), ("::1", 443)]


async def test_a_name_that_is_never_found_was_never_connected_to() -> None:
    diary = Diary()
    with pytest.raises(NetworkError):
        await connect(World({}), Oracle([], error=NO_SUCH_NAME), progress=diary)
    assert (diary.stages, diary.peers) == ([Stage.RESOLVE], [])


# --- nothing worked -------------------------------------------------------------------------


async def fails(timetable: Timetable, spots: Spots, error: BaseException | None = None) -> OSError:
    world = World(spots)
    with pytest.raises(OSError) as caught:
        await connect(world, Oracle(timetable, error))
    assert world.open == []
    return caught.value


async def test_all_failed_names_every_address_error_in_order() -> None:
    spots: Spots = {"::1": (0.4, UNREACHABLE), "1.1.1.1": (0.1, REFUSED), "::2": (0.1, RESET)}
    error = await fails([(0, answers("::1", "1.1.1.1", "::2"))], spots)
    assert str(error) == "could not connect to name.example:443: unreachable; refused; reset"
    assert isinstance(error.__cause__, ExceptionGroup)
    assert error.__cause__.exceptions == (UNREACHABLE, REFUSED, RESET)
    assert error.errno is None
    assert error_type_of(error) is ErrorType.HOST_UNREACHABLE
    assert classify(error) is Severity.TRANSIENT


async def test_all_failed_alike_has_the_errno_and_the_class_of_it() -> None:
    error = await fails([(0, answers("::1", "1.1.1.1"))], {"::1": FAILS, "1.1.1.1": FAILS})
    assert isinstance(error, ConnectionRefusedError)
    assert error.errno == errno.ECONNREFUSED


async def test_the_only_address_fails_with_its_own_error() -> None:
    assert await fails([(0, answers("1.1.1.1"))], {"1.1.1.1": FAILS}) is REFUSED
    late: Timetable = [(0, answer4("1.1.1.1")), (0.4, answer6())]
    assert await fails(late, {"1.1.1.1": FAILS}) is REFUSED


async def test_a_family_the_name_does_not_have_is_no_news() -> None:
    late: Timetable = [(0, answer4("1.1.1.1")), (0.4, answer6(error=NO_SUCH_NAME))]
    assert await fails(late, {"1.1.1.1": FAILS}) is REFUSED


async def test_a_lookup_that_failed_is_told_beside_the_addresses_that_failed() -> None:
    error = await fails([(0, answer4("1.1.1.1"))], {"1.1.1.1": FAILS}, TRY_AGAIN)
    assert str(error) == "[Errno 111] could not connect to name.example:443: refused; try again"
    assert isinstance(error.__cause__, ExceptionGroup)
    assert error.__cause__.exceptions == (REFUSED, TRY_AGAIN)


@pytest.mark.parametrize(
    ("timetable", "error", "text", "causes"),
    [
        ([], NO_SUCH_NAME, "could not look up name.example: no such name", NO_SUCH_NAME),
        (
            [(0, answer4(error=NO_SUCH_NAME)), (0.1, answer6(error=TRY_AGAIN))],
            None,
            "could not look up name.example: no such name; try again",
            [NO_SUCH_NAME, TRY_AGAIN],
        ),
        (
            [(0, answer4(error=NO_SUCH_NAME)), (0.1, answer6(error=NO_SUCH_NAME))],
            None,
            "could not look up name.example: no such name",
            NO_SUCH_NAME,
        ),
        ([(0, answers())], None, "name.example has no IP address", None),
        ([], None, "name.example has no IP address", None),
    ],
)
async def test_a_name_without_an_address_says_why(
    timetable: Timetable,
    error: BaseException | None,
    text: str,
    causes: BaseException | Sequence[BaseException] | None,
) -> None:
    with pytest.raises(NetworkError) as caught:
        await connect(World({}), Oracle(timetable, error))
    assert str(caught.value) == text
    assert caught.value.stage is Stage.RESOLVE
    assert error_type_of(caught.value) is ErrorType.DNS_FAILURE
    cause = caught.value.__cause__
    if isinstance(causes, list):
        assert isinstance(cause, ExceptionGroup)
        assert list(cause.exceptions) == causes
    else:
        assert cause is causes


async def test_a_busy_resolver_is_said_to_be_busy() -> None:
    busy = TransportBusy("8 are stuck", stage=Stage.RESOLVE)
    with pytest.raises(TransportBusy) as caught:
        await connect(World({}), Oracle([(0, answer4(error=NO_SUCH_NAME))], busy))
    assert caught.value is busy


@pytest.mark.parametrize(
    "flawed",
    [
        answer4("::1"),
        answer6("1.1.1.1"),
        answers("1.1.1.1", "name.example"),
        answers("::1", "fe80::1%"),
        answers(""),
        answers("x" * 10_000),
    ],
)
async def test_an_answer_that_is_no_address_is_not_believed(flawed: Answer) -> None:
    world = World({"::1": WINS, "1.1.1.1": WINS})
    with pytest.raises(NetworkError, match=r"the answer for name\.example has") as caught:
        await connect(world, Oracle([(0, flawed)]))
    assert world.starts == []
    assert error_type_of(caught.value) is ErrorType.DNS_FAILURE
    assert len(str(caught.value)) < 300


async def test_one_family_with_a_flaw_does_not_spoil_the_other() -> None:
    world = World({"1.1.1.1": WINS})
    oracle = Oracle([(0, answer6("not-an-address")), (0.01, answer4("1.1.1.1"))])
    assert (await connect(world, oracle)).address == "1.1.1.1"


# --- what is no failure ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), TypeError("a bug")], ids=repr
)
@pytest.mark.parametrize("addresses", [["1.1.1.1"], ["1.1.1.1", "2.2.2.2"], ["2.2.2.2", "1.1.1.1"]])
async def test_a_bug_or_the_wish_to_end_leaves_bare_and_leaves_nothing_open(
    error: BaseException, addresses: list[str]
) -> None:
    world = World({"1.1.1.1": (0.3, error), "2.2.2.2": STALLS})
    with pytest.raises(type(error)) as caught:
        await connect(world, Oracle([(0, answers(*addresses))]))
    assert caught.value is error
    assert world.open == []
    assert world.running == 0


@pytest.mark.parametrize("error", [SystemExit(3), TypeError("a bug")], ids=repr)
@pytest.mark.parametrize("timetable", [[], [(0.1, answer4("1.1.1.1"))]])
async def test_a_bug_in_a_resolver_leaves_bare(error: BaseException, timetable: Timetable) -> None:
    world = World({"1.1.1.1": STALLS})
    with pytest.raises(type(error)) as caught:
        await connect(world, Oracle(timetable, error))
    assert caught.value is error
    assert world.running == 0


@pytest.mark.parametrize(
    ("last_words", "raised"), [(TypeError("a bug"), None), (SystemExit(3), SystemExit)]
)
async def test_what_a_loser_says_when_it_is_cancelled_harms_no_winner(
    last_words: BaseException, raised: type[BaseException] | None
) -> None:
    world = World({"::1": STALLS, "1.1.1.1": WINS})
    honest = world.dial

    async def dial(address: str, port: int) -> Made:
        try:
            return await honest(address, port)
        except anyio.get_cancelled_exc_class() as exc:
            raise last_words from exc

    world.dial = dial  # type: ignore[method-assign]
    if raised is not None:
        with pytest.raises(raised):
            await connect(world, Oracle([(0, answers("::1", "1.1.1.1"))]))
        assert world.open == []
    else:
        made = await connect(world, Oracle([(0, answers("::1", "1.1.1.1"))]))
        assert world.open == [made.address] == ["1.1.1.1"]


async def test_a_loser_that_connects_although_it_was_cancelled_is_closed() -> None:
    world = World({"::1": (0.5, None), "1.1.1.1": WINS})
    honest = world.dial

    async def dial(address: str, port: int) -> Made:
        with anyio.CancelScope(shield=address == "::1"):
            made = await honest(address, port)
        return made  # noqa: RET504 - mypy thinks that the scope may swallow what is raised in it

    world.dial = dial  # type: ignore[method-assign]
    made = await connect(world, Oracle([(0, answers("::1", "1.1.1.1"))]))
    assert len(world.made) == 2
    assert world.open == [made.address] == ["1.1.1.1"]


# --- the caller gives up --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("timetable", "spots"),
    [
        pytest.param([(0.01, answers("1.1.1.1"))], {"1.1.1.1": WINS}, id="a lone address"),
        pytest.param(
            [(0, answer4("1.1.1.1")), (0.1, answer6("::1"))],
            {"1.1.1.1": FAILS, "::1": WINS},
            id="a late answer",
        ),
        pytest.param(
            [(0, answers("::1", "1.1.1.1", "::2"))],
            {"::1": (0.5, None), "1.1.1.1": (0.25, None), "::2": FAILS},
            id="two win in one instant",
        ),
        pytest.param(
            [(0, answer4("1.1.1.1")), (50, answer6("::1"))],
            {"1.1.1.1": WINS},
            id="a lookup that is still running",
        ),
    ],
)
async def test_cancelled_anywhere_it_leaves_nothing(timetable: Timetable, spots: Spots) -> None:
    worlds: list[World] = []

    async def story() -> None:
        world = World(spots)
        worlds[:] = [world]
        made = await connect(world, Oracle(timetable))
        await world.discard(made)

    async def verify() -> None:
        assert worlds[0].open == []
        assert worlds[0].running == 0

    sweep = await cancel_everywhere(story, verify=verify, passes=8)
    assert sweep.cancelled > 10


async def test_nothing_of_a_race_waits_for_the_garbage_collector() -> None:
    # An error that is raised out of a race holds its causes, so theirs is the longest life.
    errors: list[weakref.ref[BaseException]] = []

    class Lost(OSError):
        def __init__(self, *args: object) -> None:
            super().__init__(*args)
            errors.append(weakref.ref(self))

    async def dial(address: str, port: int) -> Made:
        raise Lost(errno.ECONNREFUSED, "lost")

    class Losing:
        def __init__(self, *timetable: tuple[float, Answer]) -> None:
            self.timetable = timetable

        async def resolve(
            self, name: str, families: Sequence[Family], report: Callable[[Answer], None]
        ) -> None:
            await Oracle(self.timetable).resolve(name, families, report)
            raise Lost(errno.EIO, "the lookup")

    async def lose(resolver: Resolver) -> None:
        world = World({})
        world.dial = dial  # type: ignore[method-assign]
        with contextlib.suppress(OSError, TransportError):
            await connect(world, resolver)

    gc.collect()
    gc.disable()
    try:
        await lose(Oracle([(0, answers("::1", "1.1.1.1"))]))
        await lose(Oracle([(0, answers("::1"))]))
        await lose(Losing((0, answer4("1.1.1.1"))))
        await lose(Losing((0, answer4("1.1.1.1")), (1, answer6("nonsense"))))
        await lose(Losing())
        await anyio.lowlevel.checkpoint()
        assert len(errors) == 8
        assert [error() for error in errors] == [None] * len(errors)
    finally:
        gc.enable()


def test_the_families_are_asked_for_in_the_order_of_preference() -> None:
    assert BOTH == (V6, V4)
