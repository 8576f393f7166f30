"""One connection over real sockets on loopback: made, refused, reset, cancelled, and never left open."""

from __future__ import annotations

import errno
import os
import socket
import struct
import sys
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.abc
import pytest

from racer.errors import ErrorType, error_type_of
from racer.testing import cancel_everywhere
from transports._net import tcp
from transports._net.tcp import connect_socket, wrap_socket

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.every_loop


def has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


HOSTS = ["127.0.0.1", *(["::1"] if has_ipv6() else [])]


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


@contextmanager
def listening(host: str = "127.0.0.1") -> Iterator[socket.socket]:
    with closing(socket.create_server((host, 0), family=family(host), backlog=128)) as listener:
        listener.setblocking(False)
        yield listener


def port_of(sock: socket.socket) -> int:
    port: int = sock.getsockname()[1]
    return port


@contextmanager
def refusing(host: str = "127.0.0.1") -> Iterator[int]:
    """Give a port that is taken, and at which nobody listens."""
    with closing(socket.socket(family(host))) as sock:
        sock.bind((host, 0))
        yield port_of(sock)


@pytest.mark.parametrize("host", HOSTS)
async def test_a_connection_is_a_stream_without_delay_that_no_other_program_inherits(
    host: str,
) -> None:
    with listening(host) as listener:
        sock = await connect_socket(host, port_of(listener))
        assert not sock.get_inheritable()
        assert not sock.getblocking()
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        async with await wrap_socket(sock) as stream:
            theirs, _ = listener.accept()
            with theirs:
                await stream.send(b"ping")
                theirs.setblocking(True)
                assert theirs.recv(4) == b"ping"
                theirs.sendall(b"pong")
                assert await stream.receive() == b"pong"
                raw = stream.extra(anyio.abc.SocketAttribute.raw_socket)
                assert raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize("host", HOSTS)
async def test_a_refusal_names_the_peer_and_closes_the_socket(host: str) -> None:
    before = open_files()
    with refusing(host) as port, pytest.raises(ConnectionRefusedError) as caught:
        await connect_socket(host, port)
    shown = f"[{host}]" if ":" in host else host
    assert f"could not connect to {shown}:{port}: " in str(caught.value)
    assert caught.value.errno == errno.ECONNREFUSED
    assert open_files() == before


async def test_an_ipv6_scope_leads_through_its_interface() -> None:
    if "::1" not in HOSTS:
        pytest.skip("this machine has no IPv6")
    loopback = socket.if_nametoindex("lo" if sys.platform == "linux" else "lo0")
    with listening("::1") as listener:
        for scope in (str(loopback), socket.if_indextoname(loopback)):
            with closing(await connect_socket(f"::1%{scope}", port_of(listener))) as sock:
                assert sock.getpeername()[1] == port_of(listener)


async def test_an_interface_that_does_not_exist_leads_to_no_host() -> None:
    before = open_files()
    with pytest.raises(
        OSError, match=r"\[fe80::1%no-such\]:9: .* no network interface 'no-such'"
    ) as caught:
        await connect_socket("fe80::1%no-such", 9)
    assert error_type_of(caught.value) is ErrorType.HOST_UNREACHABLE
    assert open_files() == before


@pytest.mark.parametrize(
    ("address", "number"),
    [("fe80::1%7", 7), ("fe80::1%99999999999999999999", 0xFFFF_FFFF), ("fe80::1", 0)],
)
def test_the_number_of_an_interface_fits_the_system(address: str, number: int) -> None:
    assert tcp.socket_address(address, 9) == ("fe80::1", 9, 0, number)


@pytest.mark.parametrize("name", ["localhost", "127.1", ""])
async def test_no_name_is_ever_looked_up(name: str) -> None:
    with pytest.raises(ValueError, match="not an IP address"):
        await connect_socket(name, 443)


async def test_it_connects_from_the_address_that_is_asked_for() -> None:
    with listening() as listener:
        sock = await connect_socket("127.0.0.1", port_of(listener), local_address="127.0.0.1")
        with closing(sock):
            theirs, address = listener.accept()
            theirs.close()
            assert address == sock.getsockname()
            assert address[0] == "127.0.0.1"


