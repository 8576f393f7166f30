"""Blocking lookups in threads of our own, which never hold up the loop, each other, or the process's end (R12)."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

import anyio.lowlevel

from racer.errors import ErrorType, NetworkError, Stage, TransportBusy

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ("IDLE", "MAX_AWAITED", "Lookup", "LookupThreads")

MAX_AWAITED: Final = 32
"""Lookups of one pool that run at once for somebody who waits; further ones wait for their turn."""

IDLE: Final = 10.0
"""Seconds a thread waits for its next lookup before it ends."""

_T = TypeVar("_T")


class Lookup(Generic[_T]):
    """One call under way, as who waits for it sees it. Whoever began it calls `give_up` when no longer interested."""

    __slots__ = (
        "_call",
        "_error",
        "_notify",
        "_pool",
        "_post",
        "_value",
        "finished",
        "given_up",
        "is_done",
    )

    def __init__(
        self, pool: LookupThreads, call: Callable[[], _T], notify: Callable[[], object]
    ) -> None:
        """Bind to the running loop."""
        self._pool = pool
        self._call: Callable[[], _T] | None = call
        self._notify = notify
        self._post = _poster()
        self._value: _T | None = None
        self._error: BaseException | None = None
        self.is_done = False
        """Whether the answer has reached the loop."""
        self.finished = False
        """Whether the call has ended; the pool's, under its lock."""
        self.given_up = False
        """Whether nobody waits any more; the pool's, under its lock."""

    def answer(self) -> _T:
        """Return what the call returned, or raise what it raised; once, when done."""
        error, self._error = self._error, None
        if error is None:
            return cast("_T", self._value)
        try:
            raise error
        finally:
            del (
                error
            )  # an error that knows a frame that knows the error waits for the garbage collector

    def give_up(self) -> None:
        """Stop waiting, and forget what came of it if it is done. Synchronous, in the loop's own thread."""
        self._pool.give_up(self)
        self.forget()

    def forget(self) -> None:
        """Drop the outcome: an error's frames know this lookup, and both would wait for the garbage collector."""
        self._value = self._error = None

    def run(self) -> None:
        """Make the call; in a thread of the pool."""
        call, self._call = self._call, None
        assert call is not None
        try:
            self._value = call()
        except BaseException as exc:  # noqa: BLE001 - raised again where the answer is awaited
            self._error = exc

    def fail(self, error: Exception) -> None:
        """End without the call having been made."""
        self._call = None
        self._error = error

    def deliver(self) -> None:
        """Tell the loop; from any thread."""
        with contextlib.suppress(RuntimeError):  # that loop has ended, and with it who waited
            self._post(self._arrive)

    def _arrive(self) -> None:
        self.is_done = True
        self._notify()


def _poster() -> Callable[[Callable[[], object]], object]:
    """Return the running loop's own thread-safe "call this soon".

    `anyio.from_thread.run_sync` makes the thread wait for the loop's answer: for ever, when the loop ends first.
    """
    native: Any = anyio.lowlevel.current_token().native_token
    post: Callable[[Callable[[], object]], object]
    post = native.run_sync_soon if hasattr(native, "run_sync_soon") else native.call_soon_threadsafe
    return post


class _Worker:
    """A thread's mailbox: one lookup, and a lock that is held until there is one."""

    __slots__ = ("lookup", "wake")

    def __init__(self, lookup: Lookup[Any]) -> None:
        self.lookup: Lookup[Any] | None = lookup
        self.wake = threading.Lock()
        self.wake.acquire()


