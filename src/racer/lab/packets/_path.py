"""The path between two hosts, packet by packet: links, routers that count down, and a censor in between. Sans-IO.

client ── near link, near_hops routers ── censor ── far_hops routers, far link ── server
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from typing import TYPE_CHECKING, Final

from racer.lab._link import CLEAN, DatagramLink
from racer.lab.packets._capture import Captured, Point, Side
from racer.lab.packets._censor import Censor
from racer.lab.packets._ip import Packet, decode, with_ttl

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from racer.lab._censor import Hit, Rule
    from racer.lab._link import Profile

__all__ = ("MAX_CAPTURED", "PacketPath")

MAX_CAPTURED: Final = 100_000
"""Records that are kept; older ones are forgotten."""

_Step = tuple[float, int, "Callable[[Packet, Side, float], None]", Packet, Side]


class PacketPath:
    """Carries packets both ways, and obeys rules between.

    Args:
        near: the link between client and censor, each way.
        far: the link between censor and server, each way.
        near_hops: routers between client and censor.
        far_hops: routers between censor and server.
        rules: the censor's; the list may change at any time.
        seed: of the links' dice.

    Attributes:
        captured: what was on the wire, oldest first.
    """

    def __init__(
        self,
        *,
        near: Profile = CLEAN,
        far: Profile = CLEAN,
        near_hops: int = 1,
        far_hops: int = 6,
        rules: Sequence[Rule] = (),
        seed: int = 0,
    ) -> None:
        """Begin with nothing under way."""
        self.captured: deque[Captured] = deque(maxlen=MAX_CAPTURED)
        self._censor = Censor(rules)
        self._hops = {Side.CLIENT: near_hops, Side.SERVER: far_hops}
        # One link for each half and direction, named for the end it lies at and the host its packets come from.
        self._links = {
            (half, side): DatagramLink(profile, seed=f"{seed}/{half.value}/{side.value}")
            for half, profile in ((Side.CLIENT, near), (Side.SERVER, far))
            for side in Side
        }
        self._steps: list[_Step] = []
        self._count = itertools.count()
        self._arrived: list[tuple[Side, bytes]] = []

    @property
    def hits(self) -> list[Hit]:
        """What the censor did, oldest first."""
        return self._censor.hits

    def receive(self, side: Side, octets: bytes, now: float) -> None:
        """Take a packet that the host on `side` sends; what is no IP packet is dropped."""
        if (packet := decode(octets)) is not None:
            self._note(now, Point.SENT, side, packet)
            self._cross(side, packet, side, now, self._reach_censor)

    def next_timeout(self) -> float | None:
        """Return when something moves on; `None` when nothing is under way."""
        return self._steps[0][0] if self._steps else None

    def handle_timeout(self, now: float) -> None:
        """Move on what is due."""
        while self._steps and self._steps[0][0] <= now:
            at, _, step, packet, side = heapq.heappop(self._steps)
            step(packet, side, at)

    def packets_to_send(self) -> list[tuple[Side, bytes]]:
        """Return the packets that have arrived, each with the host it is for; once."""
        arrived, self._arrived = self._arrived, []
        return arrived

    def _cross(
        self,
        half: Side,
        packet: Packet,
        side: Side,
        now: float,
        then: Callable[[Packet, Side, float], None],
    ) -> None:
        """Send a packet over one half of the path."""
        for delivery in self._links[half, side].send(packet.octets, now):
            # What was corrupted on its way may be no packet any more.
            if (came := decode(delivery.data)) is not None:
                heapq.heappush(self._steps, (delivery.at, next(self._count), then, came, side))

    def _reach_censor(self, packet: Packet, side: Side, now: float) -> None:
        if (routed := self._routed(packet, side, side, now)) is None:
            return
        self._note(now, Point.SEEN, side, routed)
        verdict = self._censor.judge(routed, side, now, hops_left=self._hops[side.other])
        if verdict.passes:
            if verdict.leaves_at > now:
                step = (verdict.leaves_at, next(self._count), self._leave_censor, routed, side)
                heapq.heappush(self._steps, step)
            else:
                self._leave_censor(routed, side, now)
        else:
            self._note(now, Point.SWALLOWED, side, routed)
        for goal, octets in verdict.injected:
            injected = decode(octets)
            assert injected is not None
            self._note(now, Point.INJECTED, goal.other, injected)
            self._cross(goal, injected, goal.other, now, self._arrive)

    def _leave_censor(self, packet: Packet, side: Side, now: float) -> None:
        self._cross(side.other, packet, side, now, self._arrive)

    def _arrive(self, packet: Packet, side: Side, now: float) -> None:
        if (routed := self._routed(packet, side, side.other, now)) is not None:
            self._note(now, Point.DELIVERED, side, routed)
            self._arrived.append((side.other, routed.octets))

    def _routed(self, packet: Packet, side: Side, half: Side, now: float) -> Packet | None:
        """Return the packet behind the routers of one half; `None` when one of them had to drop it (RFC 791 §3.2)."""
        hops = self._hops[half]
        if not hops:
            return packet
        if packet.ttl <= hops:
            self._note(now, Point.EXPIRED, side, packet)
            return None
        routed = decode(with_ttl(packet, packet.ttl - hops))
        assert routed is not None
        return routed

    def _note(self, now: float, point: Point, side: Side, packet: Packet) -> None:
        self.captured.append(Captured(at=now, point=point, side=side, packet=packet))
