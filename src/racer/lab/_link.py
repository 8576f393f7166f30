"""What a link does to what crosses it: delay, jitter, loss, reordering, duplication, corruption, rate. Pure and seeded.

A link is told what was sent and when, and says what arrives and when. Relays on sockets and streams in memory obey the
same one, so that a network tried for real behaves as it did on a virtual clock.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from racer.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ("CLEAN", "Bottleneck", "DatagramLink", "Delivery", "Profile", "StreamLink")

_SEGMENT: Final = 1460  # bytes of a stream in one packet of an Ethernet, over IPv4 without options
_FIRST_TIMEOUT: Final = (
    1.0  # seconds before a connection's first packet is sent again, RFC 6298 §2.1
)
_MIN_TIMEOUT: Final = 0.2  # seconds; the floor of Linux's retransmission timer
_MAX_TIMEOUT: Final = 60.0  # seconds; a bound that RFC 6298 §2.4 allows
_MAX_LOSSES: Final = 15  # retransmissions before Linux gives a connection up


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What one direction of a link does.

    Attributes:
        delay: seconds every byte takes.
        jitter: seconds at most that are added to it, evenly spread.
        loss: probability from 0 to 1 that a datagram, or a segment of a stream, is lost on its way. A segment is sent
            again, as TCP would: first after 0.2 s, or twice `delay` if that is longer, then after twice as long each
            time; everything behind it waits. A connection's first packet is sent again after 1 s.
        reorder: probability that a datagram is overtaken: it takes twice as long, at least 10 ms more. Streams keep
            their order.
        duplicate: probability that a datagram arrives twice.
        corrupt: probability that one bit of a datagram, or of a segment, is flipped.
        rate: bytes a second, shared by all that cross in this direction; `None` for no limit.
        queue: bytes that wait for a limited rate before datagrams are dropped and streams push back.
    """

    delay: float = 0.0
    jitter: float = 0.0
    loss: float = 0.0
    reorder: float = 0.0
    duplicate: float = 0.0
    corrupt: float = 0.0
    rate: float | None = None
    queue: int = 262_144

    def __post_init__(self) -> None:
        """Refuse what no link could do."""
        for name in ("delay", "jitter"):
            value = getattr(self, name)
            if not 0 <= value < math.inf:
                msg = f"{name} must be a finite number of seconds, at least 0, not {value!r}"
                raise ConfigError(msg)
        for name in ("loss", "reorder", "duplicate", "corrupt"):
            value = getattr(self, name)
            if not 0 <= value <= 1:
                msg = f"{name} is a probability from 0 to 1, not {value!r}"
                raise ConfigError(msg)
        if self.rate is not None and not 0 < self.rate < math.inf:
            msg = f"rate must be None or a positive number of bytes a second, not {self.rate!r}"
            raise ConfigError(msg)
        if self.queue < 1:
            msg = f"queue must be at least 1 byte, not {self.queue!r}"
            raise ConfigError(msg)


