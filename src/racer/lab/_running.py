"""What runs for as long as an `async with` block lasts: its tasks end with the block, and its time is the loop's."""

from __future__ import annotations

import abc
import errno
import heapq
import itertools
import math
import os
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, TypeVarTuple

import anyio
import anyio.lowlevel

from racer.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType
    from typing import Self

__all__ = ("Running", "Tasks", "Timetable", "sleep_until")

_Args = TypeVarTuple("_Args")


class Running(abc.ABC):
    """Something with tasks of its own. An async context manager, entered by one block at a time.

    Leaving the block cancels the tasks and waits for their end, which takes no time. What was raised in the block
    leaves it as it was raised. A task that fails cancels the block, and leaves it as an `ExceptionGroup`: in a lab that
    is a handler's own error, such as a failed assertion.
    """

    _stack: AsyncExitStack | None = None
    _group: Tasks | None = None

    async def __aenter__(self) -> Self:
        """Begin.

        Raises:
            ConfigError: it is running already.
            OSError: it cannot listen.
        """
        if self._stack is not None:
            msg = f"this {type(self).__name__} is running already"
            raise ConfigError(msg)
        async with AsyncExitStack() as stack:
            self._group = await stack.enter_async_context(Tasks())
            self._start(self._group)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> bool | None:
        """End every task, and close what they hold."""
        stack, self._stack = self._stack, None
        assert stack is not None
        try:
            return await stack.__aexit__(exc_type, exc, tb)
        finally:
            self._group = None

    @abc.abstractmethod
    def _start(self, group: Tasks) -> None:
        """Start the tasks. Synchronous, so that what it opens has an owner before anything can be cancelled."""

    def _check_running(self) -> None:
        if self._stack is None:
            msg = f"this {type(self).__name__} is not running: use 'async with'"
            raise ConfigError(msg)

    @property
    def _tasks(self) -> Tasks:
        """The tasks, also while the block is being left."""
        assert self._group is not None
        return self._group


class Tasks:
    """A task group that ends with its block instead of waiting, and adds nothing to what the block raises.

    Each task has a cancel scope of its own: the group's is the block's as well, and one that was cancelled would
    swallow an asyncio `task.cancel()` that comes while the block is being left.
    """

    def __init__(self) -> None:
        """Begin with nothing running."""
        self._scopes: set[anyio.CancelScope] = set()
        self._ended = False

    def start_soon(self, fn: Callable[[*_Args], Awaitable[object]], *args: *_Args) -> None:
        """Start a task; synchronous, and it will reach its first `await` even if the block is being left."""
        scope = anyio.CancelScope()
        if self._ended:
            scope.cancel()
        self._scopes.add(scope)
        name = getattr(fn, "__qualname__", repr(fn))
        self._group.start_soon(self._run, scope, fn, args, name=name)

    async def __aenter__(self) -> Self:
        """Open the group."""
        self._group = await anyio.create_task_group().__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> bool | None:
        """Cancel every task, and wait for it."""
        self._ended = True
        for scope in tuple(self._scopes):
            scope.cancel()
        if exc is None or _is_cancelled(exc):
            return await self._group.__aexit__(exc_type, exc, tb)
        try:
            await self._group.__aexit__(None, None, None)
        except BaseExceptionGroup as failure:
            raise failure from exc
        return False

    async def _run(
        self, scope: anyio.CancelScope, fn: Callable[..., Awaitable[object]], args: tuple[Any, ...]
    ) -> None:
        try:
            with scope:
                await fn(*args)
        finally:
            self._scopes.discard(scope)


def _is_cancelled(exc: BaseException) -> bool:
    cancelled = anyio.get_cancelled_exc_class()
    if isinstance(exc, BaseExceptionGroup):
        return exc.subgroup(cancelled) is not None
    return isinstance(exc, cancelled)


async def sleep_until(when: float) -> None:
    """Return when the loop's clock reads `when`, never if that is infinite; always a checkpoint.

    For the lab's own tasks. Unlike anyio's own it does not add up to another number than `when`.
    """
    if when <= anyio.current_time():
        await anyio.lowlevel.checkpoint()
        return
    with anyio.CancelScope(deadline=when):
        await anyio.sleep_forever()


class Timetable:
    """Calls synchronous functions at their time, those of one time in the order they were entered."""

    def __init__(self) -> None:
        """Begin empty."""
        self._entries: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._news = anyio.Event()
        self._waiting: set[anyio.Event] = set()
        self._ended = False

    def enter(self, when: float, call: Callable[[], None]) -> None:
        """Call `call` when the loop's clock reads `when`: in this call if that is now, never if it is infinite."""
        if when == math.inf:
            return
        if when <= anyio.current_time() and (not self._entries or when < self._entries[0][0]):
            call()
            return
        heapq.heappush(self._entries, (when, next(self._order), call))
        self._news.set()

    async def wait_until(self, when: float) -> None:
        """Return when the loop's clock reads `when`, never if that is infinite; always a checkpoint.

        Exact, and for tasks that are not the lab's own: unlike a scope with a deadline, an event hides no asyncio
        `task.cancel()` that comes in the same moment.

        Raises:
            OSError: nobody keeps the times any more.
        """
        await anyio.lowlevel.checkpoint()
        come = anyio.Event()
        self._waiting.add(come)
        try:
            self.enter(when, come.set)
            await come.wait()
        finally:
            self._waiting.discard(come)
        if self._ended:
            # What ended the lab may have cancelled this task as well.
            await anyio.lowlevel.checkpoint()
            raise OSError(errno.ENETDOWN, f"{os.strerror(errno.ENETDOWN)} (the lab was left)")

    async def run(self) -> None:
        """Keep the times; never ends by itself. Who still waits when it is cancelled is told."""
        try:
            while True:
                self._news = anyio.Event()
                when = self._entries[0][0] if self._entries else math.inf
                if when > anyio.current_time():
                    with anyio.CancelScope(deadline=when):
                        await self._news.wait()
                    continue
                heapq.heappop(self._entries)[2]()
        finally:
            self._ended = True
            for come in tuple(self._waiting):
                come.set()
