"""Resolvers as a search sees them: each answer has to be sane, whoever gives it, and however well it is encrypted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio

from racer.abc import Stage
from racer.errors import ErrorType, NetworkError, TransportError
from transports._net.addresses import Family, family_of
from transports._net.resolve import Answer, Resolver, flaw_of
from transports._net.special_names import is_impossible, is_internal, is_local_name
from transports._net.wakeup import Wakeup

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ("Known", "SaneResolver", "Source", "look_up")

LATE_ANSWER = 0.25
"""Seconds that the other family has to answer once one has an address; a resolver that swallows AAAA costs no more."""


@dataclass(frozen=True, slots=True)
class Source:
    """A resolver that a search may choose.

    Attributes:
        resolver: whom to ask; its answers are sane.
        label: who that is, for people, logs and what is remembered; no secret.
        is_local: whether it is this machine's own, or the owner's, and no stranger.
    """

    resolver: Resolver
    label: str
    is_local: bool = False


class SaneResolver:
    """Passes on what another resolver says, without addresses that cannot be right.

    Those are addresses that nothing can be connected to, and, for names that the Internet can know, those that mean
    another machine in every network (loopback, private, link-local, reserved): blocked names are often given such. An
    answer of these alone is an error.

    Args:
        other: the one that is asked.
    """

    def __init__(self, other: Resolver) -> None:
        """Keep it."""
        self._other = other

    async def resolve(
        self, name: str, families: Sequence[Family], report: Callable[[Answer], None]
    ) -> None:
        """Report as `Resolver.resolve` says; raises what the other one raises."""

        def judge(answer: Answer) -> None:
            report(_judged(name, answer))

        await self._other.resolve(name, families, judge)

    def __repr__(self) -> str:
        """Return whom it asks."""
        return f"SaneResolver({self._other!r})"


class Known:
    """Answers with addresses that are known already; a resolver for those who want one.

    Args:
        addresses: IP addresses, best first.
    """

    def __init__(self, addresses: Sequence[str]) -> None:
        """Keep them."""
        self._addresses = tuple(addresses)

    async def resolve(
        self, name: str, families: Sequence[Family], report: Callable[[Answer], None]
    ) -> None:
        """Report them at once."""
        del name
        await anyio.lowlevel.checkpoint()
        fitting = tuple(a for a in self._addresses if family_of(a) in families)
        report(Answer(families=tuple(families), addresses=fitting))


async def look_up(
    resolver: Resolver, name: str, families: Sequence[Family], *, timeout: float
) -> tuple[str, ...]:
    """Return the addresses of `name`, at least one, best first.

    Args:
        resolver: whom to ask.
        name: as for `Resolver.resolve`.
        families: likewise.
        timeout: seconds.

    Raises:
        OSError, TransportError: there is none, or it did not answer in time.
    """
    hearing = _Hearing()
    with anyio.move_on_after(timeout):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hearing.ask, resolver, name, families)
            await hearing.wait()
            tasks.cancel_scope.cancel()
    return hearing.verdict(name, timeout)


class _Hearing:
    """One question to one resolver."""

    def __init__(self) -> None:
        self._addresses: list[str] = []
        self._errors: list[Exception] = []
        self._fatal: Exception | None = None
        self._is_over = False
        self._wakeup = Wakeup()

    async def ask(self, resolver: Resolver, name: str, families: Sequence[Family]) -> None:
        try:
            await resolver.resolve(name, families, self._take)
        except (OSError, TransportError) as exc:
            self._errors.append(exc)
        except Exception as exc:  # noqa: BLE001 - raised by `verdict`, bare
            self._fatal = exc
        self._is_over = True
        self._wakeup.set()

    async def wait(self) -> None:
        while not self._addresses and not self._is_over:
            await self._wakeup.wait()
        until = anyio.current_time() + LATE_ANSWER
        while not self._is_over and anyio.current_time() < until:
            await self._wakeup.wait(until)

    def verdict(self, name: str, timeout: float) -> tuple[str, ...]:
        if self._fatal is not None:
            raise self._fatal
        if self._addresses:
            return tuple(dict.fromkeys(self._addresses))
        if self._errors:
            raise self._errors[0]
        words = f"{name} has no IP address" if self._is_over else f"no answer within {timeout:g} s"
        raise NetworkError(words, stage=Stage.RESOLVE, error_type=ErrorType.DNS_FAILURE)

    def _take(self, answer: Answer) -> None:
        self._addresses += answer.addresses
        if answer.error is not None:
            self._errors.append(answer.error)
        self._wakeup.set()


def _judged(name: str, answer: Answer) -> Answer:
    if answer.error is not None or not answer.addresses:
        return answer
    if (flaw := flaw_of(name, answer)) is not None:
        return Answer(families=answer.families, error=flaw)
    sane = tuple(
        address
        for address in answer.addresses
        if not is_impossible(address) and (is_local_name(name) or not is_internal(address))
    )
    if sane:
        return Answer(families=answer.families, addresses=sane)
    msg = f"the answer for {name} cannot be right: {', '.join(answer.addresses[:3])}"
    lie = NetworkError(msg, stage=Stage.RESOLVE, error_type=ErrorType.DNS_FAILURE)
    return Answer(families=answer.families, error=lie)
