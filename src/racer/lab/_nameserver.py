"""A DNS server that answers, lies, keeps silent or takes its time, over UDP and TCP on loopback."""

from __future__ import annotations

import fnmatch
import ipaddress
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio
import dns.exception
import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset
from anyio.abc import SocketAttribute

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType
    from typing import Self

    from anyio.abc import ByteStream, Listener, TaskGroup, UDPSocket

__all__ = ("Delay", "Drop", "Fail", "Forge", "NameRule", "NameServer", "Reply", "Truncate", "Zone")

_TTL = 60
_UDP_PLAIN = 512  # octets without EDNS, RFC 1035 §4.2.1
_FAMILIES = {4: dns.rdatatype.A, 6: dns.rdatatype.AAAA}


@dataclass(frozen=True, slots=True, kw_only=True)
class NameRule:
    """What is done to questions for some names.

    Attributes:
        name: the names, as a pattern with `*` and `?`, without trailing dot.
        kind: the question's type, such as `AAAA`; `None` for all.
        over: `udp`, `tcp`, or `None` for both.
    """

    name: str = "*"
    kind: str | None = None
    over: str | None = None

    def applies(self, name: str, kind: str, over: str) -> bool:
        """Return whether this rule is for a question."""
        return (
            fnmatch.fnmatchcase(name, self.name)
            and self.kind in {None, kind}
            and self.over in {None, over}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop(NameRule):
    """The question, or its answer, vanishes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay(NameRule):
    """The answer takes `seconds` longer."""

    seconds: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fail(NameRule):
    """The answer is an error, such as `SERVFAIL`, `REFUSED` or `NXDOMAIN`."""

    rcode: str = "SERVFAIL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncate(NameRule):
    """The answer is cut to nothing, and says so (TC): ask again over TCP."""

    over: str | None = "udp"


@dataclass(frozen=True, slots=True, kw_only=True)
class Forge(NameRule):
    """Somebody on the path answers first, with `addresses`.

    Attributes:
        addresses: what the forged answer says; those of the question's family.
        truth_after: seconds after which the true answer comes as well; `None` if it is held back.
    """

    addresses: tuple[str, ...] = ()
    truth_after: float | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, and how many seconds after its question it is sent."""

    after: float
    data: bytes


class Zone:
    """What a name server knows and does; pure.

    Args:
        hosts: name to addresses, such as `Network.hosts`; read at every question, so later changes count.
        rules: what is done to questions; the first of each kind that applies counts.

    Attributes:
        asked: every question so far: name, type, and `udp` or `tcp`.
    """

    def __init__(self, hosts: Mapping[str, Sequence[str]], rules: Sequence[NameRule] = ()) -> None:
        """Keep both as they are."""
        self.hosts = hosts
        self.rules = list(rules)
        self.asked: list[tuple[str, str, str]] = []

    def replies(self, question: bytes, *, over: str) -> list[Reply]:
        """Return what is sent back for the octets of a question; nothing for what is none."""
        try:
            query = dns.message.from_wire(question)
            asked = query.question[0]
        except (dns.exception.DNSException, IndexError, struct.error, ValueError):
            return []
        if query.flags & dns.flags.QR:
            return []
        name = asked.name.to_text(omit_final_dot=True).lower()
        kind = dns.rdatatype.to_text(asked.rdtype)
        self.asked.append((name, kind, over))
        rules = [rule for rule in self.rules if rule.applies(name, kind, over)]
        return self._reply(query, asked, name, rules, over)

    def _reply(
        self,
        query: dns.message.Message,
        asked: dns.rrset.RRset,
        name: str,
        rules: list[NameRule],
        over: str,
    ) -> list[Reply]:
        after = sum(rule.seconds for rule in rules if isinstance(rule, Delay))
        for rule in rules:
            match rule:
                case Drop():
                    return []
                case Fail():
                    return [
                        Reply(
                            after,
                            _answer(query, asked, [], over, rcode=dns.rcode.from_text(rule.rcode)),
                        )
                    ]
                case Truncate():
                    return [Reply(after, _answer(query, asked, [], over, truncated=True))]
                case Forge():
                    forged = [Reply(after, _answer(query, asked, rule.addresses, over))]
                    if rule.truth_after is None:
                        return forged
                    return [
                        *forged,
                        Reply(after + rule.truth_after, self._truth(query, asked, name, over)),
                    ]
        return [Reply(after, self._truth(query, asked, name, over))]

    def _truth(
        self, query: dns.message.Message, asked: dns.rrset.RRset, name: str, over: str
    ) -> bytes:
        known = self.hosts.get(name)
        rcode = dns.rcode.NXDOMAIN if known is None else dns.rcode.NOERROR
        return _answer(query, asked, known or [], over, rcode=rcode)


def _answer(
    query: dns.message.Message,
    asked: dns.rrset.RRset,
    addresses: Sequence[str],
    over: str,
    *,
    rcode: dns.rcode.Rcode = dns.rcode.NOERROR,
    truncated: bool = False,
) -> bytes:
    response = dns.message.make_response(query, recursion_available=True)
    response.set_rcode(rcode)
    fitting = [
        one for one in addresses if _FAMILIES[ipaddress.ip_address(one).version] == asked.rdtype
    ]
    if fitting:
        response.answer.append(
            dns.rrset.from_text(asked.name, _TTL, asked.rdclass, asked.rdtype, *fitting)
        )
    if truncated:
        response.answer.clear()
        response.flags |= dns.flags.TC
    if over == "tcp":
        return response.to_wire()
    limit = query.payload if query.edns >= 0 else _UDP_PLAIN
    try:
        return response.to_wire(max_size=max(limit, _UDP_PLAIN))
    except dns.exception.TooBig:
        response.answer.clear()
        response.flags |= dns.flags.TC
        return response.to_wire()


class NameServer:
    """A `Zone` on 127.0.0.1, over UDP and TCP on one port. An async context manager.

    Args:
        zone: what it knows and does.

    Attributes:
        address: where it listens, while it is entered.
    """

    def __init__(self, zone: Zone) -> None:
        """Keep the zone; nothing listens yet."""
        self.zone = zone
        self.address: tuple[str, int] = ("127.0.0.1", 0)
        self._group: TaskGroup | None = None

    async def __aenter__(self) -> Self:
        """Begin to listen."""
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        port = listener.extra(SocketAttribute.local_port)
        udp = await anyio.create_udp_socket(local_host="127.0.0.1", local_port=port)
        self.address = ("127.0.0.1", port)
        self._group = group = await anyio.create_task_group().__aenter__()
        group.start_soon(self._serve_udp, udp)
        group.start_soon(self._serve_tcp, listener)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> bool | None:
        """Stop listening."""
        group, self._group = self._group, None
        if group is None:
            return None
        group.cancel_scope.cancel()
        return await group.__aexit__(exc_type, exc, tb)

    @property
    def url(self) -> str:
        """The server as a resolver's URL."""
        return f"udp://{self.address[0]}:{self.address[1]}"

    async def _serve_udp(self, udp: UDPSocket) -> None:
        async def send(reply: Reply, client: tuple[str, int]) -> None:
            await anyio.sleep(reply.after)
            await udp.sendto(reply.data, *client)

        async with udp, anyio.create_task_group() as group:
            async for question, client in udp:
                for reply in self.zone.replies(question, over="udp"):
                    group.start_soon(send, reply, client)

    async def _serve_tcp(self, listener: Listener[ByteStream]) -> None:
        async with listener:
            await listener.serve(self.serve_stream)

    async def serve_stream(self, stream: ByteStream) -> None:
        """Answer the questions on one stream (RFC 7766), each behind its length; also for DoT, over a TLS stream."""
        buffered = b""
        async with stream:
            try:
                while True:
                    while len(buffered) < 2 or len(buffered) < 2 + int.from_bytes(
                        buffered[:2], "big"
                    ):
                        buffered += await stream.receive()
                    length = int.from_bytes(buffered[:2], "big")
                    question, buffered = buffered[2 : 2 + length], buffered[2 + length :]
                    for reply in self.zone.replies(question, over="tcp"):
                        await anyio.sleep(reply.after)
                        await stream.send(len(reply.data).to_bytes(2, "big") + reply.data)
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                return
