"""How a stream's two ends learn of each other's, in exact times (S26, SPEC 10)."""

from __future__ import annotations

from contextlib import asynccontextmanager
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from racer.testing import MemoryStream, stream_pair
from tests.transports.soar.server.scripted import Desk, Script
from transports.soar._policy import TargetPolicy
from transports.soar._targets import TargetConnector
from transports.soar._tunnels import DRAIN, Outcome, Tunnel
from transports.soar.core.crypto import EndCode
from transports.soar.core.server import events as told
from transports.soar.core.streams.frames import (
    Floor,
    MaxStreamData,
    RefusalReason,
    Refused,
    Reset,
    ResetCode,
    Stop,
    StreamData,
)
from transports.soar.core.streams.send_buffer import MAX_WAITING
from transports.soar.core.streams.targets import Target

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from anyio.abc import TaskGroup

pytestmark = pytest.mark.virtual_time

TARGET = Target(ip_address("93.184.216.34"), 443)
ROUND = 100  # octets of an upload's packet


class Nobody:
    async def resolve(self, name: str, families: Any, report: Any) -> None:
        raise AssertionError


class Line:
    """A client, a server's core, one tunnel, and the target behind it."""

    def __init__(self, tasks: TaskGroup, *, connects: bool = True, capacity: int = 65_536) -> None:
        self.desk = Desk()
        self.script = Script(self.desk)
        self.near, self.far = stream_pair(capacity=capacity)
        self._tasks = tasks
        self._connects = connects
        self.tunnel: Tunnel | None = None
        self.ended_at: float | None = None
        self.heard: list[Any] = []
        self.connector = TargetConnector(
            TargetPolicy(), Nobody(), dial_tcp=self.dial, is_own=lambda address: False
        )
        self.sent = 0

    async def dial(self, address: str, port: int) -> MemoryStream:
        if not self._connects:
            await anyio.sleep_forever()
        await anyio.lowlevel.checkpoint()
        return self.near

    async def begin(self, data: bytes = b"") -> None:
        """Open a stream, and wait until the tunnel has done what it can."""
        self.script.shake()
        self.script.prove()
        header = TARGET.to_wire()
        self.sent = len(header)
        await self.upload(data, header=header)

    async def upload(self, data: bytes, *, fin: bool = False, header: bytes = b"") -> None:
        offset = 0 if header else self.sent
        self.sent = offset + len(header) + len(data)
        await self.say(StreamData(0, offset, header + data, fin))

    async def say(self, *frames: Any) -> None:
        self.heard += self.script.exchange(*frames, name_class=4).frames
        self.flush()
        await self.settle()

    async def fetch(self) -> list[Any]:
        """Ask once, and return what frames the answer has."""
        said = self.script.exchange()
        self.heard += said.frames
        self.flush()
        await self.settle()
        return said.frames

    async def settle(self) -> None:
        for _ in range(20):
            await anyio.lowlevel.checkpoint()

    def flush(self) -> None:
        self.desk.flush()
        events, self.desk.events = self.desk.events, []
        for event in events:
            match event:
                case told.StreamOpened(stream=stream):
                    self.tunnel = Tunnel(stream, self.flush)
                    self._tasks.start_soon(self._run, self.tunnel)
                case told.StreamReadable():
                    self.get.readable()
                case told.StreamWritable():
                    self.get.writable()
                case told.StreamStopped():
                    self.get.stop()
                case told.StreamReset():
                    self.get.cancel()
                case told.StreamOver():
                    self.get.over()
                case _:
                    pass

    async def _run(self, tunnel: Tunnel) -> None:
        await tunnel.run(self.connector)
        self.ended_at = anyio.current_time()

    @property
    def get(self) -> Tunnel:
        assert self.tunnel is not None
        return self.tunnel


@asynccontextmanager
async def line(**options: Any) -> AsyncIterator[Line]:
    async with anyio.create_task_group() as tasks:
        made = Line(tasks, **options)
        async with made.far:
            yield made
            tasks.cancel_scope.cancel()


async def everything(stream: MemoryStream) -> bytes:
    return b"".join([chunk async for chunk in stream])


async def test_both_sides_say_that_they_are_done() -> None:
    async with line() as it:
        await it.begin(b"hello")
        assert await it.far.receive() == b"hello"
        await it.far.send(b"world")
        await it.far.send_eof()
        await it.settle()
        frames = await it.fetch()
        assert [f.data for f in frames if isinstance(f, StreamData)] == [b"world"]
        assert it.ended_at is None
        await it.upload(b"!", fin=True)
        assert await everything(it.far) == b"!"
        assert it.ended_at == 0
        assert (it.get.outcome, it.get.to_target, it.get.from_target) == (Outcome.CLOSED, 6, 5)
        assert it.near.closed
        assert not it.near.closed_by_force


async def test_what_came_before_the_clients_end_reaches_a_target_that_was_done_long_before() -> (
    None
):
    async with line(capacity=1) as it:
        await it.begin()
        await it.far.send_eof()
        await it.settle()
        await it.fetch()
        await it.say(Floor(0))  # the client has learnt of it: the server's direction is over
        await it.upload(b"a" * ROUND)
        await it.upload(b"b" * ROUND, fin=True)
        await it.settle()
        assert it.get._scope.deadline == DRAIN  # the stream is over
        assert it.ended_at is None
        assert await everything(it.far) == b"a" * ROUND + b"b" * ROUND
        await it.settle()
        assert it.get.outcome is Outcome.CLOSED


