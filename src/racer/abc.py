"""The contract between racer and its guests: what a transport is given, gives back, and declares about itself.

A guest subclasses `Transport` (it gives byte streams) or `RequestTransport` (it gives responses to requests), sets
`name`, and writes one coroutine. Everything else has a default.
"""

from __future__ import annotations

import abc
import enum
import importlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeGuard, TypeVar, TypeVarTuple

from racer._target import Target
from racer._words import shown
from racer.errors import ConfigError, Stage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from anyio.abc import ByteStream, UnreliableObjectStream
    from opentelemetry.metrics import Meter
    from opentelemetry.trace import SpanContext, Tracer

    from racer._finding import Finding, Verdict
    from racer._guest_status import SessionStatus, TransportStatus
    from racer._making import Factory, MakeContext, unknown_key
    from racer._network_id import network_id
    from racer._origin import Origin
    from racer._report import Attempt, Outcome

__all__ = (
    "TLS",
    "Attempt",
    "AttributeValue",
    "DialTCP",
    "DialUDP",
    "Factory",
    "Finding",
    "Guest",
    "Host",
    "MakeContext",
    "Origin",
    "Outcome",
    "Progress",
    "RequestRoute",
    "RequestTransport",
    "SessionStatus",
    "SessionTrace",
    "Stage",
    "Target",
    "Traits",
    "Transport",
    "TransportStatus",
    "Verdict",
    "check_delay",
    "check_seconds",
    "check_tier",
    "network_id",
    "unknown_key",
)

_Args = TypeVarTuple("_Args")
_Request_contra = TypeVar("_Request_contra", contravariant=True)
_Response_co = TypeVar("_Response_co", covariant=True)

AttributeValue = str | bool | int | float
"""What a span event's attribute may be."""

MIN_DELAY = 0.010  # RFC 8305 §5: a shorter stagger MUST NOT be used


class TLS(enum.Enum):
    """Who speaks TLS to the target when the target wants it."""

    DRIVER = "driver"
    """racer wraps the guest's stream, and verifies."""
    OWN = "own"
    """The guest does, with the caller's own context where `Target.tls` is one; racer demands to see it on the stream
    (`anyio.streams.tls.TLSAttribute`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What a guest declares about itself; nothing is guessed from its methods.

    Attributes:
        start_delay: seconds after its tier opened that it starts, unless an entrant says otherwise; 0, or at least
            0.010 (R5).
        tier: 0 or more; a tier opens when every entrant of the lower ones has failed (R2).
        attempt_timeout: seconds one attempt may take, finite; the race's default deadline is never shorter.
        tls: who speaks TLS to the target.
        max_request_bytes: for request transports, the largest request with its headers; `None` for no limit.
        streaming: whether a response can arrive bit by bit.
        max_concurrent: attempts under way at once; one more fails with `TransportBusy`. `None` for no limit.
    """

    start_delay: float = 0.0
    tier: int = 0
    attempt_timeout: float = 30.0
    tls: TLS = TLS.DRIVER
    max_request_bytes: int | None = None
    streaming: bool = True
    max_concurrent: int | None = None

    def __post_init__(self) -> None:
        """Refuse what no race could obey."""
        check_delay(self.start_delay, "start_delay")
        check_tier(self.tier)
        check_seconds(self.attempt_timeout, "attempt_timeout")
        if not isinstance(self.tls, TLS):
            msg = f"tls must be a racer.abc.TLS, not {shown(self.tls)}"
            raise ConfigError(msg)
        if not isinstance(self.streaming, bool):
            msg = f"streaming must be True or False, not {shown(self.streaming)}"
            raise ConfigError(msg)
        for name in ("max_request_bytes", "max_concurrent"):
            limit = getattr(self, name)
            if limit is not None and (not _is_whole(limit) or limit < 1):
                msg = f"{name} must be None or a whole number of at least 1, not {shown(limit)}"
                raise ConfigError(msg)


def check_delay(value: object, name: str) -> None:
    """Raise `ConfigError` unless `value` is a delay a race can keep: 0, or 10 ms and more, finite (R5)."""
    seconds = _finite(value)
    if seconds is None:
        msg = f"{name} must be a finite number of seconds, not {shown(value)}"
        raise ConfigError(msg)
    if seconds != 0 and seconds < MIN_DELAY:
        msg = f"{name}={shown(value)}: a delay is 0 or at least {MIN_DELAY} s (RFC 8305 §5)"
        raise ConfigError(msg)


