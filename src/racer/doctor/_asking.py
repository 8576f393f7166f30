"""Asks one resolver one thing: in datagrams, over TCP, over TLS, over HTTPS. Whatever comes is told, lies included."""

from __future__ import annotations

import secrets
import ssl
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import anyio
import anyio.abc
from anyio.streams.tls import TLSAttribute

from racer import _tls
from racer._target import Target
from racer.doctor._messages import Answer, Question, decode, encode
from racer.errors import ConfigError, ErrorType, RacerError, RemoteProtocolError, error_type_of

if TYPE_CHECKING:
    from anyio.abc import ByteStream, UnreliableObjectStream

    from racer.abc import DialTCP, DialUDP

__all__ = ("Heard", "Resolver", "Ways", "ask")

_PORTS: Final = {"udp": 53, "tcp": 53, "tls": 853, "https": 443}
_HOLD_ON: Final = 0.5  # seconds after the first answer in which another may contradict it
_AGAIN: Final = 1.0  # seconds after which a datagram is sent once more
_ALPN: Final = {"tls": ("dot",), "https": ("h2", "http/1.1")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """How the doctor reaches resolvers, in place of sockets of its own.

    Attributes:
        dial_tcp: makes TCP connections.
        dial_udp: makes sockets for datagrams.
        resolver_tls: the context for encrypted resolvers; `None` for the system's trust.
    """

    dial_tcp: DialTCP | None = None
    dial_udp: DialUDP | None = None
    resolver_tls: ssl.SSLContext | None = None

    async def connect(self, host: str, port: int) -> ByteStream:
        """Return a TCP connection; the caller closes it."""
        if self.dial_tcp is not None:
            return await self.dial_tcp(host, port)
        return await anyio.connect_tcp(host, port)

    async def open_datagrams(self, host: str, port: int) -> UnreliableObjectStream[bytes]:
        """Return a socket for datagrams to and from one place; the caller closes it."""
        if self.dial_udp is not None:
            return await self.dial_udp(host, port)
        return _Datagrams(await anyio.create_connected_udp_socket(host, port))


class _Datagrams(anyio.abc.UnreliableObjectStream[bytes]):
    """A connected UDP socket as a stream of datagrams."""

    def __init__(self, socket: anyio.abc.ConnectedUDPSocket) -> None:
        self._socket = socket

    async def receive(self) -> bytes:
        return await self._socket.receive()

    async def send(self, item: bytes) -> None:
        await self._socket.send(item)

    async def aclose(self) -> None:
        await self._socket.aclose()


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolver:
    """A resolver, as a URL names it.

    Attributes:
        scheme: `udp`, `tcp`, `tls` or `https`.
        host: a name or an address.
        port: its port.
        path: of an `https` one. It may identify an account, so it is in no `repr` and no text.
        is_system: whether it is this machine's own.
    """

    scheme: str
    host: str
    port: int
    path: str = field(default="/", repr=False)
    is_system: bool = False

    @classmethod
    def parse(cls, text: str) -> Resolver:
        """Return the resolver that a URL names.

        Raises:
            ConfigError: it names none.
        """
        try:
            url = urlsplit(text)
            if url.scheme not in _PORTS or not url.hostname or url.username is not None:
                msg = "no resolver has such a URL; udp://, tcp://, tls:// and https:// are known"
                raise ConfigError(msg)
            path = url.path.partition("{")[0] or "/dns-query"
            port = url.port or _PORTS[url.scheme]
            target = Target(url.hostname, port, tls=False)
        except ValueError as exc:
            msg = f"no resolver has such a URL: {exc!s:.80}"
            raise ConfigError(msg) from exc
        return cls(scheme=url.scheme, host=target.host, port=port, path=path)

    @property
    def is_encrypted(self) -> bool:
        """Whether it proves who it is, so that nobody on the way can answer in its place."""
        return self.scheme in _ALPN

    @property
    def label(self) -> str:
        """The URL without path, and without a port that goes without saying."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What came of one question.

    Attributes:
        answers: each that differs from those before; more than one where somebody answers in the resolver's place.
        seconds: from the question to the first of them; `None` without any.
        error: why there is none, in a few words.
    """

    answers: tuple[Answer, ...] = ()
    seconds: float | None = None
    error: str = ""

    @property
    def first(self) -> Answer | None:
        """The answer that came first."""
        return self.answers[0] if self.answers else None


async def ask(resolver: Resolver, question: Question, ways: Ways, *, limit: float) -> Heard:
    """Return what a resolver says to a question. Never raises for what the network does.

    Args:
        resolver: whom.
        question: what; its id is chosen here.
        ways: how it is reached.
        limit: seconds for all of it.
    """
    asked = replace(question, id=0 if resolver.scheme == "https" else secrets.randbelow(2**16))
    began = anyio.current_time()
    answers: list[Answer] = []
    took: list[float] = []

    def tell(answer: Answer) -> None:
        if not took:
            took.append(anyio.current_time() - began)
        if not any(_says_the_same(answer, one) for one in answers):
            answers.append(answer)

    error = ""
    with anyio.move_on_after(limit) as scope:
        try:
            if resolver.scheme == "udp":
                await _ask_datagrams(resolver, asked, ways, tell)
            else:
                tell(await _ask_stream(resolver, asked, ways))
        except (OSError, RacerError, anyio.EndOfStream, anyio.BrokenResourceError) as exc:
            error = _in_words(exc)
    if scope.cancelled_caught and not answers:
        error = f"no answer within {limit:g} s"
    return Heard(answers=tuple(answers), seconds=took[0] if took else None, error=error)


def _says_the_same(one: Answer, other: Answer) -> bool:
    return (one.rcode, set(one.addresses), one.is_truncated) == (
        other.rcode,
        set(other.addresses),
        other.is_truncated,
    )


_IN_WORDS: Final = {
    ErrorType.CONNECTION_REFUSED: "it refuses connections",
    ErrorType.CONNECTION_RESET: "it ended the connection without an answer",
    ErrorType.HOST_UNREACHABLE: "there is no way to it",
    ErrorType.DNS_FAILURE: "its own name cannot be looked up",
    ErrorType.TLS_FAILURE: "TLS with it failed",
    ErrorType.PERMISSION_DENIED: "this machine does not allow it",
}


def _in_words(exc: BaseException) -> str:
    if isinstance(exc, ssl.SSLCertVerificationError):
        return f"its certificate is not to be trusted ({exc.verify_message})"
    if isinstance(exc, RacerError):
        return str(exc)
    return _IN_WORDS.get(error_type_of(exc)) or str(exc).lower() or type(exc).__name__


async def _ask_datagrams(resolver: Resolver, question: Question, ways: Ways, tell: object) -> None:
    assert callable(tell)
    channel = await ways.open_datagrams(resolver.host, resolver.port)
    async with channel:
        data = encode(question)
        await channel.send(data)
        deadline = anyio.current_time() + _AGAIN
        is_answered = is_repeated = False
        while True:
            with anyio.move_on_at(deadline) as scope:
                answer = decode(await channel.receive(), question)
                if answer is None:
                    continue
                tell(answer)
                if not is_answered:
                    is_answered = True
                    deadline = anyio.current_time() + _HOLD_ON
            if not scope.cancelled_caught:
                continue
            if is_answered:
                return
            deadline = float("inf")
            if not is_repeated:
                is_repeated = True
                await channel.send(data)


async def _ask_stream(resolver: Resolver, question: Question, ways: Ways) -> Answer:
    stream = await ways.connect(resolver.host, resolver.port)
    async with stream:
        if resolver.is_encrypted:
            stream = await _secured(stream, resolver, ways)
        async with stream:
            data = encode(question)
            if resolver.scheme == "https":
                from racer.doctor._https import exchange  # noqa: PLC0415 - h2 and h11 are loaded when asked for

                alpn = stream.extra(TLSAttribute.alpn_protocol, None)
                received = await exchange(stream, resolver, data, is_http2=alpn == "h2")
            else:
                await stream.send(len(data).to_bytes(2, "big") + data)
                received = await _exactly(stream, int.from_bytes(await _exactly(stream, 2), "big"))
    answer = decode(received, question)
    if answer is None:
        msg = "what came is no answer to the question"
        raise RemoteProtocolError(msg)
    return answer


async def _exactly(stream: ByteStream, octets: int) -> bytes:
    data = b""
    while len(data) < octets:
        data += await stream.receive(octets - len(data))
    return data


async def _secured(stream: ByteStream, resolver: Resolver, ways: Ways) -> ByteStream:
    context = ways.resolver_tls
    if context is None:
        context = await anyio.to_thread.run_sync(ssl.create_default_context)
        context.set_alpn_protocols(list(_ALPN[resolver.scheme]))
    return await _tls.wrap(stream, Target(resolver.host, resolver.port, tls=context), context)
