"""The one thread that exports: spans when a batch has come together or has waited, metrics at an interval.

Nothing that races ever waits for it: spans are left in an outbox, and all that can be slow happens here. The SDK's own batch
processor has the same job, but no bound on a flush, no count of what it drops, and a log line for each drop on the thread
that dials.
"""

from __future__ import annotations

import os
import queue
import threading
import time
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ("Courier", "Line")

_FOREVER: Final = threading.TIMEOUT_MAX


class Line(Protocol):
    """One signal on its way to where it is exported. All but `abandon` happens in the courier's thread."""

    every: float
    """Seconds between two exports."""

    def full(self) -> bool:
        """Return whether enough waits to be exported before its time."""

    def send(self, *, all_of_it: bool) -> bool:
        """Export what waits, one batch at least; return whether nothing failed. Raises nothing."""

    def end(self) -> None:
        """Close what exports."""

    def abandon(self) -> None:
        """Let an export under way fail soon, and begin no other; from any thread."""

    def forked(self) -> None:
        """Forget, in a forked child, what is the parent's."""


@dataclass(slots=True, kw_only=True)
class _Order:
    is_last: bool
    succeeded: bool = False
    done: threading.Event = field(default_factory=threading.Event)


class Courier:
    """Exports for a process, from the first thing there is to the end.

    After a fork the child has a courier of its own, from when it has something to export.

    Args:
        lines: what is exported.
        clock: seconds that never go back.

    Attributes:
        is_idle: whether nothing will be exported any more.
    """

    def __init__(
        self, lines: Sequence[Line], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Take the lines; `start` begins."""
        self._lines = lines
        self._clock = clock
        # A SimpleQueue may be put to from a signal handler that interrupts another put.
        self._orders: queue.SimpleQueue[_Order | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._is_woken = False
        self._is_ended = False
        self.is_idle = False
        if hasattr(os, "register_at_fork"):
            forked = weakref.WeakMethod(self._forked)

            def after_in_child() -> None:
                if (again := forked()) is not None:
                    again()

            os.register_at_fork(after_in_child=after_in_child)

    def start(self) -> None:
        """Have a thread, unless there is one or all is over."""
        if self._thread is None and not self._is_ended:
            # A daemon, and never joined: it may hang in an export for as long as the collector likes.
            self._thread = threading.Thread(target=self._run, name="racer-telemetry", daemon=True)
            self._thread.start()

    def wake(self) -> None:
        """Say that a line is full."""
        if not self._is_woken:
            self._is_woken = True
            self._orders.put(None)

    def flush(self, timeout: float) -> bool:
        """Have all exported that waits; return whether it was, within `timeout` seconds."""
        if self._thread is None or self._is_ended:
            return not self._is_ended
        order = _Order(is_last=False)
        self._orders.put(order)
        return order.done.wait(min(timeout, _FOREVER)) and order.succeeded

    def end(self, timeout: float) -> bool:
        """Export what waits, and export no more; return whether all of it was, within `timeout` seconds."""
        if self._is_ended:
            return True
        self._is_ended = True
        if self._thread is None:  # of a child that had nothing to tell
            self.is_idle = True
            return True
        order = _Order(is_last=True)
        self._orders.put(order)
        if order.done.wait(min(timeout, _FOREVER)):
            return order.succeeded
        for line in self._lines:
            line.abandon()
        return False

    def _forked(self) -> None:
        self._thread = None
        self._orders = queue.SimpleQueue()
        self._is_woken = False
        for line in self._lines:
            line.forked()

    def _run(self) -> None:
        orders, now = self._orders, self._clock()
        due = [now + line.every for line in self._lines]
        while True:
            wait = min(due, default=_FOREVER) - self._clock()
            try:
                order = orders.get(timeout=min(max(wait, 0), _FOREVER))
            except queue.Empty:
                order = None
            self._is_woken = False
            if order is not None:
                went = [line.send(all_of_it=True) for line in self._lines]
                order.succeeded = all(went)
                if order.is_last:
                    for line in self._lines:
                        line.end()
                    self.is_idle = True
                order.done.set()
                if order.is_last:
                    return
            for number, line in enumerate(self._lines):
                if order is not None or due[number] <= self._clock() or line.full():
                    if order is None:
                        line.send(all_of_it=False)
                    due[number] = self._clock() + line.every
