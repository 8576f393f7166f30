"""Asks resolvers what tells whether they answer, lie, and what gets through to them. What they say is judged elsewhere."""

from __future__ import annotations

import random
import secrets
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import anyio

from racer.doctor._asking import Heard, ask
from racer.doctor._messages import Question

if TYPE_CHECKING:
    from collections.abc import Sequence

    from racer.doctor._asking import Resolver, Ways

__all__ = ("LIMIT", "Hearsay", "ask_all")

LIMIT: Final = 5.0
"""Seconds that a resolver has for each question."""

# Its keys, signed, are the longest answer that every resolver has: some 1,100 octets.
_LONG: Final = Question(name=".", kind="DNSKEY", payload=4096, dnssec=True)
# What the resolver's question looked like when it came there is what that name server answers with.
_MINIMISES: Final = Question(name="qnamemintest.internet.nl", kind="TXT")
_NOTHING: Final = Heard()


@dataclass(frozen=True, slots=True, kw_only=True)
class Hearsay:
    """What one resolver said.

    Attributes:
        resolver: which.
        name: about the host's IPv4 addresses.
        name_v6: about its IPv6 addresses.
        missing: about a name that does not exist.
        stream: the first again, over TCP; `None` where it is asked so anyway.
        long: to a question with a long answer, in a datagram; likewise.
        minimal: whether it tells other name servers no more of a name than they need.
    """

    resolver: Resolver
    name: Heard
    name_v6: Heard = _NOTHING
    missing: Heard = _NOTHING
    stream: Heard | None = None
    long: Heard | None = None
    minimal: Heard = _NOTHING

    @property
    def addresses(self) -> frozenset[str]:
        """All that the first answers say."""
        found: set[str] = set()
        for heard in (self.name, self.name_v6):
            if heard.first is not None:
                found.update(heard.first.addresses)
        return frozenset(found)

    @property
    def rcode(self) -> str:
        """What the first answer says of the name; empty without one."""
        return self.name.first.rcode if self.name.first is not None else ""


async def ask_all(resolvers: Sequence[Resolver], host: str, ways: Ways) -> list[Hearsay]:
    """Return what each resolver says, in their order; all are asked at the same time.

    Args:
        resolvers: whom.
        host: the name to ask for.
        ways: how they are reached.
    """
    heard: dict[int, Hearsay] = {}
    missing = f"{secrets.token_hex(10)}.com"

    async def one(index: int, resolver: Resolver) -> None:
        heard[index] = await _ask_one(resolver, host, missing, ways)

    async with anyio.create_task_group() as group:
        for index, resolver in enumerate(resolvers):
            group.start_soon(one, index, resolver)
    return [heard[index] for index in range(len(resolvers))]


async def _ask_one(resolver: Resolver, host: str, missing: str, ways: Ways) -> Hearsay:
    cased = "".join(random.choice((char.lower(), char.upper())) for char in host)  # noqa: S311 - nothing hangs on it
    questions: dict[str, tuple[Resolver, Question]] = {
        "name": (resolver, Question(name=cased)),
        "name_v6": (resolver, Question(name=host, kind="AAAA")),
        "missing": (resolver, Question(name=missing)),
        "minimal": (resolver, _MINIMISES),
    }
    if resolver.scheme == "udp":
        questions["stream"] = (replace(resolver, scheme="tcp"), Question(name=host))
        questions["long"] = (resolver, _LONG)
    heard: dict[str, Heard] = {}

    async def one(key: str, whom: Resolver, question: Question) -> None:
        heard[key] = await ask(whom, question, ways, limit=LIMIT)

    async with anyio.create_task_group() as group:
        for key, (whom, question) in questions.items():
            group.start_soon(one, key, whom, question)
    return Hearsay(resolver=resolver, **heard)
