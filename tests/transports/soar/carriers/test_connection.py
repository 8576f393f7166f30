"""The life of a connection to a resolver, on a virtual clock."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import anyio
import pytest

from racer.errors import NetworkError, RemoteProtocolError
from racer.testing import StreamLedger, cancel_everywhere, stream_pair
from tests.transports.soar.carriers.driven import driven, settle
from transports.soar.carriers.connection import ConnectionCarrier
from transports.soar.carriers.streams import StreamCarrier, StreamMachine

if TYPE_CHECKING:
    from anyio.abc import ByteStream

    from racer.testing import MemoryStream

pytestmark = pytest.mark.virtual_time


def message(number: int, size: int = 20) -> bytes:
    return number.to_bytes(2) + bytes(size - 2)


def framed(*messages: bytes) -> bytes:
    return b"".join(len(each).to_bytes(2) + each for each in messages)


class Resolver:
    """Takes connections; what they carry is the test's to answer."""

    def __init__(self, *, takes: float = 0.0, capacity: int = 65_536) -> None:
        self.ledger = StreamLedger()
        self.made: list[tuple[float, MemoryStream, MemoryStream]] = []
        self.errors: deque[Exception] = deque()
        self.tries: list[float] = []
        self._takes = takes
        self._capacity = capacity

    async def connect(self) -> ByteStream:
        self.tries.append(anyio.current_time())
        await anyio.sleep(self._takes)
        if self.errors:
            raise self.errors.popleft()
        near, far = stream_pair(capacity=self._capacity, ledger=self.ledger)
        self.made.append((anyio.current_time(), near, far))
        return near

    @property
    def far(self) -> MemoryStream:
        """The resolver's end of the last connection."""
        return self.made[-1][2]

    def close(self) -> None:
        for _, _, far in self.made:
            far.abort()


async def test_nothing_is_opened_before_there_is_a_question() -> None:
    resolver = Resolver()
    async with driven(StreamCarrier(resolver.connect)) as told:
        await anyio.sleep(100)
    assert (resolver.tries, told.answers, told.failures) == ([], [], [])


async def test_what_was_wrong_with_answers_is_told_also_when_the_connection_is_gone() -> None:
    class Grumbling(StreamMachine):
        def receive_data(self, data: bytes) -> list[bytes]:
            self.trouble = "it answered with HTTP status 403"
            return super().receive_data(data)

    resolver = Resolver()
    carrier = ConnectionCarrier(resolver.connect, Grumbling)
    async with driven(carrier) as told:
        carrier.send([message(1)])
        await settle()
        assert not carrier.trouble
        await resolver.far.send(framed(message(1)))
        await settle()
        assert "403" in carrier.trouble
        resolver.close()
        await settle()
        assert told.failures
        assert "403" in carrier.trouble


async def test_questions_wait_for_the_connection_and_share_it() -> None:
    resolver = Resolver(takes=3.0)
    carrier = StreamCarrier(resolver.connect)
    carrier.send([message(1)])
    async with driven(carrier) as told:
        carrier.send([message(2), message(3)])
        await anyio.sleep(4)
        carrier.send([message(4)])
        assert await resolver.far.receive() == framed(message(1), message(2), message(3))
        assert await resolver.far.receive() == framed(message(4))
        await resolver.far.send(framed(message(3), message(1))[:-1])
        await settle()
        assert told.answers == [(4.0, message(3))]
        await resolver.far.send(b"\0")
        await settle()
        assert told.answers == [(4.0, message(3)), (4.0, message(1))]
    resolver.close()
    resolver.ledger.assert_all_closed()


async def test_of_too_many_that_wait_the_oldest_are_dropped() -> None:
    resolver = Resolver(takes=1.0)
    carrier = StreamCarrier(resolver.connect)
    async with driven(carrier):
        carrier.send([message(number, 12) for number in range(300)])
        await anyio.sleep(2)
        expected = framed(*(message(number, 12) for number in range(44, 300)))
        assert await resolver.far.receive() == expected
    resolver.close()


async def test_it_is_closed_twenty_seconds_after_the_last_question() -> None:
    resolver = Resolver()
    carrier = StreamCarrier(resolver.connect)
    async with driven(carrier) as told:
        for _ in range(2):
            carrier.send([message(1)])
            await settle()
            await resolver.far.send(framed(message(1)))
            await anyio.sleep(15)
        await anyio.sleep(30)
        assert resolver.made[0][1].closed_at == 35.0
        assert told.failures == []
        carrier.send([message(2)])
        await settle()
        assert [at for at, _, _ in resolver.made] == [0.0, 60.0]
    resolver.close()


