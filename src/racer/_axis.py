"""Times for people: how one is written, and which ones stand on an axis. Pure."""

from __future__ import annotations

import math

__all__ = ("seconds", "ticks")


def seconds(value: float) -> str:
    """Return a time for people: three digits, in ms below a second."""
    if value < 0.9995:
        return f"{_digits(max(value, 0.0) * 1000)} ms"
    return f"{_digits(value)} s"


def ticks(end: float, width: int) -> list[float]:
    """Return round times from 0 to `end`, as many as have room for their labels in so many columns, two blanks between."""
    if end < 1e-9:  # a clock's own grain
        return [0.0]
    magnitude = 10.0 ** (math.floor(math.log10(end)) - 2)
    for step in (magnitude * factor for factor in (10, 20, 25, 50, 100, 200, 250, 500)):
        times = [index * step for index in range(int(end / step + 1e-9) + 1)]
        if max(len(seconds(time)) for time in times) + 2 <= step / end * (width - 1):
            return times
    return [0.0]


def _digits(value: float) -> str:
    return f"{value:.0f}" if 999.5 <= value < 1e9 else f"{value:.3g}"