def check_tier(value: object) -> None:
    """Raise `ConfigError` unless `value` is a whole number of at least 0."""
    if not _is_whole(value) or value < 0:
        msg = f"tier must be a whole number of at least 0, not {shown(value)}"
        raise ConfigError(msg)


def check_seconds(value: object, name: str) -> None:
    """Raise `ConfigError` unless `value` is a finite, positive number of seconds."""
    seconds = _finite(value)
    if seconds is None or seconds <= 0:
        msg = f"{name} must be a finite, positive number of seconds, not {shown(value)}"
        raise ConfigError(msg)


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _finite(value: object) -> float | None:
    """Return `value` as a float if it is a finite number, else `None`."""
    if not _is_whole(value) and not isinstance(value, float):
        return None
    try:
        seconds = float(value)
    except OverflowError:  # an int beyond every float
        return None
    return seconds if math.isfinite(seconds) else None


class Progress:
    """What an attempt tells of itself while it runs; every call is synchronous and cheap.

    This base class listens to nothing, so that a guest can be driven without a race.
    """

    __slots__ = ()

    def stage(self, stage: Stage) -> None:
        """Say how far the attempt has come; the last stage told is the one it failed in."""

    def peer(self, address: str, port: int | None = None, *, network: str = "tcp") -> None:
        """Say who is really talked to: an IP address and port, and `tcp`, `udp` or another `network.transport`."""

    def session(self, *, reused: bool, link: SpanContext | None = None) -> None:
        """Say that the stream rides on a session, whether it existed before, and the session's own span (T3)."""

    def event(self, name: str, attributes: Mapping[str, AttributeValue] | None = None) -> None:
        """Put a named moment on the attempt's span. Hosts and peers belong into attributes, never into the name."""


class SessionTrace:
    """A session's own span and its place in the metrics (T3, T4). This base class keeps neither."""

    __slots__ = ()

    @property
    def context(self) -> SpanContext | None:
        """What `Progress.session` takes as its link; `None` where nothing is traced."""
        return None

    def event(self, name: str, attributes: Mapping[str, AttributeValue] | None = None) -> None:
        """Put a moment of the session's life on its span: handshake, retired, lost, ended, re-handshaken."""

    def end(self, reason: str, *, failed: bool = False) -> None:
        """End the span and count the session out; once, later calls do nothing.

        Args:
            reason: why, one of a guest's few words (`retired`, `lost`, `ended`, `closed`): it is a metric's attribute.
            failed: whether that was an error of the session, and not its proper end.
        """


class Host(abc.ABC):
    """Where a guest's long-lived tasks live: it outlasts every dial, and ends with the dialer."""

    @property
    @abc.abstractmethod
    def tracer(self) -> Tracer:
        """The dialer's tracer, for sessions' own spans."""

    @property
    @abc.abstractmethod
    def meter(self) -> Meter:
        """The dialer's meter."""

    def open_session(
        self, transport: str, attributes: Mapping[str, AttributeValue] | None = None
    ) -> SessionTrace:
        """Return the trace of a session that begins now, linked with the attempt it is called in; who called ends it.

        Args:
            transport: the guest's name.
            attributes: of its span.
        """
        del transport, attributes
        return SessionTrace()

    @abc.abstractmethod
    def start_soon(self, fn: Callable[[*_Args], Awaitable[Any]], *args: *_Args, name: str) -> None:
        """Start a long-lived task, in an empty context (R21).

        It is cancelled when the dialer ends; a goodbye belongs into its `finally`, synchronous or shielded and
        bounded (R19). An `Exception` it lets out is logged and ends nothing else (R20).

        Args:
            fn: the coroutine function to run.
            *args: its arguments.
            name: for logs and debuggers; no host, no secret.

        Raises:
            DialerClosed: the host has ended.
        """


class DialTCP(Protocol):
    """A hook that makes the TCP connections of a guest, so that an app can route around its own VPN."""

    async def __call__(self, address: str, port: int) -> ByteStream:
        """Return a connected stream to an IP address; the guest closes it.

        Raises:
            OSError: the connection could not be made.
        """