@pytest.mark.parametrize("how", ["end", "reset", "garbage"])
async def test_an_end_is_told_of_and_the_next_question_connects_anew(how: str) -> None:
    resolver = Resolver()
    carrier = StreamCarrier(resolver.connect)
    async with driven(carrier) as told:
        carrier.send([message(1)])
        await settle()
        await resolver.far.send(framed(message(1)))
        await settle()
        match how:
            case "end":
                await resolver.far.aclose()
            case "reset":
                resolver.far.abort()
            case _:
                await resolver.far.send(b"\0\1x")
        await settle()
        kinds = {"end": anyio.EndOfStream, "reset": anyio.BrokenResourceError}
        assert isinstance(told.failures[0][1], kinds.get(how, RemoteProtocolError))
        assert len(told.failures) == 1
        assert resolver.made[0][1].closed
        carrier.send([message(2)])
        await settle()
        assert await resolver.far.receive() == framed(message(2))
        assert [at for at, _, _ in resolver.made] == [0.0, 0.0]
    resolver.close()


async def test_pauses_double_where_nothing_is_ever_answered() -> None:
    resolver = Resolver()
    resolver.errors += [OSError(f"no way {number}") for number in range(9)]
    carrier = StreamCarrier(resolver.connect)
    async with driven(carrier) as told:
        for _ in range(400):
            carrier.send([message(1)])
            await anyio.sleep(0.1)
        assert resolver.tries == [0.0, 0.25, 0.75, 1.75, 3.75, 7.75, 15.75, 23.75, 31.75, 39.75]
        assert [at for at, _ in told.failures] == resolver.tries[:-1]
    resolver.close()


async def test_a_connection_that_takes_too_long_is_given_up() -> None:
    resolver = Resolver(takes=60.0)
    carrier = StreamCarrier(resolver.connect)
    async with driven(carrier) as told:
        carrier.send([message(1)])
        await anyio.sleep(11)
        ((at, error),) = told.failures
        assert (at, type(error)) == (10.0, TimeoutError)


async def test_who_falls_silent_is_left_after_five_seconds() -> None:
    """TCP itself would go on for a quarter of an hour (RFC 1122 section 4.2.3.5)."""
    resolver = Resolver()
    carrier = StreamCarrier(resolver.connect)
    async with driven(carrier) as told:
        carrier.send([message(1)])
        await anyio.sleep(1)
        await resolver.far.send(framed(message(1)))
        await settle()
        for number in range(2, 22):
            carrier.send([message(number)])
            await anyio.sleep(0.4)
        ((at, error),) = told.failures
        assert at == 6.0
        assert isinstance(error, NetworkError)
        assert str(error) == "it has not answered for 5 s"
        assert [round(when, 1) for when, _, _ in resolver.made] == [0.0, 6.2]
    resolver.close()
    resolver.ledger.assert_all_closed()


async def test_who_reads_nothing_is_left_as_well() -> None:
    resolver = Resolver(capacity=10)
    carrier = StreamCarrier(resolver.connect)
    async with driven(carrier) as told:
        for _ in range(100):
            carrier.send([message(1)])
            await anyio.sleep(0.1)
        assert told.failures[0][0] == 5.0
    resolver.close()


async def test_an_idle_session_s_connection_is_not_taken_for_a_silent_one() -> None:
    resolver = Resolver()
    carrier = StreamCarrier(resolver.connect)
    async with driven(carrier) as told:
        for _ in range(10):
            carrier.send([message(1)])
            await anyio.sleep(4)
            await resolver.far.send(framed(message(1)))
            await anyio.sleep(10)
        assert (len(resolver.made), told.failures) == (1, [])
    resolver.close()


async def test_fresh_is_another_connection() -> None:
    resolver = Resolver()
    carrier = StreamCarrier(resolver.connect)
    async with driven(carrier) as told:
        carrier.send([message(1)])
        await settle()
        await resolver.far.send(framed(message(1)))
        await settle()
        carrier.send([message(2)], fresh=True)
        await settle()
        assert len(resolver.made) == 2
        assert resolver.made[0][1].closed
        assert await resolver.far.receive() == framed(message(2))
        assert told.failures == []
    resolver.close()


async def test_cancelled_anywhere_no_connection_is_left() -> None:
    resolver = Resolver(takes=0.1)

    async def story() -> None:
        carrier = StreamCarrier(resolver.connect)
        carrier.send([message(1)])
        async with driven(carrier):
            await anyio.sleep(0.2)
            await resolver.far.send(framed(message(1)))
            await anyio.sleep(0.1)
            resolver.far.abort()
            carrier.send([message(2)])
            await anyio.sleep(1)

    async def verify() -> None:
        assert all(near.closed for _, near, _ in resolver.made)

    assert (await cancel_everywhere(story, verify=verify)).cancelled > 5
    resolver.close()
