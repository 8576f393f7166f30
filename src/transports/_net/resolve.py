"""Names to addresses: what a resolver is, and the system's own."""

from __future__ import annotations

import functools
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import anyio
import anyio.lowlevel

from racer.errors import ErrorType, NetworkError, Stage, TransportBusy, TransportError
from transports._net.addresses import Family, family_of
from transports._net.lookups import LookupThreads
from transports._net.wakeup import Wakeup

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from transports._net.lookups import Lookup

__all__ = ("Answer", "Resolver", "SystemResolver", "flaw_of", "says_no_such_name")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a resolver has found out about some families of a name.

    Attributes:
        families: the families it speaks of; there is nothing more to come for them.
        addresses: IP addresses of these families, best first; empty when the name has none.
        error: why nothing could be found out; `socket.gaierror` with `EAI_NONAME` when there is no such name.
    """

    families: tuple[Family, ...]
    addresses: tuple[str, ...] = ()
    error: OSError | TransportError | None = None


def flaw_of(name: str, answer: Answer) -> NetworkError | None:
    """Return what is wrong with an answer, if anything: a resolver may be anybody's, and its words come from afar."""
    for address in answer.addresses:
        if family_of(address) not in answer.families:
            wanted = " or ".join(family.value for family in answer.families)
            msg = f"the answer for {name} has {address[:80]!r} in it, which is no {wanted} address"
            return NetworkError(msg, stage=Stage.RESOLVE, error_type=ErrorType.DNS_FAILURE)
    return None


def says_no_such_name(error: BaseException) -> bool:
    """Return whether a resolver's error is an answer: there is no such name, or not in this family."""
    return isinstance(error, socket.gaierror) and error.errno in _NO_SUCH_NAME


# Not every system has every number.
_NO_SUCH_NAME: Final = frozenset(
    getattr(socket, number)
    for number in ("EAI_NONAME", "EAI_NODATA", "EAI_ADDRFAMILY")
    if hasattr(socket, number)
)


class Resolver(Protocol):
    """Finds the addresses of names. Whoever asks begins to connect with the first answer that allows it."""

    async def resolve(
        self, name: str, families: Sequence[Family], report: Callable[[Answer], None]
    ) -> None:
        """Report an answer as soon as it is known, for one family or several at once; return when all are.

        A second answer for a family adds to the first. Runs beside other calls of itself, also for the same name, and
        ends at once when cancelled, which is usual: a connection may be made before the last answer.

        Args:
            name: lower-case A-labels, perhaps with a trailing dot; never an IP address.
            families: what is asked for, the preferred first; at least one.
            report: takes an answer; synchronous.

        Raises:
            OSError, TransportError: why the families that were not reported could not be looked up.
        """


class SystemResolver:
    """The operating system's own resolver: hosts file, search domains, split DNS and mDNS as everywhere else (R12).

    One `getaddrinfo` asks for all families, as any program does: asked for IPv6 alone, the system answers from the DNS
    also where the hosts file has the name, with IPv4 only. That call ends with its slowest question, so when it takes
    longer than 50 ms another one, for IPv4 alone, is made beside it: a network that swallows AAAA costs no more.

    Calls are made in daemon threads, at most 32 of each kind at a time; further ones wait. Those that were given up
    and still run are stuck: of both kinds together there may be 8 in the process when a new call begins. Two of these
    are kept for IPv4 alone, which is all that is asked for once six of the others are stuck.
    """

    async def resolve(
        self, name: str, families: Sequence[Family], report: Callable[[Answer], None]
    ) -> None:
        """Report the addresses of `name` in the system's order (RFC 6724).

        Raises:
            TransportBusy: eight earlier lookups are stuck.
            OSError: why not; as a rule a `socket.gaierror`.
        """
        await anyio.lowlevel.checkpoint_if_cancelled()
        question = _Question(name, tuple(families), report)
        try:
            await question.ask()
        finally:
            question.give_up()

    @property
    def stuck(self) -> int:
        """How many lookups run on in the process although nobody waits for them."""
        return _main.stuck + _spare.stuck

    def __repr__(self) -> str:
        """Return what would make one."""
        return "SystemResolver()"


