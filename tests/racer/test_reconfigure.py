"""Changing who takes part while dials are under way: nothing is dropped, nothing is half done, and one number tells when."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

import anyio
import pytest

import racer
from racer._roster import Recipe
from racer.abc import Guest, MakeContext, Traits
from racer.config import Configuration, EntrantSettings
from racer.errors import AllAttemptsFailed, ConfigError, DialerClosed, DialTimeout, NoTransports
from racer.testing import Lifecycle, ScriptedTransport, fails, hangs, wins
from tests.racer import plugins
from tests.racer.plugins import install, point
from tests.racer.tracing import Recorder

if TYPE_CHECKING:
    from racer.testing import Script

pytestmark = pytest.mark.virtual_time

HOST = "192.0.2.1:80"

SCRIPTS: dict[str, Script] = {
    "slow": hangs(),
    "fails": fails(0.5),
    "late": wins(5.0),
    "holds": hangs().slow_cleanup(0.5),
}


def make(context: MakeContext) -> Guest:
    """Make a guest that does what its option `does` says."""
    context.refuse_unknown("does", "after", "version", "starts", "serves")
    options = context.options
    if options.get("does") == "refuse":
        raise ConfigError("does: must not be 'refuse'")
    guest = ScriptedTransport(
        context.name,
        SCRIPTS.get(options.get("does", ""), wins(options.get("after", 0.0))),
        serves=options.get("serves"),
        traits=Traits(max_concurrent=None),
        lifecycle=Lifecycle(start_takes=options.get("starts", 0.0)),
        credential=b"first",
    )
    plugins.made.append(guest)
    return guest


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, point("guest", f"{__name__}:make"))


def entrant(name: str, *, start_delay: float | None = None, tier: int = 0, **options: Any) -> Any:
    return EntrantSettings(
        transport="guest", name=name, start_delay=start_delay, tier=tier, options=options
    )


def listed(*entrants: EntrantSettings, **more: Any) -> Configuration:
    return Configuration(entrants=entrants, **more)


def guests_of(dialer: racer.Dialer) -> dict[str, ScriptedTransport]:
    found = dialer.eligible(racer.abc.Target.parse(HOST))
    return {n: g for n, g in found.items() if isinstance(g, ScriptedTransport)}


async def settle() -> None:
    for _ in range(10):
        await anyio.lowlevel.checkpoint()


# --- who stays, who goes ----------------------------------------------------------------------


async def test_what_is_equal_stays_and_the_rest_is_exchanged() -> None:
    async with listed(
        entrant("same", after=1), entrant("other", after=1), entrant("gone")
    ).dialer() as dialer:
        before = guests_of(dialer)
        dialer.reconfigure(
            listed(entrant("new"), entrant("other", after=2), entrant("same", after=1))
        )
        after = guests_of(dialer)
        assert list(after) == ["new", "other", "same"]
        assert after["same"] is before["same"]
        assert after["other"] is not before["other"]
        await settle()
        assert [before[name].closed_at for name in ("same", "other", "gone")] == [[], [0.0], [0.0]]
        assert (dialer.status().generation, dialer.status().leaving) == (2, 0)
    assert before["same"].closed_at == [0.0]


@pytest.mark.parametrize(
    ("old", "new", "stays"),
    [
        (1, 1, True),
        (1, True, False),
        (1, 1.0, False),
        (0.0, -0.0, False),
        (float("nan"), float("nan"), True),
        ([1, {"a": "b"}], [1, {"a": "b"}], True),
        ([1, {"a": "b"}], [1, {"a": "c"}], False),
        ([1], [1, 1], False),
    ],
)
async def test_options_are_equal_when_they_would_be_written_so(
    old: object, new: object, stays: bool
) -> None:
    async with listed(entrant("a", version=old)).dialer() as dialer:
        before = guests_of(dialer)["a"]
        dialer.reconfigure(listed(entrant("a", version=new)))
        assert (guests_of(dialer)["a"] is before) == stays


async def test_delay_and_tier_change_without_the_guest() -> None:
    async with listed(entrant("a", does="fails"), entrant("b")).dialer() as dialer:
        before = guests_of(dialer)
        dialer.reconfigure(
            listed(entrant("a", does="fails", start_delay=2.0), entrant("b", tier=1), timeout=9.0)
        )
        assert guests_of(dialer) == before
        async with await dialer.dial(HOST) as conn:
            pass
        assert [(a.transport, a.start_delay, a.tier) for a in conn.report.attempts] == [
            ("a", 2.0, 0),
            ("b", 0.0, 1),
        ]
        assert conn.report.timeout == 9.0
        assert dialer.status()["a"].last == conn.report["a"]


async def test_connections_of_those_who_leave_go_on() -> None:
    async with listed(entrant("a"), entrant("b", does="slow")).dialer() as dialer:
        old = guests_of(dialer)["a"]
        conn = await dialer.dial(HOST)
        dialer.reconfigure(listed(entrant("b", does="slow"), entrant("c")))
        assert dialer.status().leaving == 1
        async with await dialer.dial(HOST) as other:
            assert other.transport_name == "c"
        await anyio.sleep(1)
        assert old.closed_at == []
        await conn.send(b"still there")
        peer = old.attempts[0].peer
        assert peer is not None
        assert await peer.receive() == b"still there"
        await conn.aclose()
        await settle()
        assert (old.closed_at, old.misuses, dialer.status().leaving) == ([1.0], [], 0)


async def test_a_transport_that_was_replaced_by_hand_does_not_stay() -> None:
    """What is in its place was not made of these options."""
    configuration = listed(entrant("a"))
    async with configuration.dialer() as dialer:
        by_hand = ScriptedTransport("by hand")
        dialer.replace("a", by_hand)
        dialer.reconfigure(configuration)
        assert guests_of(dialer)["a"] is not by_hand
        await settle()
        assert by_hand.closed_at == [0.0]


async def test_a_dialer_that_was_made_by_hand_can_be_reconfigured() -> None:
    first = ScriptedTransport("a")
    async with racer.Dialer([first]) as dialer:
        dialer.reconfigure(listed(entrant("a"), entrant("b")))
        assert list(guests_of(dialer)) == ["a", "b"]
        await settle()
        assert first.closed_at == [0.0]


async def test_a_new_credential_survives_a_reload_that_changes_nothing_else() -> None:
    async with listed(entrant("a")).dialer() as dialer:
        guest = guests_of(dialer)["a"]
        dialer.update_credential("a", b"second")
        dialer.reconfigure(listed(entrant("a")))
        async with await dialer.dial(HOST):
            pass
        assert guest.attempts[0].credential == b"second"


# --- all or nothing ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("configuration", "words"),
    [
        (listed(entrant("new"), entrant("a", does="refuse")), "does: must not be"),
        (listed(entrant("new"), entrant("new", after=1)), "entrants share a name: 'new'"),
        (listed(entrant("new", start_delay=0.001)), "start_delay of 'new'"),
        (listed(entrant("a", start_delay=-1.0)), "start_delay of 'a'"),
        (listed(), "at least one entrant"),
        (listed(entrant("a"), redact=True), "redact cannot change"),
        (listed(EntrantSettings(transport="absent")), "'absent' is not installed"),
    ],
)
async def test_what_cannot_be_changes_nothing(configuration: Configuration, words: str) -> None:
    async with listed(entrant("a"), entrant("b", does="slow"), timeout=7.0).dialer() as dialer:
        before = guests_of(dialer)
        with pytest.raises(ConfigError, match=words):
            dialer.reconfigure(configuration)
        assert guests_of(dialer) == before
        assert list(guests_of(dialer)) == ["a", "b"]
        assert dialer.status().generation == 1
        async with await dialer.dial(HOST) as conn:
            assert conn.report.timeout == 7.0
        await settle()
        assert [guest.closed_at for guest in before.values()] == [[], []]


async def test_a_dialer_that_has_ended_is_not_reconfigured() -> None:
    configuration = listed(entrant("a"))
    async with configuration.dialer() as dialer:
        pass
    with pytest.raises(DialerClosed):
        dialer.reconfigure(configuration)


# --- the generation ---------------------------------------------------------------------------


async def test_one_number_counts_every_change(recorder: Recorder) -> None:
    dialer = listed(entrant("a"), entrant("b", does="slow")).dialer(
        tracer_provider=recorder.tracers
    )
    async with dialer:
        seen = [dialer.status().generation]
        dialer.replace("a", ScriptedTransport("by hand", credential=b""))
        seen.append(dialer.status().generation)
        dialer.update_credential("a", b"new")
        seen.append(dialer.status().generation)
        race = dialer.race(HOST)
        dialer.reconfigure(listed(entrant("a")))
        seen.append(dialer.status().generation)
        assert seen == [1, 2, 3, 4]
        with pytest.raises(ConfigError):
            dialer.replace("c", ScriptedTransport("c"))
        with pytest.raises(ConfigError):
            dialer.update_credential("c", b"")
        assert dialer.status().generation == 4
        async with race:
            await (await anext(race)).aclose()
        async with await dialer.dial(HOST):
            pass
    told = [tree.attributes["racer.config.generation"] for tree in recorder.trees()]
    assert told == [3, 4]


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


async def test_no_dial_that_begins_after_the_call_uses_the_old() -> None:
    async with listed(entrant("a", version=0)).dialer() as dialer:
        current = guests_of(dialer)["a"]
        for version in range(1, 5):
            dialer.reconfigure(listed(entrant("a", version=version)))
            old, current = current, guests_of(dialer)["a"]
            async with await dialer.dial(HOST):
                pass
            assert (len(old.attempts), len(current.attempts)) == (version > 1, 1)


# --- races under way --------------------------------------------------------------------------


async def test_an_attempt_under_way_keeps_its_guest_and_one_that_waits_gets_the_new() -> None:
    first = entrant("first", does="fails")
    dialer = listed(first, entrant("second", start_delay=1.0, version=1)).dialer()
    async with dialer, anyio.create_task_group() as group:
        old = guests_of(dialer)

        async def change() -> None:
            await anyio.sleep(0.25)
            dialer.reconfigure(
                listed(replace(first, options={"does": "late"}), entrant("second", version=2))
            )

        group.start_soon(change)
        async with await dialer.dial(HOST) as conn:
            assert conn.transport_name == "second"
            assert anyio.current_time() == 0.5
        await settle()
        assert conn.report["second"].start_delay == 1.0  # the race keeps its plan
        assert [len(old[name].attempts) for name in old] == [1, 0]
        assert (old["first"].closed_at, old["second"].closed_at) == ([0.5], [0.25])


async def test_who_is_taken_out_while_it_waits_starts_nothing() -> None:
    first = entrant("first", does="fails")
    dialer = listed(first, entrant("gone"), entrant("last", start_delay=3.0)).dialer()
    dialer.reconfigure(
        listed(first, entrant("gone", start_delay=2.0), entrant("last", start_delay=3.0))
    )
    async with dialer, anyio.create_task_group() as group:
        gone = guests_of(dialer)["gone"]

        async def change() -> None:
            await anyio.sleep(0.25)
            dialer.reconfigure(listed(first, entrant("last", start_delay=3.0), entrant("new")))

        group.start_soon(change)
        async with await dialer.dial(HOST) as conn:
            assert (conn.transport_name, anyio.current_time()) == ("last", 0.5)
        assert [(a.transport, a.outcome) for a in conn.report.attempts] == [
            ("first", "connect_failed"),
            ("last", "connected"),
            ("gone", "ineligible"),
        ]
        assert conn.report["gone"].reason == (
            "it was taken out of the configuration after this race had been made"
        )
        assert (gone.attempts, gone.observed, gone.closed_at) == ([], [], [0.25])


async def test_a_race_of_which_all_that_waits_is_taken_out_fails_when_the_rest_has() -> None:
    first = entrant("first", does="fails")
    waiting = [entrant(name, start_delay=delay) for name, delay in [("b", 1.0), ("c", 2.0)]]
    async with listed(first, *waiting).dialer() as dialer, anyio.create_task_group() as group:

        async def change() -> None:
            await anyio.sleep(0.25)
            dialer.reconfigure(listed(first))

        group.start_soon(change)
        with pytest.raises(AllAttemptsFailed) as caught:
            await dialer.dial(HOST)
        assert anyio.current_time() == 0.5
        assert [a.outcome for a in caught.value.report.attempts] == [
            "connect_failed",
            "ineligible",
            "ineligible",
        ]


async def test_a_race_that_waits_for_one_attempt_goes_on_waiting() -> None:
    """Those that were taken out are passed over in their turn, and what runs decides."""
    async with (
        listed(entrant("late", does="late"), entrant("gone", start_delay=1.0)).dialer() as dialer,
        anyio.create_task_group() as group,
    ):

        async def change() -> None:
            await anyio.sleep(0.25)
            dialer.reconfigure(listed(entrant("new")))

        group.start_soon(change)
        async with await dialer.dial(HOST) as conn:
            assert (conn.transport_name, anyio.current_time()) == ("late", 5.0)


async def test_a_race_that_was_made_before_and_entered_after_starts_nothing_old() -> None:
    async with listed(entrant("a"), entrant("b")).dialer() as dialer:
        old = guests_of(dialer)
        race = dialer.race(HOST)
        dialer.reconfigure(listed(entrant("c")))
        with pytest.raises(AllAttemptsFailed) as caught:
            async with race:
                await anext(race)
        assert [a.outcome for a in caught.value.report.attempts] == ["ineligible"] * 2
        assert [guest.attempts for guest in old.values()] == [[], []]


async def test_who_was_taken_out_and_put_back_joins_the_next_race_only() -> None:
    first, second = entrant("a", does="fails"), entrant("b", start_delay=1.0)
    async with listed(first, second).dialer() as dialer, anyio.create_task_group() as group:

        async def change() -> None:
            await anyio.sleep(0.25)
            dialer.reconfigure(listed(first))
            dialer.reconfigure(listed(first, second))

        group.start_soon(change)
        with pytest.raises(AllAttemptsFailed):
            await dialer.dial(HOST)
        async with await dialer.dial(HOST) as conn:
            assert conn.transport_name == "b"


async def test_while_a_finisher_is_held() -> None:
    """The race's clock stands; what is asked for next comes from the new guest, and who has left is passed over."""
    second, third = entrant("b", start_delay=1.0), entrant("c", start_delay=2.0)
    async with listed(entrant("a"), second, third).dialer() as dialer:
        old = guests_of(dialer)
        async with dialer.race(HOST) as race:
            held = await anext(race)
            await anyio.sleep(10)
            dialer.reconfigure(
                listed(entrant("a", version=2), replace(third, options={"version": 2}))
            )
            conn = await anext(race)
            assert (conn.transport_name, anyio.current_time()) == ("c", 10.0)
            with pytest.raises(StopAsyncIteration):
                await anext(race)
            await conn.aclose()
            await settle()
            assert [old[name].closed_at for name in "abc"] == [[], [10.0], [10.0]]
            await held.aclose()
            await settle()
            assert old["a"].closed_at == [10.0]
        report = race.report
        assert [(a.transport, a.outcome) for a in report.attempts] == [
            ("a", "connected"),
            ("c", "connected"),
            ("b", "ineligible"),
        ]