class DialUDP(Protocol):
    """A hook that makes the UDP sockets of a guest, for the same reason."""

    async def __call__(self, address: str, port: int) -> UnreliableObjectStream[bytes]:
        """Return a stream of datagrams to and from an IP address and port alone; the guest closes it.

        Raises:
            OSError: there is no way to that address.
        """


class Guest(abc.ABC):
    """What both kinds of transport share. `name` has to be set; the rest has defaults."""

    name: str
    traits: Traits = Traits()

    def serves(self, target: Target) -> str | None:
        """Return why this target cannot be served, or `None` when it can; no IO (R6)."""
        del target
        return None

    async def start(self, host: Host) -> None:
        """Get ready, once, before the first attempt. Long-lived tasks go to `host.start_soon`.

        The call itself runs in the host: a dial that is cancelled does not cancel it. An error fails the attempts that
        waited for it, and the next attempt tries again.
        """

    def observe(self, attempt: Attempt) -> None:
        """Learn how an attempt of yours ended, also after `connect` had returned (TLS, `check`).

        Called once at the verdict, for every attempt that began; not for `lost_race` or `cancelled`, which say nothing
        about the transport (R11). Synchronous and quick; an error it raises is logged.
        """

    def status(self) -> TransportStatus:
        """Return what `Dialer.status()` shows about this guest; synchronous, no IO."""
        from racer._guest_status import TransportStatus  # noqa: PLC0415 - no dial waits for it

        return TransportStatus()

    async def diagnose(self) -> Sequence[Finding]:
        """Return what the guest's own checks find, for `racer doctor`; by default it has none.

        Called after attempts were made, so that there is something to tell; `start` may not have succeeded. Takes 10 s at
        most, opens nothing that it does not close, and puts no secret into what it returns.
        """
        return ()

    def update_credential(self, credential: object) -> None:
        """Use a new credential from now on: no attempt that begins after this call uses the old one.

        Raises:
            ConfigError: this guest takes no credential (the default), or not such a one.
        """
        del credential
        msg = f"transport {self.name!r} takes no credential"
        raise ConfigError(msg)

    async def aclose(self) -> None:
        """End sessions with a reason and free what is kept; may be called twice, and without `start`.

        What is asked of the guest after it raises, and opens nothing.
        """


class Transport(Guest):
    """A guest that gives byte streams."""

    @abc.abstractmethod
    async def connect(self, target: Target, progress: Progress) -> ByteStream:
        """Return a stream to `target` that carries bytes both ways; who called closes it.

        With `traits.tls` left at `DRIVER` the stream is raw and racer wraps it; with `OWN` it is already TLS when
        `target.tls` says so. Runs beside other calls of itself. Cancellation closes all it opened, within a second.

        Raises:
            OSError, TransportError: why not. Anything else counts as a bug in the guest (R15).
        """


class RequestRoute(Protocol[_Request_contra, _Response_co]):
    """A connected way for requests to one origin."""

    async def handle(self, request: _Request_contra) -> _Response_co:
        """Return the response to `request`; its body is the caller's to close."""

    async def aclose(self) -> None:
        """Free the route; may be called twice."""


class RequestTransport(Guest):
    """A guest that gives responses to requests, and no byte stream; `dial` sees it as `ineligible`."""

    @abc.abstractmethod
    async def prepare(self, origin: Origin) -> RequestRoute[Any, Any]:
        """Return a connected route to `origin`; who called closes it. Cancellation as in `Transport.connect`.

        Raises:
            OSError, TransportError: why not.
        """


# What no dial needs. A program that is started for one waits for every class that is made.
_HOMES: Final = {
    "Attempt": "racer._report",
    "Factory": "racer._making",
    "Finding": "racer._finding",
    "MakeContext": "racer._making",
    "Origin": "racer._origin",
    "Outcome": "racer._report",
    "SessionStatus": "racer._guest_status",
    "TransportStatus": "racer._guest_status",
    "Verdict": "racer._finding",
    "network_id": "racer._network_id",
    "unknown_key": "racer._making",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        found = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
        return found
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})  # for who explores: also what was not loaded yet
