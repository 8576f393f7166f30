"""What the lab's proxies share: where they lead, what they were asked, and how they misbehave on demand."""

from __future__ import annotations

import enum
import fnmatch
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

import anyio

from racer.errors import ConfigError
from racer.lab._server import Server
from racer.lab._sites import is_gone
from racer.lab._sockets import connect_to
from racer.lab._splice import splice

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping, Sequence

    from anyio.abc import ByteStream

__all__ = (
    "Connect",
    "Inbox",
    "Proxy",
    "ProxyFault",
    "ProxyRefusal",
    "ProxyRequest",
    "ProxyStage",
    "Then",
)

_MAX_EARLY: Final = 65_536  # bytes a client sends before it was answered


class Connect(Protocol):
    """How a proxy reaches targets, such as `Network.connector` gives."""

    async def __call__(self, host: str, port: int) -> ByteStream:
        """Return a connection to a name or address; the proxy closes it.

        Raises:
            OSError: why not.
        """


class ProxyStage(enum.Enum):
    """How far a client has come with a proxy."""

    CONNECTED = "connected"
    """Nothing has been said."""
    GREETING = "greeting"
    """It has offered methods; SOCKS only."""
    CREDENTIAL = "credential"
    """It has sent user name and password, right or wrong; SOCKS only."""
    REQUEST = "request"
    """It has said where to."""
    TUNNEL = "tunnel"
    """It has been told that the tunnel stands, and no byte has gone through."""


class Then(enum.Enum):
    """What a proxy does when it has misbehaved."""

    CLOSE = "close"
    HANG = "hang"
    GO_ON = "go on"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyFault:
    """Something a proxy does that no protocol wants.

    Attributes:
        stage: when.
        host: for requests to which hosts, as a pattern with `*` and `?`; before there is a request only `*` matches.
        says: octets that are sent, perhaps none.
        then: what comes after them.
    """

    stage: ProxyStage = ProxyStage.REQUEST
    host: str = "*"
    says: bytes = b""
    then: Then = Then.CLOSE


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyRefusal:
    """Requests are refused in the words of the protocol.

    Attributes:
        code: a SOCKS reply from 1 to 255 (RFC 1928 §6), or an HTTP status.
        host: requests to which hosts, as a pattern with `*` and `?`.
        headers: of the response, for HTTP.
        body: of the response, for HTTP.
    """

    code: int
    host: str = "*"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyRequest:
    """What a proxy was asked for.

    Attributes:
        host: as the client put it: a name was not looked up by the client.
        port: likewise.
        user: who asked, where a credential was wanted and right.
        headers: for HTTP, names in lower case; without the credential.
    """

    host: str
    port: int
    user: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


class Over(Exception):
    """The conversation has ended as its script says; the connection is to be closed."""


class Inbox:
    """Reads exact numbers of bytes from a stream, and keeps what came beyond them.

    Args:
        stream: where they come from.
    """

    def __init__(self, stream: ByteStream) -> None:
        """Begin with nothing read."""
        self.buffered = b""
        self._stream = stream

    async def exactly(self, count: int) -> bytes:
        """Return the next `count` bytes.

        Raises:
            EndOfStream: the client has ended its side before.
        """
        while len(self.buffered) < count:
            self.buffered += await self._stream.receive()
        taken, self.buffered = self.buffered[:count], self.buffered[count:]
        return taken


