"""Several resolvers for one question, none of which is believed alone when nobody can vouch for its answer."""

from __future__ import annotations

from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING

import anyio

from racer.abc import Stage
from racer.errors import ErrorType, NetworkError, TransportError
from transports._net.addresses import family_of
from transports._net.opinions import Opinions
from transports._net.resolve import Answer, Resolver, flaw_of, says_no_such_name
from transports._net.special_names import (
    answer_unasked,
    is_impossible,
    is_internal,
    is_local_name,
)
from transports._net.wakeup import Wakeup

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from transports._net.addresses import Family

__all__ = ("SecondOpinion", "Source")


@dataclass(frozen=True, slots=True)
class Source:
    """A resolver among others.

    Attributes:
        resolver: whom to ask.
        label: who that is, for people; no secret.
        is_encrypted: whether nobody on the way can answer in its place.
    """

    resolver: Resolver
    label: str
    is_encrypted: bool


class SecondOpinion:
    """Asks all resolvers at once, and reports for each family what `Opinions` believes.

    Addresses that nothing can be connected to are dropped before, and for names that the Internet can know also those
    that mean another machine in every network (loopback, private, link-local, reserved): blocked names are often given
    such. An answer of these alone counts as none.

    Args:
        sources: the preferred first; two or more.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        """Keep them."""
        self._sources = tuple(sources)

    async def resolve(
        self, name: str, families: Sequence[Family], report: Callable[[Answer], None]
    ) -> None:
        """Report as `Resolver.resolve` says; why nothing is believed is reported, and not raised."""
        if (known := answer_unasked(name, families)) is not None:
            report(known)
            return
        hearing = _Hearing(self._sources, name, families, report)
        try:
            await hearing.run()
        finally:
            hearing.forget()

    def __repr__(self) -> str:
        """Return the resolvers."""
        return f"SecondOpinion([{', '.join(repr(each.resolver) for each in self._sources)}])"


class _Hearing:
    """One name. Tasks report synchronously; `_judge` alone ends them."""

    def __init__(
        self,
        sources: Sequence[Source],
        name: str,
        families: Sequence[Family],
        report: Callable[[Answer], None],
    ) -> None:
        self._sources = sources
        self._name = name
        self._families = tuple(families)
        self._report = report
        self._wakeup = Wakeup()
        encrypted = [each.is_encrypted for each in sources]
        self._open = {family: Opinions(encrypted) for family in families}
        self._words: dict[Family, list[tuple[int, str]]] = {family: [] for family in families}
        self._errors: dict[Family, list[tuple[int, OSError | TransportError]]]
        self._errors = {family: [] for family in families}
        self._no_name: dict[Family, OSError | TransportError] = {}
        self._fatal: BaseException | None = None

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            for index in range(len(self._sources)):
                tasks.start_soon(self._ask, index, name=f"look up {self._name}")
            await self._judge()
            tasks.cancel_scope.cancel()
        if self._fatal is not None:
            raise self._fatal
        for family in self._open:
            for error in self._errors_about(family):
                self._report(Answer(families=(family,), error=error))

    def forget(self) -> None:
        """Drop the errors: their frames know this hearing, and it would wait for the garbage collector."""
        self._fatal = None
        self._errors.clear()
        self._no_name.clear()

    async def _judge(self) -> None:
        """Return when there is a verdict for every family, or nothing more to hear."""
        while self._open and self._fatal is None:
            now = anyio.current_time()
            for family, opinions in list(self._open.items()):
                if (verdict := opinions.verdict(now)) is not None:
                    del self._open[family]
                    error = None if verdict else self._no_name.get(family)
                    self._report(Answer(families=(family,), addresses=verdict, error=error))
            if all(opinions.is_over for opinions in self._open.values()):
                return
            await self._wakeup.wait(min(each.next_look(now) for each in self._open.values()))

    async def _ask(self, index: int) -> None:
        told: set[Family] = set()

        def take(answer: Answer) -> None:
            told.update(answer.families)
            self._take(index, answer)

        try:
            await self._sources[index].resolver.resolve(self._name, self._families, take)
        except (OSError, TransportError) as exc:
            for family in self._open.keys() - told:
                self._errors[family].append((index, exc))
        except (Exception, SystemExit, KeyboardInterrupt) as exc:  # noqa: BLE001 - `run` raises it
            self._fatal = exc
        for opinions in self._open.values():
            opinions.end(index)
        self._wakeup.set()

    def _take(self, index: int, answer: Answer) -> None:
        error = answer.error or flaw_of(self._name, answer)
        for family in answer.families:
            if (opinions := self._open.get(family)) is None:
                continue
            if error is not None and not says_no_such_name(error):
                self._errors[family].append((index, error))
                continue
            if error is not None:
                self._no_name.setdefault(family, error)
            given = () if error else tuple(a for a in answer.addresses if family_of(a) is family)
            usable = tuple(address for address in given if self._is_plausible(address))
            self._words[family].append(
                (index, f"{self._sources[index].label} says {_shown(given)}")
            )
            if usable or not given:
                opinions.say(index, usable, anyio.current_time())
        self._wakeup.set()

    def _is_plausible(self, address: str) -> bool:
        return not is_impossible(address) and (
            is_local_name(self._name) or not is_internal(address)
        )

    def _errors_about(self, family: Family) -> list[OSError | TransportError]:
        """Return why nothing is believed about a family: what was said of it, and what failed."""
        errors = [error for _, error in sorted(self._errors[family], key=itemgetter(0))]
        said = [words for _, words in sorted(self._words[family], key=itemgetter(0))]
        if said:
            opinions = "; ".join(dict.fromkeys(said))
            msg = f"no two resolvers agree about {family.value}: {opinions}"
            doubt = NetworkError(msg, stage=Stage.RESOLVE, error_type=ErrorType.DNS_FAILURE)
            return [doubt, *errors]
        return errors


def _shown(addresses: Sequence[str]) -> str:
    return f"{', '.join(addresses[:3])}{', ...' if len(addresses) > 3 else ''}" or "there is none"