async def test_in_the_middle_of_a_start() -> None:
    """The old guest is not closed while it starts, and its attempt goes on with it."""
    async with (
        listed(entrant("a", starts=2.0)).dialer() as dialer,
        anyio.create_task_group() as group,
    ):
        old = guests_of(dialer)["a"]

        async def change() -> None:
            await anyio.sleep(1.0)
            dialer.reconfigure(listed(entrant("a", version=2)))

        group.start_soon(change)
        async with await dialer.dial(HOST):
            assert anyio.current_time() == 2.0
        await settle()
        assert (len(old.attempts), old.closed_at, old.misuses) == (1, [2.0], [])


async def test_the_new_guest_may_not_serve_what_the_race_is_about() -> None:
    first, second = entrant("a", does="fails"), entrant("b", start_delay=1.0)
    async with listed(first, second).dialer() as dialer, anyio.create_task_group() as group:

        async def change() -> None:
            await anyio.sleep(0.25)
            dialer.reconfigure(listed(first, replace(second, options={"serves": "not this"})))

        group.start_soon(change)
        with pytest.raises(AllAttemptsFailed) as caught:
            await dialer.dial(HOST)
        assert caught.value.report["b"].error_type == "not_usable"
        with pytest.raises(AllAttemptsFailed):
            await dialer.dial(HOST)
    with pytest.raises(NoTransports):
        async with listed(entrant("b", serves="not this")).dialer() as dialer:
            await dialer.dial(HOST)


