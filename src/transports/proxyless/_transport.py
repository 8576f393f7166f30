"""The transport that needs no server of anybody's: it finds the resolver and the trick that get through, and keeps to them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import anyio
import anyio.lowlevel
import anyio.to_thread

from racer.abc import (
    Outcome,
    Progress,
    Stage,
    Traits,
    Transport,
    TransportStatus,
    check_seconds,
    network_id,
)
from racer.errors import ConfigError, ErrorType, TransportError, error_type_of
from transports._net.addresses import host_port
from transports._net.special_names import is_local_name
from transports.proxyless._dial import FAMILIES, ShapingDialer
from transports.proxyless._flights import Flights
from transports.proxyless._hearsay import Known, look_up
from transports.proxyless._memory import Key, Memory, Winner
from transports.proxyless._options import DEFAULT_RESOLVERS, DEFAULT_STRATEGIES, put_together
from transports.proxyless._outline import read_outline
from transports.proxyless._searcher import Searcher
from transports.proxyless._single_flight import SingleFlight
from transports.proxyless._store import Store

if TYPE_CHECKING:
    import os
    import ssl
    from collections.abc import Callable, Mapping, Sequence

    from anyio.abc import ByteStream
    from opentelemetry.trace import SpanContext

    from racer.abc import Attempt, AttributeValue, DialTCP, DialUDP, Host, Target
    from transports._net.resolve import Resolver
    from transports.proxyless._options import FallbackOption, ResolverOption, StrategyOption

__all__ = ("Proxyless",)

_MAX_SEARCHES: Final = (
    4  # at once; each has a few sockets and TLS machines, and phones have little memory
)
_LOOK_AROUND: Final = 2.0  # seconds after which it is looked again which network this is
# Where an attempt may fail after `connect` has returned; what fails before, leads to a search at once.
_BEHIND_US: Final = frozenset({Stage.HANDSHAKE, Stage.TLS, Stage.VERIFY})
# What says nothing about a winner: the machine is offline, or out of something, or the caller wanted too much.
_NOT_ITS_FAULT: Final = frozenset(
    {
        ErrorType.BUSY,
        ErrorType.HOST_UNREACHABLE,
        ErrorType.NOT_USABLE,
        ErrorType.PERMISSION_DENIED,
        ErrorType.RESOURCE_EXHAUSTED,
    }
)


class Proxyless(Transport):
    """The target itself, past what filters names, without anybody's help.

    It finds the resolver that does not lie, and a way to cut the first flight so that the name in it is not recognised.
    It hides nothing from who puts everything together again.

    The first dial of a target searches: resolvers are asked in their order, and each strategy is tried on what they say,
    with TLS verified and, on port 443, an octet of an answer read. What works is remembered for this network and target,
    and used at once from then on; when it stops working, the next dial searches again, beginning with it. There is one
    search at a time for each target, whoever waits for it; it goes on when they have gone. Being offline teaches nothing.

    Names are asked for at strangers only when what the resolvers before them say does not work, and never when only this
    machine or its own network can know them. Targets without TLS get the resolvers and no tricks: nothing would prove
    that one works.

    Args:
        resolvers: `"system"`, URLs such as `https://192.0.2.1/dns-query`, or objects with `resolve()`; up to 64, in the
            order in which they are asked.
        strategies: such as `"split:sni|tlsfrag:sni"`; `""` is none. Up to 32, in the order in which they are tried.
        fallbacks: what is left when all of it fails: `socks5://` URLs, or transports, which belong to this one then.
        hosts: names to lists of IP addresses, which go before all resolvers.
        resolver_tls: the context for `tls://` and `https://` resolvers; `None` for the system's trust.
        dial_tcp: makes every TCP connection in place of our own sockets. With it `disorder` works only if it gives plain
            `anyio` TCP streams.
        dial_udp: makes every socket for datagrams in place of our own.
        ttl: seconds after which a winner is forgotten.
        probe_timeout: seconds for each lookup and each probe.
        search_timeout: seconds for a whole search.
        max_probes: probes under way at once, of all searches together.
        memory: a file for the winners, so that the next start need not search; `None` for none. It names hosts.
        network: says which network this machine is in, without waiting; `None` to look at its routes and name servers.

    Raises:
        ConfigError: an option that cannot be; says which, and why. No user, password or path of a URL is in it.
    """

    name = "proxyless"
    traits = Traits(start_delay=0.3, attempt_timeout=45.0)

    def __init__(
        self,
        *,
        resolvers: Sequence[ResolverOption] = DEFAULT_RESOLVERS,
        strategies: Sequence[StrategyOption] = DEFAULT_STRATEGIES,
        fallbacks: Sequence[FallbackOption] = (),
        hosts: Mapping[str, Sequence[str]] | None = None,
        resolver_tls: ssl.SSLContext | None = None,
        dial_tcp: DialTCP | None = None,
        dial_udp: DialUDP | None = None,
        ttl: float = 86_400.0,
        probe_timeout: float = 5.0,
        search_timeout: float = 60.0,
        max_probes: int = 6,
        memory: str | os.PathLike[str] | None = None,
        network: Callable[[], str] | None = None,
    ) -> None:
        """Check the options; no IO."""
        for option, seconds in (
            ("ttl", ttl),
            ("probe_timeout", probe_timeout),
            ("search_timeout", search_timeout),
        ):
            check_seconds(seconds, option)
        _check_count(max_probes, "max_probes")
        if network is not None and not callable(network):
            msg = f"network must be a function, not {type(network).__name__}"
            raise ConfigError(msg)
        self._parts = put_together(
            resolvers=resolvers,
            strategies=strategies,
            fallbacks=fallbacks,
            hosts=hosts,
            resolver_tls=resolver_tls,
            dial_tcp=dial_tcp,
            dial_udp=dial_udp,
        )
        self._dialer = ShapingDialer(dial_tcp)
        self._searcher = Searcher(
            sources=self._parts.sources,
            strategies=self._parts.strategies,
            fallbacks=self._parts.fallbacks,
            dialer=self._dialer,
            probe_timeout=probe_timeout,
            search_timeout=search_timeout,
            max_probes=max_probes,
            max_searches=_MAX_SEARCHES,
        )
        self._probe_timeout = probe_timeout
        self._memory = Memory(ttl)
        self._store = _checked_store(memory)
        self._flights = Flights()
        self._searches: SingleFlight[Winner] = SingleFlight()
        self._tell_network = network
        self._network: tuple[float, str] | None = None
        self._host: Host | None = None
        self._users = 0
        self._is_closed = False
        self._skipped: tuple[str, ...] = ()

    @classmethod
    def from_outline(
        cls,
        text: str | bytes,
        *,
        skip_unsupported: bool = False,
        **options: Any,  # noqa: ANN401 - those of the class
    ) -> Self:
        """Return one that does what a strategy file of Outline's smart dialer says; no IO.

        Args:
            text: the file's content, YAML or JSON. What it does not name is as the class has it.
            skip_unsupported: whether fallbacks of kinds that are not supported are left out instead of being an error;
                `status()` tells which.
            **options: those of the class, but for what the file names.

        Raises:
            ConfigError: something in the file or the options cannot be; says where, what, and why.
        """
        config = read_outline(text, skip_unsupported=skip_unsupported)
        for name, listed in (
            ("resolvers", config.resolvers),
            ("strategies", config.strategies),
            ("fallbacks", config.fallbacks),
        ):
            if listed and name in options:
                msg = f"{name} and a strategy file: only one of them can say it"
                raise ConfigError(msg)
            if listed:
                options[name] = listed
        made = cls(**options)
        made._skipped = config.skipped
        return made

    def serves(self, target: Target) -> str | None:
        """Return why there is nothing to get past on the way to `target`, or `None`."""
        if target.is_address:
            return None if target.tls is not False else "an address without TLS has no name to hide"
        if is_local_name(target.host):
            return "only this machine or its own network can know the name"
        return None

    async def start(self, host: Host) -> None:
        """Load what lookups take, and what is remembered; searches live in `host`."""
        for resolver in self._parts.by_url:
            await resolver.prepare()
        if not self._users:
            for fallback in self._parts.fallbacks:
                await fallback.start(host)
            if self._store is not None:
                await self._store.load(self._memory, anyio.current_time())
        self._host = host
        self._users += 1
        self._is_closed = False

    async def aclose(self) -> None:
        """Connect no more and end what is being searched, once every user has closed it; streams are their holders'."""
        self._users = max(0, self._users - 1)
        if self._users:
            return
        self._is_closed = True
        self._host = None
        self._searches.cancel()
        for fallback in self._parts.fallbacks:
            await fallback.aclose()

    async def connect(self, target: Target, progress: Progress) -> ByteStream:
        """Return a raw stream to `target`, whose first flight leaves as the strategy wants it; the caller closes it.

        Cancelling closes what this call had opened; a search that it waits for goes on, and serves the next call.

        Raises:
            NetworkError, AttemptTimeout: nothing that was tried works; the cause is a group of all that went wrong.
            OSError, TransportError: what worked a moment ago does not, or this transport was closed.
        """
        self._check_open()
        progress.stage(Stage.RESOLVE)
        key = Key(await self._current_network(), target.host, target.port, target.tls is not False)
        winner = self._memory.recall(key, anyio.current_time())
        if winner is not None and not winner.is_doubted and self._knows(winner):
            try:
                # One that hangs leaves time for a search.
                with anyio.move_on_after(self._probe_timeout):
                    return await self._go(winner, target, key, progress, remembered=True)
            except (OSError, TransportError) as exc:
                if error_type_of(exc) in _NOT_ITS_FAULT:
                    raise
            self._check_open()
            progress.stage(Stage.RESOLVE)
        return await self._go(await self._search(target, key), target, key, progress)

    def observe(self, attempt: Attempt) -> None:
        """Learn whether what was handed out was usable: TLS may fail after `connect` has returned."""
        for fallback in self._parts.fallbacks:
            fallback.observe(attempt)
        if attempt.peer is None:
            return
        if attempt.outcome is Outcome.CONNECTED:
            self._flights.land(attempt.peer)
        elif attempt.stage in _BEHIND_US and attempt.error_type not in _NOT_ITS_FAULT:
            for key in self._flights.crash(attempt.peer):
                self._memory.doubt(key)

    def status(self) -> TransportStatus:
        """Return how much is remembered, and how many searches are under way."""
        searches = len(self._searches)
        details: dict[str, AttributeValue] = {
            "winners": len(self._memory),
            "searches": searches,
            "resolvers": len(self._parts.sources),
            "strategies": len(self._parts.strategies),
        }
        if self._skipped:
            details["unsupported"] = "; ".join(self._skipped)
        return TransportStatus(health="searching" if searches else "ok", details=details)

    def __repr__(self) -> str:
        """Return what is tried; no credential."""
        sources = ", ".join(source.label for source in self._parts.sources)
        strategies = ", ".join(map(str, self._parts.strategies))
        return f"<Proxyless: {sources}; {strategies}>"

    def _check_open(self) -> None:
        if self._is_closed:
            msg = f"transport {self.name!r} was closed"
            raise TransportError(msg)

    async def _current_network(self) -> str:
        if self._tell_network is not None:
            await anyio.lowlevel.checkpoint()
            return self._tell_network()
        now = anyio.current_time()
        if self._network is None or now - self._network[0] >= _LOOK_AROUND:
            self._network = (now, await anyio.to_thread.run_sync(network_id))
        return self._network[1]

    def _knows(self, winner: Winner) -> bool:
        """Return whether what worked once can still be asked for: a remembered one may be of another configuration."""
        if winner.is_fallback:
            return any(each.name == winner.strategy for each in self._parts.fallbacks)
        # Without TLS there is no trick, also where none of the strategies is that.
        return (not winner.resolver or self._source(winner.resolver) is not None) and (
            not winner.strategy
            or any(each.text == winner.strategy for each in self._parts.strategies)
        )

    def _source(self, label: str) -> Resolver | None:
        found = (each.resolver for each in self._parts.sources if each.label == label)
        return next(found, None)

    async def _search(self, target: Target, key: Key) -> Winner:
        """Return what a search finds, which runs in the host, once for all who wait."""
        if self._host is None:
            msg = f"transport {self.name!r} was not started"
            raise TransportError(msg)

        async def search() -> Winner:
            hints = self._memory.hints(key, anyio.current_time())
            winner = await self._searcher.search(target, hints)
            self._memory.learn(key, winner)
            if self._store is not None and self._host is not None:
                name = "proxyless winners"
                self._host.start_soon(self._store.save, self._memory, name=name)
            return winner

        # With another context a probe may come to another end.
        context = None if isinstance(target.tls, bool) else target.tls
        winner = await self._searches.run((key, context), search, self._host)
        self._check_open()
        return winner

    async def _go(
        self,
        winner: Winner,
        target: Target,
        key: Key,
        progress: Progress,
        *,
        remembered: bool = False,
    ) -> ByteStream:
        """Return a stream by what is known to work."""
        attributes: dict[str, AttributeValue] = {
            "racer.proxyless.resolver": winner.resolver,
            "racer.proxyless.strategy": winner.strategy or "direct",
            "racer.proxyless.remembered": remembered,
        }
        progress.event("racer.proxyless.strategy", attributes)
        noting = _PeerNoting(progress)
        if winner.is_fallback:
            way = next(each for each in self._parts.fallbacks if each.name == winner.strategy)
            stream = await way.connect(target, noting)
        else:
            stream = await self._go_straight(winner, target, key, noting)
        if noting.last is not None:
            self._flights.add(noting.last, key)
        return stream

    async def _go_straight(
        self, winner: Winner, target: Target, key: Key, progress: Progress
    ) -> ByteStream:
        strategy = next(
            each
            for each in (*self._parts.strategies, self._searcher.strategy(-1))
            if each.text == winner.strategy
        )
        resolver = self._source(winner.resolver)
        if resolver is None:  # an address
            return await self._dialer.dial(target, strategy, Known((target.host,)), progress)
        if strategy.override is not None and strategy.override.host is not None:
            return await self._dialer.dial(target, strategy, resolver, progress)
        now = anyio.current_time()
        if not (addresses := winner.fresh_addresses(now)):
            addresses = await look_up(resolver, target.host, FAMILIES, timeout=self._probe_timeout)
            self._memory.refresh(key, addresses, now)
        return await self._dialer.dial(target, strategy, Known(addresses), progress)


class _PeerNoting(Progress):
    """Passes on what is told, and keeps the peer as a verdict will name it."""

    __slots__ = ("_progress", "last")

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self.last: str | None = None

    def stage(self, stage: Stage) -> None:
        self._progress.stage(stage)

    def peer(self, address: str, port: int | None = None, *, network: str = "tcp") -> None:
        self.last = address if port is None else host_port(address, port)
        self._progress.peer(address, port, network=network)

    def session(self, *, reused: bool, link: SpanContext | None = None) -> None:
        self._progress.session(reused=reused, link=link)

    def event(self, name: str, attributes: Mapping[str, AttributeValue] | None = None) -> None:
        self._progress.event(name, attributes)


def _check_count(value: object, name: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        msg = f"{name} must be a whole number of at least 1, not {value!r:.60}"
        raise ConfigError(msg)


def _checked_store(memory: str | os.PathLike[str] | None) -> Store | None:
    if memory is None:
        return None
    try:
        return Store(Path(memory))
    except TypeError as exc:
        msg = f"memory must be the path of a file, not {type(memory).__name__}"
        raise ConfigError(msg) from exc
