"""Questions and answers between us and one resolver: in datagrams, over a byte stream, over HTTPS.

Loaded when a resolver is first asked, since dnspython takes a tenth of a second to load.
"""

from __future__ import annotations

import dataclasses
import math
import secrets
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import anyio
from anyio.streams.tls import TLSAttribute

from racer.errors import RacerError, RemoteProtocolError
from transports._net.dns_https import HTTP1Exchange, http2_exchange
from transports._net.dns_messages import (
    MAX_MESSAGE,
    Question,
    Reply,
    decode_reply,
    encode_question,
)
from transports._net.drive import close_by_force, drive

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from anyio.abc import ByteStream, UnreliableObjectStream

    from transports._net.addresses import Family
    from transports._net.dns_https import HTTPExchange

    OpenDatagrams: TypeAlias = Callable[[], Awaitable[UnreliableObjectStream[bytes]]]
    OpenStream: TypeAlias = Callable[[], Awaitable[ByteStream]]
    Tell: TypeAlias = Callable[[Family, Reply], None]

__all__ = ("SEND_AGAIN_AT", "Carrier", "DatagramCarrier", "HTTPSCarrier", "StreamCarrier")

SEND_AGAIN_AT: Final = (0.5, 1.5, 3.5)
"""Seconds after the first copy of a question at which further ones go out by UDP."""

_PATH_ERRORS: Final = (OSError, RacerError, anyio.EndOfStream, anyio.BrokenResourceError)
_MAX_CONTRADICTIONS: Final = 8  # replies to one question that are told
_WITHOUT_EDNS: Final = frozenset(
    {"FORMERR", "NOTIMP"}
)  # RFC 6891 §7, and what else old servers say


class Carrier(Protocol):
    """Asks one resolver. Has no limit in time but the caller's, and keeps nothing open between calls."""

    async def ask(self, name: str, families: Sequence[Family], tell: Tell) -> None:
        """Tell each reply as it comes; return when there is one for every family.

        Raises:
            OSError, RacerError, anyio.EndOfStream, anyio.BrokenResourceError: why the rest was not answered.
        """


class DatagramCarrier:
    """Do53 over UDP: each family's question has a socket of its own, and goes over a stream when the answer is cut.

    A question goes out again after 0.5, 1.5 and 3.5 s. What is no answer to it is ignored, and waiting goes on
    (RFC 5452 §9.1). A server that does not know EDNS is asked again without.

    Args:
        open_datagrams: makes a socket that talks to the resolver alone.
        open_stream: connects to it by TCP.
        hold_on: seconds after a reply in which further ones, that say something else, are told too: whoever answers in
            the resolver's place must be faster than it, but seldom silences it.
    """

    def __init__(
        self, open_datagrams: OpenDatagrams, open_stream: OpenStream, *, hold_on: float = 0.0
    ) -> None:
        """Keep the arguments."""
        self._open_datagrams = open_datagrams
        self._open_stream = open_stream
        self._hold_on = hold_on

    async def ask(self, name: str, families: Sequence[Family], tell: Tell) -> None:
        """As `Carrier.ask`."""
        await _side_by_side([partial(self._ask, name, family, tell) for family in families])

    async def _ask(self, name: str, family: Family, tell: Tell) -> None:
        (question,) = _questions(name, [family])
        channel = await self._open_datagrams()
        try:
            reply = await _exchange(channel, question)
            if reply.rcode in _WITHOUT_EDNS:
                question = dataclasses.replace(question, id=secrets.randbelow(2**16), edns=False)
                reply = await _exchange(channel, question)
            if not reply.is_truncated:
                tell(family, reply)
                if self._hold_on:
                    with anyio.move_on_after(self._hold_on):
                        await _listen_on(channel, question, reply, tell)
                return
        finally:
            await close_by_force(channel)
        await _ask_stream(self._open_stream, [question], tell)


class StreamCarrier:
    """Do53 over TCP, and DoT: all questions of a lookup go over one connection (RFC 7766, RFC 7858).

    Args:
        open_stream: connects to the resolver, up to and with TLS where that is wanted.
        padded: whether to hide the names' lengths (RFC 8467).
    """

    def __init__(self, open_stream: OpenStream, *, padded: bool) -> None:
        """Keep the arguments."""
        self._open_stream = open_stream
        self._padded = padded

    async def ask(self, name: str, families: Sequence[Family], tell: Tell) -> None:
        """As `Carrier.ask`."""
        questions = _questions(name, families, padded=self._padded)
        await _ask_stream(self._open_stream, questions, tell)