async def test_a_name_that_was_taken_out_may_still_be_excluded() -> None:
    """A request that goes from race to race rules routes out by name."""
    async with listed(entrant("a"), entrant("b")).dialer() as dialer:
        dialer.reconfigure(listed(entrant("b")))
        async with await dialer.dial(HOST, exclude=["a"]) as conn:
            assert conn.transport_name == "b"
        with pytest.raises(ConfigError, match="no entrant is called 'a'"):
            await dialer.dial(HOST, only="a")
        with pytest.raises(ConfigError, match="no entrant is called 'x'"):
            await dialer.dial(HOST, exclude=["x"])


async def test_a_dial_inside_itself_is_known_as_such_across_reloads() -> None:
    """The entrant is the same, though its delay is another each time."""
    delays = count(1)

    class Through(ScriptedTransport):
        async def connect(self, target: Any, progress: Any) -> Any:
            told.append(str(target))
            dialer.reconfigure(Configuration(entrants=(Same(float(next(delays))),)))  # type: ignore[arg-type]
            return await dialer.dial(HOST)

    class Same(Recipe):
        def __init__(self, delay: float) -> None:
            self.name = "a"
            self.start_delay = delay
            self.tier = None

        def make(self) -> racer.Entrant:
            return racer.Entrant(Through("a"), name="a")

        def has_guest_like(self, other: Recipe) -> bool:
            return True

    told: list[str] = []
    async with racer.Dialer([Same(0.0)]) as dialer:
        with pytest.raises(AllAttemptsFailed, match="dials its own target through its own dialer"):
            await dialer.dial(HOST)
    assert len(told) == 2


