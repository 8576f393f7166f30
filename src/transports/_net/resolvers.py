"""The resolver that options ask for: the system's, one with a URL, several in a race or against each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from racer.errors import ConfigError
from transports._net.dns_resolver import DNSResolver
from transports._net.hosts import HostsResolver
from transports._net.opinions import CONTRADICTION_DELAY
from transports._net.resolve import Resolver, SystemResolver
from transports._net.resolver_race import RacedResolvers
from transports._net.resolver_urls import ResolverURL
from transports._net.second_opinion import SecondOpinion, Source

if TYPE_CHECKING:
    from transports._net.connector import Connector
    from transports._net.dns_resolver import ResolverTLS
    from transports._net.hosts import Hosts

__all__ = (
    "MAX_RESOLVERS",
    "SYSTEM",
    "Lookups",
    "ResolverOption",
    "Wanted",
    "checked_resolvers",
    "make_lookups",
)

MAX_RESOLVERS: Final = 8
"""Resolvers that one list may have; each costs a socket or two while a name is looked up."""

SYSTEM: Final = "system"

ResolverOption: TypeAlias = str | Resolver | Sequence[str | Resolver]
"""What a caller may give: `"system"`, a URL, an object with `resolve()`, or a list of these."""

Wanted: TypeAlias = ResolverURL | Resolver
"""The same, checked."""


@dataclass(frozen=True, slots=True)
class Lookups:
    """What looks names up for one owner.

    Attributes:
        resolver: all of it.
        by_url: the parts of it that can be prepared.
        uses_system: whether the system's resolver is one of them.
    """

    resolver: Resolver
    by_url: tuple[DNSResolver, ...]
    uses_system: bool


def checked_resolvers(given: object, *, option: str = "resolver") -> tuple[Wanted, ...]:
    """Return the resolvers that an option names, in its order.

    Raises:
        ConfigError: says which of them cannot be, and why.
    """
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        return (_checked(given, option),)
    if not 1 <= len(given) <= MAX_RESOLVERS:
        msg = f"{option}: a list of {len(given)} resolvers; 1 to {MAX_RESOLVERS} are taken"
        raise ConfigError(msg)
    found: list[Wanted] = []
    for index, each in enumerate(given):
        wanted = _checked(each, f"{option}[{index}]")
        if any(_is_same(wanted, other) for other in found):
            msg = f"{option}[{index}]: {_label(wanted)} stands in the list already"
            raise ConfigError(msg)
        found.append(wanted)
    return tuple(found)


def make_lookups(
    wanted: Sequence[Wanted],
    *,
    hosts: Hosts,
    second_opinion: bool,
    connector: Connector,
    tls: ResolverTLS,
) -> Lookups:
    """Return what looks names up; no IO.

    Args:
        wanted: from `checked_resolvers`.
        hosts: goes before all of them.
        second_opinion: whether they are to vouch for each other, instead of one standing in for another.
        connector: leads to those with a URL.
        tls: contexts for those that are encrypted.

    Raises:
        ConfigError: there is nobody to give a second opinion.
    """
    if second_opinion and len(wanted) < 2:
        msg = "second_opinion: takes a list of two resolvers or more; list at least one tls:// or https:// among them"
        raise ConfigError(msg)
    hold_on = CONTRADICTION_DELAY if second_opinion else 0.0
    made = [
        DNSResolver(each, connector, tls=tls, hold_on=hold_on)
        if isinstance(each, ResolverURL)
        else each
        for each in wanted
    ]
    resolver: Resolver = made[0]
    if second_opinion:
        resolver = SecondOpinion([_source(each) for each in made])
    elif len(made) > 1:
        resolver = RacedResolvers(made)
    return Lookups(
        HostsResolver(hosts, resolver) if len(hosts) else resolver,
        by_url=tuple(each for each in made if isinstance(each, DNSResolver)),
        uses_system=any(isinstance(each, SystemResolver) for each in made),
    )


def _checked(given: object, option: str) -> Wanted:
    if isinstance(given, str):
        return SystemResolver() if given == SYSTEM else ResolverURL.parse(given, option=option)
    if not callable(getattr(given, "resolve", None)):
        msg = (
            f"{option} must be 'system', a URL such as udp://192.0.2.53, an object with resolve(), or a list of these, "
            f"not {type(given).__name__}"
        )
        raise ConfigError(msg)
    return cast("Resolver", given)


def _is_same(one: Wanted, other: Wanted) -> bool:
    if isinstance(one, SystemResolver):
        return isinstance(other, SystemResolver)
    return one == other if isinstance(one, ResolverURL) else one is other


def _label(wanted: Wanted | DNSResolver) -> str:
    if isinstance(wanted, SystemResolver):
        return "the system's resolver"
    if isinstance(wanted, ResolverURL | DNSResolver):
        return str(wanted)
    return type(wanted).__name__


def _source(resolver: Resolver) -> Source:
    is_encrypted = isinstance(resolver, DNSResolver) and resolver.is_encrypted
    return Source(resolver, _label(resolver), is_encrypted)
