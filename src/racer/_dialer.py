"""The dialer: owns transports and what they keep, and starts races. It knows no protocol."""

from __future__ import annotations

import logging
import threading
import warnings
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from racer._connection import Connection
from racer._host import LoopHost, current_loop, is_closed_loop
from racer._race import Race
from racer._roster import Entrant, Roster
from racer._spans import Telemetry
from racer._target import Target
from racer._tls import Contexts
from racer.abc import RequestTransport, TransportStatus, check_seconds
from racer.errors import ConfigError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Iterable
    from types import TracebackType
    from typing import Literal, Self

    from anyio.abc import ByteStream
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from racer._report import Attempt
    from racer._roster import Place
    from racer._spans import Redact
    from racer.abc import Guest

    Kind = Literal["stream", "request", "any"]

__all__ = (
    "DEFAULT_TIMEOUT",
    "Dialer",
    "DialerStatus",
    "EntrantStatus",
    "aclose",
    "dial",
    "set_default_dialer",
)

logger = logging.getLogger("racer.dialer")

DEFAULT_TIMEOUT: Final = 80.0
"""Seconds a race may take when nobody says otherwise; stretched to the longest eligible `attempt_timeout` (R4)."""

_KINDS: Final = ("stream", "request", "any")


@dataclass(frozen=True, slots=True, kw_only=True)
class EntrantStatus:
    """One entrant, as it is now.

    Attributes:
        name: the entrant's.
        start_delay, tier: its place in the race.
        active: attempts under way, those that only clean up included.
        last: its last attempt that began; `None` before the first.
        transport: what the guest says of itself: health, sessions.
    """

    name: str
    start_delay: float
    tier: int
    active: int
    last: Attempt | None
    transport: TransportStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class DialerStatus:
    """A dialer, as it is now.

    Attributes:
        entrants: in the order listed.
        races: races under way.
        cleanups: leftovers of decided attempts that are still being closed (R22).
        closed: whether it has ended.
    """

    entrants: tuple[EntrantStatus, ...]
    races: int
    cleanups: int
    closed: bool

    def __getitem__(self, name: str) -> EntrantStatus:
        """Return the entrant of that name; `KeyError` if there is none."""
        for entrant in self.entrants:
            if entrant.name == name:
                return entrant
        raise KeyError(name)


