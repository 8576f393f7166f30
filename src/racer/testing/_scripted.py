"""Transports that follow a script, remember what was asked of them, and object when they are misused."""

from __future__ import annotations

import enum
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import anyio

from racer.abc import Guest, Origin, Progress, RequestTransport, Target, Traits, Transport
from racer.errors import ConfigError
from racer.testing._ledger import StreamLedger
from racer.testing._script import Ending, Script, Step, wins
from racer.testing._streams import MemoryStream, stream_pair

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from anyio.abc import ByteStream

    from racer._report import Attempt
    from racer.abc import Host

__all__ = (
    "AttemptRecord",
    "ContractBroken",
    "Lifecycle",
    "RecordedEnd",
    "ScriptedRequestTransport",
    "ScriptedRoute",
    "ScriptedTransport",
)

_WINS = wins()
_NO_PROGRESS = Progress()


class ContractBroken(AssertionError):
    """A scripted transport was used in a way that `racer.abc` rules out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifecycle:
    """What a scripted transport's `start` and `aclose` do.

    Attributes:
        start_takes: Seconds that `start` takes.
        start_errors: What successive calls of `start` then raise, until there are no more.
        aclose_takes: Seconds that `aclose` takes.
        aclose_error: What `aclose` then raises; None if nothing.
    """

    start_takes: float = 0.0
    start_errors: Sequence[BaseException] = ()
    aclose_takes: float = 0.0
    aclose_error: BaseException | None = None


_SMOOTH = Lifecycle()


class RecordedEnd(enum.Enum):
    """How a call of `connect` or `prepare` ended."""

    CONNECTED = "connected"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(slots=True, kw_only=True, eq=False)
class AttemptRecord:
    """One call of `connect` or `prepare`; it fills up as the call goes on. Times are the loop's.

    Attributes:
        target: What was to be reached.
        credential: The credential in use when it began.
        began_at: When it began.
        cancelled_at: When it was first cancelled; None if it was not.
        ended_at: When it ended, cleanup included; None while it runs.
        end: How it ended; None while it runs.
        stream: The stream it gave, if it gave one.
        peer: The far end of that stream.
        route: The route it gave, if it gave one.
    """

    target: Target | Origin
    credential: object = field(repr=False)
    began_at: float
    cancelled_at: float | None = None
    ended_at: float | None = None
    end: RecordedEnd | None = None
    stream: MemoryStream | None = None
    peer: MemoryStream | None = None
    route: ScriptedRoute | None = None


class _ScriptedGuest(Guest):
    """What both kinds share: lifecycle, records, and one call after the other of the script."""

    def __init__(
        self,
        name: str,
        script: Script = _WINS,
        *,
        traits: Traits | None = None,
        serves: str | Callable[[Target], str | None] | None = None,
        lifecycle: Lifecycle = _SMOOTH,
        credential: object = None,
        ledger: StreamLedger | None = None,
    ) -> None:
        self.name = name
        self.traits = Traits() if traits is None else traits
        self.ledger = StreamLedger() if ledger is None else ledger
        self.attempts: list[AttemptRecord] = []
        self.observed: list[Attempt] = []
        self.started_at: list[float] = []
        self.closed_at: list[float] = []
        self.misuses: list[str] = []
        self._script = script
        self._serves = serves
        self._lifecycle = lifecycle
        self._start_errors = list(lifecycle.start_errors)
        self._credential = credential
        self._host: Host | None = None
        self._is_starting = False

    def __repr__(self) -> str:
        """Return its name and how often it was asked; no credential."""
        return f"<{type(self).__name__} {self.name!r}, {len(self.attempts)} attempts>"

    @property
    def running(self) -> tuple[AttemptRecord, ...]:
        """The attempts that have not ended, cleanup included."""
        return tuple(record for record in self.attempts if record.ended_at is None)

    def serves(self, target: Target) -> str | None:
        """Return the reason it was given, if any."""
        return self._serves(target) if callable(self._serves) else self._serves

    async def start(self, host: Host) -> None:
        """Get ready, or raise the next of the start errors it was given."""
        if self.closed_at:
            self._object("start after aclose")
        if self._is_starting or self._host is not None:
            self._object("started twice")
        self.started_at.append(anyio.current_time())
        self._is_starting = True
        try:
            await anyio.sleep(self._lifecycle.start_takes)
            if self._start_errors:
                raise self._start_errors.pop(0)
            self._host = host
        finally:
            self._is_starting = False

    def observe(self, attempt: Attempt) -> None:
        """Remember the verdict."""
        self.observed.append(attempt)

    def update_credential(self, credential: object) -> None:
        """Use a new credential, if it was made with one."""
        if self._credential is None:
            raise ConfigError(f"transport {self.name!r} takes no credential")
        self._credential = credential

    async def aclose(self) -> None:
        """Remember when, and take the time, or raise the error, it was given for that."""
        self.closed_at.append(anyio.current_time())
        await anyio.sleep(self._lifecycle.aclose_takes)
        if self._lifecycle.aclose_error is not None:
            raise self._lifecycle.aclose_error

    async def _attempt(
        self, target: Target | Origin, progress: Progress
    ) -> tuple[Step, AttemptRecord]:
        """Play the next step up to its winning end; raises at any other."""
        if self.closed_at:
            self._object("connect after aclose")
        if self._host is None:
            self._object("connect before start")
        step = self._script.step(len(self.attempts))
        record = AttemptRecord(
            target=target, credential=self._credential, began_at=anyio.current_time()
        )
        self.attempts.append(record)
        try:
            if step.tells is not None:
                step.tells(progress)
            await self._play(step, record)
        except BaseException as exc:
            is_cancelled = isinstance(exc, anyio.get_cancelled_exc_class())
            record.end = RecordedEnd.CANCELLED if is_cancelled else RecordedEnd.FAILED
            try:
                if step.cleanup > 0:
                    with anyio.CancelScope(shield=True):
                        await anyio.sleep(step.cleanup)
            finally:
                record.ended_at = anyio.current_time()
            raise
        record.end = RecordedEnd.CONNECTED
        record.ended_at = anyio.current_time()
        return step, record

    async def _play(self, step: Step, record: AttemptRecord) -> None:
        try:
            await anyio.sleep(step.after)
        except anyio.get_cancelled_exc_class():
            record.cancelled_at = anyio.current_time()
            left = record.began_at + step.after - record.cancelled_at
            if step.ignore_cancel > 0:
                with anyio.CancelScope(shield=True):
                    await anyio.sleep(min(left, step.ignore_cancel))
            if step.ignore_cancel == 0 or left > step.ignore_cancel:
                raise
        if step.ending is Ending.FAILS:
            raise _made(step.error)

    def _object(self, misuse: str) -> None:
        """Raise, and remember it for tests of code that survives what its transports raise."""
        self.misuses.append(misuse)
        raise ContractBroken(f"scripted transport {self.name!r}: {misuse}")


class ScriptedTransport(_ScriptedGuest, Transport):
    """A transport that does what its script says, on the loop's clock.

    It objects to misuse, with `ContractBroken`: `connect` before `start` or after `aclose`, a second
    `start` after one that succeeded or beside one under way, `start` after `aclose`.

    Args:
        name: Its name.
        script: What successive calls of `connect` do.
        traits: What it declares.
        serves: Why it serves no target; or a function that says so of each.
        serve: What the far end of every stream does, as a task of the host; it may let out the
            `BrokenResourceError` of a near end closed by force. Without it the far end is left to the test,
            as ``attempts[i].peer``.
        lifecycle: What `start` and `aclose` do.
        credential: What `update_credential` replaces; None if it takes none.
        ledger: Where it enters the streams it gives; by default one of its own.

    Attributes:
        attempts: A record of every call of `connect`, in order.
        running: Those that have not ended.
        observed: What `observe` was told, in order.
        started_at: When `start` was called, each time.
        closed_at: When `aclose` was called, each time.
        misuses: What it has objected to. A race survives its transports' errors, so look here as well.
        ledger: Every stream it has given.

    Example:
        >>> from racer.testing import LocalHost, fails, run_virtual, wins
        >>> async def twice() -> list[float]:
        ...     transport = ScriptedTransport("direct", fails(0.1).then(wins(0.25)))
        ...     async with LocalHost() as host:
        ...         await transport.start(host)
        ...         try:
        ...             await transport.connect(Target("example.org"), Progress())
        ...         except ConnectionRefusedError:
        ...             await transport.connect(Target("example.org"), Progress())
        ...     return [record.ended_at for record in transport.attempts]
        >>> run_virtual(twice)
        [0.1, 0.35]
    """

    def __init__(
        self,
        name: str,
        script: Script = _WINS,
        *,
        traits: Traits | None = None,
        serves: str | Callable[[Target], str | None] | None = None,
        serve: Callable[[MemoryStream], Awaitable[object]] | None = None,
        lifecycle: Lifecycle = _SMOOTH,
        credential: object = None,
        ledger: StreamLedger | None = None,
    ) -> None:
        """Make it; nothing begins."""
        super().__init__(
            name,
            script,
            traits=traits,
            serves=serves,
            lifecycle=lifecycle,
            credential=credential,
            ledger=ledger,
        )
        self._serve = serve

    async def connect(self, target: Target, progress: Progress) -> ByteStream:
        """Do what the script says next."""
        step, record = await self._attempt(target, progress)
        if step.ending is not Ending.WINS:
            return cast("ByteStream", step.value)
        near, far = stream_pair(name=self.name, **step.stream_options)
        self.ledger.add(near)
        record.stream, record.peer = near, far
        if self._serve is not None:
            assert self._host is not None
            self._host.start_soon(self._serve_far, self._serve, far, name=far.name)
        return near

    @staticmethod
    async def _serve_far(
        serve: Callable[[MemoryStream], Awaitable[object]], far: MemoryStream
    ) -> None:
        with suppress(anyio.BrokenResourceError):  # the near end was closed by force
            await serve(far)


class ScriptedRequestTransport(_ScriptedGuest, RequestTransport):
    """A transport for requests that does what its script says; the same as `ScriptedTransport` otherwise.

    Args:
        name: Its name.
        script: What successive calls of `prepare` do; one that wins gives a `ScriptedRoute`.
        answer: Gives the response to each request.
        traits: What it declares.
        serves: Why it serves no target; or a function that says so of each.
        lifecycle: What `start` and `aclose` do.
        credential: What `update_credential` replaces; None if it takes none.
        ledger: Where it enters the routes it gives; by default one of its own.
    """

    def __init__(
        self,
        name: str,
        script: Script = _WINS,
        *,
        answer: Callable[[Any], Awaitable[Any]],
        traits: Traits | None = None,
        serves: str | Callable[[Target], str | None] | None = None,
        lifecycle: Lifecycle = _SMOOTH,
        credential: object = None,
        ledger: StreamLedger | None = None,
    ) -> None:
        """Make it; nothing begins."""
        super().__init__(
            name,
            script,
            traits=traits,
            serves=serves,
            lifecycle=lifecycle,
            credential=credential,
            ledger=ledger,
        )
        self._answer = answer

    async def prepare(self, origin: Origin) -> ScriptedRoute:
        """Do what the script says next."""
        step, record = await self._attempt(origin, _NO_PROGRESS)
        if step.ending is not Ending.WINS:
            return cast("ScriptedRoute", step.value)
        record.route = ScriptedRoute(self.name, self._answer)
        self.ledger.add(record.route)
        return record.route


class ScriptedRoute:
    """What a `ScriptedRequestTransport` gives; it remembers its requests, and when it was closed.

    Attributes:
        name: Its transport's name.
        requests: What it was asked, in order.
        made_at: When it was made, on the loop's clock.
        closed: Whether it was closed.
        closed_at: When it was first closed; None while open.
    """

    def __init__(self, name: str, answer: Callable[[Any], Awaitable[Any]]) -> None:
        """Make it; `answer` gives the response to each request."""
        self.name = name
        self.requests: list[Any] = []
        self.made_at = anyio.current_time()
        self.closed = False
        self.closed_at: float | None = None
        self._answer = answer

    async def handle(self, request: Any) -> Any:  # noqa: ANN401 - both are the application's
        """Return the answer; a closed route objects."""
        if self.closed:
            raise ContractBroken(f"route of {self.name!r}: handle after aclose")
        self.requests.append(request)
        return await self._answer(request)

    async def aclose(self) -> None:
        """Close it; again does nothing."""
        if not self.closed:
            self.closed = True
            self.closed_at = anyio.current_time()
        await anyio.lowlevel.checkpoint()


def _made(error: BaseException | Callable[[], BaseException] | None) -> BaseException:
    if isinstance(error, BaseException):
        return error
    assert error is not None
    return error()
