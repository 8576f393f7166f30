"""Proxies that hold their clients to the protocol, and that can be told to misbehave."""

from __future__ import annotations

import base64
import ipaddress
import ssl
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio
import h11
import trustme
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.buffered import BufferedByteReceiveStream
from anyio.streams.tls import TLSAttribute, TLSStream

from racer.abc import Target

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

Handler = Callable[[ByteStream], Awaitable[None]]
Dial = Callable[[str, int], Awaitable[ByteStream]]

# What a client that goes away, or does not like our certificate, leaves a server with.
GONE = (
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    anyio.EndOfStream,
    anyio.IncompleteRead,
    OSError,
    ssl.SSLError,
)


@dataclass
class Loopback:
    """Dials by a table of names of its own: what is not in it does not exist."""

    names: Mapping[str, str] = field(default_factory=dict)
    ports: Mapping[int, int] = field(default_factory=dict)
    asked: list[tuple[str, int]] = field(default_factory=list)

    async def __call__(self, host: str, port: int) -> ByteStream:
        self.asked.append((host, port))
        try:
            address = str(ipaddress.ip_address(host))
        except ValueError:
            address = self.names[host]
        return await anyio.connect_tcp(address, self.ports.get(port, port))


@asynccontextmanager
async def listening(
    handler: Handler, *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> AsyncIterator[Target]:
    """Yield where `handler` serves on loopback; leaving cancels what it still does.

    A client that goes away ends its own connection; what a handler asserts fails the test.
    """

    async def serve(stream: ByteStream) -> None:
        async with stream:
            try:
                if tls is not None:
                    stream = await TLSStream.wrap(
                        stream, server_side=True, ssl_context=tls, standard_compatible=False
                    )
                await handler(stream)
            except GONE:
                pass

    listener = await anyio.create_tcp_listener(local_host=host)
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, serve)
        try:
            yield Target("127.0.0.1", listener.extra(SocketAttribute.local_port), tls=False)
        finally:
            group.cancel_scope.cancel()


async def echo(stream: ByteStream) -> None:
    """Send back what comes until it ends."""
    async for chunk in stream:
        await stream.send(chunk)
    await end(stream)


async def end(stream: ByteStream) -> None:
    """End this way of a stream; over TLS, where that cannot be told, both."""
    if stream.extra(TLSAttribute.ssl_object, None) is None:
        await stream.send_eof()
    else:
        await stream.aclose()


def says(*answers: bytes, then: str = "end") -> Handler:
    """Return a handler that gives each answer after having received something, then ends or hangs."""

    async def handler(stream: ByteStream) -> None:
        for answer in answers:
            await stream.receive()
            await stream.send(answer)
        if then == "hang":
            await anyio.sleep_forever()

    return handler


async def hangs(stream: ByteStream) -> None:
    """Take the connection and everything sent on it, and say nothing."""
    async for _ in stream:
        pass


async def pump(one: ByteStream, other: ByteStream) -> None:
    """Carry bytes both ways, each way to its own end."""

    async def carry(source: ByteStream, sink: ByteStream) -> None:
        try:
            async for chunk in source:
                await sink.send(chunk)
            await end(sink)
        except GONE:
            group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(carry, one, other)
        group.start_soon(carry, other, one)