class Dialer:
    """Races transports to a host. Owns them, and closes them at its end.

    May be entered (`async with`) or just used, then closed with `aclose()`; entering and leaving may happen in different
    tasks. Making one touches no event loop; the first use binds it to the running loop and process (R18). Any number of
    dials may run at once.

    Args:
        entrants: who races, first listed preferred; a bare transport stands for `Entrant(transport)`.
        timeout: seconds for a whole race. `None` means 80, stretched to the longest eligible `attempt_timeout`; a number
            is never stretched (R4).
        tracer_provider: where spans go; `None` for the global provider.
        meter_provider: where metrics go; likewise.
        redact: `True` keeps hosts and peers out of spans, metrics and logs; a function is given every attribute's key and
            value and returns what may leave, `None` for nothing (T5).
        max_cleanups: leftovers of decided attempts that may be closing at once; past it the oldest is closed by force.

    Raises:
        ConfigError: says what is wrong with the list or an option.
    """

    def __init__(
        self,
        entrants: Iterable[Entrant | Guest],
        *,
        timeout: float | None = None,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        redact: Redact = False,
        max_cleanups: int = 256,
    ) -> None:
        """Check everything; nothing starts."""
        if timeout is not None:
            check_seconds(timeout, "timeout")
        if not isinstance(redact, bool) and not callable(redact):
            msg = f"redact must be True, False or a function of (key, value), not {redact!r}"
            raise ConfigError(msg)
        if type(max_cleanups) is not int or max_cleanups < 1:
            msg = f"max_cleanups must be a whole number of at least 1, not {max_cleanups!r}"
            raise ConfigError(msg)
        self._roster = Roster(entrants)
        self._timeout = timeout
        self._is_ours = (
            False  # a default dialer that racer made: nobody can be blamed for dropping it
        )
        self._contexts = Contexts()
        self._telemetry = Telemetry(
            tracer_provider=tracer_provider, meter_provider=meter_provider, redact=redact
        )
        self._host = self._roster.host = LoopHost(
            tracer=self._telemetry.tracer,
            meter=self._telemetry.meter,
            max_cleanups=max_cleanups,
            on_cleanup=self._telemetry.cleaned,
            goodbyes=self._roster.goodbyes,
        )

    async def __aenter__(self) -> Self:
        """Bind to the running loop; no task group is opened in the caller's task (R17)."""
        await self._host.ensure()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        """End, as `aclose`; an exception of the body leaves as it was raised."""
        await self.aclose()

    async def dial(
        self,
        host: str | Target,
        port: int | None = None,
        *,
        tls: bool | ssl.SSLContext | None = None,
        alpn: Iterable[str] = (),
        timeout: float | None = None,
        check: Callable[[ByteStream], Awaitable[bool | None]] | None = None,
        only: str | Iterable[str] | None = None,
        exclude: str | Iterable[str] = (),
    ) -> Connection:
        """Return the first usable stream to `host`; the caller closes it.

        Usable means: the transport's own handshake, TLS to the target with certificate and name verified, and `check`
        have all succeeded (R7). Everything else the race opened is closed, behind the scenes.

        Args:
            host: a name or address, which may carry the port (`"example.com:8443"`, `"[2001:db8::1]:22"`), or a `Target`.
            port: where `host` carries none; 443 when neither does.
            tls: `None` means TLS on port 443 and raw elsewhere; an `ssl.SSLContext` is used as it is.
            alpn: protocols to offer in TLS, most wanted first.
            timeout: seconds for the whole race (R4); `None` for the dialer's.
            check: a coroutine that is given the stream and may talk on it; raising, or returning `False`, makes the
                attempt fail as `not_usable`.
            only: names of the entrants that may take part; `None` for all.
            exclude: names of those that may not.

        Raises:
            InvalidTarget, ConfigError: before any IO.
            NoTransports: no entrant serves the target.
            AllAttemptsFailed, DialTimeout: with `.report`, `.group`, `.find()`.
            WrongLoop, DialerClosed: the dialer belongs elsewhere, or has ended.

        Cancelling closes every attempt, and the winner too when it comes in the same instant.
        """
        race = self.race(
            host, port, tls=tls, alpn=alpn, timeout=timeout, check=check, only=only, exclude=exclude
        )
        await self._host.ensure()
        winner = await race.first()
        assert isinstance(winner, Connection)  # a race of kind "stream" has nothing else to give
        return winner

    def race(
        self,
        host: str | Target,
        port: int | None = None,
        *,
        tls: bool | ssl.SSLContext | None = None,
        alpn: Iterable[str] = (),
        timeout: float | None = None,
        check: Callable[[ByteStream], Awaitable[bool | None]] | None = None,
        only: str | Iterable[str] | None = None,
        exclude: str | Iterable[str] = (),
        kind: Kind = "stream",
    ) -> Race:
        """Return the race itself, to be entered; see `Race`.

        Args:
            host: as in `dial`, and so are the others.
            port: likewise.
            tls: likewise.
            alpn: likewise.
            timeout: seconds of waiting; the time a finisher is in the consumer's hands does not count.
            check: likewise, for streams.
            only: likewise.
            exclude: likewise.
            kind: `stream` for byte streams, `request` for routes that take requests, `any` for both.

        Raises:
            InvalidTarget, ConfigError: as in `dial`.
        """
        target = _target_of(host, port, tls, alpn)
        if timeout is not None:
            check_seconds(timeout, "timeout")
        if check is not None and not callable(check):
            msg = f"check must be a coroutine function that is given the stream, not {check!r}"
            raise ConfigError(msg)
        if kind not in _KINDS:
            msg = f"kind must be one of {', '.join(map(repr, _KINDS))}, not {kind!r}"
            raise ConfigError(msg)
        chosen = self._chosen(only, exclude)
        self._host.check()
        places = [(place, _reason_against(place, target, kind, chosen)) for place in self._roster]
        return Race(
            owner=self,
            host=self._host,
            roster=self._roster,
            places=places,
            target=target,
            timeout=self._deadline(timeout, places),
            check=check,
            contexts=self._contexts,
            telemetry=self._telemetry,
        )

    def replace(self, name: str, transport: Guest) -> None:
        """Put another transport into the place of the entrant `name`, from the next attempt on.

        Attempts under way, and connections that came of the old one, keep it; it is closed after the last of them.

        Raises:
            ConfigError: no such entrant, or not a transport.
            WrongLoop, DialerClosed: as in `dial`.
        """
        self._host.check()
        self._roster.replace(name, transport)

    def update_credential(self, name: str, credential: object) -> None:
        """Give the entrant `name` a new credential: no attempt that begins after this call uses the old one.

        Raises:
            ConfigError: no such entrant, or its transport takes no such credential.
            WrongLoop, DialerClosed: as in `dial`.
        """
        self._host.check()
        self._roster[name].lodger.guest.update_credential(credential)

    def status(self) -> DialerStatus:
        """Return what is going on, as frozen data; no IO.

        Raises:
            WrongLoop: bound to another loop; after its end anyone may ask.
        """
        if not self._host.is_ended:
            self._host.check()
        return DialerStatus(
            entrants=tuple(_status_of(place) for place in self._roster),
            races=self._host.races,
            cleanups=len(self._host.cleanups),
            closed=self._host.is_ended,
        )

    async def aclose(self) -> None:
        """End: races under way fail, guests say goodbye, what is being closed is closed; within 3 s whatever they do.

        May be called twice. Connections that were handed out belong to their holders, but those that ride on a guest's
        session end with it.

        Raises:
            WrongLoop: bound to another loop.
        """
        await self._host.aclose()

    def __del__(self) -> None:
        """Warn, and begin the end, when it was dropped open."""
        host = getattr(self, "_host", None)
        if host is not None and host.is_open:
            host.end_from_anywhere()
            if not self._is_ours:
                warnings.warn(
                    f"{self!r} was dropped without aclose()",
                    ResourceWarning,
                    source=self,
                    stacklevel=1,
                )

    def __repr__(self) -> str:
        """Name the entrants."""
        return f"<{type(self).__name__} of {', '.join(place.name for place in self._roster)}>"

    def _deadline(self, timeout: float | None, places: list[tuple[Place, str | None]]) -> float:
        explicit = self._timeout if timeout is None else timeout
        if explicit is not None:
            return explicit
        eligible = [
            place.lodger.guest.traits.attempt_timeout for place, reason in places if reason is None
        ]
        return max([DEFAULT_TIMEOUT, *eligible])

    def _chosen(
        self, only: str | Iterable[str] | None, exclude: str | Iterable[str]
    ) -> frozenset[str]:
        """Return the names that may take part."""
        every = [place.name for place in self._roster]
        wanted = every if only is None else [only] if isinstance(only, str) else list(only)
        unwanted = [exclude] if isinstance(exclude, str) else list(exclude)
        for name in [*wanted, *unwanted]:
            self._roster[name]
        chosen = frozenset(wanted) - frozenset(unwanted)
        if not chosen:
            msg = f"only= and exclude= leave none of {', '.join(map(repr, every))}"
            raise ConfigError(msg)
        return chosen