async def test_an_answer_before_a_break_reaches_the_client() -> None:
    """As of a web server that refuses an upload, and closes."""
    async with line() as it:
        await it.begin(b"some")
        await it.far.send(b"too much")
        await it.far.aclose()
        await it.settle()
        await it.upload(b"more")
        await it.fetch()
        (data,) = [f for f in it.heard if isinstance(f, StreamData) and f.data]
        assert (data.data, data.fin) == (b"too much", True)
        assert it.get.outcome is Outcome.RESET_BY_TARGET
        assert it.ended_at == 0


async def test_a_client_that_breaks_off_breaks_the_connection() -> None:
    async with line() as it:
        await it.begin(b"hello")
        await it.say(Reset(0, ResetCode.CANCELLED, it.sent))
        assert it.get.outcome is Outcome.CANCELLED
        assert it.near.closed_by_force
        frames = [frame for _ in range(2) for frame in await it.fetch()]
        assert any(isinstance(frame, Reset) for frame in frames)


async def test_a_client_that_breaks_off_before_the_connection_ends_its_making() -> None:
    async with line(connects=False) as it:
        await it.begin(b"hello")
        await it.say(Reset(0, ResetCode.CANCELLED, it.sent))
        assert (it.get.outcome, it.ended_at) == (Outcome.CANCELLED, 0)
        assert not it.connector._connecting
        await it.near.aclose()


async def test_a_client_that_reads_no_more_may_still_send() -> None:
    async with line() as it:
        await it.begin()
        await it.say(Stop(0, ResetCode.CANCELLED))
        await it.far.send(b"unheard")
        await it.upload(b"hello", fin=True)
        assert await everything(it.far) == b"hello"
        assert it.get.outcome is Outcome.CLOSED


async def test_of_a_session_that_ends_the_target_gets_what_came_and_no_end() -> None:
    async with line() as it:
        await it.begin(b"hello")
        assert await it.far.receive() == b"hello"
        await it.upload(b"more")
        it.desk.server.end(it.script.sid, EndCode.OPERATOR, it.desk.now)
        it.flush()
        assert await it.far.receive() == b"more"
        await it.settle()
        with pytest.raises(anyio.BrokenResourceError):
            await it.far.receive()
        assert (it.get.outcome, it.ended_at) == (Outcome.SESSION_ENDED, 0)


async def test_a_target_that_takes_nothing_holds_a_stream_that_is_over_for_ten_seconds() -> None:
    async with line(capacity=1) as it:
        await it.begin(b"hello")
        it.desk.server.end(it.script.sid, EndCode.OPERATOR, it.desk.now)
        it.flush()
        await anyio.sleep(DRAIN)
        await it.settle()
        assert (it.get.outcome, it.ended_at) == (Outcome.STUCK, DRAIN)
        assert it.near.closed_by_force


async def test_a_target_that_floods_is_read_no_faster_than_its_client_asks() -> None:
    async with line() as it:
        await it.begin()
        taken = 0
        with anyio.move_on_after(1):
            while True:
                await it.far.send(bytes(65_536))
                taken += 65_536
        assert it.get.from_target == MAX_WAITING
        assert taken <= MAX_WAITING + 65_536
        for _ in range(150):  # half of it has to go before more is read
            await it.fetch()
        assert it.get.from_target > MAX_WAITING


async def test_a_target_that_reads_nothing_leaves_its_client_a_window_and_no_more() -> None:
    async with line(capacity=1) as it:
        await it.begin()
        for _ in range(700):
            it.script.exchange(StreamData(0, it.sent, bytes(ROUND), False), name_class=4)
            it.sent += ROUND
            it.flush()
        await it.settle()
        table = it.get.stream._streams.table
        # One read is with the target; of the rest a client may go on up to the window it was given.
        assert table.waiting == it.sent - len(TARGET.to_wire()) - 65_536
        assert not any(isinstance(frame, MaxStreamData) for frame in it.heard)
        assert it.get.to_target == 0


async def test_a_refusal_reaches_the_client() -> None:
    async with line() as it:
        it.connector.policy = TargetPolicy(ports=[80])
        await it.begin(b"hello")
        frames = await it.fetch()
        assert Refused(0, RefusalReason.POLICY) in frames
        assert (it.get.outcome, it.get.refusal) == (Outcome.REFUSED, RefusalReason.POLICY)
        await it.near.aclose()


async def test_who_reads_no_more_can_not_be_refused_and_keeps_nothing() -> None:
    async with line(connects=False) as it:
        await it.begin(b"hello")
        await it.say(Stop(0, ResetCode.CANCELLED))
        await anyio.sleep(10)  # the connection's time is over
        await it.settle()
        assert (it.get.outcome, it.get.refusal) == (Outcome.REFUSED, RefusalReason.TIMED_OUT)
        frames = [frame for _ in range(2) for frame in await it.fetch()]
        assert any(isinstance(frame, Stop) for frame in frames)
        assert it.get.stream._streams.table.waiting == 0
        await it.near.aclose()
