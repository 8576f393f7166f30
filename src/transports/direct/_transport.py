"""TCP straight to the target, with Happy Eyeballs where its name has more than one address."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any, Final, TypeVar

from racer.abc import Transport, TransportStatus, check_delay
from racer.errors import ConfigError, TransportError
from transports._net.addresses import family_of
from transports._net.connector import Connector
from transports._net.dns_resolver import ResolverTLS
from transports._net.hosts import Hosts, HostsResolver
from transports._net.resolve import SystemResolver
from transports._net.resolvers import checked_resolvers, make_lookups

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anyio.abc import ByteStream

    from racer.abc import DialTCP, DialUDP, Host, MakeContext, Progress, Target
    from transports._net.resolvers import ResolverOption

__all__ = ("Direct", "make")

_T = TypeVar("_T")

_OPTIONS: Final = (
    "attempt_delay",
    "hosts",
    "local_address",
    "resolution_delay",
    "resolver",
    "second_opinion",
)


class Direct(Transport):
    """The target itself over TCP, as any program would reach it; it hides nothing.

    A name's addresses are tried by Happy Eyeballs version 2 (RFC 8305): both families are asked for together, take
    turns, and overlap. One dial has at most 32 sockets open to the target, 16 of each family, and to each resolver one
    or two; it closes all but the one it returns before it returns.

    **Resolvers.** The system's knows the hosts file, split DNS and mDNS, and is bounded and cancellable. Others are asked
    over sockets of our own, for names as they are: `udp://host[:53]` (Do53, over TCP where an answer does not fit; a
    question goes out again after 0.5, 1.5 and 3.5 s), `tcp://host[:53]`, `tls://host[:853]` (DoT) and
    `https://host/dns-query` (DoH). Each has 8 s. A resolver's own name is looked up in `hosts`, and else by the system. The
    names `localhost`, `invalid` and `onion`, and those below, are never asked for. Nothing is remembered from one lookup
    to the next, neither answers nor connections: the resolvers have caches.

    Of a *list*, the first is asked, 250 ms later the second as well, and so on; the next at once when one fails, or says
    that the name has no address at all. For each family the first answer counts.

    **A second opinion.** Whoever is on the way can answer in a resolver's place, except in that of `tls://` and
    `https://`. With `second_opinion` all resolvers of the list are asked at once, and this is promised:

    * Loopback, private, link-local and reserved addresses are dropped, unless only a local network can know the name.
    * Once a `tls://` or `https://` resolver has answered, no other is believed without one of these. What it shares with
      any other is tried, and nothing else; what it shares with none is tried when all others of its kind have answered,
      failed, or had 250 ms.
    * While none has, an address is tried only if two resolvers name it, or name its network (/24, for IPv6 /48), 250 ms
      after they do, or 2 s when such a resolver is listed and has not failed. Of several answers to one question the
      last counts most: who answers in another's place has to be faster.
    * Nothing else is tried; the lookup fails, and says who said what.

    It cannot help where the same lie is told to two resolvers, and nothing else arrives: list one that cannot be
    answered for.

    Args:
        resolver: `"system"`, a URL, an object with `resolve()` (`Resolver`), or a list of up to 8 of these.
        hosts: names to lists of IP addresses, best first, which go before all resolvers. `*.example.com` is every name
            below that one. A copy is kept.
        second_opinion: whether the resolvers of a list have to vouch for each other.
        resolver_tls: the context for `tls://` and `https://` resolvers, used as it is; `None` for the system's trust.
        dial_tcp: makes every TCP connection in place of our own sockets, to resolvers too, and its stream is what
            `connect` returns. Names are looked up before it is called.
        dial_udp: makes every socket for datagrams in place of our own, which `udp://` resolvers take.
        attempt_delay: seconds from one attempt's start to the next one's while none has failed; at least 0.010, and
            best between 0.1 and 2 (RFC 8305 §8). A failure starts the next at once.
        resolution_delay: seconds that an IPv4 answer waits for the IPv6 one; 0, or at least 0.010.
        local_address: an IP address of this machine to connect from, to resolvers with a URL too; only targets of its
            family can be reached then. Not together with a hook.

    Raises:
        ConfigError: an option that cannot be; says which, and why. No user, password or path of a URL is in it.
    """

    name = "direct"

    def __init__(
        self,
        *,
        resolver: ResolverOption = "system",
        hosts: Mapping[str, Sequence[str]] | None = None,
        second_opinion: bool = False,
        resolver_tls: ssl.SSLContext | None = None,
        dial_tcp: DialTCP | None = None,
        dial_udp: DialUDP | None = None,
        attempt_delay: float = 0.25,
        resolution_delay: float = 0.05,
        local_address: str | None = None,
    ) -> None:
        """Check the options; no IO."""
        ways: dict[str, Any] = {
            "dial_tcp": _checked_hook(dial_tcp, "dial_tcp"),
            "dial_udp": _checked_hook(dial_udp, "dial_udp"),
            "local_address": _checked_local_address(local_address),
        }
        _check_ways(**ways)
        self._attempt_delay = _checked_attempt_delay(attempt_delay)
        check_delay(resolution_delay, "resolution_delay")
        self._resolution_delay = float(resolution_delay)
        self._local_address = local_address
        self._second_opinion = _checked_flag(second_opinion, "second_opinion")
        table = Hosts(hosts)
        self._lookups = make_lookups(
            checked_resolvers(resolver),
            hosts=table,
            second_opinion=self._second_opinion,
            connector=Connector(HostsResolver(table, SystemResolver()), **ways),
            tls=ResolverTLS(_checked_context(resolver_tls)),
        )
        self._connector = Connector(
            self._lookups.resolver,
            attempt_delay=self._attempt_delay,
            resolution_delay=self._resolution_delay,
            **ways,
        )
        self._users = 0
        self._is_closed = False

    async def start(self, host: Host) -> None:
        """Load what lookups take, and count one user more: several dialers, or proxies, may go by one `Direct`."""
        del host
        for resolver in self._lookups.by_url:
            await resolver.prepare()
        self._users += 1
        self._is_closed = False

    async def aclose(self) -> None:
        """Connect no more, once every user has closed it; streams that were handed out are their holders'."""
        self._users = max(0, self._users - 1)
        self._is_closed = self._users == 0

    async def connect(self, target: Target, progress: Progress) -> ByteStream:
        """Return a raw TCP stream to `target`; the caller closes it. Cancelling closes every socket at once.

        Raises:
            OSError: no address could be reached. Its text names address and port; with several addresses its cause is
                an `ExceptionGroup` of all of their errors, and `errno` is set when they agree.
            NetworkError: the name could not be looked up; the cause is the resolver's error, or a group of them.
            TransportBusy: too many earlier lookups are stuck.
            TransportError: it was closed.
        """
        if self._is_closed:
            msg = f"transport {self.name!r} was closed"
            raise TransportError(msg)
        return await self._connector.connect(target.host, target.port, progress)

    def status(self) -> TransportStatus:
        """Return how many lookups are stuck in the system's resolver, where that is asked."""
        if not self._lookups.uses_system:
            return TransportStatus()
        stuck = SystemResolver().stuck
        return TransportStatus(
            health=f"{stuck} name lookups are stuck in the system's resolver" if stuck else "ok",
            details={"lookups.stuck": stuck},
        )

    def __repr__(self) -> str:
        """Return the options that shape it."""
        return (
            f"Direct(resolver={self._lookups.resolver!r}, attempt_delay={self._attempt_delay!r}, "
            f"resolution_delay={self._resolution_delay!r}, local_address={self._local_address!r})"
        )