def _target_of(
    host: str | Target,
    port: int | None,
    tls: bool | ssl.SSLContext | None,  # noqa: FBT001 - handed through from the keyword
    alpn: Iterable[str],
) -> Target:
    if not isinstance(host, Target):
        return Target.parse(host, port, tls=tls, alpn=alpn)
    if port is not None or tls is not None or alpn:
        msg = "a Target says port, tls and alpn itself"
        raise ConfigError(msg)
    return host


def _reason_against(place: Place, target: Target, kind: Kind, chosen: frozenset[str]) -> str | None:
    """Return why an entrant takes no part in a race (R6)."""
    if place.name not in chosen:
        return "left out by the caller"
    guest = place.lodger.guest
    if isinstance(guest, RequestTransport):
        if kind == "stream":
            return "gives responses to requests, not a byte stream"
    elif kind == "request":
        return "gives a byte stream, not responses to requests"
    try:
        reason = guest.serves(target)
    except Exception as exc:
        logger.exception("transport %r failed to say whether it serves a target", place.name)
        return f"its serves() failed: {type(exc).__name__}"
    return None if reason is None else str(reason)


def _status_of(place: Place) -> EntrantStatus:
    try:
        told = place.lodger.guest.status()
    except Exception as exc:
        logger.exception("transport %r failed to tell its status", place.name)
        told = TransportStatus(health=f"its status() failed: {type(exc).__name__}")
    return EntrantStatus(
        name=place.name,
        start_delay=place.start_delay,
        tier=place.tier,
        active=place.active,
        last=place.last,
        transport=told,
    )


