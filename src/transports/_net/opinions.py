"""What several resolvers say about one name, and which of it to believe. Pure.

Two kinds of source are told apart. Nobody on the way can answer in the place of an *encrypted* one, which leaves its own
honesty. Whoever is on the way can answer in the place of any other, and of several at once.
"""

from __future__ import annotations

import ipaddress
import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ("CONTRADICTION_DELAY", "ENCRYPTED_DELAY", "OTHERS_DELAY", "Opinions")

OTHERS_DELAY: Final = 0.25
"""Seconds after the first encrypted source has spoken that are left to the others of its kind, to agree with it."""

CONTRADICTION_DELAY: Final = 0.25
"""Seconds after sources that are not encrypted have agreed that are left to any of them, to contradict itself."""

ENCRYPTED_DELAY: Final = 2.0
"""Seconds after sources that are not encrypted have agreed that are left to the encrypted ones, to speak at all."""

_NETWORK: Final = {4: 24, 6: 48}  # bits; what one operator announces, and the least that is routed

Statement = tuple[str, ...]
"""Addresses, best first; empty for "it has none"."""


class Opinions:
    """The statements of several sources about the addresses of one family.

    Two statements agree when both say "none", or when an address of the one is among the other's, or in the same /24
    (IPv4) or /48 (IPv6): large sites answer differently all the time, but seldom from anywhere.

    Args:
        encrypted: for each source, whether it is; the preferred first.
    """

    def __init__(self, encrypted: Sequence[bool]) -> None:
        """Begin with nothing said."""
        self._encrypted = tuple(encrypted)
        self._said: list[list[Statement]] = [[] for _ in encrypted]
        self._ended = [False] * len(self._encrypted)
        self._spoken_at = math.inf
        self._agreed_at = math.inf

    def say(self, source: int, statement: Statement, now: float) -> None:
        """Take what a source says; a second statement that differs is a contradiction."""
        if statement in self._said[source]:
            return
        self._said[source].append(statement)
        if self._encrypted[source]:
            self._spoken_at = min(self._spoken_at, now)
        elif self._agreed_at == math.inf and self._shared(self._said, self._any_two) is not None:
            self._agreed_at = now

    def end(self, source: int) -> None:
        """Learn that a source says no more."""
        self._ended[source] = True

    @property
    def is_over(self) -> bool:
        """Whether every source has ended: without a verdict by then there is none."""
        return all(self._ended)

    def next_look(self, now: float) -> float:
        """Return when a verdict may come without anything being said or ended; infinite if never."""
        times = (
            self._spoken_at + OTHERS_DELAY,
            self._agreed_at + CONTRADICTION_DELAY,
            self._agreed_at + ENCRYPTED_DELAY,
        )
        return min((time for time in times if time > now), default=math.inf)

    def verdict(self, now: float) -> Statement | None:
        """Return what to believe; `None` while nothing is.

        Once an encrypted source has spoken: what it shares with any other, and nothing else; when those of its kind
        have had their time, all that they say, in their order. While none has: what two sources share, once they have
        had time to contradict themselves, and the encrypted ones to speak.
        """
        if self._spoken_at < math.inf:
            shared = self._shared(self._said, self._one_encrypted)
            if shared is not None:
                return shared
            if self._awaits_encrypted and now < self._spoken_at + OTHERS_DELAY:
                return None
            return tuple(
                dict.fromkeys(a for s in self._order() for said in self._said[s] for a in said)
            )
        patience = ENCRYPTED_DELAY if self._awaits_encrypted else CONTRADICTION_DELAY
        if self._agreed_at == math.inf or (now < self._agreed_at + patience and not self.is_over):
            return None
        # Who answers in another's place has to be faster: what was said last is the better evidence.
        last = self._shared([said[-1:] for said in self._said], self._any_two)
        return self._shared(self._said, self._any_two) if last is None else last

    @property
    def _awaits_encrypted(self) -> bool:
        return any(
            encrypted and not said and not ended
            for encrypted, said, ended in zip(self._encrypted, self._said, self._ended, strict=True)
        )

    def _order(self) -> list[int]:
        """Return the sources to go by, best first: the encrypted ones if any has spoken."""
        spoken = [source for source, said in enumerate(self._said) if said]
        return [s for s in spoken if self._encrypted[s]] or spoken

    def _any_two(self, one: int, other: int) -> bool:
        return one != other

    def _one_encrypted(self, one: int, other: int) -> bool:
        return one != other and (self._encrypted[one] or self._encrypted[other])

    def _shared(
        self, said: Sequence[Sequence[Statement]], counts: Callable[[int, int], bool]
    ) -> Statement | None:
        """Return the addresses that two sources share, of pairs that count; `None` when no two agree on anything."""
        networks = [{_network(a) for statement in each for a in statement} for each in said]
        everyone = sorted(range(len(said)), key=lambda source: not self._encrypted[source])
        found = [
            address
            for source in everyone
            for statement in said[source]
            for address in statement
            if any(
                counts(source, other) and _network(address) in networks[other] for other in everyone
            )
        ]
        if found:
            return tuple(dict.fromkeys(found))
        silent = [source for source in everyone if () in said[source]]
        agree = any(counts(one, other) for one in silent for other in silent)
        return () if agree else None


def _network(address: str) -> tuple[int, int]:
    parsed = ipaddress.ip_address(address.partition("%")[0])
    return parsed.version, int(parsed) >> (parsed.max_prefixlen - _NETWORK[parsed.version])
