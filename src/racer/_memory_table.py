"""What is known of entrants by network and host, and what a race teaches. Pure: `now` is passed in.

A win is what is remembered. Failures only cast doubt on it, and doubt decays: after one failure an entrant is not put
first for a half-life, after two for twice as long, up to a bound. What was never put first has nothing to lose.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from racer._report import Outcome
from racer.errors import ErrorType

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from racer._report import Attempt, RaceReport

__all__ = ("MAX_DOUBT", "Key", "Record", "Table", "failures_to_learn")

MAX_DOUBT: Final = 8.0
"""Doubt grows no further: four half-lives later it has decayed to what lets an entrant be first again."""

_FIRST_AGAIN: Final = 0.5  # doubt: what is left of one failure after one half-life
_REPEATED: Final = 0.05  # of the time for which a win counts
# Seconds; what was written from further in the future was written by a wrong clock.
_AHEAD: Final = 300.0

# An answer came, if not the one that was wanted: this machine is online.
_ANSWERED: Final = frozenset(
    {
        ErrorType.CONNECTION_REFUSED,
        ErrorType.CONNECTION_RESET,
        ErrorType.TLS_FAILURE,
        ErrorType.CERTIFICATE_INVALID,
        ErrorType.PROXY_REFUSED,
        ErrorType.TARGET_REFUSED,
        ErrorType.SESSION_LOST,
        ErrorType.SESSION_ENDED,
        ErrorType.CREDENTIAL_REJECTED,
        ErrorType.NOT_USABLE,
        ErrorType.PROTOCOL_ERROR,
    }
)
# This machine's own limits, which say nothing of a route.
_LOCAL: Final = frozenset({ErrorType.BUSY, ErrorType.RESOURCE_EXHAUSTED})
_FAILED: Final = (Outcome.CONNECT_FAILED, Outcome.TIMED_OUT)


@dataclass(frozen=True, slots=True)
class Key:
    """What a record is about.

    Attributes:
        network: which network, as a keyed hash.
        host: which target, as a keyed hash.
        entrant: the entrant's name.
    """

    network: str
    host: str
    entrant: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What is known. Times are seconds since 1970.

    Attributes:
        won_at: when it last carried bytes; `None` if it never did.
        failed_at: when it last failed; `None` if it has not since it won.
        doubt: how much doubt there was then.
        used_at: when it was last needed; the one that was not needed for longest is forgotten first.
    """

    won_at: float | None = None
    failed_at: float | None = None
    doubt: float = 0.0
    used_at: float = 0.0

    @property
    def changed_at(self) -> float:
        """When it last changed: of two records of the same thing the later one is believed."""
        return max(self.won_at or 0.0, self.failed_at or 0.0)

    def doubt_at(self, now: float, half_life: float) -> float:
        """Return how much doubt is left: it halves in each half-life."""
        if self.failed_at is None:
            return 0.0
        return float(self.doubt * 0.5 ** (max(0.0, now - self.failed_at) / half_life))


