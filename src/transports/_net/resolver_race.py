"""Several resolvers for one question, in the order of the list: the next joins when one is slow, or no help."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import anyio

from racer.errors import TransportError
from racer.scheduling import Lane, Schedule
from transports._net.addresses import family_of
from transports._net.resolve import Answer, flaw_of
from transports._net.wakeup import Wakeup

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anyio.abc import TaskGroup

    from transports._net.addresses import Family
    from transports._net.resolve import Resolver

__all__ = ("RESOLVER_DELAY", "RacedResolvers")

RESOLVER_DELAY: Final = 0.25
"""Seconds after which the next resolver of a list is asked too; as between connections (RFC 8305 §8)."""


class RacedResolvers:
    """Asks the first resolver, 250 ms later the second as well, and so on; for each family, the first answer counts.

    The next is asked at once when one has nothing to offer: it failed, or says that the name has no address at all. That
    a name has none of *one* family is believed as soon as anybody knows one of the other. When all are through, what
    they said of families without an address is reported, in the order of the list.

    A resolver is asked only for families that have no answer by then.

    Args:
        resolvers: the preferred first; two or more.
    """

    def __init__(self, resolvers: Sequence[Resolver]) -> None:
        """Keep them."""
        self._resolvers = tuple(resolvers)

    async def resolve(
        self, name: str, families: Sequence[Family], report: Callable[[Answer], None]
    ) -> None:
        """Report as `Resolver.resolve` says; why nothing was found is reported, and not raised."""
        race = _Race(self._resolvers, name, families, report)
        try:
            await race.run()
        finally:
            race.forget()

    def __repr__(self) -> str:
        """Return the resolvers."""
        return f"RacedResolvers({list(self._resolvers)!r})"


class _Race:
    """One name being looked up. Tasks report synchronously; `_decide` alone starts them, and ends all."""

    def __init__(
        self,
        resolvers: Sequence[Resolver],
        name: str,
        families: Sequence[Family],
        report: Callable[[Answer], None],
    ) -> None:
        self._resolvers = resolvers
        self._name = name
        self._open = list(families)
        self._report = report
        self._has_addresses = False
        self._without: dict[int, list[Answer]] = {}
        self._fatal: BaseException | None = None
        self._wakeup = Wakeup()
        self._schedule = Schedule(
            [Lane()] * len(resolvers),
            now=anyio.current_time(),
            stagger=RESOLVER_DELAY,
            eager=True,
        )

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            await self._decide(tasks)
            tasks.cancel_scope.cancel()
        if self._fatal is not None:
            raise self._fatal
        for index in sorted(self._without):
            for answer in self._without[index]:
                if open_ := tuple(f for f in answer.families if f in self._open):
                    self._report(Answer(families=open_, error=answer.error))

    def forget(self) -> None:
        """Drop the errors: their frames know this race, and it would wait for the garbage collector."""
        self._fatal = None
        self._without.clear()

    async def _decide(self, tasks: TaskGroup) -> None:
        while self._open and self._fatal is None and not self._schedule.is_exhausted:
            for index in self._schedule.start_due(anyio.current_time()):
                tasks.start_soon(self._ask, index, name=f"look up {self._name}")
            await self._wakeup.wait(self._schedule.next_timeout())

    async def _ask(self, index: int) -> None:
        asked = tuple(self._open)
        self._without[index] = []
        take = partial(self._take, index)
        try:
            await self._resolvers[index].resolve(self._name, asked, take)
        except (OSError, TransportError) as exc:
            told = {f for answer in self._without[index] for f in answer.families}
            left = tuple(f for f in asked if f in self._open and f not in told)
            self._without[index].append(Answer(families=left, error=exc))
        except (Exception, SystemExit, KeyboardInterrupt) as exc:  # noqa: BLE001 - `run` raises it
            self._fatal = exc
        self._schedule.failed(index)
        self._wakeup.set()

    def _take(self, index: int, answer: Answer) -> None:
        open_ = tuple(family for family in answer.families if family in self._open)
        error = answer.error or flaw_of(self._name, answer)
        addresses = () if error else tuple(a for a in answer.addresses if family_of(a) in open_)
        if not open_:
            return
        if not addresses and not (self._has_addresses and error is None):
            self._without[index].append(Answer(families=open_, error=error))
            return
        self._settle(open_, addresses)
        if addresses and not self._has_addresses:
            self._has_addresses = True
            self._settle_empty()
        self._wakeup.set()

    def _settle_empty(self) -> None:
        """Believe now what was said about families that have no address."""
        for answers in self._without.values():
            for answer in answers:
                open_ = tuple(family for family in answer.families if family in self._open)
                if open_ and answer.error is None:
                    self._settle(open_, ())

    def _settle(self, families: tuple[Family, ...], addresses: tuple[str, ...]) -> None:
        for family in families:
            self._open.remove(family)
        self._report(Answer(families=families, addresses=addresses))
