"""The censor on the packet path: what it does with each packet, as its rules say. No IO, no clock."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from racer.lab._censor import Blackhole, Hit, Refuse, Throttle, matching
from racer.lab._link import Bottleneck
from racer.lab._zone import Forge, Zone
from racer.lab.packets._capture import Side
from racer.lab.packets._flows import Reader
from racer.lab.packets._ip import Flags, Packet, make_tcp, make_udp
from racer.lab.packets._rules import Action, InjectDNS, SNIFilter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from racer.lab._censor import Over, Rule

__all__ = ("MAX_FLOWS", "Censor", "Judgement")

MAX_FLOWS: Final = 4096
"""Connections that are remembered; the one that was silent for longest is forgotten for the next."""

_QUEUE: Final = 65_536  # octets that wait where a connection is slowed down

Flow = tuple[str, int, str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What becomes of a packet.

    Attributes:
        passes: whether it goes on.
        leaves_at: when it does, on the caller's clock.
        injected: packets that are sent besides, each with the side it goes to.
    """

    passes: bool = True
    leaves_at: float = 0.0
    injected: tuple[tuple[Side, bytes], ...] = ()


@dataclass(slots=True)
class _Known:
    """A connection."""

    first: int
    readers: dict[SNIFilter, Reader] = field(default_factory=dict)
    condemned: SNIFilter | None = None


