"""One entrant's attempt, run in the host: connect, TLS, check, and the border that nothing crosses by accident.

An attempt owns its stream until the moment it hands it over, which is one synchronous step; what it still owns at its
end it closes itself, bounded, after its outcome has been told.
"""

from __future__ import annotations

import logging
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Final, TypeGuard

import anyio
from anyio.abc import ByteStream

from racer import _tls
from racer._cleanup import close_within
from racer._host import find_exit
from racer._logs import log_error
from racer._report import Outcome
from racer._verdict import remembered
from racer.abc import TLS, AttributeValue, Origin, Progress, RequestTransport, Transport
from racer.errors import (
    AttemptTimeout,
    NotUsable,
    Stage,
    TransportCrashed,
    TransportError,
    error_type_of,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from opentelemetry.trace import SpanContext

    from racer._cleanup import Closable
    from racer._host import LoopHost
    from racer._report import Attempt
    from racer._roster import Lease, Place
    from racer._spans import AttemptTrace
    from racer._target import Target

__all__ = ("Run", "is_crash", "log_crash")

logger = logging.getLogger("racer.race")

# A tuple: an enum's hash is a call, its identity is not.
_TOLD: Final = (Outcome.CONNECTED, Outcome.CONNECT_FAILED, Outcome.TIMED_OUT)


class Run:
    """One attempt. The race reads its fields; only `settle` calls tell the race that they changed.

    Attributes:
        place: the entrant's.
        start_delay: its delay in this race.
        target: what it is to reach.
        index: its lane in the schedule.
        outcome: fixed once, by the attempt or by the race; `None` while undecided.
        has_arrived: whether a finisher lies in `resource`, to be taken or closed by the race.
        resource: the finisher, owned by the race from the moment it is here.
        error: what went wrong; dropped with the verdict (R13).
        exit: a `SystemExit` or `KeyboardInterrupt` for the dialing caller (R20).
        started_at, decided_at: on the loop's clock.
    """

    def __init__(
        self,
        *,
        place: Place,
        start_delay: float,
        index: int,
        lease: Lease,
        target: Target,
        check: Callable[[ByteStream], Awaitable[bool | None]] | None,
        contexts: _tls.Contexts,
        host: LoopHost,
        trace: AttemptTrace,
        settle: Callable[[Run], None],
        now: float,
    ) -> None:
        """Begin as undecided; nothing runs yet."""
        self.place = place
        self.start_delay = start_delay
        self.target = target
        self.index = index
        self.lease = lease
        self.trace = trace
        self.context = trace.context()
        self.outcome: Outcome | None = None
        self.has_arrived = False
        self.resource: Closable | None = None
        self.error: Exception | None = None
        self.exit: BaseException | None = None
        self.stage = Stage.START
        self.peer: str | None = None
        self.started_at = self.decided_at = now
        self._check = check
        self._contexts = contexts
        self._host = host
        self._settle: Callable[[Run], None] | None = settle
        self._scope = anyio.CancelScope()
        self._closing: anyio.CancelScope | None = None
        self._is_leftover = False
        self._held: Closable | None = None
        place.tenure.active += 1
        lease.lodger.active += 1

    @property
    def transport_name(self) -> str:
        """The entrant's name."""
        return self.place.name

    @property
    def is_undecided(self) -> bool:
        """Whether it still runs towards an outcome."""
        return self.outcome is None and not self.has_arrived

    def decide(self, outcome: Outcome, now: float) -> None:
        """Fix the outcome, by order of the race; a running attempt is cancelled and cleans up behind the scenes."""
        running = self.is_undecided
        self.outcome = outcome
        if outcome is Outcome.TIMED_OUT and self.error is None:
            msg = f"not usable within {now - self.started_at:.3g} s"
            if self.stage is not Stage.CONNECT:  # where something that swallows packets leaves it
                msg += f", still in {self.stage}"
            self.error = AttemptTimeout(msg, transport=self.place.name, stage=self.stage)
        if outcome is not Outcome.CONNECTED:
            self.decided_at = now
        if running:
            self._leave()
            self._scope.cancel()
        self._settle = None

    def tell_guest(self, attempt: Attempt, *, redacted: bool) -> None:
        """Let the guest learn how it ended; its error here is logged and changes nothing."""
        self.place.tenure.last = remembered(attempt)
        if attempt.outcome not in _TOLD:
            return
        try:
            self.lease.lodger.guest.observe(attempt)
        except Exception as exc:  # noqa: BLE001 - a guest's slip changes no verdict
            log_error(
                logger,
                logging.ERROR,
                "transport %r failed to observe an attempt",
                self.place.name,
                error=exc,
                redacted=redacted,
            )

    def force(self) -> None:
        """Close by force what this attempt still holds."""
        self._closing_scope().cancel()

    def _closing_scope(self) -> anyio.CancelScope:
        # Made late: most attempts have nothing to close.
        if self._closing is None:
            self._closing = anyio.CancelScope()
        return self._closing

    async def run(self) -> None:
        """Run to the end, cleanup included. An `Exception` becomes the attempt's failure (R15)."""
        try:
            # A race may be over before its attempts first run: then their guests are not even asked (R5).
            if self.is_undecided:
                with self._scope:
                    await self._reach()
                    self._arrive()
        except Exception as exc:  # noqa: BLE001 - the attempt's border: whatever a guest raises is its failure
            # Without this frame and the next, which lead back to the race (R13).
            self._fail(exc.with_traceback(_without_ours(exc)))
        except BaseException as exc:
            found = find_exit(exc)
            if self.is_undecided and found is not None:
                self.exit = found.with_traceback(_without_ours(found))
                self._tell(Outcome.CONNECT_FAILED)
            elif self.is_undecided:
                self._fail(_crash_of(exc))
            elif found is not None:
                raise  # nobody waits for it any more; the host says so
        finally:
            await self._clean()

    async def _reach(self) -> None:
        lodger = self.lease.lodger
        if not lodger.ready:
            await lodger.be_ready(self._host, self.place.name)
        guest = lodger.guest
        self.stage = Stage.CONNECT
        if isinstance(guest, RequestTransport):
            scheme = "https" if self.target.tls else "http"
            route: Any = await guest.prepare(Origin(scheme, self.target.host, self.target.port))
            self._held = route if hasattr(route, "aclose") else None
            if self._held is None or not hasattr(route, "handle"):
                msg = f"prepare() returned {type(route).__name__} instead of a RequestRoute"
                raise TransportCrashed(msg)
            return
        assert isinstance(guest, Transport)
        stream: Any = await guest.connect(self.target, _Progress(self))
        self._held = stream if hasattr(stream, "aclose") else None
        if not _is_stream(stream):
            msg = f"connect() returned {type(stream).__name__} instead of an anyio ByteStream"
            raise TransportCrashed(msg)
        if self.target.tls is not False:
            stream = await self._secured(stream, guest)
        if self._check is not None:
            self.stage = Stage.VERIFY
            await self._checked(stream, self._check)

    @staticmethod
    async def _checked(
        stream: ByteStream, check: Callable[[ByteStream], Awaitable[bool | None]]
    ) -> None:
        """Ask the caller's own check, whose errors are its verdict and no fault of the guest's."""
        try:
            answer = check(stream)
            waits = isawaitable(answer)
            accepted = await answer if waits else None
        except TransportError:
            raise
        except Exception as exc:  # noqa: BLE001 - whatever it is, it says that the stream does not do
            msg = "check failed"
            raise NotUsable(msg) from exc.with_traceback(_without_ours(exc))
        if not waits:
            msg = f"check returned {type(answer).__name__}; it has to be a coroutine function"
            raise NotUsable(msg)
        if accepted is False:
            msg = "check returned False"
            raise NotUsable(msg)

    async def _secured(self, stream: ByteStream, guest: Transport) -> ByteStream:
        if guest.traits.tls is TLS.OWN:
            self.stage = Stage.VERIFY
            _tls.demand_tls(stream, self.target)
            return stream
        self.stage = Stage.TLS
        # A failed or cancelled wrap leaves the raw stream held here, and so closed at the end.
        self._held = secured = await _tls.wrap(
            stream, self.target, await self._contexts.get(self.target)
        )
        return secured

    def _arrive(self) -> None:
        """Hand the finisher over to the race, or keep it, to be closed, when the race no longer wants it."""
        if not self.is_undecided:
            return
        self.resource, self._held = self._held, None
        self.has_arrived = True
        self.decided_at = anyio.current_time()
        if self._settle is not None:
            self._settle(self)

    def _fail(self, exc: Exception) -> None:
        if not self.is_undecided:
            return  # the race has already said how it ended; what came of the cancellation is not news
        if isinstance(exc, TransportError):
            exc.transport = exc.transport or self.place.name
            exc.stage = exc.stage or self.stage
            self.stage = exc.stage
        self.error = exc
        timed_out = isinstance(exc, AttemptTimeout)
        self._tell(Outcome.TIMED_OUT if timed_out else Outcome.CONNECT_FAILED)

    def fail_at_once(self, exc: TransportError, now: float) -> None:
        """Fail without ever having run."""
        self.error = exc
        self.stage = exc.stage = Stage.START
        exc.transport = self.place.name
        self.decided_at = now
        self.outcome = Outcome.CONNECT_FAILED
        self._settle = None
        self._release()

    def _tell(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self.decided_at = anyio.current_time()
        settle, self._settle = self._settle, None
        if settle is not None:
            settle(self)
        if self._held is not None:
            self._leave()

    def _leave(self) -> None:
        """Become a leftover: from here on it is cleanup (R10)."""
        self._is_leftover = True
        self._host.cleanups.add(self)
        self._host.watch()

    async def _clean(self) -> None:
        held, self._held = self._held, None
        try:
            if held is not None:
                await close_within(held, scope=self._closing_scope())
        finally:
            if self._is_leftover:
                self._host.cleanups.discard(self, anyio.current_time())
            self._release()

    def _release(self) -> None:
        self.place.tenure.active -= 1
        self.lease.lodger.active -= 1
        if not self.has_arrived:
            self.lease.release()


def _is_stream(stream: object) -> TypeGuard[ByteStream]:
    return isinstance(stream, ByteStream)


def _crash_of(exc: BaseException) -> TransportCrashed:
    """Return the failure of an attempt that neither came to its end nor raised an `Exception`."""
    if isinstance(exc, anyio.get_cancelled_exc_class()):
        return TransportCrashed("the attempt was cancelled, and not by the race")
    crash = TransportCrashed(f"the transport raised {type(exc).__name__}, which is no Exception")
    crash.__cause__ = exc.with_traceback(_without_ours(exc))
    return crash


def _without_ours(exc: BaseException) -> Any:  # noqa: ANN401 - a traceback or None
    """Return the traceback of `exc` from the guest's own frames on."""
    traceback = exc.__traceback__
    while traceback is not None and traceback.tb_frame.f_globals.get("__name__") == __name__:
        traceback = traceback.tb_next
    return traceback


class _Progress(Progress):
    """Writes what a guest tells into its attempt, until the attempt is decided."""

    __slots__ = ("_run",)

    def __init__(self, run: Run) -> None:
        self._run = run

    def stage(self, stage: Stage) -> None:
        if self._run.is_undecided:
            self._run.stage = Stage(stage)

    def peer(self, address: str, port: int | None = None, *, network: str = "tcp") -> None:
        run = self._run
        if run.is_undecided:
            run.peer = (
                address
                if port is None
                else f"[{address}]:{port}"
                if ":" in address
                else f"{address}:{port}"
            )
            run.trace.peer(address, port, network)

    def session(self, *, reused: bool, link: SpanContext | None = None) -> None:
        if self._run.is_undecided:
            self._run.trace.session(reused=reused, link=link)

    def event(self, name: str, attributes: Mapping[str, AttributeValue] | None = None) -> None:
        if self._run.is_undecided:
            self._run.trace.event(name, attributes or {}, anyio.current_time())


def log_crash(name: str, exc: Exception, *, redacted: bool) -> None:
    """Log a bug in a guest with its traceback; without the error's own words where they may not leave (R15, T5)."""
    log_error(logger, logging.ERROR, "transport %r crashed", name, error=exc, redacted=redacted)


def is_crash(exc: Exception) -> bool:
    """Return whether an error is a guest's bug, not a guest's failure."""
    return error_type_of(exc) == "crashed"
