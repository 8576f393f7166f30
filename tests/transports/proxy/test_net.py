"""What proxies stand on: the pump, the close by force, and plain TCP to a first hop."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import anyio
import pytest
from anyio.abc import AsyncResource

from racer.abc import Progress, Target
from racer.testing import EchoServer, cancel_everywhere, stream_pair
from tests.transports.proxy.worlds import Diary, talk
from transports._net.drive import close_by_force, drive
from transports._net.plain import PlainTCP
from transports._net.resolve import Answer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from transports._net.addresses import Family


class Countdown:
    """Asks `rounds` times, and is done with as many bytes of answer."""

    def __init__(self, rounds: int) -> None:
        self.heard = b""
        self._rounds = rounds
        self._asked = 0

    @property
    def is_done(self) -> bool:
        return len(self.heard) >= self._rounds

    def bytes_to_send(self) -> bytes:
        if self._asked > len(self.heard) or self._asked >= self._rounds + 1:
            return b""
        self._asked += 1
        return b"?" if not self.is_done else b"."

    def receive_data(self, data: bytes) -> None:
        self.heard += data


@pytest.mark.virtual_time
async def test_a_machine_is_driven_to_its_end_and_its_last_word_is_sent() -> None:
    near, far = stream_pair()
    machine = Countdown(3)
    got = b""

    async def answer() -> None:
        nonlocal got
        async for chunk in far:
            got += chunk
            if chunk == b"?":
                await far.send(b"!")

    async with anyio.create_task_group() as group:
        group.start_soon(answer)
        await drive(machine, near)
        await near.aclose()
    assert machine.heard == b"!!!"
    assert got == b"???."
    assert not near.closed_by_force


@pytest.mark.virtual_time
async def test_a_machine_whose_peer_ends_is_not_done() -> None:
    near, far = stream_pair()
    await far.send_eof()
    with pytest.raises(anyio.EndOfStream):
        await drive(Countdown(1), near)
    assert not near.closed


class Stubborn(AsyncResource):
    """Does not close in good order."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.was_cancelled = False

    async def aclose(self) -> None:
        if self.error is not None:
            raise self.error
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            self.was_cancelled = True
            raise


@pytest.mark.virtual_time
async def test_what_will_not_close_is_closed_by_force_without_waiting() -> None:
    resource = Stubborn()
    await close_by_force(resource)
    assert resource.was_cancelled
    assert anyio.current_time() == 0.0


@pytest.mark.virtual_time
async def test_what_cannot_close_is_logged_and_in_nobodys_way(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.DEBUG, "racer.net"):
        await close_by_force(Stubborn(OSError("no")))
    assert "closing by force failed" in caplog.text


@pytest.mark.virtual_time
async def test_a_close_by_force_is_one_under_cancellation_too() -> None:
    async def story() -> None:
        near, _ = stream_pair(close_hangs=True)
        try:
            await anyio.sleep(1)
        finally:
            await close_by_force(near)
            assert near.closed_by_force

    assert (await cancel_everywhere(story)).cancelled > 2


class Loopback:
    """Resolves every name to addresses of this machine."""

    async def resolve(
        self, name: str, families: Sequence[Family], report: Callable[[Answer], None]
    ) -> None:
        await anyio.lowlevel.checkpoint()
        report(Answer(families=tuple(families), addresses=("127.0.0.1",)))


@pytest.mark.every_loop
async def test_plain_tcp_reaches_a_name_through_its_resolver() -> None:
    async with EchoServer() as server:
        base = PlainTCP(resolver=Loopback())
        diary = Diary()
        target = Target("p.example", server.target.port, tls=False)
        await talk(await base.connect(target, diary))
        assert diary.told[-1] == ("127.0.0.1", server.target.port)
        with pytest.raises(OSError, match="could not connect to"):
            await base.connect(
                Target("p.example", server.refusing_target.port, tls=False), Progress()
            )
    assert repr(base) == "PlainTCP()"
