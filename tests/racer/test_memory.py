"""Who won last starts first, the others in their own turn; what counts as a win, and what teaches nothing."""

from __future__ import annotations

import errno
import math
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import racer
from racer import Entrant, Memory, Outcome
from racer.abc import Traits
from racer.errors import ConfigError, DialError, ErrorType, NetworkError
from racer.scheduling import Lane, Schedule
from racer.testing import (
    MemoryStream,
    ScriptedRequestTransport,
    ScriptedTransport,
    fails,
    hangs,
    wins,
)
from tests.racer.scene import HOST, Scene

if TYPE_CHECKING:
    from collections.abc import Mapping

    from racer.testing import Script

pytestmark = pytest.mark.virtual_time

BEGIN = 1_800_000_000.0
HALF_LIFE = 600.0
TTL = 86_400.0


class World:
    """Where a memory is: a network, and a clock that runs with the loop's unless a test sets it."""

    def __init__(self) -> None:
        self.network = "home"
        self.set_by = 0.0
        self.memory = Memory(
            ttl=TTL,
            half_life=HALF_LIFE,
            tell_network=lambda: self.network,
            clock=lambda: BEGIN + anyio.current_time() + self.set_by,
        )

    def scene(self, entrants: Mapping[str, tuple[Script, float]], **options: Any) -> Scene:
        """Return a scene with these guests, each with its script and delay; the far end of each greets."""
        return Scene(
            *[
                Entrant(ScriptedTransport(name, script, serve=greet), start_delay=delay)
                for name, (script, delay) in entrants.items()
            ],
            memory=self.memory,
            **options,
        )

    async def teach(self, name: str, host: str = HOST) -> None:
        """Have an entrant win a race for `host`, and carry a byte, a second from now."""
        await anyio.sleep(1.0)
        async with self.scene({name: (wins(), 0.0)}) as scene:
            await use(scene, host)


async def greet(stream: MemoryStream) -> None:
    await stream.send(b"!")


async def silence(stream: MemoryStream) -> None:
    pass


async def use(scene: Scene, host: str = HOST, **options: Any) -> racer.RaceReport:
    """Dial, receive a byte, close; return the report."""
    async with await scene.dial(host, **options) as connection:
        await connection.receive(1)
        return connection.report


def starts(report: racer.RaceReport) -> dict[str, float | None]:
    return {attempt.transport: attempt.started_at for attempt in report.attempts}


# --- who starts when ------------------------------------------------------------------------------


async def test_who_won_last_starts_at_once_and_the_others_in_their_own_turn() -> None:
    world = World()
    entrants = {"direct": (hangs(), 0.25), "proxyless": (hangs(), 0.5), "soar": (wins(1.0), 8.0)}
    async with world.scene(entrants) as scene:
        first = await use(scene)
        assert starts(first) == {"direct": 0.0, "proxyless": 0.5, "soar": 8.0}
        second = await use(scene)
        assert starts(second) == {"soar": 0.0, "direct": 0.25, "proxyless": 0.5}
        assert second.duration == 1.0
        assert second["soar"].start_delay == 0.0
        assert second["direct"].start_delay == 0.25
        await scene.assert_clean()


async def test_without_a_memory_nothing_is_remembered() -> None:
    entrants = [("direct", hangs(), 0.0), ("soar", wins(1.0), 8.0)]
    async with Scene(
        *[
            Entrant(ScriptedTransport(name, script, serve=greet), start_delay=delay)
            for name, script, delay in entrants
        ]
    ) as scene:
        await use(scene)
        assert (await use(scene)).duration == 9.0
        for span in scene.spans.named("racer.dial"):
            assert "racer.memory" not in (span.attributes or {})


@pytest.mark.parametrize("remembered", ["a", "b", "c"])
async def test_a_winner_that_is_a_black_hole_now_delays_no_other_beyond_its_own_delay(
    remembered: str,
) -> None:
    world = World()
    await world.teach(remembered)
    delays = {"a": 0.0, "b": 0.25, "c": 8.0}
    entrants = {name: (hangs(), delay) for name, delay in delays.items()}
    async with world.scene(entrants, timeout=20.0) as scene:
        with pytest.raises(DialError) as caught:
            await scene.dial()
        begun = starts(caught.value.report)
        assert begun.pop(remembered) == 0.0
        del delays[remembered]
        assert begun == delays


async def test_a_winner_that_fails_now_costs_its_own_failure_and_nothing_more() -> None:
    world = World()
    await world.teach("soar")
    entrants = {"direct": (wins(1.0), 5.0), "soar": (fails(0.5), 8.0)}
    async with world.scene(entrants) as scene:
        report = await use(scene)
        assert starts(report) == {"soar": 0.0, "direct": 0.5}
        assert report.winner == "direct"
        assert report.duration == 1.5


