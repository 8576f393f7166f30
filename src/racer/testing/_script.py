"""What a scripted transport does when it is asked to connect, written down as data."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from racer.abc import Progress

__all__ = ("Ending", "Script", "Step", "fails", "hangs", "returns", "returns_none", "wins")


class Ending(enum.Enum):
    """How a step ends, if nobody cancels it."""

    WINS = "wins"
    FAILS = "fails"
    HANGS = "hangs"
    RETURNS = "returns"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one call of `connect` does; made by `wins`, `fails`, `hangs` and `returns`.

    Attributes:
        ending: How it ends.
        after: Seconds from its beginning to that; infinite if it hangs.
        error: What it fails with: an exception, or what makes one.
        value: What it returns.
        stream_options: Keyword arguments of `stream_pair` for the stream it wins.
        ignore_cancel: Seconds for which it goes on after it was cancelled.
        cleanup: Seconds that its cleanup takes, shielded, when it does not win.
        tells: Called with the attempt's progress when it begins.
    """

    ending: Ending
    after: float = 0.0
    error: BaseException | Callable[[], BaseException] | None = None
    value: object = None
    stream_options: Mapping[str, Any] = field(default_factory=dict)
    ignore_cancel: float = 0.0
    cleanup: float = 0.0
    tells: Callable[[Progress], object] | None = None

    def __post_init__(self) -> None:
        """Refuse times that cannot be kept."""
        for name in ("after", "ignore_cancel", "cleanup"):
            seconds = getattr(self, name)
            if not seconds >= 0:
                raise ValueError(f"{name} must be 0 or more seconds, not {seconds!r}")


@dataclass(frozen=True, slots=True)
class Script:
    """Steps for successive calls of `connect`; the last is repeated for every call after it.

    Example:
        The first call fails at once, each later one wins after 0.2 s; if it is cancelled before, its
        cleanup takes one more second::

            fails().then(wins(0.2).slow_cleanup(1.0))
    """

    steps: tuple[Step, ...]

    def then(self, following: Script) -> Script:
        """Return this script with another after it."""
        return Script(self.steps + following.steps)

    def slow_cleanup(self, seconds: float) -> Script:
        """Return the script in which the last step, unless it wins, cleans up for `seconds`, shielded.

        On asyncio a native cancellation still cuts it short, as it does every shield.
        """
        return self._with(cleanup=seconds)

    def ignores_cancel(self, seconds: float = math.inf) -> Script:
        """Return the script in which the last step, when it is cancelled, goes on for up to `seconds`.

        If it comes to its own end in that time, it ends so, and even returns a stream that nobody wants.
        """
        return self._with(ignore_cancel=seconds)

    def tells(self, tell: Callable[[Progress], object]) -> Script:
        """Return the script in which the last step calls `tell` with the attempt's progress as it begins."""
        return self._with(tells=tell)

    def step(self, index: int) -> Step:
        """Return the step for the call of that index, from 0."""
        return self.steps[min(index, len(self.steps) - 1)]

    def _with(self, **changes: Any) -> Script:  # noqa: ANN401 - fields of Step
        return Script((*self.steps[:-1], replace(self.steps[-1], **changes)))


def wins(
    after: float = 0.0,
    *,
    capacity: int | None = None,
    chunk_sizes: Sequence[int] = (),
    close_delay: float = 0.0,
    close_hangs: bool = False,
    attributes: Mapping[Any, object] | None = None,
) -> Script:
    """Return a script that gives a stream `after` so many seconds; the options are those of `stream_pair`."""
    options: dict[str, Any] = {
        "chunk_sizes": chunk_sizes,
        "close_delay": close_delay,
        "close_hangs": close_hangs,
        "attributes": attributes,
    }
    if capacity is not None:
        options["capacity"] = capacity
    return Script((Step(ending=Ending.WINS, after=after, stream_options=options),))


def fails(
    after: float = 0.0,
    error: BaseException | Callable[[], BaseException] = ConnectionRefusedError,
) -> Script:
    """Return a script that raises `error` `after` so many seconds.

    A class or a function gives each call an exception of its own; an exception is raised as it is.
    """
    return Script((Step(ending=Ending.FAILS, after=after, error=error),))


def hangs() -> Script:
    """Return a script that waits until it is cancelled."""
    return Script((Step(ending=Ending.HANGS, after=math.inf),))


def returns(value: object, after: float = 0.0) -> Script:
    """Return a script that gives `value`, whatever it is, `after` so many seconds."""
    return Script((Step(ending=Ending.RETURNS, value=value, after=after),))


def returns_none(after: float = 0.0) -> Script:
    """Return a script that gives None instead of a stream, as buggy transports do."""
    return returns(None, after)