class Censor:
    """Judges packets, one after the other.

    Args:
        rules: a list that may change at any time. Connections that it has condemned stay so.

    Attributes:
        hits: what it did, oldest first; a packet of a connection that was condemned before is no new hit.
    """

    def __init__(self, rules: Sequence[Rule]) -> None:
        """Begin without any connection."""
        self.hits: list[Hit] = []
        self._rules = rules
        self._flows: OrderedDict[Flow, _Known] = OrderedDict()
        self._bottlenecks: dict[tuple[Throttle, Flow, Side], Bottleneck] = {}

    def judge(self, packet: Packet, side: Side, now: float, *, hops_left: int) -> Judgement:
        """Return what becomes of a packet.

        Args:
            packet: as it is where the censor stands.
            side: the host it comes from.
            now: seconds.
            hops_left: routers it still has to meet.
        """
        if packet.over is None:
            return Judgement(leaves_at=now)
        up = side is Side.CLIENT
        client = (packet.source, packet.source_port)
        server = (packet.destination, packet.destination_port)
        if not up:
            client, server = server, client
        flow = (*client, *server)
        over: Over = "tcp" if packet.over == "tcp" else "udp"
        rules = matching(self._rules, server[0], server[1], over)
        if (verdict := self._swallowed(packet, rules, up=up, now=now)) is not None:
            return verdict
        if over == "udp" and up and (injected := self._forged(packet, rules, now)) is not None:
            answers, drops = injected
            return Judgement(passes=not drops, leaves_at=now, injected=answers)
        if over == "tcp":
            verdict = self._named(packet, rules, flow, up=up, now=now, hops_left=hops_left)
            if verdict is not None:
                return verdict
        return self._slowed(packet, rules, flow, side, now)

    def _swallowed(
        self, packet: Packet, rules: Sequence[Rule], *, up: bool, now: float
    ) -> Judgement | None:
        for rule in rules:
            if isinstance(rule, Blackhole):
                if up and (packet.over == "udp" or packet.flags & Flags.SYN):
                    self._hit(rule, packet, now)
                return Judgement(passes=False)
            if isinstance(rule, Refuse):
                if packet.over == "udp" or not up:
                    return Judgement(passes=False)
                self._hit(rule, packet, now)
                return Judgement(passes=False, injected=((Side.CLIENT, _reset_back(packet)),))
        return None

    def _forged(
        self, packet: Packet, rules: Sequence[Rule], now: float
    ) -> tuple[tuple[tuple[Side, bytes], ...], bool] | None:
        """Return the answers to a question in another's place, and whether it goes no further."""
        for rule in rules:
            if not isinstance(rule, InjectDNS):
                continue
            lies = [
                Forge(name=name, addresses=rule.addresses, truth_after=None) for name in rule.names
            ]
            zone = Zone({}, lies)
            replies = zone.replies(packet.data, over="udp")
            if not replies or not zone.matching(zone.asked[-1]):
                continue
            self._hit(rule, packet, now, zone.asked[-1].name)
            answer = make_udp(
                (packet.destination, packet.destination_port),
                (packet.source, packet.source_port),
                replies[0].data,
            )
            return ((Side.CLIENT, answer),), rule.drops
        return None

    def _named(
        self,
        packet: Packet,
        rules: Sequence[Rule],
        flow: Flow,
        *,
        up: bool,
        now: float,
        hops_left: int,
    ) -> Judgement | None:
        """Return what becomes of a packet whose connection names, or has named, an unwanted host."""
        known = self._flow(flow, packet, up=up)
        if known is None:
            return None
        if known.condemned is None and up:
            for rule in rules:
                if not isinstance(rule, SNIFilter):
                    continue
                if rule.heeds_ttl and packet.ttl <= hops_left:
                    continue
                reader = known.readers.setdefault(rule, Reader(rule, known.first))
                if (name := reader.read(packet.seq, packet.data)) is not None:
                    known.condemned = rule
                    self._hit(rule, packet, now, name)
                    break
        if known.condemned is None:
            return None
        if known.condemned.action is Action.DROP or not up or packet.flags & Flags.RST:
            return Judgement(passes=False)
        injected = ((Side.CLIENT, _reset_back(packet)), (Side.SERVER, _reset_on(packet)))
        return Judgement(passes=False, injected=injected)

    def _flow(self, flow: Flow, packet: Packet, *, up: bool) -> _Known | None:
        """Return what is known of a connection; one that began before the censor looked is none of its business."""
        if up and packet.flags & Flags.SYN:
            first = (packet.seq + 1) % 2**32
            known = self._flows.get(flow)
            if known is None or known.first != first:  # else the same one again
                self._flows[flow] = _Known(first)
            if len(self._flows) > MAX_FLOWS:
                self._flows.popitem(last=False)
        if flow in self._flows:
            self._flows.move_to_end(flow)
        return self._flows.get(flow)

    def _slowed(
        self, packet: Packet, rules: Sequence[Rule], flow: Flow, side: Side, now: float
    ) -> Judgement:
        leaves_at = now
        for rule in rules:
            if isinstance(rule, Throttle):
                key = (rule, flow, side)
                if key not in self._bottlenecks and len(self._bottlenecks) >= MAX_FLOWS:
                    self._bottlenecks.pop(next(iter(self._bottlenecks)))
                narrow = self._bottlenecks.setdefault(key, Bottleneck(rule.rate, _QUEUE))
                if not narrow.has_room(len(packet.octets), now):
                    return Judgement(passes=False)
                leaves_at = max(leaves_at, narrow.enter(len(packet.octets), now))
        return Judgement(leaves_at=leaves_at)

    def _hit(self, rule: Rule, packet: Packet, now: float, name: str | None = None) -> None:
        over: Over = "tcp" if packet.over == "tcp" else "udp"
        self.hits.append(
            Hit(
                at=now,
                rule=rule,
                address=packet.destination,
                port=packet.destination_port,
                over=over,
                name=name,
            )
        )


def _reset_back(packet: Packet) -> bytes:
    """Return a reset to who sent `packet`, at the very number it expects next (RFC 5961 §3.2)."""
    length = len(packet.data) + bool(packet.flags & Flags.SYN) + bool(packet.flags & Flags.FIN)
    return make_tcp(
        (packet.destination, packet.destination_port),
        (packet.source, packet.source_port),
        seq=packet.ack if packet.flags & Flags.ACK else 0,
        ack=(packet.seq + length) % 2**32,
        flags=Flags.RST | Flags.ACK,
    )


def _reset_on(packet: Packet) -> bytes:
    """Return a reset to where `packet` went, in its sender's name and in its place."""
    return make_tcp(
        (packet.source, packet.source_port),
        (packet.destination, packet.destination_port),
        seq=packet.seq,
        ack=packet.ack,
        flags=Flags.RST | Flags.ACK,
    )
