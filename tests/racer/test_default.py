"""`racer.dial` and the dialer each loop has for it: made when needed, as configured; chosen, exchanged, ended (R18)."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

import racer
from racer import _default
from racer._loops import current_loop
from racer.errors import (
    AllAttemptsFailed,
    ConfigError,
    DialerClosed,
    InvalidTarget,
    NoTransports,
    WrongLoop,
)
from racer.testing import ScriptedTransport, fails, hangs, run_virtual, wins
from tests.racer import plugins
from tests.racer.plugins import install, point

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from racer.abc import Guest, MakeContext

pytestmark = pytest.mark.virtual_time

HOST = "192.0.2.1:80"


@pytest.fixture(autouse=True)
def unconfigured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No configuration, and one transport installed."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("APPDATA", "RACER_CONFIG", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    install(monkeypatch, "direct")


async def settle() -> None:
    """Let every task that is ready run to its next wait."""
    for _ in range(10):
        await anyio.lowlevel.checkpoint()


def configure(path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> Path:
    file = path / "racer.toml"
    file.write_text(text)
    monkeypatch.setenv("RACER_CONFIG", str(file))
    return file


# --- made when needed -----------------------------------------------------------------------


async def test_the_first_dial_makes_the_dialer_and_the_next_uses_it() -> None:
    for _ in range(2):
        async with await racer.dial(HOST) as conn:
            assert conn.transport_name == "direct"
    assert [len(guest.attempts) for guest in plugins.made] == [2]
    await racer.aclose()
    assert [len(guest.closed_at) for guest in plugins.made] == [1]


async def test_first_dials_that_come_together_share_one() -> None:
    async def dial() -> None:
        async with await racer.dial(HOST):
            pass

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(dial)
    assert sum(len(guest.attempts) for guest in plugins.made) == 5
    assert sum(bool(guest.attempts) for guest in plugins.made) == 1
    await racer.aclose()


async def test_after_its_end_the_next_dial_makes_a_new_one() -> None:
    await racer.aclose()  # there is none yet
    for count in (1, 2):
        async with await racer.dial(HOST):
            pass
        assert len(plugins.made) == count
        await racer.aclose()
        await racer.aclose()
    assert current_loop() not in _default._defaults


async def test_it_races_what_the_configuration_lists_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, "direct", "soar")
    configure(tmp_path, monkeypatch, '[[entrant]]\ntransport = "soar"')
    async with await racer.dial(HOST) as conn:
        assert [attempt.transport for attempt in conn.report.attempts] == ["soar"]
    assert [guest.name for guest in plugins.made] == ["soar"]
    await racer.aclose()


async def test_a_broken_configuration_is_told_at_each_dial_until_it_is_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = configure(tmp_path, monkeypatch, "timout = 5")
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"racer\.toml:1: unknown key 'timout'"):
            await racer.dial(HOST)
    await anyio.to_thread.run_sync(file.write_text, '[[entrant]]\ntransport = "direct"')
    async with await racer.dial(HOST):
        pass
    await racer.aclose()


async def test_with_nothing_installed_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    with pytest.raises(NoTransports, match="no transport is installed"):
        await racer.dial(HOST)


async def test_a_bad_target_is_told_before_the_configuration_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(tmp_path, monkeypatch, "broken")
    with pytest.raises(InvalidTarget):
        await racer.dial("http://example.com")


class Gate(threading.Event):
    """Holds up `make_slowly` until it opens; there is none outside of a test that has one.

    Attributes:
        reached: set when a thread stands before it.
    """

    now: Gate | None = None

    def __init__(self) -> None:
        super().__init__()
        self.reached = threading.Event()


def make_slowly(context: MakeContext) -> Guest:
    gate = Gate.now
    assert gate is not None
    gate.reached.set()
    if not gate.wait(30) or gate is not Gate.now:
        # The thread of a cancelled dial, which must not make its guest in somebody else's test.
        raise ConfigError("too late")
    return plugins.make(context)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """What a plugin waits for until it makes its guest."""
    gate = Gate.now = Gate()
    install(monkeypatch, point("direct", f"{__name__}:make_slowly"))
    yield gate
    assert gate.reached.wait(30)  # else it would make what the next test has installed
    Gate.now = None
    gate.set()


async def test_a_dial_can_be_cancelled_while_the_configuration_is_read(gate: Gate) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(racer.dial, HOST)
        while (
            not gate.reached.is_set()
        ):  # no time passes: one that was cancelled sooner might never come there
            await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()
    assert group.cancel_scope.cancelled_caught
    assert anyio.current_time() == 0.0
    assert current_loop() not in _default._defaults


async def test_a_dialer_that_is_chosen_while_the_configuration_is_read_is_used(
    gate: Gate,
) -> None:
    chosen = racer.Dialer([ScriptedTransport("chosen")])
    names = []

    async def dial() -> None:
        async with await racer.dial(HOST) as conn:
            names.append(conn.transport_name)

    async with anyio.create_task_group() as group:
        group.start_soon(dial)
        await settle()
        racer.set_default_dialer(chosen)
        gate.set()
    assert names == ["chosen"]
    await racer.aclose()
    assert chosen.status().closed


async def test_what_is_asked_of_the_dial_reaches_the_dialer() -> None:
    async def refuse(stream: anyio.abc.ByteStream) -> bool:
        return False

    guests = [ScriptedTransport("a", fails(0.5)), ScriptedTransport("b", wins(0.5))]
    racer.set_default_dialer(racer.Dialer([*guests, ScriptedTransport("c", hangs())]))
    with pytest.raises(racer.errors.DialTimeout) as timed_out:
        await racer.dial("192.0.2.1", 8080, only="c", timeout=2.5)
    assert (timed_out.value.report.target, timed_out.value.report.timeout) == (
        "192.0.2.1:8080",
        2.5,
    )
    with pytest.raises(AllAttemptsFailed) as failed:
        await racer.dial(HOST, exclude="c", check=refuse)
    assert failed.value.report["b"].error_type == "not_usable"
    async with await racer.dial("192.0.2.1", tls=False, only=["a", "b"]) as conn:
        assert (conn.report.target, conn.report.tls) == ("192.0.2.1:443", False)
    await racer.aclose()


# --- chosen ---------------------------------------------------------------------------------


async def test_a_chosen_dialer_is_used_and_closed_with_the_loops_others() -> None:
    chosen = racer.Dialer([ScriptedTransport("chosen")])
    racer.set_default_dialer(chosen)
    async with await racer.dial(HOST) as conn:
        assert conn.transport_name == "chosen"
    assert plugins.made == []
    await racer.aclose()
    assert chosen.status().closed
    async with await racer.dial(HOST) as conn:
        assert conn.transport_name == "direct"
    await racer.aclose()


async def test_whoever_made_the_one_before_closes_it() -> None:
    first, second = (racer.Dialer([ScriptedTransport(name)]) for name in ("first", "second"))
    racer.set_default_dialer(first)
    racer.set_default_dialer(second)
    assert not first.status().closed
    await first.aclose()
    async with await racer.dial(HOST) as conn:
        assert conn.transport_name == "second"
    await second.aclose()
    assert current_loop() not in _default._defaults


async def test_none_stands_for_the_configured_one_and_the_one_before_lives_on() -> None:
    async with racer.Dialer([ScriptedTransport("chosen")]) as chosen:
        racer.set_default_dialer(chosen)
        racer.set_default_dialer(None)
        racer.set_default_dialer(None)
        async with await racer.dial(HOST) as conn:
            assert conn.transport_name == "direct"
        assert not chosen.status().closed
    assert current_loop() in _default._defaults
    await racer.aclose()


async def test_one_that_racer_made_ends_by_itself_when_it_is_exchanged() -> None:
    held = [await racer.dial(HOST)]
    await anyio.to_thread.run_sync(int)  # till then the thread that made the dialer may hold it
    (guest,) = plugins.made
    made = weakref.ref(_default._defaults[current_loop()])
    racer.set_default_dialer(None)
    gc.collect()
    await settle()
    assert guest.closed_at == []  # its connection is in use
    await held[0].aclose()
    held.clear()
    gc.collect()
    await settle()
    assert made() is None
    assert len(guest.closed_at) == 1


@pytest.mark.parametrize("bad", ["direct", 7, racer.Dialer, ScriptedTransport("a")])
async def test_what_is_no_dialer_is_refused(bad: Any) -> None:
    with pytest.raises(ConfigError, match=r"must be a racer\.Dialer or None, not"):
        racer.set_default_dialer(bad)


async def test_a_dialer_that_has_ended_is_refused() -> None:
    async with racer.Dialer([ScriptedTransport("ended")]) as dialer:
        pass
    with pytest.raises(DialerClosed):
        racer.set_default_dialer(dialer)
    assert current_loop() not in _default._defaults


async def test_a_dialer_of_another_loop_is_refused() -> None:
    async with racer.Dialer([ScriptedTransport("here")]) as dialer:

        def elsewhere() -> None:
            async def choose() -> None:
                with pytest.raises(WrongLoop, match="another event loop"):
                    racer.set_default_dialer(dialer)
                assert current_loop() not in _default._defaults

            run_virtual(choose)

        await anyio.to_thread.run_sync(elsewhere)


async def test_without_a_loop_there_is_nothing_to_choose_for() -> None:
    dialer = racer.Dialer([ScriptedTransport("a")])

    def elsewhere() -> None:
        for choice in (dialer, None):
            with pytest.raises(WrongLoop, match="none runs in this thread"):
                racer.set_default_dialer(choice)

    await anyio.to_thread.run_sync(elsewhere)


async def test_each_loop_has_its_own() -> None:
    def elsewhere() -> None:
        async def dial() -> None:
            async with await racer.dial(HOST):
                assert len(_default._defaults) == 2

        run_virtual(dial)

    async with await racer.dial(HOST):
        await anyio.to_thread.run_sync(elsewhere)
        assert len(plugins.made) == 2
        assert [len(guest.closed_at) for guest in plugins.made] == [0, 1]
        assert list(_default._defaults) == [current_loop()]
    await racer.aclose()
