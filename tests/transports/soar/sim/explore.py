"""Looks for a story that ends badly: `python -m tests.transports.soar.sim.explore --seeds 1000`.

Prints the seed of each that does, and the smallest story made of it that still does.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from typing import TYPE_CHECKING

from tests.transports.soar.sim.simulation import run_story
from tests.transports.soar.sim.story import random_story, shrink

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.transports.soar.sim.story import Story

__all__ = ("explore", "main", "verdict")


def verdict(story: Story) -> str:
    """Return what is wrong with how `story` ends, in one line; empty if nothing is."""
    try:
        run_story(story)
    except Exception as exc:
        where = traceback.extract_tb(exc.__traceback__)[-1]
        return f"{type(exc).__name__} in {where.name}: {exc}"[:300]
    return ""


def explore(seeds: Sequence[int], *, small: bool = True) -> list[tuple[int, str, Story]]:
    """Return (seed, what is wrong, smallest story) for each of `seeds` whose story ends badly."""
    found = []
    for seed in seeds:
        story = random_story(seed)
        wrong = verdict(story)
        if wrong:
            kind = wrong.split(":")[0]
            if small:
                story = shrink(story, lambda each, kind=kind: verdict(each).startswith(kind))  # type: ignore[misc]
            found.append((seed, wrong, story))
    return found


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
        virtual += max(event.at for event in story.events) + 61
        if not wrong:
            continue
        bad += 1
        print(f"seed {seed}: {wrong}", flush=True)  # noqa: T201
        if not given.as_is:
            ((_, _, smallest),) = explore([seed])
            print(f"  {smallest!s}\n  {verdict(smallest)}", flush=True)  # noqa: T201
    took = time.perf_counter() - begun
    print(f"{given.seeds} stories, {virtual / 3600:.1f} virtual hours, {bad} bad, {took:.0f} s")  # noqa: T201
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
