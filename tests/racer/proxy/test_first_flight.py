"""Networks that let every connection stand, and break it once they have read a name."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from racer import Dialer, Entrant
from racer.proxy import Failure, Proxy
from racer.proxy._first_flight import PATIENCE, hello_size
from racer.testing import (
    MemoryStream,
    ScriptedTransport,
    cancel_everywhere,
    fails,
    stream_pair,
    wins,
)
from tests.racer.proxy.scene import ACCEPTED, SOCKS, echo, read, silent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.virtual_time

Serve = Callable[[MemoryStream], Awaitable[object]]


def client_hello() -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    tls = context.wrap_bio(incoming, outgoing, server_hostname="news.example")
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


HELLO = client_hello()


class Censored:
    """Resets, or swallows, whatever begins with a ClientHello.

    Attributes:
        heard: what has come this way.
    """

    def __init__(self, *, resets: bool = True) -> None:
        self.heard = b""
        self._resets = resets

    async def __call__(self, stream: MemoryStream) -> None:
        async with stream:
            async for data in stream:
                self.heard += data
                if self._resets and len(self.heard) >= len(HELLO):
                    stream.abort()
                    return


class Open:
    """Answers when it has heard a whole ClientHello, then says back what it hears."""

    def __init__(self) -> None:
        self.heard = b""

    async def __call__(self, stream: MemoryStream) -> None:
        async with stream:
            while len(self.heard) < len(HELLO):
                self.heard += await stream.receive()
            await stream.send(b"server hello")
            async for data in stream:
                self.heard += data
                await stream.send(data)


class Two:
    """A proxy over two transports, of which the first always connects first."""

    def __init__(self, proxy: Proxy, group: Any, failures: list[Failure]) -> None:
        self.proxy = proxy
        self.failures = failures
        self._group = group

    async def tunnel(self) -> MemoryStream:
        ours, theirs = stream_pair()
        self._group.start_soon(self.proxy.serve_stream, theirs)
        await ours.send(SOCKS)
        assert await read(ours, len(ACCEPTED)) == ACCEPTED
        return ours


@asynccontextmanager
async def two(
    first: Serve, second: Serve, script: Any = None, **options: Any
) -> AsyncIterator[Two]:
    one = ScriptedTransport("direct", wins(), serve=first)
    other = ScriptedTransport("tunnel", script or wins(1), serve=second)
    failures: list[Failure] = []
    async with (
        Dialer([Entrant(one), Entrant(other, start_delay=0.5)]) as dialer,
        Proxy(dialer, port=0, on_failure=failures.append, **options) as proxy,
        anyio.create_task_group() as group,
    ):
        yield Two(proxy, group, failures)
        group.cancel_scope.cancel()
    assert one.ledger.open_streams == ()
    assert other.ledger.open_streams == ()


@pytest.mark.parametrize("cuts", [1, 3])
async def test_a_connection_that_is_reset_by_its_name_is_replaced_unseen(cuts: int) -> None:
    censored, other = Censored(), Open()
    async with two(censored, other) as it:
        client = await it.tunnel()
        for part in range(cuts):
            await client.send(HELLO[part * len(HELLO) // cuts : (part + 1) * len(HELLO) // cuts])
            await anyio.sleep(0.1)
        assert await read(client, 12) == b"server hello"
        await client.send(b"more")
        assert await read(client, 4) == b"more"
        assert (censored.heard, other.heard) == (HELLO, HELLO + b"more")
        assert it.proxy.status().requests == {("socks5", "connected"): 1}
        assert it.proxy.status().attempts == {
            ("direct", "connected"): 1,
            ("tunnel", "not_started"): 1,
            ("direct", "ineligible"): 1,
            ("tunnel", "connected"): 1,
        }
        await client.aclose()


async def test_a_connection_that_falls_silent_is_given_a_while() -> None:
    async with two(Censored(resets=False), Open()) as it:
        client = await it.tunnel()
        began = anyio.current_time()
        await client.send(HELLO)
        assert await read(client, 12) == b"server hello"
        assert anyio.current_time() - began == PATIENCE + 1  # who is alone need not wait its turn
        await client.aclose()


async def test_what_follows_the_hello_is_sent_once_and_only_where_it_was_answered() -> None:
    censored, other = Censored(), Open()
    async with two(censored, other) as it:
        client = await it.tunnel()
        await client.send(HELLO + b"early data")
        assert await read(client, 12) == b"server hello"
        assert await read(client, 10) == b"early data"
        assert censored.heard == HELLO
        assert other.heard == HELLO + b"early data"
        await client.aclose()


async def test_where_every_way_breaks_the_client_is_broken_and_it_is_told() -> None:
    async with two(Censored(), Censored()) as it:
        client = await it.tunnel()
        await client.send(HELLO)
        with pytest.raises(anyio.BrokenResourceError):
            await client.receive()
        await client.aclose()
        await anyio.sleep(1)
        (failure,) = it.failures
        assert failure.words == "no transport serves news.example:443"
        assert "direct: connected, and did not answer the ClientHello" in failure.details[0]


async def test_where_no_other_way_connects_it_is_told() -> None:
    async with two(Censored(), Open(), script=fails(1)) as it:
        client = await it.tunnel()
        await client.send(HELLO)
        with pytest.raises(anyio.BrokenResourceError):
            await client.receive()
        await client.aclose()
        (failure,) = it.failures
        assert failure.words == "could not connect to news.example:443"


async def test_who_speaks_first_is_heard() -> None:
    async def greets(stream: MemoryStream) -> None:
        async with stream:
            await stream.send(b"220 ready")
            await echo(stream)

    async with two(greets, Open()) as it:
        client = await it.tunnel()
        assert await read(client, 9) == b"220 ready"
        await client.send(HELLO)
        assert await read(client, len(HELLO)) == HELLO
        await client.aclose()


@pytest.mark.parametrize(
    "said",
    [b"GET / HTTP/1.1\r\n\r\n", b"\x16", b"\x16\x03\x01\x00\x05abcde", HELLO[:40]],
    ids=["a-request", "one-octet", "another-record", "a-part-of-a-hello"],
)
async def test_what_is_no_hello_is_carried_as_ever(said: bytes) -> None:
    async with two(echo, Open()) as it:
        client = await it.tunnel()
        await client.send(said)
        await client.send_eof()
        assert await read(client, len(said)) == said
        await client.aclose()
        assert it.proxy.status().attempts["tunnel", "not_started"] == 1


@pytest.mark.parametrize("by_force", [False, True])
async def test_a_client_that_leaves_meanwhile_leaves_nothing_behind(by_force: bool) -> None:
    async with two(Censored(resets=False), Open()) as it:
        client = await it.tunnel()
        await client.send(HELLO)
        await anyio.sleep(1)
        client.abort() if by_force else await client.aclose()
        await anyio.sleep(0.001)
        assert it.proxy.status().clients == 0


async def test_a_tunnel_in_which_nobody_speaks_is_cut() -> None:
    async with two(silent, silent, idle_timeout=100) as it:
        client = await it.tunnel()
        with pytest.raises(anyio.BrokenResourceError):
            await client.receive()
        assert anyio.current_time() == 100
        await client.aclose()


@pytest.mark.soak
async def test_a_cancellation_at_any_point_leaves_nothing_open() -> None:
    async def story() -> None:
        one = ScriptedTransport("direct", wins(), serve=Censored())
        other = ScriptedTransport("tunnel", wins(0.1), serve=Open(), ledger=one.ledger)
        near, far = stream_pair(ledger=one.ledger)
        dialer = Dialer([Entrant(one), Entrant(other, start_delay=0.1)])
        is_served = False

        async def serve(proxy: Proxy) -> None:
            nonlocal is_served
            is_served = True
            await proxy.serve_stream(far)

        try:
            async with Proxy(dialer, port=0) as proxy, anyio.create_task_group() as group:
                group.start_soon(serve, proxy)
                await near.send(SOCKS + HELLO)
                try:
                    assert (await read(near, len(ACCEPTED) + 12)).endswith(b"server hello")
                except anyio.BrokenResourceError:  # the proxy was cancelled first
                    await anyio.lowlevel.checkpoint_if_cancelled()
                    raise
                near.abort()
        finally:
            near.abort()
            if not is_served:
                far.abort()
            await dialer.aclose()
            one.ledger.assert_all_closed()

    await cancel_everywhere(story)


def test_a_hello_is_known_by_its_lengths() -> None:
    assert hello_size(HELLO) == len(HELLO)
    assert hello_size(HELLO + b"x") == len(HELLO)
    assert hello_size(HELLO[:9]) == len(HELLO)
    assert hello_size(HELLO[:8]) is None
    assert hello_size(b"\x16\x03\x01\x00\x20\x02" + HELLO[6:]) is None  # a ServerHello
    assert hello_size(b"\x16\x03\x01\x00\x20" + HELLO[5:]) is None  # in several records
    assert (
        hello_size(b"\x16\x03\x01\xff\xff\x01\x00\x00\x00") is None
    )  # longer than a record may be
