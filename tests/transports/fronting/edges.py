"""Edges in memory, for virtual clocks: real TLS and HTTP/1.1 over pairs of streams, and whatever each is told to do."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import anyio
from anyio.streams.tls import TLSStream

from racer.abc import Origin
from racer.testing import StreamLedger, stream_pair
from tests.transports.fronting.lists import authority, octets, provider
from transports.fronting import Fronting

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

HOST = "api.example.com"
GONE = (OSError, anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)
Behaviour = Callable[["Edge", Any, str], Awaitable[None]]


def ok(body: bytes = b"ok", *, status: int = 200, **fields: str) -> bytes:
    head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n"
    head += "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items())
    return head.encode() + b"\r\n" + body


@cache
def server_context(name: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority().issue_cert(name).configure_cert(context)
    context.set_alpn_protocols(["http/1.1"])
    return context


async def answers(edge: Edge, stream: Any, request: str) -> None:
    await stream.send(ok())


async def vets(edge: Edge, stream: Any) -> None:
    await stream.send(ok(b"", status=202))


@dataclass
class Edge:
    """One front: what it does before TLS, with its vetting, and with requests."""

    name: str
    connects: Callable[[], Awaitable[None]] | None = None
    handshakes: bool = True
    vet: Callable[[Edge, Any], Awaitable[None]] = vets
    behave: Behaviour = answers
    certificate: str = ""
    seen: list[str] = field(default_factory=list)
    dialed: list[float] = field(default_factory=list)

    async def serve(self, stream: Any) -> None:
        with suppress(*GONE):
            if not self.handshakes:
                await anyio.sleep_forever()
            secured = await TLSStream.wrap(
                stream,
                server_side=True,
                ssl_context=server_context(self.certificate or self.name),
                standard_compatible=False,
            )
            while request := await read(secured):
                if request.startswith("POST /ping"):
                    await self.vet(self, secured)
                else:
                    self.seen.append(request)
                    await self.behave(self, secured, request)


async def read(stream: Any) -> str:
    """Return the next request, its body included; empty at the end."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += await stream.receive()
    head, _, body = data.partition(b"\r\n\r\n")
    text = head.decode()
    length = next((int(x.split(":")[1]) for x in text.splitlines() if x.lower().startswith("content-length")), 0)  # fmt: skip
    while len(body) < length:
        body += await stream.receive()
    return text + "\r\n\r\n" + body.decode()


class Edges:
    """All edges, by address; a dial to one makes a pair of streams."""

    def __init__(self, group: TaskGroup, counts: dict[str, int], **changes: Any) -> None:
        document = {name: provider(name, count, **changes) for name, count in counts.items()}
        self.octets = octets(**document)
        self.ledger = StreamLedger()
        self.by_address = {
            front["ipaddress"]: Edge(front["domain"])
            for one in document.values()
            for front in one["masquerades"]
        }
        self._group = group

    def __iter__(self) -> Any:
        return iter(self.by_address.values())

    def of(self, name: str) -> list[Edge]:
        return [edge for edge in self if f".{name}." in edge.name]

    async def dial(self, address: str, port: int) -> Any:
        edge = self.by_address[address]
        edge.dialed.append(anyio.current_time())
        if edge.connects is not None:
            await edge.connects()
        near, far = stream_pair(ledger=self.ledger, name=edge.name)
        self._group.start_soon(self._serve, edge, far)
        return near

    async def _serve(self, edge: Edge, far: Any) -> None:
        try:
            await edge.serve(far)
        finally:
            with anyio.CancelScope(shield=True):
                await far.aclose()

    def fronting(self, **options: Any) -> Fronting:
        return Fronting(self.octets, dial_tcp=self.dial, **options)

    async def route(self, **options: Any) -> Any:
        return await self.fronting(**options).prepare(Origin("https", HOST, 443))