async def test_of_those_that_arrive_together_the_remembered_one_wins() -> None:
    world = World()
    entrants = {"a": (wins(1.0), 0.0), "b": (wins(1.0), 0.0)}
    async with world.scene(entrants) as scene:
        assert (await use(scene)).winner == "a"
    await world.teach("b")
    async with world.scene(entrants) as scene:
        assert (await use(scene)).winner == "b"


async def test_a_last_resort_stays_one() -> None:
    """R2 is a promise: a tier opens when all lower ones have failed. Within its tier the last winner is first."""
    world = World()
    await world.teach("tunnel")
    guests = {"direct": fails(1.0), "proxy": wins(1.0), "tunnel": wins(1.0)}
    entrants = [
        Entrant(ScriptedTransport(name, script, serve=greet), start_delay=delay, tier=tier)
        for (name, script), delay, tier in zip(
            guests.items(), (0.0, 0.25, 4.0), (0, 1, 1), strict=True
        )
    ]
    async with Scene(*entrants, memory=world.memory) as scene:
        report = await use(scene)
        assert starts(report) == {"direct": 0.0, "tunnel": 1.0, "proxy": 1.25}
        assert report.winner == "tunnel"


delays = st.sampled_from([0.0, 0.25, 0.5, 8.0])


@settings(max_examples=40)
@given(
    lanes=st.lists(st.tuples(delays, st.integers(0, 1)), min_size=1, max_size=5),
    remembered=st.integers(0, 4),
)
async def test_a_race_with_a_memory_is_the_schedule_with_one_lane_moved_up(
    lanes: list[tuple[float, int]], remembered: int
) -> None:
    remembered %= len(lanes)
    # The schedule alone: the lane in front and without delay, all others as they are; each fails after 2 s.
    order = sorted(range(len(lanes)), key=lambda index: index != remembered)
    moved = [
        Lane(start_delay=0.0 if index == remembered else lanes[index][0], tier=lanes[index][1])
        for index in order
    ]
    schedule = Schedule(moved, now=0.0)
    expected: dict[str, float | None] = {}
    ends: dict[int, float] = {}
    now = 0.0
    while not schedule.is_exhausted:
        for index in [one for one, at in ends.items() if at <= now]:
            del ends[index]
            schedule.failed(index)
        for index in schedule.start_due(now):
            expected[f"e{order[index]}"] = now
            ends[index] = now + 2.0
        following = schedule.next_timeout()
        now = min([*ends.values(), math.inf if following is None else following])

    world = World()
    await world.teach(f"e{remembered}")
    entrants = [
        Entrant(ScriptedTransport(f"e{index}", fails(2.0)), start_delay=delay, tier=tier)
        for index, (delay, tier) in enumerate(lanes)
    ]
    async with Scene(*entrants, memory=world.memory) as scene:
        with pytest.raises(DialError) as caught:
            await scene.dial()
        assert starts(caught.value.report) == expected
        if lanes[remembered][1] == min(tier for _, tier in lanes):
            assert caught.value.report.attempts[0].transport == f"e{remembered}"


# --- what is a win --------------------------------------------------------------------------------


async def recalled(world: World, host: str = HOST) -> str:
    """Return which of `a` (listed first) and `b` a race puts in front now, as its span says."""
    async with world.scene({"a": (wins(), 0.0), "b": (wins(), 8.0)}) as scene:
        async with await scene.dial(host):
            pass
        (span,) = scene.spans.named("racer.dial")
        assert span.attributes is not None
        return str(span.attributes["racer.memory"])


async def test_a_connection_that_was_closed_without_a_byte_says_nothing() -> None:
    world = World()
    async with (
        world.scene({"b": (wins(), 0.0)}) as scene,
        await scene.dial() as connection,
    ):
        await connection.send(b"hello")
    assert await recalled(world) == "none"
    assert len(world.memory) == 0


async def test_the_first_byte_is_a_win() -> None:
    world = World()
    await world.teach("b")
    assert await recalled(world) == "b"
    assert await recalled(world, "example.net") == "none"
    assert len(world.memory) == 1


async def test_a_check_that_passed_is_a_win() -> None:
    world = World()

    async def greets(stream: Any) -> bool:
        return bool(await stream.receive(1) == b"!")

    async with (
        world.scene({"b": (wins(), 0.0)}) as scene,
        await scene.dial(check=greets),
    ):
        pass
    assert await recalled(world) == "b"