class HTTPSCarrier:
    """DoH: each question is a POST on a connection of its own, HTTP/2 where TLS has chosen it (RFC 8484).

    Args:
        open_stream: connects to the resolver, up to and with TLS.
        authority: its host and port, as a URL has them.
        path: of the requests.

    Attributes:
        alpn: what TLS is to offer.
    """

    alpn: Final = ("h2", "http/1.1")

    def __init__(self, open_stream: OpenStream, *, authority: str, path: str) -> None:
        """Keep the arguments."""
        self._open_stream = open_stream
        self._authority = authority
        self._path = path

    async def ask(self, name: str, families: Sequence[Family], tell: Tell) -> None:
        """As `Carrier.ask`."""
        await _side_by_side([partial(self._ask, name, family, tell) for family in families])

    async def _ask(self, name: str, family: Family, tell: Tell) -> None:
        question = Question(name=name, family=family, id=0, padded=True)
        stream = await self._open_stream()
        try:
            is_http2 = stream.extra(TLSAttribute.alpn_protocol, None) == "h2"
            exchange: HTTPExchange = (http2_exchange if is_http2 else HTTP1Exchange)(
                self._authority, self._path, encode_question(question)
            )
            try:
                await drive(exchange, stream)
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                exchange.receive_eof()
                if not exchange.is_done:  # else it hung up when it had answered
                    raise
            reply = decode_reply(exchange.message(), question)
        finally:
            await close_by_force(stream)
        if reply is None:
            msg = "it sent something that is no answer to what was asked"
            raise RemoteProtocolError(msg)
        tell(family, reply)


class _Conversation:
    """Questions and answers on one stream, each behind its length (RFC 7766 §8); answers may overtake each other."""

    def __init__(self, questions: Sequence[Question], tell: Tell) -> None:
        self.unanswered = list(questions)
        self._tell = tell
        messages = map(encode_question, questions)
        self._to_send = b"".join(len(each).to_bytes(2, "big") + each for each in messages)
        self._received = bytearray()

    @property
    def is_done(self) -> bool:
        return not self.unanswered

    def bytes_to_send(self) -> bytes:
        data, self._to_send = self._to_send, b""
        return data

    def receive_data(self, data: bytes) -> None:
        self._received += data
        while self.unanswered and len(self._received) >= 2:
            length = int.from_bytes(self._received[:2], "big")
            if length > MAX_MESSAGE:
                msg = f"it sent an answer of {length} octets"
                raise RemoteProtocolError(msg)
            if len(self._received) < 2 + length:
                return
            self._take(bytes(self._received[2 : 2 + length]))
            del self._received[: 2 + length]

    def _take(self, message: bytes) -> None:
        for question in self.unanswered:
            if (reply := decode_reply(message, question)) is not None:
                self.unanswered.remove(question)
                self._tell(question.family, reply)
                return
        msg = "it sent something that is no answer to what was asked"
        raise RemoteProtocolError(msg)


async def _ask_stream(open_stream: OpenStream, questions: Sequence[Question], tell: Tell) -> None:
    while questions:
        conversation = _Conversation(questions, tell)
        stream = await open_stream()
        try:
            await drive(conversation, stream)
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            # A server may end a connection at any time, and some do after one answer (RFC 7766 §6.2.4).
            if len(conversation.unanswered) == len(questions):
                raise
        finally:
            await close_by_force(stream)
        questions = conversation.unanswered


async def _exchange(channel: UnreliableObjectStream[bytes], question: Question) -> Reply:
    """Return the first reply to `question`, however long that takes."""
    message = encode_question(question)
    begun = anyio.current_time()
    pauses = iter(SEND_AGAIN_AT)
    while True:
        await channel.send(message)
        with anyio.CancelScope(deadline=begun + next(pauses, math.inf)):
            return await _receive(channel, question)


async def _receive(channel: UnreliableObjectStream[bytes], question: Question) -> Reply:
    while (reply := decode_reply(await channel.receive(), question)) is None:
        pass
    return reply


async def _listen_on(
    channel: UnreliableObjectStream[bytes], question: Question, first: Reply, tell: Tell
) -> None:
    told = {first}
    while len(told) < _MAX_CONTRADICTIONS:
        try:
            reply = await _receive(channel, question)
        except _PATH_ERRORS:
            return  # there was an answer
        if reply not in told and not reply.is_truncated:
            told.add(reply)
            tell(question.family, reply)


def _questions(name: str, families: Sequence[Family], *, padded: bool = False) -> list[Question]:
    """Return questions with ids that nobody can guess, and no two of them the same."""
    ids = secrets.SystemRandom().sample(range(2**16), len(families))
    return [
        Question(name=name, family=family, id=number, padded=padded)
        for family, number in zip(families, ids, strict=True)
    ]


async def _side_by_side(calls: Sequence[Callable[[], Awaitable[None]]]) -> None:
    """Make the calls at once. What breaks one of them is raised, bare, when the others have ended; a bug at once."""
    if len(calls) == 1:
        await calls[0]()
        return
    broken: list[BaseException] = []
    bugs: list[BaseException] = []

    async def run(call: Callable[[], Awaitable[None]]) -> None:
        try:
            await call()
        except _PATH_ERRORS as exc:
            broken.append(exc)
        except (Exception, SystemExit, KeyboardInterrupt) as exc:  # noqa: BLE001 - raised below
            bugs.append(exc)
            tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        for call in calls:
            tasks.start_soon(run, call)
    if failures := [*bugs, *broken]:
        failure = failures[0]
        try:
            raise failure
        finally:
            # They know this frame, and would wait for the garbage collector.
            del failure
            for errors in (failures, bugs, broken):
                errors.clear()
