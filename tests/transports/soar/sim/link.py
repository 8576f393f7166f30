"""What a network does to datagrams: delay, jitter, loss, reordering, repeats, damage, rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.transports.soar.sim.world import World

__all__ = ("Link", "Weather")

T = TypeVar("T", bound=tuple[object, ...])


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """How one direction of a link behaves; seconds, shares from 0 to 1, octets a second.

    Attributes:
        delay: one way.
        jitter: added, evenly from 0 to this; datagrams overtake each other.
        loss: share that is dropped.
        duplicate: share that comes twice, the second up to 50 ms later.
        corrupt: share that arrives with one octet changed.
        rate: octets a second; `None` is any number.
        queue: seconds of backlog before a rated link drops.
        longest: octets of the longest datagram that passes; `None` for no limit.
        down: nothing passes.
    """

    delay: float = 0.0
    jitter: float = 0.0
    loss: float = 0.0
    duplicate: float = 0.0
    corrupt: float = 0.0
    rate: float | None = None
    queue: float = 0.2
    longest: int | None = None
    down: bool = False


class Link(Generic[T]):
    """One direction between two places; what it carries is a tuple whose last item is the datagram."""

    def __init__(
        self, world: World, name: str, weather: Weather, deliver: Callable[..., None]
    ) -> None:
        self._world = world
        self._dice = world.dice(f"link {name}")
        self.weather = weather
        self._deliver = deliver
        self._free_at = 0.0
        self.sent = self.lost = self.octets = 0

    def send(self, *item: object) -> None:
        datagram = item[-1]
        assert isinstance(datagram, bytes)
        weather, dice = self.weather, self._dice
        self.sent += 1
        self.octets += len(datagram)
        is_long = weather.longest is not None and len(datagram) > weather.longest
        if weather.down or is_long or dice.random() < weather.loss:
            self.lost += 1
            return
        start = self._world.time
        if weather.rate is not None:
            start = max(start, self._free_at)
            if start - self._world.time > weather.queue:
                self.lost += 1
                return
            start = self._free_at = start + (len(datagram) + 28) / weather.rate
        if weather.corrupt and dice.random() < weather.corrupt:
            damaged = bytearray(datagram)
            damaged[dice.randrange(len(damaged))] ^= 1 << dice.randrange(8)
            item = (*item[:-1], bytes(damaged))
        delay = weather.delay + (dice.random() * weather.jitter if weather.jitter else 0.0)
        self._world.at(start + delay, lambda: self._deliver(*item))
        if weather.duplicate and dice.random() < weather.duplicate:
            again = start + delay + dice.random() * 0.05
            self._world.at(again, lambda: self._deliver(*item))
