"""Stories made from a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from tests.transports.soar.sim import quirks as kinds
from tests.transports.soar.sim.link import Weather
from tests.transports.soar.sim.story import Event, Story, Way

__all__ = ("random_story",)

RESOLVERS = (kinds.PLAIN, *kinds.ALL, kinds.KNOT_FORWARDER)
FORGED = (
    (),
    (),
    (),
    ("nxdomain", "notice"),
    ("servfail", "refused", "nodata"),
    ("noise", "data", "truncated", "formerr"),
)
TARGETS = ("echo", "echo", "echo", "get", "put", "refuse", "silent", "slow-700", "unreachable")
GAPS = (0.0, 0.01, 0.5, 3.0, 20.0, 100.0, 130.0)

HAPPENINGS = {
    "dial": 12.0,
    "cancel": 2.0,
    "restart": 1.5,
    "doze": 1.0,
    "outage": 1.0,
    "storm": 0.7,
    "shutdown": 0.4,
    "end": 0.7,
    "rotate": 0.4,
    "revoke": 0.2,
    "move": 0.5,
}
SPANS = {  # what begins, what ends it, and after how many seconds at most
    "restart": ("crash", "start", 5.0),
    "doze": ("sleep", "wake", 300.0),
    "outage": ("cut", "mend", 40.0),
    "storm": ("storm", "calm", 30.0),
}


@dataclass(slots=True)
class _Draft:
    events: list[Event] = field(default_factory=list)
    dials: int = 0
    clients: int = 1


def random_story(seed: int) -> Story:
    """Return the story that `seed` tells."""
    dice = random.Random(f"story {seed}")
    draft = _Draft(clients=dice.choice((1, 1, 1, 2)))
    at = 0.0
    for _ in range(dice.randint(2, 14)):
        at += dice.choice(GAPS) * dice.random()
        _happen(dice, draft, at)
    draft.events.sort(key=lambda event: event.at)
    grants = dice.random() < 0.25
    return Story(
        seed=seed,
        ways=tuple(_way(dice) for _ in range(dice.choice((1, 1, 2, 3)))),
        events=tuple(draft.events),
        clients=draft.clients,
        zones=dice.choice((1, 1, 1, 2)),
        uptime=dice.choice((3600.0, 3600.0, 60.0, 0.0)),
        skew=dice.choice((0.0, 0.0, -30.0, 40.0, 500.0)),
        idle_timeout=dice.choice((120.0, 120.0, 10.0, 2.0)),
        grants=grants,
        expires=dice.choice((0.0, 0.0, 60.0)) if grants else 0.0,
        warm=dice.random() < 0.15,
    )


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
    return Way(
        resolver=dice.choice(RESOLVERS),
        near=_weather(dice, far=False),
        far=_weather(dice, far=True),
        forged=dice.choice(FORGED),
        share=dice.choice((0.1, 0.5, 1.0)),
    )


def _happen(dice: random.Random, draft: _Draft, at: float) -> None:
    what = dice.choices(tuple(HAPPENINGS), tuple(HAPPENINGS.values()))[0]
    client = dice.randrange(draft.clients)
    if what == "dial" or not draft.dials:
        _dial(dice, draft, at, client)
    elif what == "cancel":
        number = dice.randrange(draft.dials)
        draft.events.append(Event(at=at, what="cancel", number=number, client=client))
    else:
        first, last, longest = SPANS.get(what, (what, "", 0.0))
        number = dice.randrange(3)
        draft.events.append(Event(at=at, what=first, number=number, client=client))
        if last:
            later = at + dice.random() ** 3 * longest
            draft.events.append(Event(at=later, what=last, number=number, client=client))


def _dial(dice: random.Random, draft: _Draft, at: float, client: int) -> None:
    target = dice.choice(TARGETS)
    octets = dice.choice((1, 100, 5_000, 40_000))
    if target in ("get", "put"):
        octets = dice.choice((0 if target == "get" else 1, 700, 20_000, 120_000))
        target = f"{target}-{octets}"
    draft.dials += 1
    draft.events.append(
        Event(
            at=at,
            what="dial",
            target=f"{target}-{draft.dials}.test",
            octets=octets,
            client=client,
            eager=dice.random() < 0.4,
            safe=dice.random() < 0.6,
        )
    )
