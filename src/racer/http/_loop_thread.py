"""The event loop behind synchronous code: one daemon thread a process, with a goodbye at exit (H10).

A daemon, since a portal's own thread would keep the interpreter from ending until somebody closes it; nobody has to.
"""

from __future__ import annotations

import atexit
import os
import threading
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio
from anyio.from_thread import BlockingPortal

from racer._default import aclose as close_default_dialer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from concurrent.futures import Future

__all__ = ("LoopThread", "loop_thread")

_T = TypeVar("_T")

_GOODBYE: Final = 3.5  # seconds the process waits at its end for what is open to be closed

_lock = threading.Lock()
_current: LoopThread | None = None


class LoopThread:
    """A thread that runs an event loop as long as the process lives.

    Attributes:
        pid: the process it runs in; a forked child has none of its parent's threads.
    """

    def __init__(self) -> None:
        """Start it, and return when the loop runs."""
        self.pid = os.getpid()
        self._ready = threading.Event()
        self._portal: BlockingPortal | None = None
        self._goodbyes: dict[int, Callable[[], Awaitable[None]]] = {}
        self._thread = threading.Thread(target=self._run, name="racer http", daemon=True)
        self._thread.start()
        self._ready.wait()
        atexit.register(self.stop)

    def _run(self) -> None:
        try:
            anyio.run(self._main)
        finally:
            self._ready.set()

    async def _main(self) -> None:
        async with BlockingPortal() as portal:
            self._portal = portal
            self._ready.set()
            await portal.sleep_until_stopped()
            with anyio.move_on_after(_GOODBYE):
                for goodbye in list(self._goodbyes.values()):
                    await goodbye()
                await close_default_dialer()

    @property
    def is_here(self) -> bool:
        """Whether it runs, in this process."""
        return self.pid == os.getpid() and self._thread.is_alive()

    @property
    def is_current(self) -> bool:
        """Whether the caller runs in it."""
        return threading.current_thread() is self._thread

    def start(self, fn: Callable[..., Awaitable[_T]], *args: Any) -> Future[_T]:  # noqa: ANN401 - the arguments of `fn`
        """Start `fn(*args)` on the loop, in the caller's context; the future may be cancelled."""
        assert self._portal is not None
        return self._portal.start_task_soon(fn, *args)

    def call(self, fn: Callable[..., Awaitable[_T]], *args: Any) -> _T:  # noqa: ANN401 - the arguments of `fn`
        """Run `fn(*args)` on the loop and return what it returns; an interrupted caller cancels it."""
        future = self.start(fn, *args)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def at_exit(self, key: int, goodbye: Callable[[], Awaitable[None]] | None) -> None:
        """Have `goodbye` called at the process's end; `None` forgets it."""
        if goodbye is None:
            self._goodbyes.pop(key, None)
        else:
            self._goodbyes[key] = goodbye

    def stop(self) -> None:
        """Close what is open, and end; waits for a bounded time. A forked child has nothing to stop."""
        if self.is_here and self._portal is not None and not self.is_current:
            self._portal.start_task_soon(self._portal.stop)
            self._thread.join(_GOODBYE)


def loop_thread() -> LoopThread:
    """Return this process's, started at first use."""
    global _current  # noqa: PLW0603 - one a process
    with _lock:
        if _current is None or not _current.is_here:
            _current = LoopThread()
        return _current


def _after_fork() -> None:
    """Begin anew in a forked child: the parent may have held the lock, and its thread is not here."""
    global _lock, _current  # noqa: PLW0603 - one a process
    _lock = threading.Lock()
    _current = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