async def test_a_response_is_a_win() -> None:
    world = World()

    async def answer(request: object) -> str:
        return "response"

    guest = ScriptedRequestTransport("b", wins(), answer=answer)
    async with (
        Scene(guest, memory=world.memory) as scene,
        scene.dialer.race(HOST, 80, kind="request") as race,
    ):
        async for route in race:
            assert isinstance(route, racer._connection.RoutedConnection)
            assert await route.handle("request") == "response"
            await route.aclose()
            break
    assert await recalled(world) == "b"


async def test_a_connection_that_breaks_before_its_first_byte_is_a_failure() -> None:
    world = World()
    await world.teach("b")

    async def breaks(stream: MemoryStream) -> None:
        stream.abort()

    async with (
        Scene(ScriptedTransport("b", wins(), serve=breaks), memory=world.memory) as scene,
        await scene.dial() as connection,
    ):
        with pytest.raises(anyio.BrokenResourceError):
            await connection.receive(1)
    assert await recalled(world) == "none"
    await anyio.sleep(HALF_LIFE)
    assert await recalled(world) == "b"


async def test_an_end_before_the_first_byte_says_nothing() -> None:
    world = World()
    await world.teach("b")
    guest = ScriptedTransport("b", wins(), serve=lambda stream: stream.send_eof())
    async with (
        Scene(guest, memory=world.memory) as scene,
        await scene.dial() as connection,
    ):
        with pytest.raises(anyio.EndOfStream):
            await connection.receive(1)
    assert await recalled(world) == "b"


async def test_a_finisher_that_did_not_do_without_a_byte_is_not_remembered() -> None:
    world = World()
    async with (
        world.scene({"a": (wins(), 0.0), "b": (wins(), 0.25)}) as scene,
        scene.dialer.race(HOST, 80) as race,
    ):
        async for connection in race:
            if connection.transport_name == "b":
                assert isinstance(connection, racer.Connection)
                await connection.receive(1)
            await connection.aclose()
    assert await recalled(world) == "b"


# --- how long it counts ---------------------------------------------------------------------------


async def test_a_win_is_forgotten_when_its_time_is_over() -> None:
    world = World()
    await world.teach("b")
    await anyio.sleep(TTL - 0.5)
    assert await recalled(world) == "b"
    await anyio.sleep(0.5)
    assert await recalled(world) == "none"
    assert len(world.memory) == 0


async def test_a_failure_casts_doubt_for_a_half_life() -> None:
    world = World()
    await world.teach("b")
    async with world.scene({"b": (fails(), 0.0)}) as scene:
        with pytest.raises(DialError):
            await scene.dial()
    await anyio.sleep(HALF_LIFE - 0.5)
    assert await recalled(world) == "none"
    await anyio.sleep(0.5)
    assert await recalled(world) == "b"


async def test_who_won_before_is_first_while_the_last_winner_is_in_doubt() -> None:
    world = World()
    await world.teach("a")
    await world.teach("b")
    async with (
        world.scene({"b": (fails(), 0.0), "c": (wins(), 1.0)}) as scene,
        await scene.dial(),  # c carries nothing: not remembered, but b has failed
    ):
        pass
    assert await recalled(world) == "a"
    await anyio.sleep(HALF_LIFE)
    assert await recalled(world) == "b"


# --- what teaches nothing -------------------------------------------------------------------------

SILENT = [
    NetworkError("no", error_type=kind)
    for kind in (
        ErrorType.DNS_FAILURE,
        ErrorType.HOST_UNREACHABLE,
        ErrorType.TIMEOUT,
        ErrorType.TUNNEL_SILENT,
        ErrorType.PERMISSION_DENIED,
        ErrorType.CRASHED,
        ErrorType.OTHER,
    )
] + [OSError(errno.ENETUNREACH, "no"), OSError(errno.ENETDOWN, "no")]


@pytest.mark.parametrize("error", SILENT, ids=repr)
async def test_offline_nobody_is_to_blame(error: Exception) -> None:
    world = World()
    await world.teach("b")
    async with world.scene({"a": (fails(0.0, error), 0.0), "b": (fails(0.0, error), 0.0)}) as scene:
        with pytest.raises(DialError):
            await scene.dial()
    assert await recalled(world) == "b"


async def test_a_deadline_that_passed_in_silence_blames_nobody() -> None:
    world = World()
    await world.teach("b")
    async with world.scene({"a": (hangs(), 0.0), "b": (hangs(), 0.0)}, timeout=60.0) as scene:
        with pytest.raises(DialError):
            await scene.dial()
    assert await recalled(world) == "b"


