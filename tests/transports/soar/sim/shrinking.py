"""Makes a story that fails smaller."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.transports.soar.sim import quirks as kinds
from tests.transports.soar.sim.link import Weather
from tests.transports.soar.sim.story import Story

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.transports.soar.sim.story import Way

__all__ = ("shrink",)


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
    for size in sorted({count // 2, count // 4, 1} - {0}, reverse=True):
        for start in range(0, count, size):
            yield replace(story, events=story.events[:start] + story.events[start + size :])
    for index in range(len(story.ways)):
        if len(story.ways) > 1:
            yield replace(story, ways=story.ways[:index] + story.ways[index + 1 :])
    for index, way in enumerate(story.ways):
        for calmer in _calmer(way):
            yield replace(story, ways=(*story.ways[:index], calmer, *story.ways[index + 1 :]))
    plain = Story()
    for name in (
        "clients", "zones", "uptime", "skew", "idle_timeout", "grants", "expires", "warm",
    ):  # fmt: skip
        value = getattr(plain, name)
        if getattr(story, name) != value:
            yield replace(story, **{name: value})
    for index, event in enumerate(story.events):
        for plainer in (
            replace(event, octets=event.octets // 10 or 1)
            if event.target.startswith("echo")
            else event,
            replace(event, eager=False),
            replace(event, safe=True),
            replace(event, client=0),
        ):
            if plainer != event:
                events = (*story.events[:index], plainer, *story.events[index + 1 :])
                yield replace(story, events=events)


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
    still = Weather()
    for name in ("loss", "jitter", "duplicate", "corrupt", "rate"):
        if getattr(weather, name) != getattr(still, name):
            yield replace(weather, **{name: getattr(still, name)})
