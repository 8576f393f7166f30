"""What has worked, by network and target, for a while. Pure.

A winner is forgotten when its time is over, or replaced when another one works. That something failed never erases it:
the failure may be the network's, which will be back. Then the winner is only *in doubt*, and the next search begins with it.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from racer.errors import ConfigError

__all__ = ("ADDRESS_TTL", "MAX_WINNERS", "Key", "Memory", "Winner")

MAX_WINNERS: Final = 512
"""Winners that are kept; the one that was used longest ago is forgotten for the next."""

ADDRESS_TTL: Final = 60.0
"""Seconds for which the addresses that worked are used without asking again; as Outline has it."""


@dataclass(frozen=True, slots=True)
class Key:
    """Whose winner it is.

    Attributes:
        network: which network this machine is in, as `network_id` tells it.
        host: the target's host.
        port: the target's port.
        tls: whether the target is spoken to in TLS.
    """

    network: str
    host: str
    port: int
    tls: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Winner:
    """What worked.

    Attributes:
        resolver: the label of the resolver; empty where none was needed.
        strategy: the text of the strategy, or of the fallback.
        is_fallback: whether it was a fallback.
        addresses: the addresses that the name had.
        resolved_at: when they were looked up.
        found_at: when it was found to work.
        is_doubted: whether it has failed since.
    """

    resolver: str
    strategy: str
    found_at: float
    is_fallback: bool = False
    addresses: tuple[str, ...] = ()
    resolved_at: float = 0.0
    is_doubted: bool = False

    def fresh_addresses(self, now: float) -> tuple[str, ...]:
        """Return the addresses, if they are young enough to be used without asking again."""
        return self.addresses if 0 <= now - self.resolved_at < ADDRESS_TTL else ()


class Memory:
    """Winners by network and target.

    Args:
        ttl: seconds after which a winner is forgotten.
    """

    def __init__(self, ttl: float) -> None:
        """Begin empty."""
        self._ttl = ttl
        self._winners: OrderedDict[Key, Winner] = OrderedDict()

    def __len__(self) -> int:
        """Return how many winners are kept."""
        return len(self._winners)

    def recall(self, key: Key, now: float) -> Winner | None:
        """Return what worked for a target in this network; `None` when nothing is known, or not any more."""
        winner = self._winners.get(key)
        if winner is None:
            return None
        if now - winner.found_at >= self._ttl:
            del self._winners[key]
            return None
        self._winners.move_to_end(key)
        return winner

    def hints(self, key: Key, now: float) -> list[Winner]:
        """Return what is worth trying first, best first: the target's own winner, then others of this network, newest first."""
        own = self.recall(key, now)
        others = [
            winner
            for other, winner in reversed(self._winners.items())
            if other.network == key.network
            and other != key
            and other.tls == key.tls
            and now - winner.found_at < self._ttl
        ]
        return [*([own] if own is not None else []), *others]

    def learn(self, key: Key, winner: Winner) -> None:
        """Keep a winner, in place of an earlier one."""
        self._winners[key] = winner
        self._winners.move_to_end(key)
        while len(self._winners) > MAX_WINNERS:
            self._winners.popitem(last=False)

    def refresh(self, key: Key, addresses: tuple[str, ...], now: float) -> None:
        """Keep addresses that were looked up again."""
        if (winner := self._winners.get(key)) is not None:
            self._winners[key] = replace(winner, addresses=addresses, resolved_at=now)

    def doubt(self, key: Key) -> None:
        """Learn that the winner has failed."""
        if (winner := self._winners.get(key)) is not None:
            self._winners[key] = replace(winner, is_doubted=True)

    def to_data(self, now: float) -> list[dict[str, Any]]:
        """Return all of it as plain data, with ages in place of times, since clocks differ; no addresses."""
        return [
            {
                **asdict(key),
                "resolver": winner.resolver,
                "strategy": winner.strategy,
                "is_fallback": winner.is_fallback,
                "age": round(max(0.0, now - winner.found_at), 1),
            }
            for key, winner in self._winners.items()
        ]

    def take_data(self, data: object, now: float, *, passed: float) -> None:
        """Take what `to_data` gave, `passed` seconds later; what is known already stays.

        Raises:
            ConfigError: it is something else.
        """
        try:
            found = [(_key(each), _winner(each, now - passed)) for each in _rows(data)]
        except (KeyError, TypeError, ValueError) as exc:
            msg = f"no list of winners: {exc!r:.80}"
            raise ConfigError(msg) from exc
        for key, winner in found[-MAX_WINNERS:]:
            if key not in self._winners and now - winner.found_at < self._ttl:
                self.learn(key, winner)


def _rows(data: object) -> list[dict[str, Any]]:
    if not isinstance(data, list) or not all(isinstance(each, dict) for each in data):
        msg = "not a list of objects"
        raise TypeError(msg)
    return data


def _key(data: dict[str, Any]) -> Key:
    return Key(
        network=_text(data["network"]),
        host=_text(data["host"]),
        port=_port(data["port"]),
        tls=bool(data["tls"]),
    )


def _winner(data: dict[str, Any], now: float) -> Winner:
    return Winner(
        resolver=_text(data["resolver"]),
        strategy=_text(data["strategy"]),
        is_fallback=bool(data["is_fallback"]),
        found_at=now - _age(data["age"]),
        resolved_at=-ADDRESS_TTL + min(0.0, now),  # never fresh: the addresses were not kept
    )


def _port(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        msg = f"{type(value).__name__} in place of a port"
        raise TypeError(msg)
    return value


def _age(value: object) -> float:
    # What is no number at all compares with nothing, and would never be too old.
    if not isinstance(value, int | float) or not 0 <= value < math.inf:
        msg = "no age"
        raise ValueError(msg)
    return float(value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        msg = f"{type(value).__name__} in place of text"
        raise TypeError(msg)
    return value
