"""What the conformance checks stand on: a guest in a host, bounded calls, and failures that name their rule."""

from __future__ import annotations

import enum
import gc
import warnings
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar

import anyio

from racer.abc import Guest
from racer.testing._local_host import LocalHost
from racer.testing._outside import watch_io

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence

    from racer.abc import Target
    from racer.testing._points import CancelSweep

__all__ = ("Bench", "Finisher", "NonConformance", "Rule", "Setting")

T = TypeVar("T")

END_WITHIN = 1.0  # R10
CLOSE_WITHIN = 3.0  # R19
_SETTLE_POLLS = 100
_SETTLE_INTERVAL = 0.01
_STEADY_POLLS = 5


class Rule(enum.StrEnum):
    """What a transport promises."""

    DECLARES = "declares a name of 1 to 100 characters, and its traits"
    MAKES = "is made without IO"
    SERVES = "says at once, and without IO, whether it serves a target"
    REPORTS = "gives its status without IO, and takes every verdict"
    LIVES = "starts and closes without a connect, closes without a start, and closes twice"
    CONNECTS = "gives what it promises for a target that works"
    CARRIES = "carries bytes both ways, and lets one way end before the other"
    HANDLES = "gives responses to requests"
    CLOSES = "closes what it gave, again too, and refuses its use after that"
    PARALLEL = "connects twice at once, and keeps the two apart"
    FAILS = "fails with an OSError or a TransportError"
    CANCELS = "can be cancelled at every point, ends within 1 s of it, and leaves nothing open"
    ENDS = "leaves nothing open when it is closed"
    REFUSES = "refuses to connect after aclose"
    DISCREET = "shows no secret"


class NonConformance(AssertionError):
    """A transport breaks a promise.

    Attributes:
        rule: Which one.
    """

    def __init__(self, message: str, *, rule: Rule) -> None:
        """Keep the rule beside the words."""
        super().__init__(message)
        self.rule = rule


class Finisher(Protocol):
    """What both kinds of transport give: a stream, or a route."""

    async def aclose(self) -> None:
        """Close it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What the author of a transport has told the kit.

    Attributes:
        make: Gives a fresh guest.
        reach: Has a guest connect, or prepare, for a target.
        kind: What `make` has to give.
        gives: What `reach` has to give.
        target: Works.
        failing_target: Does not.
        unserved_target: Is not served.
        echoes: Whether the target sends back what it gets.
        ask: Sends a request through a route; only for request transports.
        secrets: Must not be seen.
        count_open: Counts what may leak; None where nothing can be counted.
        passes: For `cancel_everywhere`.
    """

    make: Callable[[], Guest]
    reach: Callable[[Any, Target], Awaitable[Finisher]]
    kind: type[Guest]
    gives: type | None
    target: Target
    failing_target: Target | None
    unserved_target: Target | None
    echoes: bool
    ask: Callable[[Any], Awaitable[object]] | None
    secrets: Sequence[str] = field(repr=False)
    count_open: Callable[[], int | None]
    passes: int


