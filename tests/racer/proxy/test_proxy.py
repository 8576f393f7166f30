from __future__ import annotations

import errno
import socket
from typing import Any

import anyio
import pytest

import racer
from racer import Dialer
from racer._socket_end import SocketEnd
from racer.errors import ConfigError, DialerClosed
from racer.proxy import Proxy
from racer.testing import EchoServer, ScriptedTransport, wins
from tests.racer.proxy.scene import ACCEPTED, SOCKS, echo, silent
from transports.direct import Direct
from transports.proxy import Socks5


def scripted(**options: Any) -> ScriptedTransport:
    return ScriptedTransport("tunnel", wins(), **{"serve": echo, **options})


async def exchange(address: tuple[str, int], data: bytes = b"ping") -> bytes:
    """Return what comes back through a tunnel of a client's own."""
    async with await anyio.connect_tcp(*address) as stream:
        await stream.send(SOCKS)
        said = b""
        while len(said) < len(ACCEPTED):
            said += await stream.receive()
        await stream.send(data)
        await stream.send_eof()
        back = b""
        async for piece in stream:
            back += piece
    assert said == ACCEPTED
    return back


def test_it_is_a_room_of_racers_that_loads_when_it_is_named() -> None:
    assert racer.proxy.Proxy is Proxy


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"host": "0.0.0.0"}, "in your name"),
        ({"host": "proxy.example"}, "host must be an IP address"),
        ({"port": 65536}, "port must be"),
        ({"port": "1080"}, "port must be"),
        ({"max_connections": 0}, "max_connections must be"),
        ({"max_connections": True}, "max_connections must be"),
        ({"handshake_timeout": 0}, "handshake_timeout must be"),
        ({"idle_timeout": float("inf")}, "idle_timeout must be"),
        ({"admin": 1}, "admin must be"),
        ({"users": {}}, "0 accounts"),
        ({"on_failure": "print"}, "on_failure must be a function"),
    ],
)
def test_what_cannot_be_is_said_before_anything_listens(options: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Proxy(Dialer([scripted()]), **options)


def test_a_dialer_is_a_dialer() -> None:
    with pytest.raises(ConfigError, match=r"a racer.Dialer was expected, not NoneType"):
        Proxy(None)  # type: ignore[arg-type]


async def test_it_listens_and_serves_and_lets_go_of_its_port() -> None:
    async with Dialer([scripted()]) as dialer:
        proxy = Proxy(dialer, port=0)
        assert proxy.address == ("127.0.0.1", 0)
        async with proxy:
            assert proxy.address[1] > 0
            assert proxy.status().is_ready
            assert await exchange(proxy.address) == b"ping"
        status = proxy.status()
        assert (status.clients, status.accepted, status.is_ready) == (0, 1, False)
        with pytest.raises(OSError):
            await anyio.connect_tcp(*proxy.address)
        with pytest.raises(ConfigError, match="only once"):
            async with proxy:
                pass


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6")
async def test_it_listens_on_ipv6() -> None:
    async with Dialer([scripted()]) as dialer, Proxy(dialer, host="::1", port=0) as proxy:
        assert proxy.address[0] == "::1"
        assert await exchange(proxy.address) == b"ping"


async def test_a_port_that_is_taken_is_an_error_that_names_it() -> None:
    async with Dialer([scripted()]) as dialer, Proxy(dialer, port=0) as first:
        port = first.address[1]
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{port}"):
            async with Proxy(dialer, port=port):
                pass


async def test_a_dialer_that_has_ended_serves_no_proxy() -> None:
    dialer = Dialer([scripted()])
    await dialer.aclose()
    with pytest.raises(DialerClosed):
        async with Proxy(dialer, port=0):
            pass


async def test_what_is_raised_in_the_block_leaves_it_as_it_is() -> None:
    async with Dialer([scripted()]) as dialer:
        with pytest.raises(ValueError, match="mine"):
            async with Proxy(dialer, port=0):
                raise ValueError("mine")


@pytest.mark.parametrize("crowd", [50, pytest.param(500, marks=pytest.mark.soak)])
async def test_many_clients_at_once_are_all_served(crowd: int) -> None:
    transport = scripted()
    most = 0
    async with Dialer([transport]) as dialer, Proxy(dialer, port=0) as proxy:
        everybody_is_here = anyio.Event()
        here = 0

        async def client(number: int) -> None:
            nonlocal here, most
            async with await anyio.connect_tcp(*proxy.address) as stream:
                await stream.send(SOCKS)
                said = b""
                while len(said) < len(ACCEPTED):
                    said += await stream.receive()
                here += 1
                if here == crowd:
                    most = proxy.status().tunnels
                    everybody_is_here.set()
                await everybody_is_here.wait()
                data = b"%03d" % number * 100
                await stream.send(data)
                await stream.send_eof()
                back = b""
                async for piece in stream:
                    back += piece
                assert back == data

        async with anyio.create_task_group() as group:
            for number in range(crowd):
                group.start_soon(client, number)
        assert most == crowd
        assert proxy.status().requests == {("socks5", "connected"): crowd}
        assert await proxy.drain(10) == 0
    assert transport.ledger.open_streams == ()


async def test_the_port_is_free_while_it_drains() -> None:
    async with (
        Dialer([scripted(serve=silent)]) as dialer,
        Proxy(dialer, port=0) as proxy,
        await anyio.connect_tcp(*proxy.address) as stream,
        anyio.create_task_group() as group,
    ):
        await stream.send(SOCKS)
        assert await stream.receive()
        group.start_soon(proxy.drain, 1000)
        while proxy.status().is_accepting:
            await anyio.lowlevel.checkpoint()
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(OSError):
            await anyio.connect_tcp(*proxy.address)
        async with Proxy(dialer, port=proxy.address[1]):  # a successor
            pass
        group.cancel_scope.cancel()


async def test_accepting_goes_on_after_the_system_had_no_socket_left(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    errors = [
        OSError(errno.EMFILE, "Too many open files"),
        OSError(errno.ECONNABORTED, "Software caused connection abort"),
    ]
    accept = socket.socket.accept

    def stumbles(sock: socket.socket) -> Any:
        if errors:
            raise errors.pop(0)
        return accept(sock)

    async with Dialer([scripted()]) as dialer:
        monkeypatch.setattr(socket.socket, "accept", stumbles)
        async with Proxy(dialer, port=0) as proxy:
            assert await exchange(proxy.address) == b"ping"
    assert errors == []
    assert "cannot take more clients: Too many open files" in caplog.text


async def test_an_entrant_that_leads_back_here_is_found_out_and_the_others_go_on() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    back_here = racer.Entrant(Socks5(f"127.0.0.1:{port}"))
    later = racer.Entrant(Direct(), start_delay=60.0)
    async with (
        EchoServer() as server,
        Dialer([back_here, later]) as dialer,
        Proxy(dialer, port=port) as proxy,
        await anyio.connect_tcp(*proxy.address) as stream,
    ):
        await stream.send(f"CONNECT {server.target} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert (await stream.receive()).startswith(b"HTTP/1.1 200 ")
        await stream.send(b"ping")
        assert await stream.receive() == b"ping"
        status = proxy.status()
        assert status.accepted == 2
        assert status.requests == {("socks5", "refused"): 1, ("http_connect", "connected"): 1}
        assert status.attempts == {
            ("socks5", "connect_failed"): 1,
            ("direct", "connected"): 1,
        }


async def test_users_can_be_changed_while_it_runs() -> None:
    async with Dialer([scripted()]) as dialer, Proxy(dialer, port=0) as proxy:
        assert await exchange(proxy.address) == b"ping"
        proxy.update_users({"alice": "s3cret"})
        async with await anyio.connect_tcp(*proxy.address) as stream:
            await stream.send(SOCKS)
            assert await stream.receive() == b"\x05\xff"
        proxy.update_users(None)
        assert await exchange(proxy.address) == b"ping"
    async with Dialer([scripted()]) as dialer:
        wide = Proxy(dialer, host="0.0.0.0", port=0, users={"alice": "s3cret"})
        with pytest.raises(ConfigError, match="in your name"):
            wide.update_users(None)


async def test_a_client_that_is_gone_before_it_is_served_hurts_nobody() -> None:
    async with Dialer([scripted()]) as dialer, Proxy(dialer, port=0) as proxy:
        for _ in range(20):
            sock = socket.create_connection(proxy.address)
            SocketEnd(sock).abort()
        assert await exchange(proxy.address) == b"ping"
        assert await proxy.drain(10) == 0


def test_no_password_is_in_its_repr() -> None:
    proxy = Proxy(Dialer([scripted()]), users={"alice": "s3cret"})
    assert "s3cret" not in repr(proxy)
    assert "s3cret" not in repr(proxy._house)
