"""The client's driver: messages between the core and its carriers, time, and who waits for what."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import anyio

from racer.abc import SessionStatus, Stage, TransportStatus
from transports._net.wakeup import Wakeup
from transports.soar._errors import error_of, reset_error
from transports.soar._stream import SoarStream
from transports.soar.core.client import events as told
from transports.soar.core.client.client import Client
from transports.soar.core.client.dial import DialState
from transports.soar.core.client.states import FINAL, SessionState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from racer.abc import AttributeValue, Host, Progress, SessionTrace
    from racer.errors import TransportError
    from transports.soar._clocks import Clocks
    from transports.soar.carriers.abc import Carrier
    from transports.soar.core.client.dial import Dial
    from transports.soar.core.client.settings import ClientSettings
    from transports.soar.core.client.stream import ClientStream
    from transports.soar.core.crypto.grants import Grant
    from transports.soar.core.streams.targets import Target

__all__ = ("Engine", "Way")

# What a session's end is called in telemetry where it isn't the state itself.
_PROPER_ENDS: Final = frozenset({SessionState.RETIRED, SessionState.CLOSED})


class Way(NamedTuple):
    """A carrier, and what the core has to know of it.

    Attributes:
        carrier: takes questions.
        zone: the index of the zone that is asked for.
        datagram: whether its messages may be lost.
        label: for logs and status; no secret.
    """

    carrier: Carrier
    zone: int
    datagram: bool
    label: str


class _Wait:
    """A dial that somebody waits for."""

    __slots__ = ("dial", "error", "event", "progress")

    def __init__(self, dial: Dial, progress: Progress) -> None:
        self.dial = dial
        self.progress = progress
        self.error: TransportError | None = None
        self.event = anyio.Event()


class Engine:
    """Runs one client core over its carriers; lives in the dialer's host.

    Everything but waiting is synchronous: what comes is given to the core, and what that has to say is sent at once.

    Args:
        name: the transport's, for telemetry.
        settings: of the core.
        ways: one for each path.
        clocks: tell the time.
        entropy: gives random octets.
        attributes: of a stream, from its target.
    """

    def __init__(
        self,
        name: str,
        settings: ClientSettings,
        ways: Sequence[Way],
        *,
        clocks: Clocks,
        entropy: Callable[[int], bytes] = os.urandom,
    ) -> None:
        """Open nothing."""
        self.name = name
        self.core = Client(settings, entropy=entropy, owner=os.getpid())
        self.ways = tuple(ways)
        self.failures: dict[int, str] = {}
        self._clocks = clocks
        self._carriers: dict[int, Carrier] = {}
        for way in self.ways:
            index = self.core.add_path(way.zone, datagram=way.datagram)
            self._carriers[index] = way.carrier
        self._dials: dict[int, _Wait] = {}
        self._streams: dict[int, tuple[ClientStream, SoarStream]] = {}
        self._traces: dict[int, SessionTrace] = {}
        self._host: Host | None = None
        self._timer: Wakeup | None = None
        self._rings_at: float | None = None
        self._is_flushing = False

    # --- life -------------------------------------------------------------------------------

    def start(self, host: Host) -> None:
        """Start the carriers and the clock in `host`.

        Raises:
            DialerClosed: the host has ended.
        """
        self._host = host
        self._timer = Wakeup()
        for index, carrier in self._carriers.items():
            host.start_soon(
                carrier.run,
                partial(self._deliver, index),
                partial(self._failed, index),
                name=f"soar carrier {index}",
            )
        host.start_soon(self._keep_time, self._timer, name="soar clock")

    def close(self) -> None:
        """End all sessions, and say so to the server as far as that takes no wait."""
        self.core.close(self._clocks.now())
        self.flush()

    def update_credential(self, grant: Grant | None) -> None:
        """Show `grant` from now on; no new stream uses an older session (S13)."""
        self.core.update_credential(grant, self._clocks.now())
        self.flush()

    def status(self) -> TransportStatus:
        """Return sessions, newest first, and what is known of each way."""
        status = self.core.status(self._clocks.now())
        details: dict[str, AttributeValue] = {}
        for way, path in zip(self.ways, status.paths, strict=True):
            rtt = "no answer yet" if path.round_trip is None else f"{path.round_trip * 1000:.0f} ms"
            failure = self.failures.get(path.index, "")
            details[way.label] = f"{path.form}, {rtt}, window {path.window}" + (
                failure and f", {failure}"
            )
        dead = [
            way.label for way, path in zip(self.ways, status.paths, strict=True) if path.is_dead
        ]
        return TransportStatus(
            health=f"no answer from {', '.join(dead)}" if dead else "ok",
            sessions=tuple(
                SessionStatus(
                    id=str(session.number),
                    state=session.state.value,
                    streams=session.streams,
                    idle=session.idle,
                )
                for session in reversed(status.sessions)
            ),
            details=details,
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
            wait: whether for the target to be connected. If not, what is written before may be sent twice (SPEC 16.4), and
                a refusal shows when the stream is used.
            attributes: of the stream.

        Raises:
            TransportError: why there is none. Cancelling gives the dial up, and leaves the session.
        """
        self.core.check_owner(os.getpid())
        known = {session.number for session in self.core.status(self._clocks.now()).sessions}
        dial = self.core.dial(target, self._clocks.now(), replay_safe=True)
        pending = _Wait(dial, progress)
        stream = SoarStream(dial.stream, self, attributes)
        self._dials[id(dial)] = pending
        self._streams[id(dial.stream)] = (dial.stream, stream)
        is_kept = False
        try:
            self.flush()
            trace = self._traces.get(dial.session)
            progress.session(
                reused=dial.session in known, link=None if trace is None else trace.context
            )
            progress.stage(Stage.HANDSHAKE)
            if wait or dial.state is not DialState.OPENING:
                await pending.event.wait()
                if pending.error is not None:
                    raise pending.error
            is_kept = True
            return stream
        finally:
            if not is_kept:
                dial.cancel(self._clocks.now())
                stream.abort()
                self._dials.pop(id(dial), None)

    # --- what moves messages ------------------------------------------------------------------

    def flush(self) -> None:
        """Send what the core has to say, and tell everybody what it has told."""
        if self._is_flushing:
            return
        self._is_flushing = True
        try:
            now = self._clocks.now()
            while True:
                self._take_events()
                outgoing = self.core.messages_to_send(now)
                if not outgoing:
                    break
                batches: dict[int, list[bytes]] = {}
                fresh: set[int] = set()
                for path, message, is_fresh in outgoing:
                    batches.setdefault(path, []).append(message)
                    if is_fresh:
                        fresh.add(path)
                for path, messages in batches.items():
                    self._carriers[path].send(messages, fresh=path in fresh)
            self._take_events()
        finally:
            self._is_flushing = False
        due = self.core.next_timeout()
        is_sooner = due is not None and (self._rings_at is None or due < self._rings_at)
        if self._timer is not None and is_sooner:
            self._rings_at = due
            self._timer.set()

    def forget(self, stream: ClientStream) -> None:
        """As `StreamOwner.forget`."""
        self._streams.pop(id(stream), None)

    def _deliver(self, path: int, messages: Sequence[bytes]) -> None:
        now = self._clocks.now()
        receive = self.core.receive_message
        for message in messages:
            receive(path, message, now)
        self.failures.pop(path, None)
        self.flush()

    def _failed(self, path: int, error: Exception) -> None:
        self.failures[path] = type(error).__name__
        self.core.carrier_failed(path, self._clocks.now())
        self.flush()

    async def _keep_time(self, timer: Wakeup) -> None:
        while True:
            self._rings_at = self.core.next_timeout()
            await timer.wait(self._rings_at)
            now = self._clocks.now()
            if self._rings_at is not None and now.awake >= self._rings_at:
                self.core.handle_timeout(now)
                self.flush()

    # --- events -------------------------------------------------------------------------------

    def _take_events(self) -> None:
        while (event := self.core.next_event()) is not None:
            self._take(event)

    def _take(self, event: told.ClientEvent) -> None:
        match event:
            case told.DialOpened(dial=dial):
                self._end_dial(dial, None)
            case told.DialFailed(dial=dial, error=reason):
                self._end_dial(dial, error_of(reason))
            case told.DialRepaired(dial=dial, reason=reason, proven=proven):
                self._repaired(dial, reason.words, proven=proven)
            case told.HandshakeStarted() | told.HandshakeEnded() | told.SessionChanged():
                self._trace(event)
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
        held = self._streams.get(id(event.stream))
        if held is None:
            return
        stream = held[1]
        match event:
            case told.StreamReadable():
                stream.readable()
            case told.StreamWritable():
                stream.writable()
            case told.StreamReset(code=code):
                self._fail_stream(event.stream, reset_error(code))
            case told.StreamStopped(code=code):
                stream.stop(reset_error(code))
            case told.StreamFailed(error=reason):
                self._fail_stream(event.stream, error_of(reason))

    def _fail_stream(self, handle: ClientStream, error: TransportError) -> None:
        if (held := self._streams.pop(id(handle), None)) is not None:
            held[1].fail(error)

    def _end_dial(self, dial: Dial, error: TransportError | None) -> None:
        pending = self._dials.pop(id(dial), None)
        if pending is None:
            return
        pending.error = error
        pending.event.set()
        if error is not None:
            self._fail_stream(dial.stream, error)
        elif (held := self._streams.get(id(dial.stream))) is not None:
            held[1].writable()

    def _repaired(self, dial: Dial, words: str, *, proven: bool) -> None:
        pending = self._dials.get(id(dial))
        if pending is None:
            return
        pending.progress.event(
            "racer.session.replaced", {"racer.reason": words, "racer.proven": proven}
        )
        trace = self._traces.get(dial.session)
        pending.progress.session(reused=False, link=None if trace is None else trace.context)

    def _trace(self, event: told.ClientEvent) -> None:
        match event:
            case told.HandshakeStarted(session=number, is_retry=is_retry):
                if number not in self._traces and self._host is not None:
                    self._traces[number] = self._host.open_session(self.name)
                if is_retry and (trace := self._traces.get(number)) is not None:
                    trace.event("racer.session.retry")
            case told.HandshakeEnded(session=number, error=None):
                if (trace := self._traces.get(number)) is not None:
                    trace.event(
                        "racer.session.handshaken",
                        {
                            "racer.seconds": event.seconds,
                            "racer.waves": event.waves,
                            "racer.form": event.form,
                        },
                    )
            case told.SessionChanged(session=number, after=after, reason=reason):
                self._changed(number, after, reason)
            case _:
                pass

    def _changed(self, number: int, after: SessionState, reason: str) -> None:
        trace = self._traces.get(number)
        if trace is None:
            return
        trace.event(f"racer.session.{after.value}", {"racer.reason": reason})
        if after in FINAL:
            trace.end(after.value, failed=after not in _PROPER_ENDS)
            del self._traces[number]
