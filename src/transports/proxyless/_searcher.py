"""A search at work: asks, connects and proves what `Search` decides, side by side and within bounds."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, TypeVar

import anyio

from racer.abc import Progress, Stage
from racer.errors import AttemptTimeout, ErrorType, NetworkError, TransportError, error_type_of
from transports._net.special_names import is_local_name
from transports._net.tls import ClientContext
from transports._net.wakeup import Wakeup
from transports.proxyless._dial import FAMILIES, prove
from transports.proxyless._hearsay import Known, look_up
from transports.proxyless._memory import Winner
from transports.proxyless._search import Fallback, LookUp, Probe, Search
from transports.proxyless._strategies import DIRECT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anyio.abc import ByteStream, TaskGroup

    from racer.abc import Target, Transport
    from transports.proxyless._dial import ShapingDialer
    from transports.proxyless._hearsay import Source
    from transports.proxyless._search import Step
    from transports.proxyless._strategies import Strategy

__all__ = ("Searcher",)

_T = TypeVar("_T")
# Before the first flight, or by somebody else's certificate: no other way of sending it would have helped.
_WRONG_ADDRESS = frozenset(
    {
        ErrorType.CERTIFICATE_INVALID,
        ErrorType.CONNECTION_REFUSED,
        ErrorType.HOST_UNREACHABLE,
    }
)
_MOST_CAUSES = 8  # that are told in words; all of them are in the group


class Searcher:
    """Finds what works for a target.

    Args:
        sources: the resolvers, in order.
        strategies: likewise.
        fallbacks: likewise; not owned.
        dialer: connects.
        probe_timeout: seconds for each lookup and each probe.
        search_timeout: seconds for a whole search.
        max_probes: probes under way at once, of all searches together.
        max_searches: searches under way at once; further ones wait.
    """

    def __init__(
        self,
        *,
        sources: Sequence[Source],
        strategies: Sequence[Strategy],
        fallbacks: Sequence[Transport],
        dialer: ShapingDialer,
        probe_timeout: float,
        search_timeout: float,
        max_probes: int,
        max_searches: int,
    ) -> None:
        """Keep the arguments."""
        self.sources = tuple(sources)
        self.strategies = tuple(strategies)
        self.fallbacks = tuple(fallbacks)
        self._dialer = dialer
        self._probe_timeout = probe_timeout
        self._search_timeout = search_timeout
        self._max_probes = max_probes
        self._max_searches = max_searches
        self._contexts: dict[tuple[str, ...], ClientContext] = {}
        self._limiter: tuple[anyio.CapacityLimiter, anyio.CapacityLimiter] | None = None

    async def search(self, target: Target, hints: Sequence[Winner]) -> Winner:
        """Return what works for `target` now.

        Args:
            target: where to.
            hints: what is worth trying first, best first.

        Raises:
            NetworkError: nothing does; its cause is a group of all that went wrong.
            AttemptTimeout: nothing did in time; likewise.
        """
        if self._limiter is None:
            self._limiter = (
                anyio.CapacityLimiter(self._max_searches),
                anyio.CapacityLimiter(self._max_probes),
            )
        searches, probes = self._limiter
        async with searches:
            run = _Run(self, target, hints, probes)
            try:
                return await run.run()
            finally:
                run.forget()

    async def context_of(self, target: Target) -> ssl.SSLContext | None:
        """Return the TLS context for `target`; `None` when it wants none."""
        if target.tls is False:
            return None
        return await self._context_of(target.alpn, given=None if target.tls is True else target.tls)

    async def _context_of(
        self, alpn: tuple[str, ...], *, given: ssl.SSLContext | None
    ) -> ssl.SSLContext:
        if given is not None:
            return given
        return await self._contexts.setdefault(alpn, ClientContext(alpn=alpn)).get()

    def sources_for(self, target: Target) -> tuple[int, ...]:
        """Return the numbers of the resolvers that may be asked about `target`'s name."""
        everyone = range(len(self.sources))
        if target.is_address or not is_local_name(target.host):
            return tuple(everyone)
        # Only this machine or its own network can know the name, and nobody else is to hear it.
        return tuple(n for n in everyone if self.sources[n].is_local)

    def new_search(self, target: Target, hints: Sequence[Winner], now: float) -> Search:
        """Return the brain of a search, with what the hints say at the front of every list."""
        strategies = range(len(self.strategies)) if target.tls is not False else self._plain()
        texts = [each.text for each in self.strategies]
        labels = [each.label for each in self.sources]
        ways = [each.name for each in self.fallbacks]
        asked = (-1,) if target.is_address else self.sources_for(target)
        hints = hints[:1]
        return Search(
            resolvers=_first(
                [labels.index(h.resolver) for h in hints if h.resolver in labels], asked
            ),
            strategies=_first(
                [texts.index(h.strategy) for h in hints if h.strategy in texts], strategies
            ),
            fallbacks=_first(
                [ways.index(h.strategy) for h in hints if h.is_fallback and h.strategy in ways],
                range(len(self.fallbacks)),
            ),
            now=now,
            timeout=self._search_timeout,
            max_probes=self._max_probes,
        )

    def _plain(self) -> tuple[int, ...]:
        """Return the strategies for what is not TLS: none can be proven, so that one without a trick has to do."""
        found = [n for n, each in enumerate(self.strategies) if each == DIRECT]
        return tuple(found[:1] or [-1])

    def strategy(self, number: int) -> Strategy:
        """Return a strategy by its number; -1 is none."""
        return DIRECT if number < 0 else self.strategies[number]

    def label(self, step: Step) -> str:
        """Return what a step is about, for people."""
        match step:
            case LookUp(number):
                return self.sources[number].label if number >= 0 else "its address"
            case Probe(resolver, number):
                strategy = str(self.strategy(number))
                return strategy if resolver < 0 else f"{self.sources[resolver].label} + {strategy}"
            case Fallback(number):
                return self.fallbacks[number].name

    async def look_up(self, target: Target, number: int) -> tuple[str, ...]:
        """Return the addresses of `target`, as a resolver says."""
        if number < 0:
            return (target.host,)
        return await look_up(
            self.sources[number].resolver, target.host, FAMILIES, timeout=self._probe_timeout
        )

    async def probe(self, target: Target, step: Probe | Fallback) -> None:
        """Return when a way is proven to work.

        Raises:
            OSError, TransportError: why it does not.
        """
        context = await self.context_of(target)
        with anyio.move_on_after(self._probe_timeout) as limit:
            await prove(await self._reach(target, step), target, context)
        if limit.cancelled_caught:
            msg = f"nothing came back within {self._probe_timeout:g} s"
            raise AttemptTimeout(msg, stage=Stage.TLS if context else Stage.CONNECT)

    async def _reach(self, target: Target, step: Probe | Fallback) -> ByteStream:
        if isinstance(step, Fallback):
            return await self.fallbacks[step.fallback].connect(target, Progress())
        strategy = self.strategy(step.strategy)
        resolver = Known(step.addresses)
        if strategy.override is None or strategy.override.host is None or step.resolver < 0:
            return await self._dialer.dial(target, strategy, resolver, Progress())
        return await self._dialer.dial(
            target, strategy, self.sources[step.resolver].resolver, Progress()
        )


