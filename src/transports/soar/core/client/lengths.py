"""In which names what is queued goes, and in which, and on which way, what is said again (SPEC 11.6, 12.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from transports.soar.core.client.path import Path

__all__ = ("MOST_SMALL", "class_again", "class_for", "way_again")

_SHORT_ROOM: Final = 14  # octets of frames in a name of one label
_MOST_SHORT: Final = 32  # names of one label that are used up to where a long one would do
_MOST_SHORT_AGAIN: Final = 4
_ALIKE: Final = 1.5  # round trips of the best path that another may take to be as good as it

MOST_SMALL: Final = _SHORT_ROOM * _MOST_SHORT
"""Octets of a message that goes in names of one label, if it can at once."""


def class_for(path: Path, queued: int, flight: int, now: float) -> tuple[int, int]:
    """Return the class of names for `queued` octets, where `flight` questions go out at once; and for how many.

    One label as long as that is the faster way: long names cost many resolvers a second round trip, and one flight of
    short ones takes one.
    """
    up = path.sizes.up
    if not _may_grow(path):
        return up.steps[0], 1
    if queued <= MOST_SMALL:
        flights = 1 if path.has_cheap_long_names else 2
        if queued <= _SHORT_ROOM * flights * flight:
            return up.steps[0], 1
    trial = up.next_trial(now)
    if trial is not None:
        return trial, 1
    left = queued - MOST_SMALL
    return up.current, max(1, left // path.zone.classes[up.current].capacity)


def class_again(path: Path, octets: int, now: float) -> int:
    """Return the class of names for `octets` that others carry already.

    A long one may come a round trip later, but that is sooner than a loss is noticed, and it costs one question.
    """
    up = path.sizes.up
    if octets <= _SHORT_ROOM * _MOST_SHORT_AGAIN or not _may_grow(path):
        return up.steps[0]
    trial = up.next_trial(now)
    return up.current if trial is None else trial


def way_again(ranked: Iterable[Path]) -> Path | None:
    """Return on which of the paths, best first, to say again what went on the first: what is lost there need not be here."""
    paths = [path for path in ranked if not (path.is_doubted or path.is_spare)]
    if len(paths) > 1 and paths[1].polls.srtt <= _ALIKE * paths[0].polls.srtt:
        return paths[1]
    return paths[0] if paths else None


def _may_grow(path: Path) -> bool:
    return path.sizes.has_begun and not path.recovery.probes