class Proxy(Server):
    """What both kinds of proxy do.

    Args:
        connect: how targets are reached; `None` for TCP from this machine.
        credential: user name and password that are wanted; `None` if anybody may come.
        faults: how it misbehaves, and whom it refuses; the first that applies counts.
        pace: seconds between the bytes of what it says itself; 0 for all at once.
        context: its own TLS context, such as `Authority.server_context` gives; `None` to speak without TLS.

    Attributes:
        requests: what it was asked for, refusals included, credentials excluded that were wrong.
        faults: a list of those given; may be changed at any time.
        tunnels: how many are open.
        address: where it listens; the port is 0 until it is entered.
    """

    scheme: ClassVar[str]

    def __init__(
        self,
        *,
        connect: Connect | None = None,
        credential: tuple[str, str] | None = None,
        faults: Sequence[ProxyFault | ProxyRefusal] = (),
        pace: float = 0.0,
        context: ssl.SSLContext | None = None,
    ) -> None:
        """Keep the arguments; nothing listens yet."""
        super().__init__(self.serve_stream, context=context)
        if not 0 <= pace < math.inf:
            msg = f"pace must be a finite number of seconds, at least 0, not {pace!r}"
            raise ConfigError(msg)
        self.requests: list[ProxyRequest] = []
        self.faults = list(faults)
        self.tunnels = 0
        self._connect = connect or connect_to
        self._credential = credential
        self._pace = pace
        self._is_secure = context is not None

    @property
    def url(self) -> str:
        """The proxy as a URL, without a credential."""
        return f"{self.scheme}://{self.address[0]}:{self.address[1]}"

    async def serve_stream(self, stream: ByteStream) -> None:
        """Serve one client until both sides have ended; in memory, or as the handler of a site."""
        try:
            await self._converse(stream)
        except Over:
            return

    async def _converse(self, stream: ByteStream) -> None:
        """Speak the protocol up to the tunnel, and then `_tunnel`."""
        raise NotImplementedError

    def _answer(self, error: OSError | None) -> bytes:
        """Return what a client is told when its target was reached, or was not."""
        raise NotImplementedError

    async def _tunnel(self, stream: ByteStream, host: str, port: int, early: bytes) -> None:
        """Lead a client that was let in to its target; `early` is what it has sent for it already."""
        call = _Call(stream, early)
        await call.make(self._connect, host, port)
        if call.target is None:
            await self._say(stream, self._answer(call.error))
            return
        async with call.target:
            await self._say(stream, self._answer(None))
            await self._reach(ProxyStage.TUNNEL, stream, host)
            self.tunnels += 1
            try:
                if call.early:
                    await call.target.send(call.early)
                await splice(stream, call.target)
            finally:
                self.tunnels -= 1

    async def _reach(self, stage: ProxyStage, stream: ByteStream, host: str | None = None) -> None:
        """Misbehave as is wanted for a client that has come this far.

        Raises:
            Over: there is nothing more to be done for it.
        """
        for fault in self.faults:
            if isinstance(fault, ProxyFault) and fault.stage is stage and _is_for(fault, host):
                await self._say(stream, fault.says)
                if fault.then is Then.HANG:
                    await self._hang(stream)
                if fault.then is not Then.GO_ON:
                    raise Over

    def _refusal(self, host: str) -> ProxyRefusal | None:
        for fault in self.faults:
            if isinstance(fault, ProxyRefusal) and _is_for(fault, host):
                return fault
        return None

    async def _say(self, stream: ByteStream, data: bytes) -> None:
        if not self._pace:
            if data:
                await stream.send(data)
            return
        for index in range(len(data)):
            if index:
                await anyio.sleep(self._pace)
            await stream.send(data[index : index + 1])

    async def _hang(self, stream: ByteStream) -> None:
        """Be silent until the client has gone."""
        async for _ in stream:
            pass
        raise Over


class _Call:
    """A connection to a target, made while its client waits, and given up when the client does."""

    def __init__(self, stream: ByteStream, early: bytes) -> None:
        self.target: ByteStream | None = None
        self.error: OSError | None = None
        self.early = early
        self._stream = stream

    async def make(self, connect: Connect, host: str, port: int) -> None:
        """Set `target`, which is the caller's to close then, or `error`."""
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._watch, group.cancel_scope)
                try:
                    self.target = await connect(host, port)
                except OSError as exc:
                    self.error = exc
                group.cancel_scope.cancel()
        except BaseException:
            if self.target is not None:  # it stood in the moment in which all of this was cancelled
                await anyio.aclose_forcefully(self.target)
            raise
        if self.target is None and self.error is None:
            raise Over

    async def _watch(self, scope: anyio.CancelScope) -> None:
        try:
            while len(self.early) < _MAX_EARLY:
                self.early += await self._stream.receive()
        except Exception as exc:
            if not is_gone(exc):
                raise
            scope.cancel()


def _is_for(fault: ProxyFault | ProxyRefusal, host: str | None) -> bool:
    return fault.host == "*" or (
        host is not None and fnmatch.fnmatchcase(host.lower(), fault.host.lower())
    )