class _Run:
    """One search. Tasks report synchronously; `_decide` alone starts them, and ends all."""

    def __init__(
        self,
        owner: Searcher,
        target: Target,
        hints: Sequence[Winner],
        probes: anyio.CapacityLimiter,
    ) -> None:
        self._owner = owner
        self._target = target
        self._probes = probes
        self._wakeup = Wakeup()
        self._search = owner.new_search(target, hints, anyio.current_time())
        self._under_way: dict[Step, None] = {}
        self._fatal: Exception | None = None

    async def run(self) -> Winner:
        async with anyio.create_task_group() as tasks:
            # Reading the system's trust store takes a moment, in which names can be looked up.
            tasks.start_soon(self._owner.context_of, self._target)
            await self._decide(tasks)
            tasks.cancel_scope.cancel()
        if self._fatal is not None:
            raise self._fatal
        winner = self._search.winner
        if winner is None:
            raise self._error()
        now = anyio.current_time()
        if isinstance(winner, Fallback):
            name = self._owner.fallbacks[winner.fallback].name
            return Winner(resolver="", strategy=name, is_fallback=True, found_at=now)
        resolver = "" if winner.resolver < 0 else self._owner.sources[winner.resolver].label
        return Winner(
            resolver=resolver,
            strategy=self._owner.strategy(winner.strategy).text,
            found_at=now,
            addresses=winner.addresses,
            resolved_at=now,
        )

    def forget(self) -> None:
        """Drop the errors: their frames know this search, and it would wait for the garbage collector."""
        self._fatal = None
        self._search.failures.clear()

    async def _decide(self, tasks: TaskGroup) -> None:
        while self._fatal is None and not self._search.is_over(now := anyio.current_time()):
            for step in self._search.start_due(now):
                self._under_way[step] = None
                tasks.start_soon(self._do, step, name=f"search {self._target.host}")
            await self._wakeup.wait(self._search.next_timeout())

    async def _do(self, step: Step) -> None:
        try:
            if isinstance(step, LookUp):
                found = await self._owner.look_up(self._target, step.resolver)
                self._search.looked_up(step.resolver, found, anyio.current_time())
            else:
                async with self._probes:
                    await self._owner.probe(self._target, step)
                self._search.succeeded(step)
        except (OSError, TransportError) as exc:
            is_wrong = error_type_of(exc) in _WRONG_ADDRESS
            self._search.failed(step, exc, anyio.current_time(), wrong_address=is_wrong)
        except Exception as exc:  # noqa: BLE001 - `run` raises it
            self._fatal = exc
        self._under_way.pop(step)
        self._wakeup.set()

    def _error(self) -> TransportError:
        target = self._target
        errors = [
            NetworkError(
                f"{self._owner.label(failure.step)}: {_words(failure.error)}",
                error_type=error_type_of(failure.error),
            )
            for failure in self._search.failures
        ]
        for each, failure in zip(errors, self._search.failures, strict=True):
            each.__cause__ = failure.error
        told = [str(each) for each in errors[:_MOST_CAUSES]]
        if len(errors) > _MOST_CAUSES:
            told.append(f"and {len(errors) - _MOST_CAUSES} more")
        open_ = [self._owner.label(step) for step in self._under_way]
        if not errors and not open_:
            told = ["there is no resolver that may be asked for this name"]
        if open_:
            told.append(f"no end of {', '.join(open_[:_MOST_CAUSES])} in time")
        message = f"nothing that was tried reaches {target}: {'; '.join(told)}"
        group = ExceptionGroup(f"what was tried to reach {target}", errors) if errors else None
        error: TransportError
        if open_ or group is None:
            error = AttemptTimeout(message) if open_ else NetworkError(message)
        else:
            error = NetworkError(message, error_type=error_type_of(group))
        error.__cause__ = group
        return error


def _first(front: Sequence[_T], everyone: Sequence[_T]) -> list[_T]:
    """Return everyone, those in front first."""
    wanted = [each for each in front if each in everyone]
    return [*wanted, *(each for each in everyone if each not in wanted)]


def _words(exc: Exception) -> str:
    """Return an error's text without the number in front."""
    if isinstance(exc, ssl.SSLCertVerificationError):
        return f"the certificate could not be verified: {exc.verify_message}"
    text = exc.strerror if isinstance(exc, OSError) else None
    return (text or str(exc) or type(exc).__name__)[:300]