# --- very often -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reloads", "dials"), [(60, 8), pytest.param(1000, 50, marks=pytest.mark.soak)]
)
async def test_many_reloads_under_many_dials_leak_nothing(reloads: int, dials: int) -> None:
    """Dialers of all kinds dial, keep, close and go away, while who takes part changes again and again."""
    versions = count()
    pause = 10 / reloads
    kinds = ["", "fails", "slow", "late", "holds"]

    def some(number: int) -> Configuration:
        names = [f"n{(number * 7 + k * 3) % 8}" for k in range(4)]
        chosen = list(dict.fromkeys(names))
        return listed(
            *[
                entrant(
                    name,
                    start_delay=0.25 * rank,
                    does=kinds[(number // 5 + rank) % 5],
                    after=0.125 * (number % 3),
                    version=number // 3 if rank % 2 else 0,
                )
                for rank, name in enumerate(chosen)
            ]
        )

    ended: dict[str, int] = {}

    async def dial(number: int) -> None:
        for turn in range(max(4, reloads // 50)):
            with anyio.move_on_after(0.125 * ((number + turn) % 9 + 1)) as scope:
                try:
                    async with await dialer.dial(HOST, timeout=1.5):
                        await anyio.sleep(0.0625 * (number % 4))
                except (AllAttemptsFailed, DialTimeout, NoTransports) as exc:
                    ended[type(exc).__name__] = ended.get(type(exc).__name__, 0) + 1
                else:
                    ended["won"] = ended.get("won", 0) + 1
            ended["cancelled"] = ended.get("cancelled", 0) + scope.cancelled_caught

    async with some(next(versions)).dialer() as dialer:
        async with anyio.create_task_group() as group:
            for number in range(dials):
                group.start_soon(dial, number)
            for _ in range(reloads):
                dialer.reconfigure(some(next(versions)))
                await anyio.sleep(pause)
        assert dialer.status().generation == reloads + 1
        await anyio.sleep(5)
        status = dialer.status()
        assert (status.races, status.cleanups, status.leaving) == (0, 0, 0)
        assert sum(one.active for one in status.entrants) == 0
        now = set(map(id, guests_of(dialer).values()))
        for guest in plugins.made:
            assert len(guest.closed_at) == (id(guest) not in now)
    for guest in plugins.made:
        assert guest.misuses == []
        assert len(guest.running) == 0
        guest.ledger.assert_all_closed()
        assert len(guest.closed_at) == 1
    assert {"won", "cancelled", "AllAttemptsFailed"} <= ended.keys()