CLEAN: Final = Profile()
"""A link that does nothing."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """Something that arrives.

    Attributes:
        at: when, on the clock that `send` was given; infinite for never.
        data: what.
    """

    at: float
    data: bytes


class Bottleneck:
    """A rate, and the queue before it. Whoever crosses the same one shares it, first come first served.

    Args:
        rate: bytes a second; positive.
        queue: bytes that wait before datagrams are dropped and streams push back.
    """

    def __init__(self, rate: float, queue: int) -> None:
        """Begin with an empty queue."""
        self._rate = rate
        self._queue = queue
        self._free_at = -math.inf

    def enter(self, size: int, now: float) -> float:
        """Return when the last of `size` bytes that come now has left."""
        self._free_at = max(now, self._free_at) + size / self._rate
        return self._free_at

    def has_room(self, size: int, now: float) -> bool:
        """Return whether the queue takes `size` more bytes."""
        return max(0.0, self._free_at - now) * self._rate + size <= self._queue

    def ready_at(self, now: float) -> float:
        """Return when no more bytes wait than the queue holds: now, or later."""
        return max(now, self._free_at - self._queue / self._rate)


class _Link:
    """The dice and the bottlenecks that both kinds of link have."""

    def __init__(
        self,
        profile: Profile = CLEAN,
        *,
        seed: int | str = 0,
        bottlenecks: Sequence[Bottleneck] | None = None,
    ) -> None:
        """Begin with nothing under way."""
        self.profile = profile
        self._dice = random.Random(seed)  # noqa: S311 - a simulator has to be repeatable
        if bottlenecks is None:
            bottlenecks = [] if profile.rate is None else [Bottleneck(profile.rate, profile.queue)]
        self._bottlenecks = tuple(bottlenecks)

    def _leave(self, size: int, now: float) -> float:
        """Return when the last of `size` bytes has come through every bottleneck."""
        for bottleneck in self._bottlenecks:
            now = bottleneck.enter(size, now)
        return now

    def _happens(self, probability: float) -> bool:
        return probability > 0 and self._dice.random() < probability

    def _flight(self) -> float:
        if not self.profile.jitter:
            return self.profile.delay
        return self.profile.delay + self._dice.uniform(0, self.profile.jitter)

    def _perhaps_corrupt(self, data: bytes) -> bytes:
        if not data or not self._happens(self.profile.corrupt):
            return data
        flipped = bytearray(data)
        flipped[self._dice.randrange(len(data))] ^= 1 << self._dice.randrange(8)
        return bytes(flipped)


class DatagramLink(_Link):
    """One direction for datagrams.

    Args:
        profile: what it does.
        seed: of its dice; the same seed and the same calls give the same answers.
        bottlenecks: what to cross in place of one of its own for the profile's rate.
    """

    def send(self, data: bytes, now: float) -> tuple[Delivery, ...]:
        """Return what arrives of a datagram sent now: nothing, one, or two."""
        if not all(each.has_room(len(data), now) for each in self._bottlenecks):
            return ()
        left = self._leave(len(data), now)
        if self._happens(self.profile.loss):
            return ()
        copies = 2 if self._happens(self.profile.duplicate) else 1
        return tuple(
            Delivery(left + self._datagram_flight(), self._perhaps_corrupt(data))
            for _ in range(copies)
        )

    def _datagram_flight(self) -> float:
        flight = self._flight()
        return flight + max(flight, 0.01) if self._happens(self.profile.reorder) else flight


class StreamLink(_Link):
    """One direction for a byte stream, which stays in order and whole as TCP keeps it.

    Args:
        profile: what it does.
        seed: of its dice; the same seed and the same calls give the same answers.
        bottlenecks: what to cross in place of one of its own for the profile's rate.
    """

    _last_arrival = -math.inf

    def connect(self, now: float) -> float:
        """Return when the packet that opens a connection, or answers that one, arrives."""
        return now + self._losses(_FIRST_TIMEOUT) + self._flight()

    def send(self, data: bytes, now: float) -> tuple[Delivery, ...]:
        """Return when the segments of `data` arrive, none before one sent earlier; one without bytes for an end."""
        return tuple(
            self._segment(data[start : start + _SEGMENT], now)
            for start in range(0, max(1, len(data)), _SEGMENT)
        )

    def reset_at(self, now: float) -> float:
        """Return when a reset sent now arrives: it overtakes what is sent again, and is never sent again itself."""
        return self._leave(0, now) + self._flight()

    def ready_at(self, now: float) -> float:
        """Return when the sender may send again: now, or once no more waits than the queue holds."""
        return max((each.ready_at(now) for each in self._bottlenecks), default=now)

    def _segment(self, data: bytes, now: float) -> Delivery:
        left = self._leave(len(data), now)
        flight = self._losses(max(_MIN_TIMEOUT, 2 * self.profile.delay)) + self._flight()
        self._last_arrival = max(self._last_arrival, left + flight)
        return Delivery(self._last_arrival, self._perhaps_corrupt(data))

    def _losses(self, timeout: float) -> float:
        """Return how many seconds retransmissions cost, the first of them after `timeout` (RFC 6298 §5)."""
        lost = 0.0
        for _ in range(_MAX_LOSSES + 1):
            if not self._happens(self.profile.loss):
                return lost
            lost += timeout
            timeout = min(2 * timeout, _MAX_TIMEOUT)
        return math.inf
