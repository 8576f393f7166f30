"""A coroutine run under watch: each time it suspends, and each time it is about to go on."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from racer.testing._whereabouts import whereabouts

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator

__all__ = ("MAX_SUSPENSIONS", "Abandoned", "Probe", "Watcher")

MAX_SUSPENSIONS = 10_000
"""How often a watched coroutine may suspend before it is said to go on for ever."""

_LAST_WORDS = 100  # suspensions granted to an abandoned coroutine for its cleanup


class Abandoned(Exception):
    """Thrown into a coroutine that does not end, so that the test run can."""


class Watcher(Protocol):
    """Who is told, synchronously, inside the coroutine's own task."""

    def suspended(self, index: int, trap: object) -> None:
        """The coroutine suspends for the `index`-th time, and `trap` is about to be given to the loop."""

    def resumed(self, index: int) -> None:
        """What it waited for has happened, and its own code is about to run."""

    def thrown(self, exc: BaseException) -> None:
        """The loop throws `exc` into it instead."""


class Probe:
    """An awaitable that runs a coroutine to its end, whatever the event loop.

    Attributes:
        suspensions: How often the coroutine has suspended.
        returned: Whether it has ended without an exception.
        endless: Whether it was abandoned for suspending more than `MAX_SUSPENSIONS` times.
        trap: What it has given to the loop, while it is suspended.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, object], watcher: Watcher) -> None:
        """Prepare to run `coroutine`; nothing of it runs yet."""
        self.suspensions = 0
        self.returned = False
        self.endless = False
        self.trap: object = None
        self._coroutine = coroutine
        self._watcher = watcher

    def whereabouts(self) -> str:
        """Return where the coroutine is suspended, in words."""
        return whereabouts(self._coroutine)

    def __await__(self) -> Generator[Any, Any, None]:
        """Run the coroutine; what it yields, is sent and has thrown into it passes through unchanged."""
        proceed: Callable[[], object] = partial(self._coroutine.send, None)
        while True:
            try:
                self.trap = proceed()
            except StopIteration:
                self.returned = True
                return
            index = self.suspensions
            self.suspensions += 1
            if self.suspensions == MAX_SUSPENSIONS:
                self.endless = True
            if self.suspensions > MAX_SUSPENSIONS + _LAST_WORDS:
                self._coroutine.close()  # raises if the coroutine ignores even this
                return
            self._watcher.suspended(index, self.trap)
            try:
                value = yield self.trap
            except BaseException as exc:  # noqa: BLE001 - thrown on into the coroutine
                self._watcher.thrown(exc)
                proceed = partial(self._coroutine.throw, exc)
            else:
                proceed = self._resume(index, value)

    def _resume(self, index: int, value: Any) -> Callable[[], object]:  # noqa: ANN401
        if self.suspensions == MAX_SUSPENSIONS:
            return partial(self._coroutine.throw, Abandoned("suspended without end"))
        # Trio throws nothing: it sends an outcome, which the innermost frame unpacks.
        error = getattr(value, "error", None)
        if isinstance(error, BaseException):
            self._watcher.thrown(error)
        else:
            self._watcher.resumed(index)
        return partial(self._coroutine.send, value)