class LookupThreads:
    """A pool of daemon threads for calls that block and cannot be interrupted.

    A call that is given up runs on in its thread, stuck or not; its place among the awaited ones is free at once. One
    pool serves all event loops and threads of a process; a forked child begins with an empty one.

    Args:
        name: of the threads, for debuggers.
        max_stuck: calls that were given up and still run; while there are so many, `begin` refuses. Those that are
            awaited when the limit is reached may still be given up, so there are never more than `max_awaited` more.
        max_awaited: calls that run at once for somebody who waits; further ones wait their turn.
        idle: seconds a thread waits for its next call before it ends.
    """

    def __init__(
        self,
        *,
        name: str,
        max_stuck: int,
        max_awaited: int = MAX_AWAITED,
        idle: float = IDLE,
    ) -> None:
        """Start nothing yet."""
        self._name = name
        self._max_stuck = max_stuck
        self._max_awaited = max_awaited
        self._idle_time = idle
        self._reset()
        _pools.add(self)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._queue: deque[Lookup[Any]] = deque()
        self._idle: list[_Worker] = []
        self._awaited = 0
        self._stuck = 0

    @property
    def stuck(self) -> int:
        """How many calls run on although nobody waits for them."""
        return self._stuck

    def begin(self, call: Callable[[], _T], notify: Callable[[], object]) -> Lookup[_T]:
        """Return a lookup that runs `call()` in a thread, and calls `notify()` in the running loop when it is done.

        Raises:
            TransportBusy: too many earlier calls are stuck.
        """
        lookup = Lookup(self, call, notify)
        with self._lock:
            if self._stuck >= self._max_stuck:
                raise TransportBusy(f"{self._stuck} earlier lookups are stuck", stage=Stage.RESOLVE)
            if self._awaited >= self._max_awaited:
                self._queue.append(lookup)
            else:
                self._assign(lookup)
        return lookup

    def give_up(self, lookup: Lookup[Any]) -> None:
        """Count a lookup among the stuck ones from now on, unless it has ended."""
        with self._lock:
            if lookup.finished or lookup.given_up:
                return
            lookup.given_up = True
            if lookup in self._queue:
                self._queue.remove(lookup)
                return
            self._awaited -= 1
            self._stuck += 1
            self._assign_queued()

    def _assign_queued(self) -> None:
        while self._queue and self._awaited < self._max_awaited:
            self._assign(self._queue.popleft())

    def _assign(self, lookup: Lookup[Any]) -> None:
        """Give a lookup to a thread; under the lock."""
        self._awaited += 1
        if self._idle:
            worker = self._idle.pop()  # the one that became idle last, so that surplus ones can end
            worker.lookup = lookup
            worker.wake.release()
            return
        try:
            threading.Thread(
                target=self._work, args=(_Worker(lookup),), name=self._name, daemon=True
            ).start()
        except RuntimeError as exc:  # "can't start new thread", or the interpreter is ending
            self._awaited -= 1
            lookup.finished = True
            lookup.fail(
                NetworkError(
                    f"the system gives no thread to look a name up in: {exc}",
                    stage=Stage.RESOLVE,
                    error_type=ErrorType.RESOURCE_EXHAUSTED,
                )
            )
            lookup.deliver()

    def _work(self, worker: _Worker) -> None:
        while True:
            lookup, worker.lookup = worker.lookup, None
            if lookup is not None:
                lookup.run()
                self._settle(lookup, worker)
                if lookup.given_up:
                    lookup.forget()
                else:
                    lookup.deliver()
                del lookup  # an idle thread keeps nobody's answer alive
            if not worker.wake.acquire(timeout=self._idle_time):
                if self._retire(worker):
                    return
                worker.wake.acquire()  # a lookup came in the moment between

    def _settle(self, lookup: Lookup[Any], worker: _Worker) -> None:
        with self._lock:
            lookup.finished = True
            if lookup.given_up:
                self._stuck -= 1
            else:
                self._awaited -= 1
            self._idle.append(worker)
            self._assign_queued()

    def _retire(self, worker: _Worker) -> bool:
        with self._lock:
            if worker not in self._idle:
                return False
            self._idle.remove(worker)
            return True


_pools: weakref.WeakSet[LookupThreads] = weakref.WeakSet()


def _forget_threads() -> None:
    # A forked child has the pools' memory and none of their threads, and one of those may have held the lock.
    for pool in _pools:
        pool._reset()  # noqa: SLF001 - same file


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)
