"""What answers behind a name, on ports of its own or as a way to another server."""

from __future__ import annotations

import builtins
import errno
import ssl
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import SocketAttribute
from anyio.streams.tls import TLSAttribute, TLSStream

from racer import lab
from racer.errors import ConfigError
from racer.lab._path import Marked, Segments
from racer.lab._sites import is_gone
from racer.lab._sockets import SocketEnd
from racer.lab._splice import reset, splice
from racer.testing import EchoServer, stream_pair

if TYPE_CHECKING:
    from anyio.abc import ByteStream

AUTHORITY = lab.Authority()
CLIENT = AUTHORITY.client_context()
NAME = "news.example"


async def read_all(stream: ByteStream) -> bytes:
    return b"".join([data async for data in stream])


class TestAuthority:
    def test_contexts_are_made_once_for_the_same_names(self) -> None:
        one = AUTHORITY.server_context(NAME)
        assert AUTHORITY.server_context(NAME) is one
        assert AUTHORITY.server_context(NAME, alpn=("h2",)) is not one
        assert AUTHORITY.server_context("other.example") is not one

    def test_without_the_extra_it_says_what_to_install(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def no_trustme(name: str, *args: Any, **kwargs: Any) -> Any:
            if name == "trustme":
                raise ImportError
            return real(name, *args, **kwargs)

        real = builtins.__import__
        monkeypatch.setattr(builtins, "__import__", no_trustme)
        with pytest.raises(ConfigError, match=r"racer-dialer\[lab\]"):
            lab.Authority()

    async def test_what_no_certificate_can_name_is_said(self) -> None:
        with pytest.raises(ValueError, match="not allowed"):
            await AUTHORITY.make_server_context("*.*.example")

    async def test_making_one_twice_at_once_gives_one(self) -> None:
        authority = lab.Authority()
        made: list[ssl.SSLContext] = []

        async def make() -> None:
            made.append(await authority.make_server_context(NAME))

        async with anyio.create_task_group() as group:
            group.start_soon(make)
            group.start_soon(make)
        assert made[0] is made[1]


@pytest.mark.every_loop
class TestServer:
    async def test_it_serves_on_a_port_of_its_own(self) -> None:
        async with lab.Server() as server, await anyio.connect_tcp(*server.address) as stream:
            await stream.send(b"hello")
            assert await stream.receive() == b"hello"
            await stream.send_eof()
            assert await read_all(stream) == b""
            assert server.site.connections == 1

    async def test_it_speaks_tls(self) -> None:
        context = await AUTHORITY.make_server_context(NAME, alpn=("http/1.1",))
        async with lab.Server(lab.hello, context=context) as server:
            stream = await anyio.connect_tcp(*server.address)
            client = AUTHORITY.client_context(alpn=("h2", "http/1.1"))
            tls = await TLSStream.wrap(stream, hostname=NAME, ssl_context=client)
            async with tls:
                assert tls.extra(TLSAttribute.alpn_protocol) == "http/1.1"
                await tls.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                assert (await read_all(tls)).endswith(b"hello from the lab\n")

    async def test_clients_that_leave_or_do_not_speak_tls_harm_nobody(self) -> None:
        context = await AUTHORITY.make_server_context(NAME)
        async with lab.Server(context=context) as server:
            for words in (b"", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01"):
                async with await anyio.connect_tcp(*server.address) as stream:
                    if words:
                        await stream.send(words)
            stream = await anyio.connect_tcp(*server.address)
            with pytest.raises(ssl.SSLCertVerificationError):
                await TLSStream.wrap(stream, hostname=NAME)
            await anyio.aclose_forcefully(stream)
            async with await anyio.connect_tcp(*server.address) as stream:
                await TLSStream.wrap(
                    stream, hostname=NAME, ssl_context=CLIENT, standard_compatible=False
                )
            assert server.site.connections == 5

    async def test_a_way_to_another_server(self) -> None:
        async with EchoServer() as echo, lab.Network() as net:
            forward = lab.forward_to(echo.target.host, echo.target.port)
            await net.add_site(NAME, "192.0.2.7", handler=forward)
            async with await net.dial_tcp("192.0.2.7", 443) as stream:
                await stream.send(b"hello")
                assert await stream.receive() == b"hello"
                await stream.send_eof()
                assert await read_all(stream) == b""
            while echo.connections:
                await anyio.lowlevel.checkpoint()

    async def test_a_way_to_nowhere_is_a_reset(self) -> None:
        async with EchoServer() as echo:
            forward = lab.forward_to(echo.target.host, echo.refusing_target.port)
            async with (
                lab.Server(forward) as server,
                await anyio.connect_tcp(*server.address) as stream,
            ):
                with pytest.raises(anyio.BrokenResourceError) as caught:
                    await stream.receive()
                assert isinstance(caught.value.__cause__, OSError)
                assert caught.value.__cause__.errno == errno.ECONNRESET

    async def test_an_accepted_end_is_like_any_stream(self) -> None:
        peers: list[int] = []
        done = anyio.Event()

        async def look(stream: ByteStream) -> None:
            assert isinstance(stream, SocketEnd)
            peers.append(stream.extra(SocketAttribute.remote_port))
            assert stream.extra(SocketAttribute.local_address) == server.address
            assert stream.extra(SocketAttribute.local_port) == server.address[1]
            assert stream.extra(SocketAttribute.remote_address)[0] == "127.0.0.1"
            assert stream.extra(SocketAttribute.family).name == "AF_INET"
            assert stream.extra(SocketAttribute.raw_socket).fileno() > 0
            await stream.aclose()
            await stream.aclose()
            stream.abort()
            for attempt in (stream.receive, partial(stream.send, b"x"), stream.send_eof):
                with pytest.raises(anyio.ClosedResourceError):
                    await attempt()
            done.set()

        async with lab.Server(look) as server, await anyio.connect_tcp(*server.address) as stream:
            assert await read_all(stream) == b""
            await done.wait()
            assert peers == [stream.extra(SocketAttribute.local_port)]

    async def test_closing_wakes_who_waits(self) -> None:
        aborted = anyio.Event()

        async def wait(stream: ByteStream) -> None:
            assert isinstance(stream, SocketEnd)
            async with anyio.create_task_group() as group:

                async def receive() -> None:
                    with pytest.raises(anyio.ClosedResourceError):
                        await stream.receive()

                async def send() -> None:
                    with pytest.raises(anyio.ClosedResourceError):
                        while True:
                            await stream.send(bytes(1_000_000))

                group.start_soon(receive)
                group.start_soon(send)
                await anyio.wait_all_tasks_blocked()
                stream.abort()
                aborted.set()

        async with lab.Server(wait) as server, await anyio.connect_tcp(*server.address) as stream:
            await aborted.wait()
            with pytest.raises(anyio.BrokenResourceError):
                await read_all(stream)

    async def test_a_handler_that_fails_ends_the_block(self) -> None:
        async def fail(stream: ByteStream) -> None:
            raise AssertionError("not this")

        with pytest.raises(ExceptionGroup) as caught:
            async with lab.Server(fail) as server, await anyio.connect_tcp(*server.address):
                await anyio.sleep_forever()
        assert caught.group_contains(AssertionError, match="not this")


@pytest.mark.virtual_time
class TestSplice:
    async def test_each_direction_ends_for_itself(self) -> None:
        a, one = stream_pair()
        b, other = stream_pair()
        async with a, b, one, other, anyio.create_task_group() as group:
            group.start_soon(splice, one, other)
            await a.send(b"there")
            await a.send_eof()
            assert await read_all(b) == b"there"
            await b.send(b"back")
            await b.send_eof()
            assert await read_all(a) == b"back"

    async def test_a_reset_goes_through(self) -> None:
        a, one = stream_pair()
        b, other = stream_pair()
        async with b, one, other, anyio.create_task_group() as group:
            group.start_soon(splice, one, other)
            await anyio.sleep(1)
            a.abort()
            with pytest.raises(anyio.BrokenResourceError):
                await b.receive()

    async def test_over_tls_one_end_ends_both(self) -> None:
        a, one = stream_pair()
        b, other = stream_pair()
        wrap = partial(TLSStream.wrap, standard_compatible=False)
        context = await AUTHORITY.make_server_context(NAME)
        async with a, b, one, other, anyio.create_task_group() as group:
            ends: list[TLSStream] = []

            async def client() -> None:
                ends.append(await wrap(b, hostname=NAME, ssl_context=CLIENT))

            group.start_soon(client)
            secured = await wrap(other, server_side=True, ssl_context=context)
            await anyio.sleep(1)
            group.start_soon(splice, one, secured)
            await a.send(b"there")
            assert await ends[0].receive() == b"there"
            await a.send_eof()

    async def test_what_is_below_tls_is_reset(self) -> None:
        near, far = stream_pair()
        context = await AUTHORITY.make_server_context(NAME)
        async with near, far, anyio.create_task_group() as group:
            group.start_soon(partial(TLSStream.wrap, near, hostname=NAME, ssl_context=CLIENT))
            reset(await TLSStream.wrap(far, server_side=True, ssl_context=context))
            assert far.closed_by_force

    async def test_what_is_below_is_reset(self) -> None:
        near, far = stream_pair()
        reset(Marked(far, Segments()))
        with pytest.raises(anyio.BrokenResourceError):
            await near.receive()
        assert far.closed_by_force


async def test_a_socket_that_is_not_the_labs_is_reset_when_it_is_closed() -> None:
    seen: list[int | None] = []

    async def watch(stream: ByteStream) -> None:
        with pytest.raises(anyio.BrokenResourceError) as caught:
            await read_all(stream)
        assert isinstance(caught.value.__cause__, OSError)
        seen.append(caught.value.__cause__.errno)

    async with lab.Server(watch) as server:
        stream = await anyio.connect_tcp(*server.address)
        reset(stream)
        await anyio.aclose_forcefully(stream)
        while not seen:
            await anyio.lowlevel.checkpoint()
    assert seen == [errno.ECONNRESET]


class TestSegments:
    @pytest.mark.parametrize(
        ("sends", "reads", "pieces"),
        [
            ([3, 2], [5], [[3, 2]]),
            ([3, 2], [1, 4], [[1], [2, 2]]),
            ([3, 2], [3, 2], [[3], [2]]),
            ([0, 3, 0], [3], [[3]]),
            ([], [4], [[4]]),
            ([2], [4], [[2, 2]]),
        ],
    )
    def test_what_was_read_is_told_apart_as_it_was_sent(
        self, sends: list[int], reads: list[int], pieces: list[list[int]]
    ) -> None:
        segments = Segments()
        for size in sends:
            segments.note(size)
        assert [[len(piece) for piece in segments.split(bytes(size))] for size in reads] == pieces

    async def test_a_marked_stream_is_like_its_inner_one(self) -> None:
        near, far = stream_pair(name="inner", attributes={SocketAttribute.remote_port: 5})
        async with Marked(near, Segments()) as marked, far:
            assert marked.extra(SocketAttribute.remote_port) == 5
            assert "inner" in repr(marked)
            await marked.send(b"x")
            await marked.send_eof()
            assert await read_all(far) == b"x"


@pytest.mark.parametrize(
    ("exc", "gone"),
    [
        (anyio.EndOfStream(), True),
        (anyio.IncompleteRead(), True),
        (ssl.SSLError(), True),
        (ConnectionResetError(), True),
        (ExceptionGroup("", [anyio.EndOfStream(), OSError()]), True),
        (ExceptionGroup("", [anyio.EndOfStream(), ValueError()]), False),
        (AssertionError(), False),
    ],
)
def test_what_only_says_that_a_client_has_gone_is_known(exc: Exception, gone: bool) -> None:
    assert is_gone(exc) is gone
