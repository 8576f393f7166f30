"""Who takes part: entrants, the guests behind them, and who still uses one that was replaced."""

from __future__ import annotations

import abc
import contextvars
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import anyio

from racer._report import describe
from racer.abc import Guest, RequestTransport, Traits, Transport, check_delay, check_tier
from racer.errors import (
    ConfigError,
    ErrorType,
    Stage,
    TransportBusy,
    TransportCrashed,
    TransportError,
    error_type_of,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from racer._host import LoopHost
    from racer._report import Attempt

__all__ = ("Entrant", "Lease", "Lodger", "Place", "Recipe", "Roster", "is_name")

_MAX_FORMER: Final = 1000  # names of entrants that are gone
_CLOSE_LIMIT: Final = 1.0  # seconds a replaced guest may take to close

logger = logging.getLogger("racer.dialer")


@dataclass(frozen=True, slots=True, init=False)
class Entrant:
    """A transport and its place in the race.

    Attributes:
        transport: the guest; the dialer it is given to owns it, and closes it.
        start_delay: seconds after its tier opened that it starts: 0, or at least 0.010 (R5).
        tier: opens when every entrant of the lower tiers has failed (R2).
        name: what it is called in reports, spans and errors.
    """

    transport: Guest
    start_delay: float
    tier: int
    name: str

    def __init__(
        self,
        transport: Guest,
        *,
        start_delay: float | None = None,
        tier: int | None = None,
        name: str | None = None,
    ) -> None:
        """Check; what is `None` is taken from the transport's own traits and name.

        Raises:
            ConfigError: not a transport, or a delay, tier or name that cannot be.
        """
        _check_transport(transport)
        traits = transport.traits
        set_field = object.__setattr__  # the class is frozen for everyone else
        set_field(self, "transport", transport)
        set_field(self, "start_delay", traits.start_delay if start_delay is None else start_delay)
        set_field(self, "tier", traits.tier if tier is None else tier)
        set_field(self, "name", transport.name if name is None else name)
        if not is_name(self.name):
            msg = f"an entrant's name is a text of 1 to 100 characters, not {self.name!r:.120}; all printable, and not only blanks"
            raise ConfigError(msg)
        check_delay(self.start_delay, f"start_delay of {self.name!r}")
        check_tier(self.tier)


class Recipe(abc.ABC):
    """How an entrant is made. A dialer that knows it can tell whether another would make the same.

    Attributes:
        name: the entrant's.
        start_delay: as the entrant's; `None` for the transport's own.
        tier: likewise.
    """

    __slots__ = ()

    name: str
    start_delay: float | None
    tier: int | None

    @abc.abstractmethod
    def make(self) -> Entrant:
        """Return an entrant with a new guest; raises `ConfigError` if that cannot be."""

    @abc.abstractmethod
    def has_guest_like(self, other: Recipe) -> bool:
        """Return whether the guest would be the same."""


def is_name(name: object) -> bool:
    """Return whether a name can stand in a log, on a terminal and in telemetry, which takes no lone surrogates."""
    return type(name) is str and 1 <= len(name) <= 100 and name.isprintable() and not name.isspace()


def _check_transport(transport: object) -> None:
    if isinstance(transport, type) and issubclass(transport, Guest):
        msg = f"{transport.__name__} is the class; the race needs an instance: {transport.__name__}(...)"
        raise ConfigError(msg)
    if not isinstance(transport, Transport | RequestTransport):
        msg = f"{type(transport).__name__} is no transport: it has to subclass racer.abc.Transport or RequestTransport"
        raise ConfigError(msg)
    if not isinstance(getattr(transport, "name", None), str):
        msg = (
            f"transport {type(transport).__name__} has no name: set the attribute 'name' to a text"
        )
        raise ConfigError(msg)
    if not isinstance(transport.traits, Traits):
        msg = f"transport {transport.name!r}: traits must be a racer.abc.Traits, not {type(transport.traits).__name__}"
        raise ConfigError(msg)


class Lodger:
    """One guest as long as anybody needs it: started once, closed after its last use when it was replaced."""

    def __init__(self, guest: Guest, roster: Roster, recipe: Recipe | None = None) -> None:
        """Begin unused."""
        self.guest = guest
        self.recipe = recipe
        self.uses = 0
        self.active = 0
        self._roster = roster
        self.ready = type(guest).start is Guest.start
        self._start: _Start | None = None

    def use(self) -> None:
        """Count a use."""
        self.uses += 1

    def leave(self) -> None:
        """Count a use off; after the last one a guest that was replaced is closed."""
        self.uses -= 1
        self._roster.close_if_unused(self)

    async def be_ready(self, host: LoopHost, name: str) -> None:
        """Return when the guest's `start` has succeeded; it runs in the host, once for all who wait.

        Raises:
            TransportError: it failed; the next call tries again.
        """
        while not self.ready:
            start = self._start or self._begin_start(host, name)
            await start.done.wait()
            if start.error is not None:
                raise _not_started(start.error, name) from start.error

    def _begin_start(self, host: LoopHost, name: str) -> _Start:
        start = _Start()
        self.use()  # of its own: the attempts that wait for it may all leave before it is through
        try:
            host.start_soon(self._run_start, host, start, name=f"{name} start")
        except BaseException:
            self.leave()
            raise
        if not start.done.is_set():
            self._start = start
        return start

    async def _run_start(self, host: LoopHost, start: _Start) -> None:
        start.error = TransportCrashed("its start() ended without an answer", stage=Stage.START)
        try:
            await self.guest.start(host)
        except Exception as exc:  # noqa: BLE001 - it is told to every attempt that waits, and is their failure
            # Without this frame, which holds `start`, and with it the error: a cycle.
            start.error = exc.with_traceback(exc.__traceback__ and exc.__traceback__.tb_next)
        else:
            start.error = None
            self.ready = True
        finally:
            self._start = None
            start.done.set()
            self.leave()


class _Start:
    """One run of a guest's `start`."""

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.error: Exception | None = None


def _not_started(error: Exception, name: str) -> TransportError:
    kind = error_type_of(error)
    failure = TransportCrashed if kind is ErrorType.CRASHED else TransportError
    return failure(
        f"could not start: {describe(error)}", transport=name, stage=Stage.START, error_type=kind
    )


class Tenure:
    """What an entrant keeps as long as it takes part, whatever becomes of its transport, delay or rank.

    Attributes:
        lodger: its guest now.
        active: attempts under way, those that only clean up included.
        last: its last attempt that began.
        has_left: whether it takes no part any more.
    """

    __slots__ = ("active", "has_left", "last", "lodger")

    def __init__(self, lodger: Lodger) -> None:
        """Begin with no attempts."""
        self.lodger = lodger
        self.active = 0
        self.last: Attempt | None = None
        self.has_left = False


class Place:
    """An entrant's place in races: its rank, delay and tier. Races under way keep theirs when a dialer is reconfigured."""

    __slots__ = ("index", "name", "start_delay", "tenure", "tier")

    def __init__(self, entrant: Entrant, index: int, tenure: Tenure) -> None:
        """Take rank, delay and tier from `entrant`; the guest is the tenure's."""
        self.name = entrant.name
        self.index = index
        self.start_delay = entrant.start_delay
        self.tier = entrant.tier
        self.tenure = tenure

    @property
    def lodger(self) -> Lodger:
        """The guest that is here now."""
        return self.tenure.lodger

    def busy(self) -> TransportBusy | None:
        """Return the error of one attempt too many, when the guest's traits allow no more now."""
        lodger = self.tenure.lodger
        limit = lodger.guest.traits.max_concurrent
        under_way = lodger.active  # its own, and not those that one it replaced has not ended
        if limit is None or under_way < limit:
            return None
        msg = f"{under_way} attempts are under way, and its limit is {limit}"
        return TransportBusy(msg, transport=self.name)


class Lease:
    """One use of a guest, by an attempt and then by the connection that came of it; given back exactly once."""

    __slots__ = ("_held", "lodger")

    def __init__(self, lodger: Lodger) -> None:
        """Count the use."""
        self.lodger = lodger
        self._held = True
        lodger.use()

    def release(self) -> None:
        """Give it back; a second call does nothing."""
        if self._held:
            self._held = False
            self.lodger.leave()


def _entered(one: Entrant | Guest | Recipe) -> tuple[Entrant, Recipe | None]:
    if isinstance(one, Recipe):
        return one.make(), one
    return (one if isinstance(one, Entrant) else Entrant(one)), None


async def _close(lodger: Lodger) -> None:
    with anyio.move_on_after(_CLOSE_LIMIT, shield=True) as scope:
        await lodger.guest.aclose()
    if scope.cancelled_caught:
        logger.warning(
            "transport %r, replaced, did not close within %.1f s", lodger.guest.name, _CLOSE_LIMIT
        )


class Roster:
    """All places of one dialer, in the order listed.

    Raises:
        ConfigError: no entrant, a name twice, or the same transport twice.
    """

    def __init__(self, entrants: Iterable[Entrant | Guest | Recipe]) -> None:
        """Check the list; nothing starts."""
        if isinstance(entrants, str | bytes | Guest) or not isinstance(entrants, Iterable):
            msg = f"a dialer takes a list of transports and Entrants, not {type(entrants).__name__}"
            raise ConfigError(msg)
        self.host: LoopHost | None = None
        """Set by the dialer: where a guest that nobody needs any more is closed."""
        self.generation = 1
        """Grows with every change of who takes part, by what transport, or with which credential."""
        self._places: dict[str, Place] = {}
        self._retired: set[Lodger] = set()
        self._former: tuple[str, ...] = ()
        self._places = self._arranged([_entered(one) for one in entrants])

    def _arranged(self, listed: list[tuple[Entrant, Recipe | None]]) -> dict[str, Place]:
        """Return the places of those who are to take part. Nothing changes yet."""
        if not listed:
            msg = "a dialer needs at least one entrant"
            raise ConfigError(msg)
        names = [entrant.name for entrant, _ in listed]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            msg = f"entrants share a name: {', '.join(map(repr, twice))}; give each its own with Entrant(..., name=...)"
            raise ConfigError(msg)
        if len({id(entrant.transport) for entrant, _ in listed}) != len(listed):
            msg = "one transport is listed twice; each entrant needs an instance of its own"
            raise ConfigError(msg)
        places = {}
        for index, (entrant, recipe) in enumerate(listed):
            old = self._places.get(entrant.name)
            tenure = old.tenure if old else Tenure(Lodger(entrant.transport, self, recipe))
            places[entrant.name] = Place(entrant, index, tenure)
        return places

    def __iter__(self) -> Iterator[Place]:
        """Yield each place, first listed first."""
        return iter(self._places.values())

    def __getitem__(self, name: str) -> Place:
        """Return the place of that name.

        Raises:
            ConfigError: there is none; names those there are.
        """
        try:
            return self._places[name]
        except (KeyError, TypeError):
            from racer._choice import no_such_entrant  # noqa: PLC0415 - only the wrong pay

            raise no_such_entrant(name, self._places) from None

    @property
    def gone(self) -> frozenset[str]:
        """Names of entrants that were taken out lately and are not back."""
        return frozenset(self._former).difference(self._places) if self._former else frozenset()

    def lease(self, place: Place) -> Lease:
        """Return a use of the guest that is in `place` now."""
        return Lease(place.lodger)

    def replace(self, name: str, transport: Guest) -> None:
        """Put `transport` into the place of that name; the old one is closed after its last use.

        Raises:
            ConfigError: no such place, not a transport, or one that is here already.
        """
        place = self[name]
        _check_transport(transport)
        if self._knows(transport):
            msg = "this transport is in the race already; replace takes a new instance"
            raise ConfigError(msg)
        self.generation += 1
        self._exchange(place.tenure, Lodger(transport, self))

    def rearrange(self, recipes: Iterable[Recipe]) -> None:
        """Let those take part whom `recipes` make, and nobody else; all of it or, if one cannot be made, nothing.

        Who would be made the same again, name and guest, stays. A guest whose entrant is gone or made otherwise is closed
        after its last use.

        Raises:
            ConfigError: one cannot be made, a name twice, or none at all.
        """
        listed: list[tuple[Entrant, Recipe | None]] = []
        new: set[str] = set()
        for recipe in recipes:
            lodger = self._places[recipe.name].lodger if recipe.name in self._places else None
            if lodger and lodger.recipe and recipe.has_guest_like(lodger.recipe):
                entrant = Entrant(
                    lodger.guest, start_delay=recipe.start_delay, tier=recipe.tier, name=recipe.name
                )
            else:
                entrant = recipe.make()
                new.add(entrant.name)
                if self._knows(entrant.transport):
                    msg = f"entrant {entrant.name!r}: its transport is in the race already"
                    raise ConfigError(msg)
            listed.append((entrant, recipe))
        places = self._arranged(listed)
        # From here on nothing can fail.
        gone = [place for name, place in self._places.items() if name not in places]
        self._former = (*(place.name for place in gone), *self._former)[:_MAX_FORMER]
        was, self._places = self._places, places
        self.generation += 1
        for entrant, made_of in listed:
            if entrant.name in new and entrant.name in was:
                tenure = places[entrant.name].tenure
                self._exchange(tenure, Lodger(entrant.transport, self, made_of))
        for place in gone:
            place.tenure.has_left = True
            self._retire(place.lodger)

    def _knows(self, transport: Guest) -> bool:
        return any(transport is one.lodger.guest for one in self) or any(
            transport is old.guest for old in self._retired
        )

    def _exchange(self, tenure: Tenure, lodger: Lodger) -> None:
        old, tenure.lodger = tenure.lodger, lodger
        self._retire(old)

    def _retire(self, lodger: Lodger) -> None:
        self._retired.add(lodger)
        self.close_if_unused(lodger)

    @property
    def leaving(self) -> int:
        """How many guests take no part any more, and are still in use."""
        return len(self._retired)

    def close_if_unused(self, lodger: Lodger) -> None:
        """Have a replaced guest closed once its last use is over; before the host lives that waits for its end."""
        if lodger.uses or lodger not in self._retired or self.host is None or not self.host.is_open:
            return
        self._retired.discard(lodger)
        self.host.start_in(contextvars.Context(), _close, lodger, name=f"{lodger.guest.name} close")

    def goodbyes(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return the `aclose` of every guest still here, by name."""
        found: dict[str, Callable[[], Awaitable[None]]] = {
            place.name: place.lodger.guest.aclose for place in self
        }
        for number, lodger in enumerate(self._retired, 1):
            found[f"{lodger.guest.name} (replaced, {number})"] = lodger.guest.aclose
        self._retired.clear()
        return found