def make(context: MakeContext) -> Direct:
    """Return a `Direct` from a configuration's options: all of its own but the hooks and `resolver_tls`, which are code.

    Options:
        resolver: `"system"`, a URL such as `"https://9.9.9.9/dns-query"` or `"udp://192.0.2.53"`, or a list of up to 8 of
            these.
        hosts: names to lists of IP addresses, best first, which go before all resolvers. `*.example.com` is every name
            below that one.
        local_address: an IP address of this machine to connect from, to resolvers with a URL too; only targets of its
            family can be reached then.

    Raises:
        ConfigError: an option is unknown or wrong.
    """
    context.refuse_unknown(*_OPTIONS)
    return Direct(**context.options)


def _check_ways(
    *, dial_tcp: DialTCP | None, dial_udp: DialUDP | None, local_address: str | None
) -> None:
    for name, hook in (("dial_tcp", dial_tcp), ("dial_udp", dial_udp)):
        if hook is not None and local_address is not None:
            msg = f"local_address together with {name}: the hook makes the connections, so it has to choose"
            raise ConfigError(msg)


def _checked_hook(hook: _T, name: str) -> _T:
    if hook is not None and not callable(hook):
        msg = f"{name} must be an async function, not {type(hook).__name__}"
        raise ConfigError(msg)
    return hook


def _checked_flag(value: object, name: str) -> bool:
    if not isinstance(value, bool):
        msg = f"{name} must be True or False, not {type(value).__name__}"
        raise ConfigError(msg)
    return value


def _checked_context(context: object) -> ssl.SSLContext | None:
    if context is None:
        return None
    if not isinstance(context, ssl.SSLContext):
        msg = f"resolver_tls must be an ssl.SSLContext, not {type(context).__name__}"
        raise ConfigError(msg)
    if context.protocol is ssl.PROTOCOL_TLS_SERVER:
        msg = "resolver_tls is a server's context; one for the client's side is needed"
        raise ConfigError(msg)
    return context


def _checked_attempt_delay(value: float) -> float:
    check_delay(value, "attempt_delay")
    if not value:
        msg = "attempt_delay=0: must be at least 0.01 s (RFC 8305 §5)"
        raise ConfigError(msg)
    return float(value)


def _checked_local_address(address: object) -> str | None:
    if address is None:
        return None
    if not isinstance(address, str) or family_of(address) is None:
        msg = f"local_address must be an IP address of this machine, not {address!r}"
        raise ConfigError(msg)
    return address
