"""Datagrams over real sockets on loopback: to and from one peer alone."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import SocketAttribute

from racer.testing import cancel_everywhere
from transports._net.udp import DatagramSocket, connect_datagrams

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.every_loop


@contextmanager
def peer(family: socket.AddressFamily = socket.AF_INET) -> Iterator[tuple[socket.socket, int]]:
    """Yield a socket on loopback and its port; it blocks, but never long."""
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.bind(("::1" if family is socket.AF_INET6 else "127.0.0.1", 0))
        sock.settimeout(20)
        yield sock, sock.getsockname()[1]


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize(
    ("address", "family"), [("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)]
)
async def test_it_talks_to_its_peer(address: str, family: socket.AddressFamily) -> None:
    with peer(family) as (sock, port):
        async with await connect_datagrams(address, port) as datagrams:
            await datagrams.send(b"ping")
            data, sender = sock.recvfrom(99)
            sock.sendto(data + b" pong", sender)
            sock.sendto(b"", sender)
            assert [await datagrams.receive(), await datagrams.receive()] == [b"ping pong", b""]
            assert datagrams.extra(SocketAttribute.remote_address) == (address, port)
            assert datagrams.extra(SocketAttribute.remote_port) == port
            assert datagrams.extra(SocketAttribute.local_address) == sender[:2]
            assert datagrams.extra(SocketAttribute.local_port) == sender[1]
            assert datagrams.extra(SocketAttribute.family) is family
            assert datagrams.extra(SocketAttribute.raw_socket).fileno() >= 0


async def test_what_others_send_never_arrives() -> None:
    with peer() as (sock, port), peer() as (stranger, _):
        async with await connect_datagrams("127.0.0.1", port) as datagrams:
            me = datagrams.extra(SocketAttribute.local_address)
            stranger.sendto(b"forged", me)
            sock.sendto(b"true", me)
            assert await datagrams.receive() == b"true"


async def test_every_socket_has_a_port_of_its_own() -> None:
    with peer() as (_, port):
        many = [await connect_datagrams("127.0.0.1", port) for _ in range(8)]
        assert len({each.extra(SocketAttribute.local_port) for each in many}) == 8
        for each in many:
            await each.aclose()


async def test_it_waits_until_something_comes() -> None:
    with peer() as (sock, port):
        async with (
            await connect_datagrams("127.0.0.1", port) as datagrams,
            anyio.create_task_group() as tasks,
        ):
            got: list[bytes] = []

            async def receive() -> None:
                got.append(await datagrams.receive())

            tasks.start_soon(receive)
            await anyio.wait_all_tasks_blocked()
            sock.sendto(b"late", datagrams.extra(SocketAttribute.local_address))
        assert got == [b"late"]


async def test_where_nobody_listens_the_network_says_so() -> None:
    with peer() as (_, port):
        pass
    async with await connect_datagrams("127.0.0.1", port) as datagrams:
        await datagrams.send(b"ping")
        with pytest.raises(anyio.BrokenResourceError) as caught:
            await datagrams.receive()
        assert isinstance(caught.value.__cause__, ConnectionRefusedError)


async def test_what_is_too_long_is_not_sent() -> None:
    with peer() as (_, port):
        async with await connect_datagrams("127.0.0.1", port) as datagrams:
            with pytest.raises(anyio.BrokenResourceError) as caught:
                await datagrams.send(bytes(70_000))
            assert isinstance(caught.value.__cause__, OSError)
            assert caught.value.__cause__.errno == errno.EMSGSIZE


async def test_closing_ends_those_who_wait() -> None:
    with peer() as (_, port):
        datagrams = await connect_datagrams("127.0.0.1", port)
        async with anyio.create_task_group() as tasks:

            async def receive() -> None:
                with pytest.raises(anyio.ClosedResourceError):
                    await datagrams.receive()

            tasks.start_soon(receive)
            await anyio.wait_all_tasks_blocked()
            datagrams.close()
        await datagrams.aclose()
        with pytest.raises(anyio.ClosedResourceError):
            await datagrams.receive()
        with pytest.raises(anyio.ClosedResourceError):
            await datagrams.send(b"x")


async def test_it_can_come_from_an_address_of_this_machine() -> None:
    with peer() as (sock, port):
        datagrams = await connect_datagrams("127.0.0.1", port, local_address="127.0.0.1")
        async with datagrams:
            await datagrams.send(b"ping")
            assert sock.recvfrom(99)[1] == (
                "127.0.0.1",
                datagrams.extra(SocketAttribute.local_port),
            )


@pytest.mark.parametrize(
    ("address", "local", "words"),
    [
        ("127.0.0.1", "192.0.2.1", "127.0.0.1:9: cannot connect from 192.0.2.1: "),
        ("fe80::1%nowhere0", None, "no network interface 'nowhere0'"),
    ],
)
async def test_where_there_is_no_way_the_error_says_where(
    address: str, local: str | None, words: str
) -> None:
    before = open_files()
    with pytest.raises(OSError) as caught:
        await connect_datagrams(address, 9, local_address=local)
    assert words in str(caught.value)
    assert open_files() == before


async def test_a_name_is_refused() -> None:
    with pytest.raises(ValueError, match="'localhost' is not an IP address"):
        await connect_datagrams("localhost", 53)


async def test_a_port_that_is_none_is_a_bug_and_leaves_nothing() -> None:
    before = open_files()
    with pytest.raises(OverflowError):
        await connect_datagrams("127.0.0.1", 70_000)
    assert open_files() == before


async def test_a_system_without_sockets_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> socket.socket:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patch:
        patch.setattr(socket, "socket", refuse)
        with pytest.raises(OSError, match=r"could not connect to 127\.0\.0\.1:9: "):
            await connect_datagrams("127.0.0.1", 9)


async def test_it_waits_while_the_system_takes_nothing() -> None:
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with closing(far):
        near.setblocking(False)
        far.settimeout(20)
        async with DatagramSocket(near) as datagrams, anyio.create_task_group() as tasks:
            sent = 0
            with contextlib.suppress(BlockingIOError):
                while sent < 1_000_000:  # until the buffer is full
                    near.send(b"x")
                    sent += 1
            tasks.start_soon(datagrams.send, b"last")
            await anyio.wait_all_tasks_blocked()
            for _ in range(sent):
                assert far.recv(9) == b"x"
        assert far.recv(9) == b"last"


async def test_cancelled_anywhere_it_leaves_no_socket() -> None:
    with peer() as (sock, port):
        sock.setblocking(False)

        async def story() -> None:
            async with await connect_datagrams("127.0.0.1", port) as datagrams:
                await datagrams.send(b"ping")
                sock.sendto(*sock.recvfrom(99))
                assert await datagrams.receive() == b"ping"

        async def verify() -> None:
            for _ in range(3):
                await anyio.lowlevel.checkpoint()
            assert open_files() == before

        await story()
        before = open_files()  # a loop opens files of its own when it is first used
        sweep = await cancel_everywhere(story, verify=verify, passes=4)
        assert sweep.cancelled > 3