async def test_an_address_of_another_machine_cannot_be_connected_from() -> None:
    before = open_files()
    with pytest.raises(OSError, match=r"cannot connect from 198\.51\.100\.7") as caught:
        await connect_socket("127.0.0.1", 9, local_address="198.51.100.7")
    assert caught.value.errno == errno.EADDRNOTAVAIL
    assert error_type_of(caught.value) is ErrorType.HOST_UNREACHABLE
    assert open_files() == before


async def test_a_socket_that_connected_to_itself_was_refused() -> None:
    with refusing() as free:
        pass  # nobody has the port now, and nobody listens at it
    before = open_files()
    with pytest.raises(ConnectionRefusedError):
        await connect_socket("127.0.0.1", free, local_address="127.0.0.1", local_port=free)
    assert open_files() == before


async def test_a_connection_that_is_reset_at_once_is_a_reset_and_not_a_bug() -> None:
    with listening() as listener:
        sock = await connect_socket("127.0.0.1", port_of(listener))
        theirs, _ = listener.accept()
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        theirs.close()
        with pytest.raises(ConnectionResetError, match=r"could not connect to name\.example:443"):
            await wrap_socket(sock, peer="name.example:443")
        assert sock.fileno() == -1


async def test_a_connection_that_was_lost_before_anybody_looked_is_a_reset() -> None:
    # Never connected, and no error to tell: what a socket looks like whose reset was already told.
    with closing(socket.socket()) as sock:
        with pytest.raises(ConnectionResetError):
            tcp._check_connected(sock, 0)
        with pytest.raises(ConnectionRefusedError):
            tcp._check_connected(sock, errno.ECONNREFUSED)


@pytest.mark.parametrize("how", ["fails", "is cancelled"])
async def test_a_socket_that_the_event_loop_has_not_taken_is_closed(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def from_socket(sock: socket.socket) -> anyio.abc.SocketStream:
        if how == "fails":
            raise OSError(errno.EMFILE, "no more files")
        await anyio.sleep_forever()
        raise AssertionError

    with listening() as listener:
        sock = await connect_socket("127.0.0.1", port_of(listener))
        monkeypatch.setattr(anyio.abc.SocketStream, "from_socket", from_socket)
        if how == "fails":
            with pytest.raises(OSError, match="no more files") as caught:
                await wrap_socket(sock)
            assert caught.value.errno == errno.EMFILE
        else:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(wrap_socket, sock)
                await anyio.wait_all_tasks_blocked()
                tasks.cancel_scope.cancel()
    assert sock.fileno() == -1


async def test_a_system_without_sockets_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> socket.socket:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patch:
        patch.setattr(socket, "socket", refuse)
        with pytest.raises(OSError, match=r"could not connect to 127\.0\.0\.1:9: ") as caught:
            await connect_socket("127.0.0.1", 9)
    assert error_type_of(caught.value) is ErrorType.RESOURCE_EXHAUSTED


def drain(listener: socket.socket) -> None:
    """Take every connection that waits, so that the next ones find room."""
    while True:
        try:
            theirs, _ = listener.accept()
        except BlockingIOError:
            return
        theirs.close()


async def settle() -> None:
    """Let asyncio close what it closes one pass later."""
    for _ in range(3):
        await anyio.lowlevel.checkpoint()


async def test_cancelled_anywhere_it_leaves_no_socket() -> None:
    with listening() as listener:

        async def story() -> None:
            sock = await connect_socket("127.0.0.1", port_of(listener))
            stream = await wrap_socket(sock)
            await anyio.aclose_forcefully(stream)

        async def verify() -> None:
            await settle()
            drain(listener)
            assert open_files() == before

        await story()
        await settle()
        drain(listener)
        before = open_files()  # a loop opens files of its own when it is first used
        sweep = await cancel_everywhere(story, verify=verify, passes=6)
        assert sweep.cancelled > 3
