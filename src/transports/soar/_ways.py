"""Carriers from options: which resolvers are asked, and over what."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from racer.errors import ConfigError
from transports._net.resolver_urls import ResolverURL, Scheme
from transports._net.udp import connect_datagrams
from transports.soar.carriers.udp import UDPCarrier

if TYPE_CHECKING:
    import ssl
    from collections.abc import Sequence

    from racer.abc import DialTCP, DialUDP
    from transports.soar.carriers.abc import Carrier

__all__ = (
    "MAX_PATHS",
    "MAX_RESOLVERS",
    "SYSTEM",
    "Way",
    "checked_resolvers",
    "make_ways",
)

MAX_PATHS: Final = 16
"""One for each resolver and zone: they have numbers of four bits (SPEC 8.2)."""
MAX_RESOLVERS: Final = 16
SYSTEM: Final = "system"


class Way(NamedTuple):
    """A carrier, and what the core has to know of it.

    Attributes:
        carrier: takes questions.
        zone: the index of the zone that is asked for.
        datagram: whether its messages may be lost.
        label: for logs and status; no secret.
    """

    carrier: Carrier
    zone: int
    datagram: bool
    label: str


def checked_resolvers(given: object, *, zones: int = 1) -> tuple[ResolverURL | None, ...]:
    """Return the resolvers that an option names; `None` stands for the system's, which are found when needed.

    Args:
        given: the option.
        zones: how many zones each of them is asked for.

    Raises:
        ConfigError: says which of them cannot be, and why.
    """
    if not isinstance(given, list | tuple) or not 1 <= len(given) <= MAX_RESOLVERS:
        msg = f"resolvers must be a list of 1 to {MAX_RESOLVERS} URLs such as udp://192.0.2.53, or 'system'"
        raise ConfigError(msg)
    found: list[ResolverURL | None] = []
    for index, text in enumerate(given):
        option = f"resolvers[{index}]"
        if not isinstance(text, str):
            msg = f"{option} must be a text, not {type(text).__name__}"
            raise ConfigError(msg)
        resolver = None if text == SYSTEM else ResolverURL.parse(text, option=option)
        if resolver in found:
            msg = f"{option}: stands in the list already"
            raise ConfigError(msg)
        found.append(resolver)
    # The system's, which are not known yet, give way; what was written down has to have a path.
    paths = zones * sum(resolver is not None for resolver in found)
    if paths > MAX_PATHS:
        msg = f"resolvers: each is asked for every domain, which makes {paths} paths; at most {MAX_PATHS} can be"
        raise ConfigError(msg)
    return tuple(found)


def make_ways(
    resolvers: Sequence[ResolverURL],
    *,
    zones: Sequence[str],
    tls: ssl.SSLContext | None,
    dial_tcp: DialTCP | None,
    dial_udp: DialUDP | None,
) -> list[Way]:
    """Return a way for each resolver and zone, at most as many as there can be paths; no IO.

    Args:
        resolvers: to ask, best first.
        zones: the server's, as text.
        tls: the context for those that are encrypted; `None` for the system's trust.
        dial_tcp: makes connections in place of our own sockets.
        dial_udp: likewise, for datagrams.
    """
    carriers = None
    if not all(map(_is_plain, resolvers)):
        from transports.soar._carriers import Carriers  # noqa: PLC0415 - a plain resolver takes none of it

        carriers = Carriers(tls=tls, dial_tcp=dial_tcp, dial_udp=dial_udp)
    ways: list[Way] = []
    labels: Counter[str] = Counter()
    for index, zone in enumerate(zones):
        for resolver in resolvers:
            label = str(resolver) if len(zones) == 1 else f"{resolver} for {zone}"
            labels[label] += 1
            if labels[label] > 1:  # a path, which may be secret, makes the difference
                label = f"{label} ({labels[label]})"
            carrier = (
                carriers.of(resolver)
                if carriers is not None
                else _plain_carrier(resolver, dial_udp or connect_datagrams)
            )
            ways.append(Way(carrier, index, resolver.scheme is Scheme.UDP, label))
    return ways[:MAX_PATHS]


def _is_plain(resolver: ResolverURL) -> bool:
    """Whether datagrams go to an address, so that nothing has to be looked up or connected."""
    return resolver.scheme is Scheme.UDP and resolver.server.is_address


def _plain_carrier(resolver: ResolverURL, dial: DialUDP) -> Carrier:
    return UDPCarrier(partial(dial, resolver.server.host, resolver.server.port))
