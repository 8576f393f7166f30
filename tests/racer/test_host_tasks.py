"""What runs in a dialer's home: a border that nothing crosses, and to each task its own context (R20, R21)."""

from __future__ import annotations

import contextvars
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

import racer
from racer.testing import ScriptedTransport, hangs, returns, wins
from tests.racer.guests import Hosted

pytestmark = pytest.mark.virtual_time

HOST = "192.0.2.1:80"
MARK: contextvars.ContextVar[str] = contextvars.ContextVar("MARK", default="empty")


async def settle() -> None:
    """Let every task that is ready run to its next wait."""
    for _ in range(10):
        await anyio.lowlevel.checkpoint()


def messages(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [
        (record.levelname, record.getMessage())
        for record in caplog.records
        if record.name.startswith("racer")
    ]


# --- the border (R20) -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
async def test_an_exit_in_a_driver_is_told_as_critical_and_ends_nothing_else(
    kind: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    async def drive(guest: Hosted) -> None:
        raise kind

    async with racer.Dialer([Hosted(driver=drive)]) as dialer:
        for _ in range(2):
            async with await dialer.dial(HOST):
                pass
    assert messages(caplog) == [
        (
            "CRITICAL",
            f"hosted task 'hosted driver' raised '{kind.__name__}', and nobody waits for it",
        )
    ]


async def test_an_exit_in_a_group_of_a_driver_is_found(caplog: pytest.LogCaptureFixture) -> None:
    async def drive(guest: Hosted) -> None:
        raise BaseExceptionGroup("as a task group does", [ValueError(), SystemExit(3)])

    async with racer.Dialer([Hosted(driver=drive)]) as dialer, await dialer.dial(HOST):
        await settle()
    assert [level for level, _ in messages(caplog)] == ["CRITICAL"]


async def test_a_bug_in_a_driver_is_logged_and_ends_nothing_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def drive(guest: Hosted) -> None:
        raise ValueError("a bug")

    async with racer.Dialer([Hosted(driver=drive)]) as dialer:
        for _ in range(2):
            async with await dialer.dial(HOST):
                pass
    assert messages(caplog) == [("ERROR", "hosted task 'hosted driver' failed")]
    assert "ValueError: a bug" in caplog.text


async def test_a_bug_beside_a_cancellation_is_not_lost(caplog: pytest.LogCaptureFixture) -> None:
    async def drive(guest: Hosted) -> None:
        try:
            await anyio.sleep_forever()
        except BaseException as exc:
            raise BaseExceptionGroup("as trio's nurseries do", [exc, ValueError("a bug")]) from None

    async with racer.Dialer([Hosted(driver=drive)]) as dialer, await dialer.dial(HOST):
        await settle()
    assert messages(caplog) == [("ERROR", "hosted task 'hosted driver' failed")]
    assert "ValueError: a bug" in caplog.text


# --- contexts (R21) -------------------------------------------------------------------------


class Watchful(Hosted):
    """Notes what MARK is wherever it runs."""

    def __init__(self, **told: Any) -> None:
        super().__init__(driver=Watchful.drive, **told)
        self.seen: dict[str, str] = {}

    async def start(self, host: racer.abc.Host) -> None:
        self.seen["start"] = MARK.get()
        await super().start(host)

    @staticmethod
    async def drive(guest: Hosted) -> None:
        assert isinstance(guest, Watchful)
        guest.seen["driver"] = MARK.get()

    async def connect(self, target: Any, progress: Any) -> Any:
        self.seen["connect"] = MARK.get()
        try:
            return await super().connect(target, progress)
        finally:
            self.seen["cleanup"] = MARK.get()


async def test_each_task_sees_the_context_that_is_its_own() -> None:
    guest = Watchful(script=hangs())
    MARK.set("caller")
    async with (
        racer.Dialer([guest, ScriptedTransport("winner", wins(0.5))]) as dialer,
        await dialer.dial(HOST),
    ):
        await settle()
    assert guest.seen == {
        "start": "empty",
        "driver": "empty",
        "connect": "caller",
        "cleanup": "caller",
    }
    assert MARK.get() == "caller"


async def test_a_stream_that_nobody_took_is_closed_in_its_attempts_context() -> None:
    seen = []

    class Stream(anyio.abc.ByteStream):
        async def receive(self, max_bytes: int = 65536) -> bytes:
            raise anyio.EndOfStream

        async def send(self, item: bytes) -> None: ...

        async def send_eof(self) -> None: ...

        async def aclose(self) -> None:
            seen.append(MARK.get())

    guests = [
        ScriptedTransport("winner", wins(0.5)),
        ScriptedTransport("late", returns(Stream(), 0.5)),
    ]
    MARK.set("caller")
    async with racer.Dialer(guests) as dialer, await dialer.dial(HOST):
        await settle()
    assert seen == ["caller"]