_PATIENCE: Final = (
    0.05  # RFC 8305 §8, the resolution delay: as long as an A answer would wait for AAAA
)

_main = LookupThreads(name="racer-lookup", max_stuck=6)
_spare = LookupThreads(name="racer-lookup-ipv4", max_stuck=2)


class _Question:
    """One name being looked up: all families in one call, and IPv4 alone when that call takes its time."""

    def __init__(
        self, name: str, families: tuple[Family, ...], report: Callable[[Answer], None]
    ) -> None:
        self._name = name
        self._families = families
        self._report = report
        self._wakeup = Wakeup()
        self._whole: Lookup[tuple[str, ...]] | None = None
        self._ipv4: Lookup[tuple[str, ...]] | None = None

    async def ask(self) -> None:
        try:
            self._whole = self._begin(_main, self._families)
        except TransportBusy:
            await self._ask_ipv4_alone()
            return
        if Family.IPV4 in self._families[1:]:
            await self._wakeup.wait(anyio.current_time() + _PATIENCE)
            if not self._whole.is_done:
                await self._ask_ipv4_too()
        while not self._whole.is_done:
            await self._wakeup.wait()
        self._report(Answer(families=self._families, addresses=self._whole.answer()))

    async def _ask_ipv4_too(self) -> None:
        """Return when the whole question is answered, or IPv4 alone; what the latter says of failures is not asked."""
        assert self._whole is not None
        try:
            self._ipv4 = self._begin(_spare, (Family.IPV4,))
        except TransportBusy:
            return
        while not self._ipv4.is_done and not self._whole.is_done:
            await self._wakeup.wait()
        if not self._whole.is_done:
            try:
                addresses = self._ipv4.answer()
            except (OSError, TransportError):
                return
            self._report(Answer(families=(Family.IPV4,), addresses=addresses))

    async def _ask_ipv4_alone(self) -> None:
        stuck = _main.stuck + _spare.stuck
        busy = TransportBusy(
            f"{self._name} was not looked up: {stuck} earlier lookups were given up and are still stuck in the "
            "system's resolver",
            stage=Stage.RESOLVE,
        )
        if Family.IPV4 not in self._families:
            raise busy
        try:
            self._ipv4 = self._begin(_spare, (Family.IPV4,))
        except TransportBusy:
            raise busy from None
        while not self._ipv4.is_done:
            await self._wakeup.wait()
        self._report(Answer(families=(Family.IPV4,), addresses=self._ipv4.answer()))
        if len(self._families) > 1:
            raise busy

    def _begin(
        self, threads: LookupThreads, families: tuple[Family, ...]
    ) -> Lookup[tuple[str, ...]]:
        return threads.begin(
            functools.partial(_getaddrinfo, self._name, families), self._wakeup.set
        )

    def give_up(self) -> None:
        for lookup in (self._whole, self._ipv4):
            if lookup is not None:
                lookup.give_up()


_AF: Final = {Family.IPV6: socket.AF_INET6, Family.IPV4: socket.AF_INET}


def _getaddrinfo(name: str, families: tuple[Family, ...]) -> tuple[str, ...]:
    wanted = {_AF[family] for family in families}
    family = wanted.copy().pop() if len(wanted) == 1 else socket.AF_UNSPEC
    try:
        infos = socket.getaddrinfo(name, None, family, socket.SOCK_STREAM)
    except UnicodeError as exc:  # the codec refuses labels that no DNS could carry
        raise socket.gaierror(socket.EAI_NONAME, str(exc)) from exc
    found = (_with_scope(sockaddr) for family, _, _, _, sockaddr in infos if family in wanted)
    return tuple(dict.fromkeys(found))


def _with_scope(sockaddr: tuple[object, ...]) -> str:
    """Return the address with its interface, without which a link-local one leads nowhere (RFC 4007 §11)."""
    address = str(sockaddr[0])
    scope = sockaddr[3] if len(sockaddr) > 3 else 0
    return f"{address}%{scope}" if scope and "%" not in address else address