class Bench:
    """One run of the kit.

    Attributes:
        setting: What the author has told.
        rule: The rule being checked.
        sweep: What the cancellations came to.
        name: The transport's name, once it is known.
        texts: Where secrets might show, each with a word for where it is from.
    """

    def __init__(self, setting: Setting) -> None:
        """Begin with nothing checked."""
        self.setting = setting
        self.rule = Rule.MAKES
        self.sweep: CancelSweep | None = None
        self.texts: list[tuple[str, str]] = []
        self.name = ""
        self._has_collected = False

    def fail(self, detail: str, cause: BaseException | None = None) -> NoReturn:
        """Raise that the rule being checked is broken."""
        raise self.fault(detail) from cause

    def fault(self, detail: str) -> NonConformance:
        """Return the error that says so."""
        whose = f"transport {self.name!r}" if self.name else "the transport"
        text = f"{whose} breaks the rule that it {self.rule}: {detail}"
        return NonConformance(text, rule=self.rule)

    def make(self) -> Guest:
        """Return a fresh guest, which has done no IO."""
        with watch_io() as seen:
            guest = self.setting.make()
        if not isinstance(guest, Guest):
            self.fail(f"make() gave {guest!r}, which is no racer.abc.Guest")
        name = getattr(guest, "name", None)
        self.name = name if isinstance(name, str) else ""
        if seen:
            self.rule = Rule.MAKES
            self.fail(f"to make it called {seen[0]}")
        return guest

    @asynccontextmanager
    async def guest(self) -> AsyncIterator[Guest]:
        """Yield a guest that was started, and close it afterwards."""
        async with LocalHost() as host:
            guest = self.make()
            await self.within(guest.traits.attempt_timeout, guest.start(host), "start()")
            try:
                yield guest
            except BaseException:
                # The failure on its way says more than what may be wrong with this as well.
                with suppress(Exception), anyio.move_on_after(CLOSE_WITHIN, shield=True):
                    await guest.aclose()
                raise
            self.texts.append(("its repr", repr(guest)))
            await self.within(CLOSE_WITHIN, guest.aclose(), "aclose()")
        if host.errors:
            self.fail(f"a task that it hosted raised {host.errors[0]!r}", host.errors[0])

    async def connect(self, guest: Guest, target: Target | None = None) -> Any:  # noqa: ANN401
        """Return what the guest gives for the target, which is of the promised kind."""
        wanted = self.setting.target if target is None else target
        seconds = guest.traits.attempt_timeout
        given = await self.within(seconds, self.setting.reach(guest, wanted), "the attempt")
        if self.setting.gives is not None and not isinstance(given, self.setting.gives):
            self.fail(f"it gave {given!r}, which is no {self.setting.gives.__name__}")
        if self.setting.gives is None and not hasattr(given, "handle"):
            self.fail(f"it gave {given!r}, which cannot handle requests")
        return given

    async def within(self, seconds: float, awaitable: Awaitable[T], what: str) -> T:
        """Return what `awaitable` gives; a failure of the rule if it takes longer than so many seconds."""
        with anyio.move_on_after(seconds):
            return await awaitable
        raise self.fault(f"{what} did not end within {seconds} s")

    async def close(self, finisher: Finisher) -> None:
        """Close a stream or route in time."""
        await self.within(CLOSE_WITHIN, finisher.aclose(), "aclose() of what it gave")

    async def steady_count(self) -> int | None:
        """Return how much is open, once that has stopped changing."""
        last, steady = self.setting.count_open(), 0
        for _ in range(_SETTLE_POLLS):
            if last is None or steady == _STEADY_POLLS:
                break
            await anyio.sleep(_SETTLE_INTERVAL)
            now = self.setting.count_open()
            steady, last = (steady + 1 if now == last else 0), now
        return last

    @asynccontextmanager
    async def nothing_left(self) -> AsyncIterator[Callable[[], Awaitable[None]]]:
        """Fail if the block leaves anything open that was not open before; yields a check for in between."""
        if not self._has_collected:
            self._has_collected = True
            gc.collect()  # what others have dropped is not this transport's
        before = await self.steady_count()
        with _recorded_warnings() as caught:

            async def settle() -> None:
                await self._settle(before)
                for one in caught:
                    if issubclass(one.category, ResourceWarning):
                        self.fail(f"it left to the garbage collector: {one.message}")

            yield settle
            if before is None:
                gc.collect()
            await settle()

    async def _settle(self, before: int | None) -> None:
        """Fail if more stays open than `before`; the far end of a connection is given time to go as well."""
        if before is None:
            return
        left = 0
        for poll in range(_SETTLE_POLLS):
            left = (self.setting.count_open() or 0) - before
            if left <= 0:
                return
            if poll == _STEADY_POLLS:
                gc.collect()  # closed by it or not is told apart by the warning
            await anyio.sleep(_SETTLE_INTERVAL)
        self.fail(f"{left} more sockets or files stay open than before")


@contextmanager
def _recorded_warnings() -> Iterator[list[warnings.WarningMessage]]:
    """Yield a list that fills up with warnings, also of what is found unclosed; the others are passed on."""
    with warnings.catch_warnings(record=True) as caught:
        # Even where the program has made them errors: raised in a finalizer, they would reach nobody.
        warnings.filterwarnings("always", category=ResourceWarning)
        yield caught
    for one in caught:
        if not issubclass(one.category, ResourceWarning):
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