# One default dialer for each loop. Hosts end, and so leave, with their loop; what a loop that was closed without ending
# its tasks leaves behind is swept when the next one is made.
_defaults: dict[object, Dialer] = {}
_defaults_lock = threading.Lock()


async def dial(
    host: str | Target,
    port: int | None = None,
    *,
    tls: bool | ssl.SSLContext | None = None,
    timeout: float | None = None,
    check: Callable[[ByteStream], Awaitable[bool | None]] | None = None,
    only: str | Iterable[str] | None = None,
    exclude: str | Iterable[str] = (),
) -> Connection:
    """Return the first usable stream to `host`, by this event loop's default dialer; the caller closes it.

    Args:
        host: a name or address, which may carry the port, or a `racer.abc.Target`.
        port: where `host` carries none; 443 when neither does.
        tls: `None` means TLS on port 443 and raw elsewhere; an `ssl.SSLContext` is used as it is.
        timeout: seconds for the whole race; `None` for 80 (R4).
        check: a coroutine that may demand more of a stream before it counts.
        only: names of the entrants that may take part; `None` for all.
        exclude: names of those that may not.

    Raises:
        InvalidTarget, ConfigError: before any IO; also a configuration file that cannot be used.
        NoTransports: none is installed, or none serves the target.
        AllAttemptsFailed, DialTimeout: with `.report`, `.group`, `.find()`.

    Cancelling closes every attempt.
    """
    target = _target_of(host, port, tls, ())
    return await _default_dialer().dial(
        target, timeout=timeout, check=check, only=only, exclude=exclude
    )


async def aclose() -> None:
    """End this loop's default dialer, if there is one; the next `dial` makes a new one."""
    dialer = _defaults.get(current_loop())
    if dialer is not None:
        await dialer.aclose()


def set_default_dialer(dialer: Dialer | None) -> None:
    """Choose what `racer.dial` uses in the running loop; `None` for the configured one again.

    The dialer that was the default before is not closed: whoever made it does that. One that racer made ends when the
    last of its connections is gone.

    Raises:
        ConfigError: not a dialer.
        WrongLoop, DialerClosed: one that is bound elsewhere, or has ended.
    """
    if dialer is not None and not isinstance(dialer, Dialer):
        msg = f"the default dialer must be a racer.Dialer or None, not {type(dialer).__name__}"
        raise ConfigError(msg)
    loop = current_loop()
    if dialer is None:
        with _defaults_lock:
            _defaults.pop(loop, None)
        return
    dialer._host.check()  # noqa: SLF001 - one file, one story
    _remember(loop, dialer)


def _default_dialer() -> Dialer:
    loop = current_loop()
    dialer = _defaults.get(loop)
    if dialer is not None and not dialer._host.is_foreign:  # noqa: SLF001 - one file, one story
        return dialer
    from racer.config import default_dialer  # noqa: PLC0415 - who brings a dialer never reads a configuration

    dialer = default_dialer()
    dialer._is_ours = True  # noqa: SLF001 - one file, one story
    _remember(loop, dialer)
    return dialer


def _remember(loop: object, dialer: Dialer) -> None:
    # Weak: the host, which its keeper keeps alive, must not keep alive the dialer, whose drop ends the host.
    ref = weakref.ref(dialer)

    def forget() -> None:
        with _defaults_lock:
            if _defaults.get(loop) is ref():
                _defaults.pop(loop, None)

    with _defaults_lock:
        for other in [one for one in _defaults if is_closed_loop(one)]:
            del _defaults[other]
        _defaults[loop] = dialer
    dialer._host.on_end = forget  # noqa: SLF001 - one file, one story
