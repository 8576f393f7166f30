"""The dialer: owns transports and what they keep, and starts races. It knows no protocol."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping
from inspect import iscoroutine
from typing import TYPE_CHECKING, Final

from racer._connection import Connection
from racer._host import LoopHost
from racer._logs import log_error
from racer._race import Race
from racer._roster import Entrant, Roster
from racer._sessions import Sessions
from racer._spans import Telemetry
from racer._target import Target
from racer._tls import Contexts
from racer.abc import RequestTransport, check_seconds
from racer.errors import ConfigError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Iterable
    from types import TracebackType
    from typing import Literal, Self

    from anyio.abc import ByteStream
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from racer._memory import Memory
    from racer._roster import Place, Recipe
    from racer._spans import Redact
    from racer._status import DialerStatus
    from racer.abc import Guest
    from racer.config import Configuration

    Kind = Literal["stream", "request", "any"]

__all__ = (
    "DEFAULT_TIMEOUT",
    "Dialer",
    "target_of",
)

logger = logging.getLogger("racer.dialer")

DEFAULT_TIMEOUT: Final = 80.0
"""Seconds a race may take when nobody says otherwise; stretched to the longest eligible `attempt_timeout` (R4)."""

_KINDS: Final = ("stream", "request", "any")


class Dialer:
    """Races transports to a host. Owns them, and closes them at its end.

    May be entered (`async with`) or just used, then closed with `aclose()`; entering and leaving may happen in different
    tasks. Making one touches no event loop; the first use binds it to the running loop and process (R18). Any number of
    dials may run at once.

    Args:
        entrants: who races, first listed preferred; a bare transport stands for `Entrant(transport)`, an entry of a
            `racer.config.Configuration` for what it makes.
        timeout: seconds for a whole race. `None` means 80, stretched to the longest eligible `attempt_timeout`; a number
            is never stretched (R4).
        tracer_provider: where spans go; `None` for the global provider.
        meter_provider: where metrics go; likewise.
        redact: `True` keeps hosts and peers out of spans, metrics and logs; a function is given every attribute's key and
            value and returns what may leave, `None` for nothing (T5).
        memory: puts the entrant first that won last for a target; `None` to remember nothing. It may be shared.
        max_cleanups: leftovers of decided attempts that may be closing at once; past it the oldest is closed by force.

    Raises:
        ConfigError: says what is wrong with the list or an option.
    """

    def __init__(
        self,
        entrants: Iterable[Entrant | Guest | Recipe],
        *,
        timeout: float | None = None,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        redact: Redact = False,
        memory: Memory | None = None,
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
        if memory is not None:
            _check_memory(memory)
        _check_provider(tracer_provider, "tracer_provider", "get_tracer")
        _check_provider(meter_provider, "meter_provider", "get_meter")
        self._roster = Roster(entrants)
        self._timeout = timeout
        self._memory = memory
        self._is_ours = (
            False  # a default dialer that racer made: nobody can be blamed for dropping it
        )
        self._contexts = Contexts()
        self._telemetry = Telemetry(
            tracer_provider=tracer_provider, meter_provider=meter_provider, redact=redact
        )
        self._host = self._roster.host = LoopHost(
            tracer=self._telemetry.guest_tracer,
            meter=self._telemetry.meter,
            sessions=Sessions(
                tracer=self._telemetry.guest_tracer,
                meter=self._telemetry.meter,
                shown=self._telemetry.shown,
            ),
            max_cleanups=max_cleanups,
            on_cleanup=self._telemetry.cleaned,
            goodbyes=_goodbyes_of(self._roster, memory),
            redacted=self._telemetry.is_redacting,
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
            check: a coroutine function that is given the stream and may talk on it; raising, or returning `False`, makes
                the attempt fail as `not_usable`, or for the reason that a `TransportError` of its own gives.
            only: names of the entrants that may take part; `None` for all.
            exclude: names of those that may not; a mapping gives each its reason, which the report shows.

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
        if not self._host.is_open:  # else `race` has just checked that this is its place
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
        target = target_of(host, port, tls, alpn)
        if timeout is not None:
            check_seconds(timeout, "timeout")
        if check is not None and not callable(check):
            msg = f"check must be a coroutine function that is given the stream, not {check!r}"
            raise ConfigError(msg)
        if kind not in _KINDS:
            msg = f"kind must be one of {', '.join(map(repr, _KINDS))}, not {kind!r}"
            raise ConfigError(msg)
        chosen = self._chosen(only, exclude)
        why: Mapping[str, str] = exclude if isinstance(exclude, Mapping) else {}
        self._host.check()

        def reason_against(place: Place) -> str | None:
            if chosen is not None and place.name not in chosen:
                return why.get(place.name, "left out by the caller")
            return self._reason_against(place, target, kind)

        places = [(place, reason_against(place)) for place in self._roster]
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
            reason_against=reason_against,
            memory=self._memory,
        )

    def eligible(self, target: Target, *, kind: Kind = "stream") -> dict[str, Guest]:
        """Return the guests that would take part in such a race now, by name, in the order listed; no IO (R6)."""
        return {
            place.name: place.lodger.guest
            for place in self._roster
            if self._reason_against(place, target, kind) is None
        }

    @property
    def gone(self) -> frozenset[str]:
        """Names of entrants that `reconfigure` took out: their connections may go on, and nothing new should go by them."""
        return self._roster.gone

    @property
    def host(self) -> LoopHost:
        """Where a long-lived task may live that is to end with the dialer; it runs after the first use."""
        return self._host

    def replace(self, name: str, transport: Guest) -> None:
        """Put another transport into the place of the entrant `name`, from the next attempt on.

        Attempts under way, and connections that came of the old one, keep it; it is closed after the last of them. In
        races under way an attempt by the new one fails as `not_usable` if it does not serve what they are about.

        Raises:
            ConfigError: no such entrant, or not a transport.
            WrongLoop, DialerClosed: as in `dial`.
        """
        self._host.check()
        self._roster.replace(name, transport)

    def reconfigure(self, configuration: Configuration) -> None:
        """Let those take part whom `configuration` lists, as it lists them; no connection is dropped.

        What becomes of an entrant goes by its name. Where transport and options are equal to what made its guest, the
        guest stays, with its sessions and whatever credential it was given since. Where they differ it is replaced, as
        `replace` does. Who is new joins the next race. Who is no longer listed starts no attempt any more, not in races
        under way either, where it becomes `ineligible`; its attempts and connections go on, and its guest is closed after
        the last of them. Races under way keep their delays, tiers and time limit.

        Either all of this happens or, with an error, none of it. Guests are made here unless `racer.config.read` has just
        made them; some read files for that, which takes its time on the event loop (`racer.config.reload` reads elsewhere).

        Memory, providers and hooks stay as they are.

        Raises:
            ConfigError: a transport cannot be made, or `redact` differs: guests go by what it was when they were made.
            WrongLoop, DialerClosed: as in `dial`.
        """
        self._host.check()
        if not callable(self._telemetry.redact) and self._telemetry.redact != configuration.redact:
            msg = "redact cannot change while a dialer lives; close it, and make another"
            raise ConfigError(msg)
        self._roster.rearrange(configuration.entrants)
        self._timeout = configuration.timeout

    def update_credential(self, name: str, credential: object) -> None:
        """Give the entrant `name` a new credential: no attempt that begins after this call uses the old one.

        Raises:
            ConfigError: no such entrant, or its transport takes no such credential.
            WrongLoop, DialerClosed: as in `dial`.
        """
        self._host.check()
        self._roster[name].lodger.guest.update_credential(credential)
        self._roster.generation += 1

    def status(self) -> DialerStatus:
        """Return what is going on, as frozen data; no IO.

        Raises:
            WrongLoop: bound to another loop; after its end anyone may ask.
        """
        from racer._status import DialerStatus, status_of  # noqa: PLC0415 - no dial waits for it

        if not self._host.is_ended:
            self._host.check()
        return DialerStatus(
            entrants=tuple(
                status_of(place, redacted=self._telemetry.is_redacting) for place in self._roster
            ),
            races=self._host.races,
            cleanups=len(self._host.cleanups),
            closed=self._host.is_ended,
            generation=self._roster.generation,
            leaving=self._roster.leaving,
        )

    @property
    def is_usable(self) -> bool:
        """Whether it can still serve: it has not ended, and this is not a forked child of the process it serves."""
        return not self._host.is_foreign

    def use_as_default(self, on_end: Callable[[], None], *, quiet: bool) -> None:
        """Be a loop's default: call `on_end` at the end, and with `quiet` blame nobody for being dropped."""
        self._host.bind()  # now, so that the loop's end reaches it even if nobody ever dials
        self._host.on_end = on_end
        self._is_ours = quiet

    async def aclose(self) -> None:
        """End: races under way fail, guests say goodbye, what is being closed is closed; within 3 s whatever they do.

        May be called twice. Connections that were handed out belong to their holders, but those that ride on a guest's
        session end with it. From within an attempt, a `check` or a guest's task it only begins the end, of which they
        are a part.

        Raises:
            WrongLoop: bound to another loop.
        """
        await self._host.aclose()

    def __del__(self) -> None:
        """Warn, and begin the end, when it was dropped open; a forked child cannot close it and is not blamed."""
        host = getattr(self, "_host", None)
        if host is not None and host.is_unclosed:
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

    def _reason_against(self, place: Place, target: Target, kind: Kind) -> str | None:
        """Return why an entrant takes no part in a race (R6)."""
        guest = place.lodger.guest
        if isinstance(guest, RequestTransport):
            if kind == "stream":
                return "gives responses to requests, not a byte stream"
        elif kind == "request":
            return "gives a byte stream, not responses to requests"
        try:
            reason: object = guest.serves(target)
        except Exception as exc:  # noqa: BLE001 - a guest's bug, which hurts no other
            log_error(
                logger,
                logging.ERROR,
                "transport %r failed to say whether it serves a target",
                place.name,
                error=exc,
                redacted=self._telemetry.is_redacting,
            )
            return f"its serves() failed: {type(exc).__name__}"
        if reason is None or isinstance(reason, str):
            return reason
        if iscoroutine(reason):
            reason.close()
        told = f"its serves() returned {type(reason).__name__}, not None or a text"
        logger.error("transport %r: %s", place.name, told)
        return told

    def _chosen(
        self, only: str | Iterable[str] | None, exclude: str | Iterable[str]
    ) -> frozenset[str] | None:
        """Return the names that may take part; `None` for all."""
        if only is None and exclude == ():
            return None
        from racer._choice import choose  # noqa: PLC0415 - most races leave nobody out

        every = [place.name for place in self._roster]
        return choose(every, only, exclude, gone=self._roster.gone)


def _check_memory(memory: object) -> None:
    from racer._memory import Memory  # noqa: PLC0415 - who has one has it loaded

    if not isinstance(memory, Memory):
        msg = f"memory must be a racer.Memory or None, not {type(memory).__name__}"
        raise ConfigError(msg)


def _goodbyes_of(
    roster: Roster, memory: Memory | None
) -> Callable[[], dict[str, Callable[[], Awaitable[None]]]]:
    """Return what gives the goodbyes of all guests, and of the memory, which has things to write."""
    if memory is None:
        return roster.goodbyes
    # A name that no entrant can have: it is not printable.
    return lambda: {**roster.goodbyes(), "the memory\n": memory.flush}


def target_of(
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


def _check_provider(provider: object, what: str, method: str) -> None:
    if provider is not None and not callable(getattr(provider, method, None)):
        msg = f"{what} must be an OpenTelemetry provider or None, not {type(provider).__name__}"
        raise ConfigError(msg)