class Table:
    """Records, bounded in number and age.

    Args:
        ttl: seconds after which a win is forgotten.
        half_life: seconds in which doubt halves.
        max_entries: records that are kept.
    """

    def __init__(self, *, ttl: float, half_life: float, max_entries: int) -> None:
        """Begin empty."""
        self._ttl = ttl
        self._half_life = half_life
        self._max_entries = max_entries
        self._records: OrderedDict[Key, Record] = OrderedDict()  # last needed last

    def __len__(self) -> int:
        """Return how many records are kept."""
        return len(self._records)

    def __contains__(self, key: object) -> bool:
        """Return whether something is known of `key`."""
        return key in self._records

    def records(self) -> dict[Key, Record]:
        """Return all of them, the one that was not needed for longest first."""
        return dict(self._records)

    def last_winner(
        self, network: str, host: str, entrants: Iterable[str], now: float
    ) -> str | None:
        """Return which of `entrants` is to start first: the one that won last, and is not in doubt; `None` if none is."""
        found: tuple[float, Key] | None = None
        for entrant in entrants:
            key = Key(network, host, entrant)
            won_at = self._standing(key, now)
            if won_at is not None and (found is None or won_at > found[0]):
                found = (won_at, key)
        if found is None:
            return None
        self._records[found[1]] = replace(self._records[found[1]], used_at=now)
        self._records.move_to_end(found[1])
        return found[1].entrant

    def _standing(self, key: Key, now: float) -> float | None:
        """Return when an entrant won, if that still speaks for it."""
        record = self._records.get(key)
        if record is None:
            return None
        if not self._is_live(record, now):
            del self._records[key]
            return None
        if record.won_at is None or record.won_at <= now - self._ttl:
            return None
        return record.won_at if record.doubt_at(now, self._half_life) <= _FIRST_AGAIN else None

    def won(self, key: Key, now: float, rivals: Iterable[str] = ()) -> bool:
        """Learn that an entrant carried bytes: no doubt is left. Returns whether that changes much.

        It does not where the same one had won shortly before, and no other since: a proxy's thousand connections in an
        hour are not worth a thousand writings of a file.
        """
        old = self._records.get(key)
        is_repeated = (
            old is not None
            and old.failed_at is None
            and old.won_at is not None
            and 0 <= now - old.won_at < self._ttl * _REPEATED
            and not self._is_overtaken(key, rivals, old.won_at)
        )
        self._put(key, Record(won_at=now, used_at=now))
        return not is_repeated

    def _is_overtaken(self, key: Key, rivals: Iterable[str], won_at: float) -> bool:
        """Return whether one of `rivals` has won since."""
        others = (
            self._records.get(replace(key, entrant=name)) for name in rivals if name != key.entrant
        )
        return any(
            other is not None and other.won_at is not None and other.won_at >= won_at
            for other in others
        )

    def failed(self, key: Key, now: float) -> None:
        """Learn that an entrant failed."""
        record = self._records.get(key, Record())
        doubt = min(MAX_DOUBT, record.doubt_at(now, self._half_life) + 1.0)
        self._put(key, replace(record, failed_at=now, doubt=doubt, used_at=now))

    def merge(self, others: Mapping[Key, Record], now: float) -> None:
        """Take in what somebody else learned: of two records of the same thing the later one stays."""
        for key, record in others.items():
            own = self._records.get(key)
            if own is None or record.changed_at > own.changed_at:
                self._records[key] = record
        by_use = sorted(self._records.items(), key=lambda item: item[1].used_at)
        self._records = OrderedDict(
            (key, record) for key, record in by_use if self._is_live(record, now)
        )
        self._trim()

    def take(self, key: Key) -> Record | None:
        """Return the record of `key`, which is forgotten."""
        return self._records.pop(key, None)

    def clear(self) -> None:
        """Forget everything."""
        self._records.clear()

    def _put(self, key: Key, record: Record) -> None:
        self._records[key] = record
        self._records.move_to_end(key)
        self._trim()

    def _trim(self) -> None:
        while len(self._records) > self._max_entries:
            self._records.popitem(last=False)

    def _is_live(self, record: Record, now: float) -> bool:
        """Return whether a record still means something, and was not written by a clock that was wrong."""
        return now - self._ttl < record.changed_at <= now + _AHEAD and math.isfinite(record.used_at)


def failures_to_learn(report: RaceReport) -> tuple[str, ...]:
    """Return the entrants whose failure a race proves: none, unless something in it shows that this machine is online.

    That is a winner, or an answer of whatever kind. Where every attempt ended in silence, or found no way out of this
    machine, the network was missing, and nobody is to blame. A race that its caller left says nothing.
    """
    if report.outcome not in (Outcome.CONNECTED, *_FAILED):
        return ()
    failed = [attempt for attempt in report.attempts if attempt.outcome in _FAILED]
    is_online = report.winner is not None or any(one.error_type in _ANSWERED for one in failed)
    return tuple(one.transport for one in failed if is_online and _is_blamed(one))


def _is_blamed(attempt: Attempt) -> bool:
    return attempt.error_type not in _LOCAL