@pytest.mark.parametrize("silent", SILENT, ids=repr)
async def test_silence_beside_an_answer_is_the_route_s_own(silent: Exception) -> None:
    world = World()
    await world.teach("b")
    async with world.scene({"a": (fails(), 0.0), "b": (fails(0.0, silent), 0.0)}) as scene:
        with pytest.raises(DialError):
            await scene.dial()
    assert await recalled(world) == "none"


async def test_silence_beside_a_winner_is_the_route_s_own() -> None:
    world = World()
    await world.teach("b")
    traits = Traits(attempt_timeout=2.0)
    stuck = ScriptedTransport("b", hangs(), traits=traits)
    slow = ScriptedTransport("c", wins(3.0), serve=silence)
    async with (
        Scene(stuck, slow, memory=world.memory) as scene,
        await scene.dial() as connection,
    ):
        assert connection.report["b"].outcome is Outcome.TIMED_OUT
    assert await recalled(world) == "none"


async def test_who_only_lost_is_not_blamed() -> None:
    world = World()
    await world.teach("b")
    async with (
        world.scene({"c": (wins(1.0), 0.0), "b": (wins(2.0), 0.0)}) as scene,
        await scene.dial(),
    ):
        pass
    assert await recalled(world) == "b"


@pytest.mark.parametrize("kind", [ErrorType.BUSY, ErrorType.RESOURCE_EXHAUSTED])
async def test_this_machine_s_own_limits_blame_no_route(kind: ErrorType) -> None:
    world = World()
    await world.teach("b")
    limit = NetworkError("no", error_type=kind)
    async with world.scene({"a": (fails(), 0.0), "b": (fails(0.0, limit), 0.0)}) as scene:
        with pytest.raises(DialError):
            await scene.dial()
    assert await recalled(world) == "b"


async def test_a_race_that_its_caller_left_teaches_nothing() -> None:
    world = World()
    await world.teach("b")
    async with world.scene({"b": (fails(), 0.0), "c": (hangs(), 0.0)}) as scene:
        with anyio.move_on_after(5.0):
            await scene.dial()
    assert await recalled(world) == "b"


@pytest.mark.parametrize("jump", [-3600.0, -6.0, 6.0, 8 * 3600.0])
async def test_a_race_during_which_the_clock_jumped_teaches_nothing(jump: float) -> None:
    """The machine slept, or somebody set its clock: what failed meanwhile failed for that."""
    world = World()
    await world.teach("b")
    async with (
        world.scene({"b": (fails(1.0), 0.0)}) as scene,
        anyio.create_task_group() as group,
    ):

        async def dial() -> None:
            with pytest.raises(DialError):
                await scene.dial()

        group.start_soon(dial)
        await anyio.sleep(0.5)
        world.set_by = jump
    world.set_by = 0.0
    assert await recalled(world) == "b"


async def test_a_race_during_which_the_network_changed_teaches_nothing() -> None:
    world = World()
    await world.teach("b")
    async with (
        world.scene({"b": (fails(1.0), 0.0)}) as scene,
        anyio.create_task_group() as group,
    ):

        async def dial() -> None:
            with pytest.raises(DialError):
                await scene.dial()

        group.start_soon(dial)
        await anyio.sleep(0.5)
        world.network = "café"
    assert await recalled(world) == "none"
    world.network = "home"
    assert await recalled(world) == "b"


async def test_another_network_begins_with_nothing_and_the_first_is_known_again() -> None:
    world = World()
    await world.teach("b")
    world.network = "café"
    assert await recalled(world) == "none"
    await world.teach("a")
    assert await recalled(world) == "a"
    world.network = "home"
    assert await recalled(world) == "b"


async def test_a_program_that_cannot_tell_its_network_dials_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def tell() -> str:
        raise KeyError("wifi")

    memory = Memory(tell_network=tell)
    async with Scene(ScriptedTransport("a", wins(), serve=greet), memory=memory) as scene:
        await use(scene)
        await use(scene)
    assert caplog.text.count("tell_network failed: KeyError") == 1


# --- what can be asked for ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"ttl": 0}, "ttl must be a finite, positive number of seconds, not 0"),
        ({"half_life": math.nan}, "half_life must be a finite, positive number of seconds"),
        ({"max_entries": 0}, "max_entries must be a whole number from 1 to 10000, not 0"),
        ({"max_entries": True}, "max_entries must be a whole number from 1 to 10000, not True"),
        ({"tell_network": "home"}, "tell_network must be a function, not str"),
        ({"file": 7}, "file must be a path or None, not int"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Memory(**options)
    assert words in str(caught.value)


def test_a_dialer_takes_a_memory_or_none() -> None:
    with pytest.raises(ConfigError, match=r"memory must be a racer.Memory or None, not str"):
        racer.Dialer([ScriptedTransport("a")], memory="memory.json")  # type: ignore[arg-type]
