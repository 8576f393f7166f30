"""What `Proxyless` is given, checked and put together; no IO."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar, cast

from racer.abc import Progress, Transport
from racer.errors import ConfigError
from transports._net.connector import Connector
from transports._net.dns_resolver import DNSResolver, ResolverTLS
from transports._net.hosts import Hosts, HostsResolver
from transports._net.resolve import Resolver, SystemResolver
from transports._net.resolver_urls import ResolverURL
from transports.proxyless._fallbacks import InstalledSocks5
from transports.proxyless._hearsay import SaneResolver, Source
from transports.proxyless._outline import (
    MAX_FALLBACKS,
    MAX_RESOLVERS,
    MAX_STRATEGIES,
    SYSTEM,
    ResolverAt,
    Socks5At,
    parse_fallback,
)
from transports.proxyless._strategies import Strategy, parse_strategy

if TYPE_CHECKING:
    import ssl

    from anyio.abc import ByteStream

    from racer.abc import DialTCP, DialUDP, Target

__all__ = (
    "DEFAULT_RESOLVERS",
    "DEFAULT_STRATEGIES",
    "FallbackOption",
    "Parts",
    "ResolverOption",
    "StrategyOption",
    "put_together",
)

DEFAULT_RESOLVERS: Final = (
    SYSTEM,
    "https://9.9.9.9/dns-query",
    "https://1.1.1.1/dns-query",
    "https://8.8.8.8/dns-query",
    "https://[2620:fe::fe]/dns-query",
    "https://[2606:4700:4700::1111]/dns-query",
)
"""The system's own, and those of three operators by address, encrypted: no other has to be asked for their names, and
nobody on the way can answer for them. They are only asked when what the system's resolver said does not work."""

DEFAULT_STRATEGIES: Final = (
    "",
    "split:sni|tlsfrag:sni",
    "split:sni",
    "disorder:0|split:sni|tlsfrag:sni",
    "disorder:0|split:sni",
)
"""From nothing to everything, so that few have to be tried; those without `tlsfrag` are for servers that refuse a ClientHello
in several records. `python -m benchmarks.proxyless` measures which passes whom."""

ResolverOption = str | ResolverAt | Resolver
StrategyOption = str | Strategy
FallbackOption = str | Socks5At | Transport

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a `Proxyless` is made of.

    Attributes:
        sources: the resolvers.
        by_url: those of them that can be prepared.
        strategies: what may be tried.
        fallbacks: what is left when all of it fails.
    """

    sources: tuple[Source, ...]
    by_url: tuple[DNSResolver, ...]
    strategies: tuple[Strategy, ...]
    fallbacks: tuple[Transport, ...]


def put_together(
    *,
    resolvers: Sequence[ResolverOption],
    strategies: Sequence[StrategyOption],
    fallbacks: Sequence[FallbackOption],
    hosts: object,
    resolver_tls: object,
    dial_tcp: DialTCP | None,
    dial_udp: DialUDP | None,
) -> Parts:
    """Return the parts that the options ask for.

    Raises:
        ConfigError: an option that cannot be; says which, and why.
    """
    for name, hook in (("dial_tcp", dial_tcp), ("dial_udp", dial_udp)):
        if hook is not None and not callable(hook):
            msg = f"{name} must be an async function, not {type(hook).__name__}"
            raise ConfigError(msg)
    table = Hosts(hosts)
    connector = Connector(
        HostsResolver(table, SystemResolver()), dial_tcp=dial_tcp, dial_udp=dial_udp
    )
    tls = ResolverTLS(_context(resolver_tls))
    sources: list[Source] = []
    by_url: list[DNSResolver] = []
    for index, each in enumerate(_several(resolvers, "resolvers", MAX_RESOLVERS)):
        source, made = _source(each, f"resolvers[{index}]", connector, tls, table)
        if source.label in [other.label for other in sources]:
            msg = f"resolvers[{index}]: {source.label} stands in the list already"
            raise ConfigError(msg)
        sources.append(source)
        by_url += [made] if made is not None else []
    ways = [
        _fallback(each, f"fallbacks[{i}]", connector)
        for i, each in enumerate(_several(fallbacks, "fallbacks", MAX_FALLBACKS, least=0))
    ]
    if len({way.name for way in ways}) < len(ways):
        msg = "fallbacks: two of the same name"
        raise ConfigError(msg)
    found = [
        each if isinstance(each, Strategy) else parse_strategy(each, option=f"strategies[{i}]")
        for i, each in enumerate(_several(strategies, "strategies", MAX_STRATEGIES))
    ]
    return Parts(
        sources=tuple(sources),
        by_url=tuple(by_url),
        strategies=tuple(dict.fromkeys(found)),
        fallbacks=tuple(ways),
    )


def _several(given: Sequence[_T], option: str, most: int, *, least: int = 1) -> Sequence[_T]:
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        msg = f"{option} must be a list, not {type(given).__name__}"
        raise ConfigError(msg)
    if not least <= len(given) <= most:
        msg = f"{option}: a list of {len(given)}; {least} to {most} are taken"
        raise ConfigError(msg)
    return given


def _source(
    given: object, option: str, connector: Connector, tls: ResolverTLS, table: Hosts
) -> tuple[Source, DNSResolver | None]:
    def sane(resolver: Resolver) -> Resolver:
        # The owner's own table is believed, whatever it says.
        return HostsResolver(table, SaneResolver(resolver))

    if given == SYSTEM:
        return Source(sane(SystemResolver()), SYSTEM, is_local=True), None
    at = ResolverAt(ResolverURL.parse(given, option=option)) if isinstance(given, str) else given
    if isinstance(at, ResolverAt):
        way = connector if at.address is None else _Rerouted(connector, at.address)
        made = DNSResolver(at.url, way, tls=tls)
        return Source(sane(made), str(at)), made
    if not callable(getattr(given, "resolve", None)):
        msg = (
            f"{option} must be 'system', a URL such as https://192.0.2.1/dns-query, or an object with resolve(), "
            f"not {type(given).__name__}"
        )
        raise ConfigError(msg)
    label = f"{option} ({type(given).__name__})"
    return Source(sane(cast("Resolver", given)), label, is_local=True), None


class _Rerouted(Connector):
    """Connects to one place, whatever it is asked for: a resolver behind another's address."""

    def __init__(self, connector: Connector, address: Target) -> None:
        self._connector = connector
        self._address = address

    async def connect(self, host: str, port: int, progress: Progress) -> ByteStream:
        del host, port
        return await self._connector.connect(self._address.host, self._address.port, progress)


def _fallback(given: object, option: str, connector: Connector) -> Transport:
    if isinstance(given, Transport):
        return given
    if isinstance(given, str):
        given = parse_fallback(given, option=option)
    if isinstance(given, Socks5At):
        return InstalledSocks5(given, connector)
    msg = f"{option} must be a socks5:// URL or a racer.abc.Transport, not {type(given).__name__}"
    raise ConfigError(msg)


def _context(given: object) -> ssl.SSLContext | None:
    if given is None:
        return None
    import ssl  # noqa: PLC0415 - only who brings a context pays for it

    if not isinstance(given, ssl.SSLContext) or given.protocol is ssl.PROTOCOL_TLS_SERVER:
        msg = "resolver_tls must be an ssl.SSLContext for the client's side"
        raise ConfigError(msg)
    return given
