"""What a link does to what crosses it: delay, jitter, loss, reordering, duplication, corruption, rate. Pure and seeded.

A link is told what was sent and when, and says what arrives and when. Relays on sockets and streams in memory obey the
same one, so that a network tried for real behaves as it did on a virtual clock.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Final

from racer.errors import ConfigError

__all__ = ("CLEAN", "DatagramLink", "Delivery", "Profile", "StreamLink")

_MIN_RETRANSMIT: Final = 0.2  # seconds; the floor of Linux's retransmission timer


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What one direction of a link does.

    Attributes:
        delay: seconds every byte takes.
        jitter: seconds at most that are added to it, evenly spread.
        loss: probability from 0 to 1 that a datagram, or a chunk of a stream, is lost on its way. A stream's chunk is
            sent again, as TCP would, and so comes late by a retransmission timeout; everything behind it waits.
        reorder: probability that a datagram is overtaken: it takes twice its delay, at least 10 ms more. Streams keep
            their order.
        duplicate: probability that a datagram arrives twice.
        corrupt: probability that one bit of a datagram, or of a chunk, is flipped.
        rate: bytes a second; `None` for no limit.
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
        at: when, on the clock that `send` was given.
        data: what.
    """

    at: float
    data: bytes


class _Link:
    """The dice and the bottleneck that both kinds of link have."""

    def __init__(self, profile: Profile, *, seed: int) -> None:
        self.profile = profile
        self._dice = random.Random(seed)  # noqa: S311 - a simulator has to be repeatable
        self._free_at = -math.inf

    def backlog(self, now: float) -> float:
        """Return how many bytes wait for the rate."""
        return max(0.0, self._free_at - now) * self.profile.rate if self.profile.rate else 0.0

    def _through_bottleneck(self, size: int, now: float) -> float:
        """Return when the last of `size` bytes has left."""
        if self.profile.rate is None:
            return now
        self._free_at = max(now, self._free_at) + size / self.profile.rate
        return self._free_at

    def _happens(self, probability: float) -> bool:
        return probability > 0 and self._dice.random() < probability

    def _flight(self) -> float:
        return self.profile.delay + (
            self._dice.uniform(0, self.profile.jitter) if self.profile.jitter else 0.0
        )

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
    """

    def send(self, data: bytes, now: float) -> tuple[Delivery, ...]:
        """Return what arrives of a datagram sent now: nothing, one, or two."""
        profile = self.profile
        if profile.rate is not None and self.backlog(now) + len(data) > profile.queue:
            return ()
        left = self._through_bottleneck(len(data), now)
        if self._happens(profile.loss):
            return ()
        copies = 2 if self._happens(profile.duplicate) else 1
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
        seed: of its dice.
    """

    def __init__(self, profile: Profile, *, seed: int) -> None:
        """Begin with nothing under way."""
        super().__init__(profile, seed=seed)
        self._last_arrival = -math.inf

    def ready_at(self, now: float) -> float:
        """Return when the sender may send again: now, or once no more than the queue holds waits for the rate."""
        rate = self.profile.rate
        return now if rate is None else max(now, self._free_at - self.profile.queue / rate)

    def send(self, data: bytes, now: float) -> Delivery:
        """Return when a chunk sent now arrives, never before the one sent earlier."""
        left = self._through_bottleneck(len(data), now)
        flight = self._flight()
        while self._happens(self.profile.loss):
            flight += max(_MIN_RETRANSMIT, 2 * self.profile.delay)
        self._last_arrival = max(self._last_arrival, left + flight)
        return Delivery(self._last_arrival, self._perhaps_corrupt(data))
