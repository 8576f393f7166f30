"""Datagrams in memory: lost, late, doubled, and as exact as streams."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING

import anyio
import pytest
from anyio.abc import SocketAttribute

from racer import lab
from racer.errors import ConfigError
from racer.lab._datagrams import Clients, DatagramEnd
from racer.testing import cancel_everywhere, run_virtual

if TYPE_CHECKING:
    from anyio.abc import UnreliableObjectStream

pytestmark = pytest.mark.virtual_time

SITE = "192.0.2.9"
NAME = "echo.example"
network = partial(lab.Network, in_memory=True)


async def echo(client: UnreliableObjectStream[bytes]) -> None:
    async for data in client:
        await client.send(data)


async def receive_for(seconds: float, udp: UnreliableObjectStream[bytes]) -> list[float]:
    """When datagrams arrive within so many seconds."""
    times = []
    with anyio.move_on_after(seconds):
        while True:
            await udp.receive()
            times.append(anyio.current_time())
    return times


async def test_a_datagram_takes_the_delay_each_way() -> None:
    async with network(up=lab.Profile(delay=0.25), down=lab.Profile(delay=0.5)) as net:
        net.add_datagram_site(NAME, SITE, port=7, handler=echo)
        async with await net.dial_udp(SITE, 7) as udp:
            assert anyio.current_time() == 0
            await udp.send(b"hello")
            assert await udp.receive() == b"hello"
            assert anyio.current_time() == 0.75
            assert udp.extra(SocketAttribute.remote_address) == (SITE, 7)
        assert net.hosts == {NAME: [SITE]}
        assert net.connects[SITE, 7] == 1


async def test_each_client_has_a_handler_that_learns_when_it_has_gone() -> None:
    served: list[str] = []

    async def handler(client: UnreliableObjectStream[bytes]) -> None:
        with contextlib.suppress(anyio.EndOfStream):
            while True:
                served.append((await client.receive()).decode())
        served.append(f"gone at {anyio.current_time()}")

    async with network() as net:
        net.add_datagram_site(NAME, SITE, port=7, handler=handler)
        for word in ("one", "two"):
            async with await net.dial_udp(SITE, 7) as udp:
                await udp.send(word.encode())
                await anyio.sleep(1)
        await anyio.sleep(1)
    assert served == ["one", "gone at 1.0", "two", "gone at 2.0"]


@pytest.mark.parametrize(
    ("profile", "times"),
    [
        (lab.Profile(loss=1.0), []),
        (lab.Profile(duplicate=1.0), [0.0, 0.0]),
        (lab.Profile(reorder=1.0, delay=0.5), [1.0]),
        (lab.Profile(rate=10.0), [0.5]),
        (lab.Profile(rate=10.0, queue=4), []),
    ],
)
async def test_a_link_does_to_datagrams_what_it_says(
    profile: lab.Profile, times: list[float]
) -> None:
    async with network(down=profile) as net:
        net.add_datagram_site(NAME, SITE, port=7, handler=echo)
        async with await net.dial_udp(SITE, 7) as udp:
            await udp.send(b"12345")
            assert await receive_for(10, udp) == times


@pytest.mark.parametrize("rule", [lab.Blackhole(), lab.Refuse(), lab.AcceptAndHang(over="udp")])
async def test_rules_are_for_datagrams_of_the_moment(rule: lab.Rule) -> None:
    async with network() as net:
        net.add_datagram_site(NAME, SITE, port=7, handler=echo)
        async with await net.dial_udp(SITE, 7) as udp:
            for rules, times in (([], 1), ([rule], 0), ([], 1)):
                net.rules[:] = rules
                await udp.send(b"x")
                assert len(await receive_for(1, udp)) == times
        assert [(hit.rule, hit.at, hit.over) for hit in net.hits] == [(rule, 1, "udp")]


async def test_a_rule_for_streams_is_not_for_datagrams() -> None:
    async with network() as net:
        net.add_datagram_site(NAME, SITE, port=7, handler=echo)
        net.rules += [lab.Blackhole(over="tcp"), lab.ResetOnName(), lab.Throttle(rate=10.0)]
        async with await net.dial_udp(SITE, 7) as udp:
            await udp.send(b"12345")
            assert await receive_for(2, udp) == [1.0]  # half a second each way at 10 bytes a second


async def test_nothing_comes_back_from_where_nobody_is() -> None:
    async with network() as net, await net.dial_udp(SITE, 7) as udp:
        await udp.send(b"x")
        assert await receive_for(100, udp) == []


async def test_a_handler_that_fails_ends_the_block_and_one_that_leaves_does_not() -> None:
    async def leave(client: UnreliableObjectStream[bytes]) -> None:
        await client.receive()
        raise anyio.EndOfStream

    async def fail(client: UnreliableObjectStream[bytes]) -> None:
        raise AssertionError("not this")

    async with network() as net:
        net.add_datagram_site(NAME, SITE, port=7, handler=leave)
        async with await net.dial_udp(SITE, 7) as udp:
            for _ in range(3):
                await udp.send(b"x")
                await anyio.sleep(1)
        net.add_datagram_site(NAME, SITE, port=8, handler=fail)
        with pytest.raises(ConfigError, match="taken"):
            net.add_datagram_site(NAME, SITE, port=8, handler=echo)
    with pytest.raises(ExceptionGroup) as caught:
        async with net, await net.dial_udp(SITE, 8):
            await anyio.sleep_forever()
    assert caught.group_contains(AssertionError, match="not this")


def test_each_client_has_dice_of_its_own_the_same_each_time() -> None:
    rough = lab.Profile(delay=0.1, jitter=0.5, loss=0.3, duplicate=0.3, reorder=0.3)

    def run(backend: str, seed: int) -> list[list[float]]:
        async def talk(net: lab.Network) -> list[float]:
            async with await net.dial_udp(SITE, 7) as udp:
                began = anyio.current_time()
                for _ in range(10):
                    await udp.send(b"x")
                return [at - began for at in await receive_for(16, udp)]

        async def main() -> list[list[float]]:
            async with network(up=rough, down=rough, seed=seed) as net:
                net.add_datagram_site(NAME, SITE, port=7, handler=echo)
                return [await talk(net) for _ in range(3)]

        return run_virtual(main, backend=backend)  # type: ignore[arg-type]

    first = run("asyncio", 1)
    assert first == run("asyncio", 1) == run("trio", 1)
    assert first != run("asyncio", 2)
    assert first[0] != first[1] != first[2]


async def test_cancelled_anywhere_nothing_is_left_open() -> None:
    ends: list[UnreliableObjectStream[bytes]] = []
    gone = 0

    async def handler(client: UnreliableObjectStream[bytes]) -> None:
        nonlocal gone
        try:
            await echo(client)
        finally:
            gone += 1

    async def story() -> None:
        async with network(up=lab.Profile(delay=0.25)) as net:
            net.add_datagram_site(NAME, SITE, port=7, handler=handler)
            async with await net.dial_udp(SITE, 7) as udp:
                ends.append(udp)
                await udp.send(b"hello")
                await udp.receive()

    async def verify() -> None:
        assert all(isinstance(end, DatagramEnd) and end.closed for end in ends)
        assert gone == len(ends)

    assert (await cancel_everywhere(story, verify=verify)).cancelled > 20


class TestEnd:
    async def test_it_queues_what_was_not_read_up_to_a_bound(self) -> None:
        end = DatagramEnd()
        for number in range(2000):
            end.deliver(str(number).encode())
        end.end()
        got = [data async for data in end]
        assert got[0] == b"0"
        assert got[-1] == b"1023"

    async def test_closed_it_takes_and_gives_nothing(self) -> None:
        closings: list[bool] = []
        end = DatagramEnd()
        end.on_close = lambda: closings.append(True)
        async with anyio.create_task_group() as group:

            async def wait() -> None:
                with pytest.raises(anyio.ClosedResourceError):
                    await end.receive()

            group.start_soon(wait)
            await anyio.sleep(1)
            await end.aclose()
        await end.aclose()
        end.deliver(b"late")
        with pytest.raises(anyio.ClosedResourceError):
            await end.receive()
        with pytest.raises(anyio.ClosedResourceError):
            await end.send(b"x")
        assert closings == [True]

    async def test_two_may_not_read_at_once(self) -> None:
        end = DatagramEnd()
        async with anyio.create_task_group() as group:
            group.start_soon(end.receive)
            await anyio.sleep(1)
            with pytest.raises(anyio.BusyResourceError):
                await end.receive()
            group.cancel_scope.cancel()

    async def test_no_network_carries_what_is_too_long(self) -> None:
        sent: list[bytes] = []
        end = DatagramEnd()
        end.transmit = sent.append
        await end.send(bytes(65_507))
        with pytest.raises(OSError, match=r"[Mm]essage too long"):
            await end.send(bytes(65_508))
        assert len(sent) == 1


def test_the_silent_are_forgotten_first() -> None:
    forgotten: list[int] = []
    clients = Clients(lambda client: client[1], forgotten.append)
    for port in range(1024):
        assert clients.get(("127.0.0.1", port)) == port
    clients.get(("127.0.0.1", 0))
    clients.get(("127.0.0.1", 5000))
    clients.get(("127.0.0.1", 5001))
    assert forgotten == [1, 2]
