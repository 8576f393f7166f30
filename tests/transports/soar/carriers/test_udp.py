"""Datagrams: when sockets are made, replaced and given up, and what is told of it."""

from __future__ import annotations

import errno
import socket
from collections import deque
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from anyio.abc import UnreliableObjectStream

from tests.transports.soar.carriers.driven import driven, settle
from transports._net.udp import connect_datagrams
from transports.soar.carriers.udp import UDPCarrier

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Datagrams(UnreliableObjectStream[bytes]):
    """A socket in memory."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.made_at = anyio.current_time()
        self.closed_at: float | None = None
        self._inbox: deque[bytes | Exception] = deque()
        self._came = anyio.Event()

    def come(self, *items: bytes | Exception) -> None:
        """Have datagrams arrive, or an error."""
        self._inbox += items
        self._came.set()

    async def send(self, item: bytes) -> None:
        await anyio.lowlevel.checkpoint()
        self.sent.append(item)

    async def receive(self) -> bytes:
        await anyio.lowlevel.checkpoint()
        while not self._inbox:
            self._came = anyio.Event()
            await self._came.wait()
        item = self._inbox.popleft()
        if isinstance(item, Exception):
            raise item
        return item

    async def aclose(self) -> None:
        if self.closed_at is None:
            self.closed_at = anyio.current_time()

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        return {}


class Network:
    """Makes sockets, and keeps them."""

    def __init__(self, *, takes: float = 0.0) -> None:
        self.made: list[Datagrams] = []
        self.errors: deque[Exception] = deque()
        self.tries: list[float] = []
        self._takes = takes

    async def __call__(self) -> UnreliableObjectStream[bytes]:
        await anyio.sleep(self._takes)
        self.tries.append(anyio.current_time())
        if self.errors:
            raise self.errors.popleft()
        self.made.append(Datagrams())
        return self.made[-1]


@pytest.mark.virtual_time
class TestSockets:
    async def test_nothing_is_opened_before_there_is_a_question(self) -> None:
        network = Network()
        async with driven(UDPCarrier(network)) as told:
            await anyio.sleep(100)
        assert (network.made, told.answers, told.failures) == ([], [], [])

    async def test_what_is_asked_while_one_is_made_goes_by_it_in_order(self) -> None:
        network = Network(takes=2.0)
        carrier = UDPCarrier(network)
        async with driven(carrier) as told:
            carrier.send([b"one", b"two"])
            await anyio.sleep(1)
            carrier.send([b"three"], fresh=True)
            await anyio.sleep(10)
            (made,) = network.made
            assert made.sent == [b"one", b"two", b"three"]
            made.come(b"answer")
            await settle()
            assert told.answers == [(11.0, b"answer")]

    async def test_a_question_before_it_runs_is_not_forgotten(self) -> None:
        network = Network()
        carrier = UDPCarrier(network)
        carrier.send([b"early"])
        async with driven(carrier):
            assert [made.sent for made in network.made] == [[b"early"]]

    async def test_of_too_many_that_wait_the_oldest_are_dropped(self) -> None:
        network = Network(takes=1.0)
        carrier = UDPCarrier(network)
        async with driven(carrier):
            carrier.send([b"%d" % number for number in range(300)])
            await anyio.sleep(2)
            assert network.made[0].sent == [b"%d" % number for number in range(44, 300)]

    async def test_late_answers_to_a_replaced_socket_count_for_ten_seconds(self) -> None:
        network = Network()
        carrier = UDPCarrier(network)
        async with driven(carrier) as told:
            carrier.send([b"one"])
            await anyio.sleep(1)
            carrier.send([b"two"], fresh=True)
            await settle()
            old, new = network.made
            assert (old.sent, new.sent) == ([b"one"], [b"two"])
            await anyio.sleep(9.5)
            old.come(b"late")
            await settle()
            assert told.answers == [(10.5, b"late")]
            await anyio.sleep(1)
            assert (old.closed_at, new.closed_at) == (11.0, None)
            carrier.send([b"three"])
            await settle()
            assert new.sent == [b"two", b"three"]
        assert told.failures == []

    async def test_it_is_closed_thirty_seconds_after_the_last_question(self) -> None:
        network = Network()
        carrier = UDPCarrier(network)
        async with driven(carrier) as told:
            carrier.send([b"one"])
            await anyio.sleep(20)
            carrier.send([b"two"])
            await anyio.sleep(40)
            assert network.made[0].closed_at == 50.0
            carrier.send([b"three"])
            await settle()
            assert [made.sent for made in network.made] == [[b"one", b"two"], [b"three"]]
            assert network.made[1].made_at == 60.0
        assert told.failures == []

    async def test_all_are_closed_with_the_carrier(self) -> None:
        network = Network()
        carrier = UDPCarrier(network)
        async with driven(carrier):
            for number in range(3):
                carrier.send([b"%d" % number], fresh=True)
                await settle()
        assert [made.closed_at for made in network.made] == [0.0] * 3


@pytest.mark.virtual_time
class TestFailures:
    async def test_pauses_double_up_to_a_second_until_something_is_answered(self) -> None:
        network = Network()
        network.errors += [OSError(f"no way {number}") for number in range(5)]
        carrier = UDPCarrier(network)
        async with driven(carrier) as told:
            for number in range(6):
                carrier.send([b"%d" % number])
                await anyio.sleep(1.5)
            assert [str(error) for _, error in told.failures] == [f"no way {n}" for n in range(5)]
            assert network.tries == [0.0, 1.5, 3.0, 4.5, 6.0, 7.5]
            network.made[0].come(b"answer", OSError("gone"))
            await settle()
            network.errors.append(OSError("no way"))
            carrier.send([b"again"])
            await anyio.sleep(2)
            assert network.tries[6:] == [9.25]
            assert len(told.failures) == 7

    async def test_what_is_asked_in_a_pause_waits_for_its_end(self) -> None:
        network = Network()
        network.errors.append(OSError("no way"))
        carrier = UDPCarrier(network)
        async with driven(carrier) as told:
            carrier.send([b"lost"])
            await settle()
            carrier.send([b"kept"])
            await anyio.sleep(1)
            assert network.tries == [0.0, 0.25]
            assert network.made[0].sent == [b"kept"]
            assert len(told.failures) == 1

    @pytest.mark.parametrize(
        "error",
        [OSError("gone"), anyio.BrokenResourceError(), anyio.EndOfStream()],
        ids=["OSError", "broken", "end"],
    )
    async def test_a_broken_socket_is_told_of_and_replaced(self, error: Exception) -> None:
        network = Network()
        carrier = UDPCarrier(network)
        async with driven(carrier) as told:
            carrier.send([b"one"])
            await settle()
            network.made[0].come(b"answer", error)
            await settle()
            assert told.answers == [(0.0, b"answer")]
            assert told.failures == [(0.0, error)]
            assert network.made[0].closed_at == 0.0
            carrier.send([b"two"])
            await anyio.sleep(1)
            assert [made.sent for made in network.made] == [[b"one"], [b"two"]]

    async def test_an_error_of_a_replaced_socket_is_nobody_s(self) -> None:
        network = Network()
        carrier = UDPCarrier(network)
        async with driven(carrier) as told:
            carrier.send([b"one"])
            await settle()
            carrier.send([b"two"], fresh=True)
            await settle()
            network.made[0].come(OSError("gone"))
            await settle()
            assert told.failures == []
            assert network.made[0].closed_at == 0.0


@pytest.mark.every_loop
class TestOnLoopback:
    async def test_questions_go_out_and_answers_come_in(self) -> None:
        with socket.socket(type=socket.SOCK_DGRAM) as resolver:
            resolver.bind(("127.0.0.1", 0))
            resolver.settimeout(20)
            port = resolver.getsockname()[1]
            carrier = UDPCarrier(lambda: connect_datagrams("127.0.0.1", port))
            async with driven(carrier) as told:
                carrier.send([b"%d" % number for number in range(100)])
                await settle()
                for _ in range(100):
                    question, client = resolver.recvfrom(99)
                    resolver.sendto(question, client)
                await told.until(answers=100)
                assert [answer for _, answer in told.answers] == [b"%d" % n for n in range(100)]

    @pytest.mark.parametrize("questions", [1, 2, 3])
    async def test_a_closed_port_is_told_of_however_many_were_sent(self, questions: int) -> None:
        with socket.socket(type=socket.SOCK_DGRAM) as gone:
            gone.bind(("127.0.0.1", 0))
            port = gone.getsockname()[1]
        carrier = UDPCarrier(lambda: connect_datagrams("127.0.0.1", port))
        async with driven(carrier) as told:
            carrier.send([b"question"] * questions)
            await told.until(failures=1)
            error = told.failures[0][1]
            assert isinstance(error, ConnectionRefusedError)
            assert error.errno == errno.ECONNREFUSED

    async def test_an_app_s_hook_may_give_a_socket_that_the_loop_reads_by_itself(self) -> None:
        with socket.socket(type=socket.SOCK_DGRAM) as resolver:
            resolver.bind(("127.0.0.1", 0))
            resolver.settimeout(20)
            port = resolver.getsockname()[1]

            async def open_datagrams() -> UnreliableObjectStream[bytes]:
                return await anyio.create_connected_udp_socket("127.0.0.1", port)

            carrier = UDPCarrier(open_datagrams)
            async with driven(carrier) as told:
                carrier.send([b"question"])
                question, client = await anyio.to_thread.run_sync(resolver.recvfrom, 99)
                resolver.sendto(question, client)
                await told.until(answers=1)
                assert [answer for _, answer in told.answers] == [b"question"]
