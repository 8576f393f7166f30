"""Names to addresses inside a lab, as a resolver for `Direct` and as a look-up for everybody else, so that both ask alike."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import anyio
import dns.exception
import dns.message
import dns.rdatatype

from transports.direct import Answer, Family

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from racer.lab import Network

__all__ = ("AskedNames", "look_up")

_KINDS = {Family.IPV4: dns.rdatatype.A, Family.IPV6: dns.rdatatype.AAAA}


class AskedNames:
    """A name server, asked once for each family over UDP (RFC 1035 §4.2.1); nothing is sent again, nothing remembered.

    Args:
        network: where it is.
        address: which one, on port 53.
    """

    def __init__(self, network: Network, address: str) -> None:
        self._network = network
        self._address = address

    async def resolve(
        self, name: str, families: Sequence[Family], report: Callable[[Answer], None]
    ) -> None:
        async with anyio.create_task_group() as group:
            for family in families:
                group.start_soon(self._ask, name, family, report)

    async def _ask(self, name: str, family: Family, report: Callable[[Answer], None]) -> None:
        kind = _KINDS[family]
        question = dns.message.make_query(name, kind)
        async with await self._network.dial_udp(self._address, 53) as udp:
            await udp.send(question.to_wire())
            while True:
                try:
                    answer = dns.message.from_wire(await udp.receive())
                except dns.exception.DNSException:
                    continue  # anybody may send anything; the answer may still come
                if question.is_response(answer):
                    break
        found = [
            record.to_text() for rrset in answer.answer if rrset.rdtype == kind for record in rrset
        ]
        report(Answer(families=(family,), addresses=tuple(found)))


async def look_up(resolver: AskedNames, name: str) -> str:
    """Return the first address of a name, once both families are known, as the system's resolver does.

    Raises:
        OSError: it has none.
    """
    answers: list[Answer] = []
    await resolver.resolve(name, (Family.IPV6, Family.IPV4), answers.append)
    for answer in answers:
        for address in answer.addresses:
            return address
    raise socket.gaierror(socket.EAI_NONAME, f"{name} has no address")
