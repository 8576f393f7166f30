"""The client's driver: messages between the core and its carriers, time, and who waits for what."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.lowlevel

from racer.abc import Stage
from racer.errors import DialerClosed, TransportError
from transports._net.wakeup import Wakeup
from transports.soar._dials import PendingDial
from transports.soar._errors import error_of, reset_error
from transports.soar._stream import SoarStream
from transports.soar._traces import SessionTraces
from transports.soar.core.client import events as told
from transports.soar.core.client.client import Client
from transports.soar.core.client.dial import DialState
from transports.soar.core.client.reasons import EndReason, Failure
from transports.soar.core.client.states import FINAL, SessionState

if TYPE_CHECKING:
    import contextvars
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from racer.abc import Host, Progress, TransportStatus
    from transports.soar._clocks import Clocks
    from transports.soar._ways import Way
    from transports.soar.core.client.dial import Dial
    from transports.soar.core.client.path import Outgoing
    from transports.soar.core.client.settings import ClientSettings
    from transports.soar.core.client.stream import ClientStream
    from transports.soar.core.crypto.grants import Grant
    from transports.soar.core.instants import Instant
    from transports.soar.core.streams.targets import Target

__all__ = ("Engine",)

_DRAIN: Final = 0.5  # seconds that a close waits for what was written; a guest's goodbye has one
_RESTART: Final = 1.0  # seconds before a task that crashed begins anew
_LEAST_WAIT: Final = 0.001  # seconds; a deadline that stays in the past must not hold the loop up
_MAX_WORDS: Final = 200  # characters of a carrier's failure
_TURNS: Final = 3  # of the loop, in which a connection takes the last word
_CLOSED: Final = EndReason(failure=Failure.CLOSED, words="the transport was closed")
_NOT_OURS: Final = EndReason(
    failure=Failure.CLOSED, words="the stream belongs to the process that this one was forked from"
)


class Engine:
    """Runs one client core over its carriers; lives in the dialer's host.

    Everything but waiting is synchronous: what comes is given to the core, and what that has to say is sent at once.

    A core's sessions are its process's own: in a forked child nothing is sent, and every stream is over (SPEC 14.8).

    Args:
        name: the transport's, for telemetry.
        settings: of the core.
        ways: one for each path.
        host: where its tasks live.
        clocks: tell the time.
        entropy: gives random octets.

    Raises:
        DialerClosed: the host has ended.
    """

    def __init__(
        self,
        name: str,
        settings: ClientSettings,
        ways: Sequence[Way],
        *,
        host: Host,
        clocks: Clocks,
        entropy: Callable[[int], bytes] = os.urandom,
    ) -> None:
        """Start the carriers and the clock in `host`; nothing is sent before the first dial."""
        self.name = name
        self.ways = tuple(ways)
        self._owner = os.getpid()
        self.core = Client(settings, entropy=entropy, owner=self._owner)
        self._clocks = clocks
        self._now = clocks.now()
        for way in self.ways:
            self.core.add_path(way.zone, datagram=way.datagram)
        self._failures: dict[int, str] = {}
        self._failure_counts: Counter[int] = Counter()  # how often each way has, ever
        self._dials: dict[Dial, PendingDial] = {}
        self._streams: dict[ClientStream, SoarStream] = {}
        self._moved: list[PendingDial] = []
        self._traces = SessionTraces(name, host)
        self._welcomed: set[int] = set()
        self._settled = Wakeup()
        self._timer = Wakeup()
        self._rings_at: float | None = None
        self._is_flushing = self._is_flushed_again = False
        self._is_closing = self._is_closed = False
        self._scopes: set[anyio.CancelScope] = set()
        self._host = host
        for index, way in enumerate(self.ways):
            self._live(f"soar carrier {index}", partial(self._carry, index, way))
        self._live("soar clock", self._keep_time)

    # --- life -------------------------------------------------------------------------------

    async def aclose(self) -> None:
        """End all sessions with a word to the server, after what was written has arrived, or had half a second.

        Streams that are still open are over at once. May be called twice.
        """
        if not self._is_ours() or self._is_closing:
            return
        self._is_closing = True
        try:
            self._end_streams()
            self.flush()
            with anyio.move_on_after(_DRAIN):
                while self._is_writing():
                    await self._settled.wait()
            self.close()
            for _ in range(_TURNS):
                await anyio.lowlevel.checkpoint()
        finally:
            self.close()
            for scope in tuple(self._scopes):
                scope.cancel()

    def close(self) -> None:
        """End all sessions and dials now, and say so to the server as far as that takes no wait."""
        if not self._is_ours() or self._is_closed:
            return
        self._is_closing = self._is_closed = True
        self._end_streams()
        self.core.close(self._clocks.now())
        self.flush()

    def update_credential(self, grant: Grant | None) -> None:
        """Show `grant` from now on; no new stream uses an older session (S13)."""
        if self._is_ours() and not self._is_closed:
            self.core.update_credential(grant, self._clocks.now())
            self.flush()

    def status(self) -> TransportStatus:
        """Return sessions, newest first, and what is known of each way."""
        from transports.soar._status import CLOSED, describe  # noqa: PLC0415 - no dial waits for it

        with suppress(RuntimeError):  # asked from where no loop runs: then as it was when last told
            self._now = self._clocks.now()
        if self._is_closing:
            return CLOSED
        return describe(
            self.core.status(self._now), self.ways, self._failures, self._failure_counts
        )

    # --- dials ------------------------------------------------------------------------------

    async def open(
        self,
        target: Target,
        progress: Progress,
        *,
        wait: bool,
        attributes: Mapping[Any, Callable[[], Any]],
    ) -> SoarStream:
        """Return a stream to `target`; the caller closes it.

        Args:
            target: where to.
            progress: is told of the session, and of what becomes of it.
            wait: whether for the target to be connected. If not, what is written before may be sent twice (SPEC 16.5), and
                what goes wrong is raised by the stream, as it would have been here.
            attributes: of the stream.

        Raises:
            TransportError: why there is none. Cancelling gives the dial up, and leaves the session.
        """
        self._check_usable()
        known = self._traces.numbers()
        # Before the target is connected nothing is written, or what TLS says to everybody: both may be said twice.
        dial = self.core.dial(target, self._clocks.now(), replay_safe=True)
        stream = SoarStream(dial.stream, self, attributes)
        pending = PendingDial(dial, stream, progress)
        self._dials[dial] = pending
        self._streams[dial.stream] = stream
        is_kept = False
        try:
            self.flush()
            if dial.session >= 0:
                progress.session(reused=dial.session in known, link=self._traces.link(dial.session))
            pending.reach(Stage.CONNECT if dial.session in self._welcomed else Stage.HANDSHAKE)
            if wait or dial.state is not DialState.OPENING:
                await pending.event.wait()
            else:
                await anyio.lowlevel.checkpoint()
            if pending.reason is not None:
                raise error_of(pending.reason, stage=pending.stage)
            is_kept = True
            return stream
        finally:
            pending.is_awaited = False
            if not is_kept:
                stream.abort()

    def _check_usable(self) -> None:
        if not self._is_ours():
            msg = (
                f"transport {self.name!r} was started in process {self._owner}, this is process {os.getpid()}: "
                "after a fork the child starts one of its own"
            )
            raise TransportError(msg)
        if self._is_closing:
            msg = f"transport {self.name!r} was closed"
            raise TransportError(msg)

    # --- what moves messages ------------------------------------------------------------------

    def flush(self) -> None:
        """Send what the core has to say, and tell everybody what it has told."""
        if self._is_ours():
            self._flush(self._clocks.now())

    def forget(self, handle: ClientStream) -> None:
        """As `StreamOwner.forget`; one whose target is not connected is given up."""
        self._streams.pop(handle, None)
        if self._dials.pop(handle.dial, None) is not None:
            handle.dial.cancel(self._now)

    def _flush(self, now: Instant) -> None:
        if self._is_flushing:
            self._is_flushed_again = True
            return
        self._now = now
        self._is_flushing = True
        try:
            self._take_events()
            while True:
                self._is_flushed_again = False
                self._send(self.core.messages_to_send(now))
                if not self._take_events() and not self._is_flushed_again:
                    break
        finally:
            self._is_flushing = False
        due = self.core.next_timeout()
        if due is not None and (self._rings_at is None or due < self._rings_at):
            self._rings_at = due
            self._timer.set()

    def _send(self, outgoing: Sequence[Outgoing]) -> None:
        batches: dict[int, list[bytes]] = {}
        fresh: set[int] = set()
        for path, message, is_fresh in outgoing:
            batches.setdefault(path, []).append(message)
            if is_fresh:
                fresh.add(path)
        for path, messages in batches.items():
            self.ways[path].carrier.send(messages, fresh=path in fresh)

    def _deliver(self, path: int, messages: Sequence[bytes]) -> None:
        if not self._is_ours():
            return
        now = self._clocks.now()
        receive = self.core.receive_message
        for message in messages:
            receive(path, message, now)
        if self._failures:
            self._failures.pop(path, None)
        self._flush(now)

    def _failed(self, path: int, error: Exception) -> None:
        if self._is_ours():
            now = self._clocks.now()
            while isinstance(error, ExceptionGroup):
                error = error.exceptions[0]
            words = f"{type(error).__name__}: {error}"
            self._failures[path] = words[:_MAX_WORDS].removesuffix(": ")
            self._failure_counts[path] += 1
            self.core.carrier_failed(path, now)
            self._flush(now)

    # --- tasks --------------------------------------------------------------------------------

    def _live(self, name: str, run: Callable[[], Awaitable[None]], pause: float = 0.0) -> None:
        self._host.start_soon(self._run, name, run, pause, name=name)

    async def _run(self, name: str, run: Callable[[], Awaitable[None]], pause: float) -> None:
        """Run a task until the engine is closed; of one that crashes the host tells, and another takes its place."""
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                await anyio.sleep(pause)
                await run()
            except Exception:
                with suppress(DialerClosed):
                    self._live(name, run, _RESTART)
                raise
            finally:
                self._scopes.discard(scope)

    async def _carry(self, index: int, way: Way) -> None:
        try:
            await way.carrier.run(partial(self._deliver, index), partial(self._failed, index))
        except Exception as exc:
            self._failed(index, exc)
            raise

    async def _keep_time(self) -> None:
        try:
            self._flush(self._clocks.now())  # what an earlier clock, which crashed, did not come to
            while True:
                due = self._rings_at = self.core.next_timeout()
                now = self._now.awake
                await self._timer.wait(due if due is None or due > now else now + _LEAST_WAIT)
                instant = self._clocks.now()
                if self._rings_at is not None and instant.awake >= self._rings_at:
                    self.core.handle_timeout(instant)
                    self._flush(instant)
        except anyio.get_cancelled_exc_class():
            self.close()  # the host ends, and with it whoever would hear an answer
            raise

    def _end_streams(self) -> None:
        for dial in tuple(self._dials):
            dial.cancel(self._now)
            self._end_dial(dial, _CLOSED)
        for handle, stream in self._streams.items():
            stream.fail(partial(error_of, _CLOSED))
            handle.close()
        self._streams.clear()

    # --- events -------------------------------------------------------------------------------

    def _take_events(self) -> bool:
        """Tell what the core has told; return whether there was anything."""
        event = self.core.next_event()
        if event is None:
            return False
        while event is not None:
            self._take(event)
            event = self.core.next_event()
        while self._moved:  # only now is the new session's handshake known of
            pending = self._moved.pop()
            dial = pending.dial
            pending.progress.session(reused=False, link=self._traces.link(dial.session))
            pending.reach(Stage.CONNECT if dial.session in self._welcomed else Stage.HANDSHAKE)
        return True

    def _take(self, event: told.ClientEvent) -> None:
        match event:
            case told.DialOpened(dial=dial):
                self._end_dial(dial, None)
            case told.DialFailed(dial=dial, error=reason):
                self._end_dial(dial, reason)
            case told.DialRepaired():
                self._repaired(event)
            case told.HandshakeStarted(session=number):
                self._traces.begin(number, self._cause(number))
            case told.HandshakeEnded():
                self._handshaken(event)
            case told.SessionChanged():
                self._changed(event)
            case told.QuestionsLost() | told.WarmFailed():
                pass
            case _:
                self._take_for_stream(event)

    def _take_for_stream(
        self,
        event: told.StreamReadable
        | told.StreamWritable
        | told.StreamReset
        | told.StreamStopped
        | told.StreamFailed,
    ) -> None:
        stream = self._streams.get(event.stream)
        if stream is None:
            return
        match event:
            case told.StreamReadable():
                stream.readable()
            case told.StreamWritable():
                stream.writable()
            case told.StreamReset(code=code):
                stream.reset(partial(reset_error, code))
            case told.StreamStopped(code=code):
                stream.stop(partial(reset_error, code))
            case told.StreamFailed(error=reason):
                stream.fail(partial(error_of, reason))

    def _end_dial(self, dial: Dial, reason: EndReason | None) -> None:
        pending = self._dials.pop(dial, None)
        if pending is None:
            return
        pending.reason = reason
        pending.event.set()
        if reason is None:
            pending.stream.connected()
        else:
            pending.stream.fail(partial(error_of, reason, stage=pending.stage))

    def _repaired(self, event: told.DialRepaired) -> None:
        pending = self._dials.get(event.dial)
        if pending is not None:
            state = "ended" if event.reason.failure is Failure.ENDED else "lost"
            pending.progress.event(
                f"racer.session.{state}",
                {"racer.reason": event.reason.words, "racer.proven": event.proven},
            )
            self._moved.append(pending)

    def _handshaken(self, event: told.HandshakeEnded) -> None:
        if event.error is not None:
            return
        self._welcomed.add(event.session)
        self._traces.handshaken(event)
        for pending in tuple(self._dials.values()):
            if pending.dial.session == event.session:
                pending.progress.event("racer.session.handshaken", {"racer.seconds": event.seconds})
                pending.reach(Stage.CONNECT)

    def _changed(self, event: told.SessionChanged) -> None:
        self._traces.changed(event)
        if event.after in FINAL:
            self._welcomed.discard(event.session)
        self._settled.set()

    def _cause(self, session: int) -> contextvars.Context | None:
        """Return the context of the attempt that a session is made for."""
        return next(
            (each.context for each in self._dials.values() if each.dial.session == session), None
        )

    def _is_writing(self) -> bool:
        """Whether a session still has something to deliver, or to hear of it."""
        busy = (SessionState.LIVE, SessionState.DRAINING)
        return any(
            session.state in busy for session in self.core.status(self._clocks.now()).sessions
        )

    def _is_ours(self) -> bool:
        """Return whether this is the process that the sessions belong to; if not, drop them without a word."""
        pid = os.getpid()
        if pid == self._owner:
            return True
        self.core.check_owner(pid)
        for stream in self._streams.values():
            stream.orphan(partial(error_of, _NOT_OURS))
        self._streams.clear()
        self._dials.clear()
        return False
