"""Looks for a story that ends badly: `python -m tests.transports.soar.sim.explore --seeds 1000`.

Prints the seed of each that does, and the smallest story made of it that still does.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from typing import TYPE_CHECKING

from tests.transports.soar.sim.shrinking import shrink
from tests.transports.soar.sim.simulation import run_story
from tests.transports.soar.sim.teller import random_story

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.transports.soar.sim.story import Story

__all__ = ("kind_of", "main", "smallest", "verdict")


def verdict(story: Story) -> str:
    """Return what is wrong with how `story` ends, in one line; empty if nothing is."""
    try:
        run_story(story)
    except Exception as exc:
        where = traceback.extract_tb(exc.__traceback__)[-1]
        return f"{type(exc).__name__} in {where.name}: {exc}".replace("\n", " ")[:400]
    return ""


def kind_of(wrong: str) -> str:
    """Return what tells one fault from another: the kind of error, and where it was noticed."""
    return wrong.split(":", maxsplit=1)[0]


def smallest(story: Story, *, tries: int = 400) -> Story:
    """Return the smallest story made of `story` that goes wrong in the same way."""
    kind = kind_of(verdict(story))
    assert kind, "nothing is wrong with it"
    return shrink(story, lambda each: kind_of(verdict(each)) == kind, tries=tries)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first of them")
    parser.add_argument("--as-is", action="store_true", help="do not make them smaller")
    given = parser.parse_args(arguments)
    begun = time.perf_counter()
    virtual = 0.0
    bad = 0
    for seed in range(given.first, given.first + given.seeds):
        story = random_story(seed)
        wrong = verdict(story)
        virtual += story.end + 70
        if not wrong:
            continue
        bad += 1
        print(f"seed {seed}: {wrong}", flush=True)  # noqa: T201
        if not given.as_is:
            small = smallest(story)
            print(f"  {small!r}\n  {verdict(small)}", flush=True)  # noqa: T201
    took = time.perf_counter() - begun
    print(f"{given.seeds} stories, {virtual / 3600:.1f} virtual hours, {bad} bad, {took:.0f} s")  # noqa: T201
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
