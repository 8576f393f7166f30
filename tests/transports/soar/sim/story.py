"""A whole run as data: the network, and what happens in it; made from a seed, and made smaller when it fails."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tests.transports.soar.sim import quirks as kinds
from tests.transports.soar.sim.link import Weather

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.transports.soar.sim.quirks import Quirks

__all__ = ("Event", "Story", "Way", "random_story", "shrink")

RESOLVERS = (kinds.PLAIN, *kinds.ALL)
NEAR, FAR = Weather(delay=0.010), Weather(delay=0.025)


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A resolver and its links.

    Attributes:
        resolver: its kind.
        near, far: the links on its two sides.
        forged: what an injector on the near side says; nothing for no injector.
        share: of the questions that are forged.
    """

    resolver: Quirks = kinds.UNBOUND
    near: Weather = NEAR
    far: Weather = FAR
    forged: tuple[str, ...] = ()
    share: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happens.

    Attributes:
        at: seconds since the start.
        what: `dial`, `cancel`, `crash`, `start`, `sleep`, `wake`, `cut`, `mend`, `shutdown`, `end`, `rotate`, `revoke`.
        target: of a dial.
        octets: that a dial writes (to an echo) or asks for.
        number: of the dial that is cancelled, or of the resolver that is cut.
    """

    at: float
    what: str
    target: str = ""
    octets: int = 0
    number: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """One run.

    Attributes:
        seed: of all dice.
        ways: how the client reaches the server.
        events: in order of time.
        uptime: for how long the server has run when it begins.
        skew: by how much the client's wall clock is wrong.
        idle_timeout, session_idle: of server and client, seconds.
        grants: the server demands one.
        tail: seconds after the last event by which everything must be over.
    """

    seed: int
    ways: tuple[Way, ...] = (Way(),)
    events: tuple[Event, ...] = ()
    uptime: float = 3600.0
    skew: float = 0.0
    idle_timeout: float = 120.0
    session_idle: float = 90.0
    grants: bool = False
    tail: float = 300.0

    def __str__(self) -> str:
        """Return what reproduces it: an expression."""
        return repr(self).replace("Quirks(", "kinds.Quirks(")


@dataclass(slots=True)
class _Draft:
    events: list[Event] = field(default_factory=list)
    dials: int = 0


def _weather(dice: random.Random, *, far: bool) -> Weather:
    rough = dice.random()
    return Weather(
        delay=dice.choice((0.0, 0.005, 0.010, 0.025, 0.090) if far else (0.0, 0.002, 0.010, 0.05)),
        jitter=dice.choice((0.0, 0.0, 0.005, 0.030)),
        loss=dice.choice((0.0, 0.0, 0.01, 0.025, 0.10)) if rough > 0.3 else 0.0,
        duplicate=dice.choice((0.0, 0.0, 0.05)),
        corrupt=dice.choice((0.0, 0.0, 0.0, 0.02)),
        rate=dice.choice((None, None, None, 200_000.0)),
    )


def _way(dice: random.Random) -> Way:
    forged = dice.choice(
        ((), (), (), ("nxdomain",), ("servfail", "refused"), ("noise", "data", "truncated"))
    )
    return Way(
        resolver=dice.choice(RESOLVERS),
        near=_weather(dice, far=False),
        far=_weather(dice, far=True),
        forged=forged,
        share=dice.choice((0.1, 0.5, 1.0)),
    )


TARGETS = ("echo", "echo", "echo", "get", "put", "refuse", "silent", "slow-700")


def random_story(seed: int) -> Story:
    """Return the story that `seed` tells."""
    dice = random.Random(f"story {seed}")
    draft = _Draft()
    for _ in range(dice.randint(2, 14)):
        _happen(dice, draft, dice.choice((0.0, 0.01, 0.5, 3.0, 20.0, 100.0, 130.0)) * dice.random())
    return Story(
        seed=seed,
        ways=tuple(_way(dice) for _ in range(dice.choice((1, 1, 2, 3)))),
        events=tuple(draft.events),
        uptime=dice.choice((3600.0, 3600.0, 30.0, 0.0)),
        skew=dice.choice((0.0, 0.0, -30.0, 40.0, 500.0)),
        idle_timeout=dice.choice((120.0, 120.0, 10.0, 2.0)),
        grants=dice.random() < 0.2,
    )


def _happen(dice: random.Random, draft: _Draft, gap: float) -> None:
    at = (draft.events[-1].at if draft.events else 0.0) + gap
    what = dice.choices(
        ("dial", "cancel", "restart", "doze", "outage", "shutdown", "end", "rotate"),
        (12, 2, 1.5, 1, 1.5, 0.5, 0.7, 0.3),
    )[0]
    if what == "dial" or not draft.dials:
        target = dice.choice(TARGETS)
        octets = dice.choice((1, 100, 5_000, 60_000))
        if target in ("get", "put"):
            octets = dice.choice((0 if target == "get" else 1, 700, 30_000, 300_000))
            target = f"{target}-{octets}"
        target = f"{target}-{draft.dials + 1}.test"
        draft.dials += 1
        draft.events.append(Event(at=at, what="dial", target=target, octets=octets))
    elif what == "cancel":
        draft.events.append(Event(at=at, what="cancel", number=dice.randrange(draft.dials)))
    else:
        first, last, longest = {
            "restart": ("crash", "start", 5.0),
            "doze": ("sleep", "wake", 300.0),
            "outage": ("cut", "mend", 40.0),
        }.get(what, (what, "", 0.0))
        number = dice.randrange(3)
        draft.events.append(Event(at=at, what=first, number=number))
        if last:
            later = at + dice.random() ** 3 * longest
            draft.events.append(Event(at=later, what=last, number=number))


def shrink(story: Story, fails: Callable[[Story], bool], *, tries: int = 400) -> Story:
    """Return the smallest story found that still fails, by leaving things out one after the other."""
    left = tries
    while True:
        for smaller in _smaller(story):
            if left <= 0:
                return story
            left -= 1
            if fails(smaller):
                story = smaller
                break
        else:
            return story


def _smaller(story: Story) -> Iterator[Story]:
    count = len(story.events)
    for size in (count // 2, count // 4, 1):
        for start in range(0, count, max(1, size)):
            if size:
                yield replace(story, events=story.events[:start] + story.events[start + size :])
    for index in range(len(story.ways)):
        if len(story.ways) > 1:
            yield replace(story, ways=story.ways[:index] + story.ways[index + 1 :])
    for index, way in enumerate(story.ways):
        for calmer in _calmer(way):
            yield replace(story, ways=(*story.ways[:index], calmer, *story.ways[index + 1 :]))
    for plainer in (
        replace(story, uptime=3600.0),
        replace(story, skew=0.0),
        replace(story, idle_timeout=120.0),
        replace(story, grants=False),
    ):
        if plainer != story:
            yield plainer
    for index, event in enumerate(story.events):
        if event.octets > 1 and event.target.startswith("echo"):
            less = replace(event, octets=event.octets // 10 or 1)
            yield replace(story, events=(*story.events[:index], less, *story.events[index + 1 :]))


def _calmer(way: Way) -> Iterator[Way]:
    if way.forged:
        yield replace(way, forged=())
    if way.resolver is not kinds.PLAIN:
        yield replace(way, resolver=kinds.PLAIN)
    for near in _calmer_weather(way.near):
        yield replace(way, near=near)
    for far in _calmer_weather(way.far):
        yield replace(way, far=far)


def _calmer_weather(weather: Weather) -> Iterator[Weather]:
    for calmer in (
        replace(weather, loss=0.0),
        replace(weather, jitter=0.0),
        replace(weather, duplicate=0.0),
        replace(weather, corrupt=0.0),
        replace(weather, rate=None),
    ):
        if calmer != weather:
            yield calmer
