"""The accepted end of a TCP connection."""

from __future__ import annotations

import socket

import anyio
import pytest
from anyio.abc import SocketAttribute

from racer._socket_end import SocketEnd


async def test_it_carries_and_ends_each_way() -> None:
    one, other = socket.socketpair()
    async with SocketEnd(one) as near, SocketEnd(other) as far:
        await near.send(b"ping")
        assert await far.receive() == b"ping"
        await near.send_eof()
        with pytest.raises(anyio.EndOfStream):
            await far.receive()
        await far.send(b"pong")
        assert await near.receive(2) == b"po"
        assert await near.receive() == b"ng"
        assert near.extra(SocketAttribute.raw_socket) is one
    with pytest.raises(anyio.ClosedResourceError):
        await near.receive()
    with pytest.raises(anyio.ClosedResourceError):
        await near.send(b"late")
    with pytest.raises(anyio.ClosedResourceError):
        await near.send_eof()


async def test_more_than_the_system_takes_waits_for_the_reader() -> None:
    one, other = socket.socketpair()
    size = 5_000_000
    async with (
        SocketEnd(one) as near,
        SocketEnd(other) as far,
        anyio.create_task_group() as group,
    ):
        group.start_soon(near.send, b"x" * size)
        while size:
            size -= len(await far.receive())


async def test_an_abort_is_a_reset() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        accepted, _ = listener.accept()
    near, far = SocketEnd(client), SocketEnd(accepted)
    near.abort()
    near.abort()
    with pytest.raises(anyio.BrokenResourceError):
        await far.receive()
    with pytest.raises(anyio.BrokenResourceError):
        while True:
            await far.send(b"x")
    await far.send_eof()  # nobody to tell
    await far.aclose()
    await far.aclose()


async def test_closing_wakes_who_reads() -> None:
    one, other = socket.socketpair()
    with other:
        stream = SocketEnd(one)

        async def read() -> None:
            with pytest.raises(anyio.ClosedResourceError):
                await stream.receive()

        async with anyio.create_task_group() as group:
            group.start_soon(read)
            await anyio.wait_all_tasks_blocked()
            await stream.aclose()


@pytest.mark.parametrize("keepalive", [True, False])
async def test_whether_a_silent_peer_is_looked_after_is_said(keepalive: bool) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()),
    ):
        accepted, _ = listener.accept()
        async with SocketEnd(accepted, keepalive=keepalive):
            on = accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert bool(on) is keepalive
