"""What is settled about a connection in a `Network` before anything crosses it: where to, by which rules, which dice."""

from __future__ import annotations

import errno
import ipaddress
from typing import TYPE_CHECKING, Any, TypeAlias

from anyio.abc import SocketAttribute

from racer.lab._censor import AcceptAndHang, Blackhole, Inspector, Refuse, Throttle
from racer.lab._link import Bottleneck
from racer.lab._path import Segments

if TYPE_CHECKING:
    from collections.abc import Mapping

    from racer.lab._censor import Rule
    from racer.lab._link import StreamLink

__all__ = ("Connection", "Place", "attributes", "bar", "place_of", "throttles")

Place: TypeAlias = tuple[str, int]
"""An IP address in its usual form, and a port."""

_THROTTLED_QUEUE = 16_384  # bytes that wait at a throttle before the sender has to


class Connection:
    """What is settled about a TCP connection when it is dialed.

    Args:
        place: where it leads.
        rules: those for it.
        up: the link for what the client sends.
        down: the link for what comes back.

    Attributes:
        bar: the rule that lets nothing stand, if there is one.
        segments: where the client's sends end.
        inspector: reads what the client sends.
    """

    def __init__(
        self, place: Place, rules: tuple[Rule, ...], *, up: StreamLink, down: StreamLink
    ) -> None:
        """Settle it."""
        self.place = place
        self.bar = bar(rules)
        self.up = up
        self.down = down
        self.segments = Segments()
        self.inspector = Inspector(rules)

    def stands_at(self, now: float) -> float:
        """Return when the answer to the first packet arrives."""
        return self.down.connect(self.up.connect(now))


def place_of(address: str, port: int) -> Place:
    """Return where an address and port are.

    Raises:
        OSError: the address is none.
    """
    try:
        return str(ipaddress.ip_address(address)), port
    except ValueError:
        raise OSError(errno.EINVAL, f"{address!r} is not an IP address") from None


def bar(rules: tuple[Rule, ...]) -> Rule | None:
    """Return the rule that lets nothing stand, if there is one; the first of several counts."""
    return next((r for r in rules if isinstance(r, Blackhole | Refuse | AcceptAndHang)), None)


def throttles(rules: tuple[Rule, ...]) -> tuple[Bottleneck, ...]:
    """Return what slows one direction of one connection down, if anything does."""
    rates = [rule.rate for rule in rules if isinstance(rule, Throttle)]
    return (Bottleneck(min(rates), _THROTTLED_QUEUE),) if rates else ()


def attributes(place: Place) -> Mapping[Any, object]:
    """Return the typed attributes of an end in memory."""
    return {SocketAttribute.remote_address: place, SocketAttribute.remote_port: place[1]}