class Socks5Server:
    """RFC 1928 with CONNECT, and RFC 1929 when it has accounts; asserts that its clients keep to both.

    Attributes:
        requests: what was asked for, by type of address.
        logins: which accounts were let in.
        open: tunnels under way.
    """

    def __init__(
        self,
        dial: Dial,
        *,
        accounts: Mapping[str, str] | None = None,
        reply: int = 0,
        bound: bytes = b"\x01\x7f\x00\x00\x01\x12\x34",
        first: bytes = b"",
    ) -> None:
        self._dial = dial
        self._accounts = accounts
        self._reply = reply
        self._bound = bound
        self._first = first
        self.requests: list[tuple[str, str, int]] = []
        self.logins: list[str] = []
        self.open = 0

    async def __call__(self, stream: ByteStream) -> None:
        reader = BufferedByteReceiveStream(stream)
        version, count = await reader.receive_exactly(2)
        assert version == 5
        assert count >= 1
        methods = await reader.receive_exactly(count)
        if not await self._admit(stream, reader, methods):
            return
        host, port = await self._request(reader)
        assert not reader.buffer, "the client must wait for the reply"
        if self._reply:
            await stream.send(bytes([5, self._reply, 0]) + self._bound)
            return
        try:
            far = await self._dial(host, port)
        except KeyError:
            await stream.send(b"\x05\x04\x00\x01" + bytes(6))
            return
        except OSError:
            await stream.send(b"\x05\x05\x00\x01" + bytes(6))
            return
        async with far:
            self.open += 1
            try:
                await stream.send(b"\x05\x00\x00" + self._bound + self._first)
                await pump(stream, far)
            finally:
                self.open -= 1

    async def _admit(
        self, stream: ByteStream, reader: BufferedByteReceiveStream, methods: bytes
    ) -> bool:
        wanted = 0 if self._accounts is None else 2
        if wanted not in methods:
            await stream.send(b"\x05\xff")
            return False
        await stream.send(bytes([5, wanted]))
        if self._accounts is None:
            return True
        assert (await reader.receive_exactly(1)) == b"\x01"
        username = await reader.receive_exactly((await reader.receive_exactly(1))[0])
        size = (await reader.receive_exactly(1))[0]
        password = await reader.receive_exactly(size) if size else b""
        if self._accounts.get(username.decode()) != password.decode():
            await stream.send(b"\x01\x01")
            return False
        self.logins.append(username.decode())
        await stream.send(b"\x01\x00")
        return True

    async def _request(self, reader: BufferedByteReceiveStream) -> tuple[str, int]:
        version, command, reserved, kind = await reader.receive_exactly(4)
        assert (version, command, reserved) == (5, 1, 0)
        match kind:
            case 1:
                what, host = "ipv4", str(ipaddress.IPv4Address(await reader.receive_exactly(4)))
            case 4:
                what, host = "ipv6", str(ipaddress.IPv6Address(await reader.receive_exactly(16)))
            case 3:
                size = (await reader.receive_exactly(1))[0]
                what, host = "name", (await reader.receive_exactly(size)).decode("ascii")
            case _:
                raise AssertionError(f"address type {kind}")
        port = int.from_bytes(await reader.receive_exactly(2), "big")
        self.requests.append((what, host, port))
        return host, port


class ConnectProxy:
    """HTTP/1.1 CONNECT with Basic when it has accounts; asserts that its clients keep to RFC 9110.

    Attributes:
        requests: authority and header fields of each request.
        open: tunnels under way.
    """

    def __init__(
        self,
        dial: Dial,
        *,
        accounts: Mapping[str, str] | None = None,
        refusal: bytes | None = None,
        informational: int = 0,
        headers: bytes = b"",
        first: bytes = b"",
    ) -> None:
        self._dial = dial
        self._accounts = accounts
        self._refusal = refusal
        self._informational = informational
        self._headers = headers
        self._first = first
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.open = 0

    async def __call__(self, stream: ByteStream) -> None:
        http = h11.Connection(h11.SERVER)
        while (event := http.next_event()) is h11.NEED_DATA:
            http.receive_data(await stream.receive())
        assert isinstance(event, h11.Request)
        assert event.method == b"CONNECT"
        assert event.http_version == b"1.1"
        headers = {name.decode(): value.decode() for name, value in event.headers}
        authority = event.target.decode()
        assert headers["host"] == authority, "RFC 9110 section 9.3.6"
        assert "content-length" not in headers
        assert "transfer-encoding" not in headers
        self.requests.append((authority, headers))
        assert isinstance(http.next_event(), h11.EndOfMessage)
        assert http.trailing_data == (b"", False), "the client must wait for the answer"
        if refusal := self._refusal_for(headers):
            await stream.send(refusal)
            return
        host, _, port = authority.rpartition(":")
        try:
            far = await self._dial(host.strip("[]"), int(port))
        except KeyError:
            await stream.send(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 4\r\n\r\nnope")
            return
        except OSError:
            await stream.send(
                b"HTTP/1.1 502 Bad Gateway\r\n"
                b"Proxy-Status: a.example; error=connection_refused\r\n\r\n"
            )
            return
        async with far:
            self.open += 1
            try:
                for _ in range(self._informational):
                    await stream.send(b"HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n")
                await stream.send(
                    b"HTTP/1.1 200 Connection established\r\n%b\r\n%b"
                    % (self._headers, self._first)
                )
                await pump(stream, far)
            finally:
                self.open -= 1

    def _refusal_for(self, headers: dict[str, str]) -> bytes | None:
        if self._accounts is not None:
            scheme, _, token = headers.get("proxy-authorization", "").partition(" ")
            user, _, password = base64.b64decode(token).decode().partition(":")
            if scheme != "Basic" or self._accounts.get(user) != password:
                return (
                    b"HTTP/1.1 407 Proxy Authentication Required\r\n"
                    b'Proxy-Authenticate: Basic realm="here, there"\r\nContent-Length: 3\r\n\r\nno!'
                )
        return self._refusal


@dataclass
class Keys:
    """TLS contexts for servers on loopback, for clients that trust them, and whom those trust, as PEM."""

    server: ssl.SSLContext
    client: ssl.SSLContext
    authority: str

    @classmethod
    def make(cls) -> Keys:
        authority = trustme.CA()
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1", "proxy.example", "target.example").configure_cert(server)
        client = ssl.create_default_context()
        authority.configure_trust(client)
        return cls(server, client, authority.cert_pem.bytes().decode())
