"""Where attempts, cleanups and session drivers live: one keeper task per dialer and event loop (R17 to R22).

The one file that may import asyncio and trio: a task that belongs to no caller is what anyio has no word for.
"""

from __future__ import annotations

import contextvars
import enum
import logging
import os
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVarTuple

import anyio

from racer import abc
from racer._cleanup import Cleanups
from racer._closing import Closer, close_at_once, say_goodbye
from racer._logs import log_error
from racer._loops import call_soon, current_loop, is_closed_loop, runs_below
from racer.errors import DialerClosed, WrongLoop

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, Mapping

    from anyio.abc import TaskGroup
    from opentelemetry.metrics import Meter
    from opentelemetry.trace import Tracer

    from racer._cleanup import Closable
    from racer._sessions import Sessions

__all__ = ("END_TIMEOUT", "LoopHost", "find_exit")

_Args = TypeVarTuple("_Args")

logger = logging.getLogger("racer.host")

END_TIMEOUT: Final = 3.0
"""Seconds `aclose()` takes at most, whatever guests do (R19)."""

_GOODBYE: Final = 1.0  # seconds a guest's own aclose() may take
_ORDERLY: Final = 2.5  # seconds until, at the end, what is still being closed is closed by force

# asyncio keeps only weak references to its tasks. Trio's runner holds its own.
_orphans: set[asyncio.Task[None]] = set()


def find_exit(exc: BaseException) -> BaseException | None:
    """Return the `SystemExit` or `KeyboardInterrupt` in `exc`, bare, when there is one (R20)."""
    if isinstance(exc, SystemExit | KeyboardInterrupt):
        return exc
    if isinstance(exc, BaseExceptionGroup):
        return next(
            (found for inner in exc.exceptions if (found := find_exit(inner)) is not None), None
        )
    return None


class _State(enum.Enum):
    NEW = "new"
    OPEN = "open"
    CLOSING = "closing"
    ENDED = "ended"


class Abortable(Protocol):
    """A race, as the host sees it."""

    def abort(self, why: str) -> None:
        """End now: the host is going away; synchronous."""


class LoopHost(abc.Host):
    """The home of everything that outlives a call. Making one touches no loop; its first use binds it.

    Args:
        tracer: for guests.
        meter: for guests.
        sessions: opens the traces of guests' sessions.
        max_cleanups: as in R22.
        on_cleanup: told of each cleanup that ended: the transport's name, and seconds.
        goodbyes: called once at the end; gives the guests' `aclose` functions by name.
        redacted: whether errors are logged without their own words (T5).

    Attributes:
        cleanups: what is being closed now.
        on_end: called once when the host has ended, in its loop; must not raise.
    """

    def __init__(
        self,
        *,
        tracer: Tracer,
        meter: Meter,
        sessions: Sessions,
        max_cleanups: int,
        on_cleanup: Callable[[str, float], None],
        goodbyes: Callable[[], dict[str, Callable[[], Awaitable[None]]]],
        redacted: bool,
    ) -> None:
        """Keep the arguments; nothing starts."""
        self._tracer = tracer
        self._meter = meter
        self._sessions = sessions
        self._goodbyes = goodbyes
        self._redacted = redacted
        self.on_end: Callable[[], None] | None = None
        self.cleanups = Cleanups(limit=max_cleanups, on_done=on_cleanup)
        self._state = _State.NEW
        # Weak, since a registry keyed by the loop must not keep the loop alive through its own value (R18).
        self._loop: weakref.ref[Any] | None = None
        self._pid = 0
        self._group: TaskGroup | None = None
        self._ready: anyio.Event | None = None
        self._wake: anyio.Event | None = None
        self._ended: anyio.Event | None = None
        self._watching = False
        self._dropped: list[tuple[Closable, str, Callable[[], None]]] = []
        self._races: dict[Abortable, None] = {}
        self._running: dict[int, str] = {}
        self._last_id = 0
        self._keeper = 0

    @property
    def tracer(self) -> Tracer:
        """The dialer's tracer."""
        return self._tracer

    @property
    def meter(self) -> Meter:
        """The dialer's meter."""
        return self._meter

    def open_session(
        self, transport: str, attributes: Mapping[str, abc.AttributeValue] | None = None
    ) -> abc.SessionTrace:
        """Return the trace of a session that begins now."""
        return self._sessions.open(transport, attributes or {})

    @property
    def is_open(self) -> bool:
        """Whether its keeper runs and takes tasks."""
        return self._group is not None and self._state is _State.OPEN

    @property
    def is_unclosed(self) -> bool:
        """Whether somebody here still has to end it: used, not ended, and of this process."""
        return self._state is _State.OPEN and self.is_of_this_process

    @property
    def is_of_this_process(self) -> bool:
        """Whether it was bound here, and not in a process that this one was forked from."""
        return self._pid == os.getpid()

    @property
    def is_ended(self) -> bool:
        """Whether it has ended, or is about to."""
        return self._state in {_State.CLOSING, _State.ENDED}

    @property
    def is_foreign(self) -> bool:
        """Whether it cannot serve here any more: it has ended, or this is a forked child."""
        return self.is_ended or (self._loop is not None and self._pid != os.getpid())

    def check(self) -> None:
        """Raise unless this is the loop, thread and process the host is bound to, and it has not ended.

        Raises:
            WrongLoop: says which of them differs.
            DialerClosed: the host has ended.
        """
        if self._loop is not None:
            self._check_place()
        if self.is_ended:
            msg = "this dialer is closed; make a new one"
            raise DialerClosed(msg)

    def _check_place(self) -> None:
        if self._pid != os.getpid():
            msg = (
                f"this dialer belongs to process {self._pid}, this is process {os.getpid()}: "
                "after a fork the child makes a dialer of its own"
            )
            raise WrongLoop(msg)
        owner = self._loop() if self._loop is not None else None
        try:
            here = current_loop()
        except RuntimeError:  # anyio.NoEventLoopError, and what older releases raised
            here = None
        if here is None:
            msg = "this dialer is bound to an event loop, and none runs in this thread; call it from that loop"
            raise WrongLoop(msg)
        if here is not owner:
            msg = (
                "this dialer is bound to another event loop; make one dialer per loop, or use racer.dial(), "
                "which keeps one for each"
            )
            raise WrongLoop(msg)

    async def ensure(self) -> None:
        """Bind to the running loop and process, once, and have the keeper running.

        Raises:
            WrongLoop: bound elsewhere.
            DialerClosed: ended.
        """
        self.bind()
        if self._group is not None:
            return
        ready = self._ready
        if ready is not None:
            await ready.wait()
        self.check()

    def bind(self) -> None:
        """Bind to the running loop and process, once, and spawn the keeper; synchronous.

        Raises:
            WrongLoop: bound elsewhere.
            DialerClosed: ended.
        """
        self.check()
        if self._state is _State.NEW:
            loop = current_loop()
            self._state = _State.OPEN
            self._loop = weakref.ref(loop)
            self._pid = os.getpid()
            self._ready, self._wake, self._ended = anyio.Event(), anyio.Event(), anyio.Event()
            _spawn(loop, self._keep, "racer keeper")

    def start_soon(self, fn: Callable[[*_Args], Awaitable[Any]], *args: *_Args, name: str) -> None:
        """Start a guest's long-lived task, in an empty context."""
        self.check()
        contextvars.Context().run(self._spawn_in_group, fn, args, name)

    def start_in(
        self,
        context: contextvars.Context,
        fn: Callable[[*_Args], Awaitable[Any]],
        *args: *_Args,
        name: str,
    ) -> None:
        """Start a task that sees `context` (R21)."""
        context.run(self._spawn_in_group, fn, args, name)

    def _spawn_in_group(
        self, fn: Callable[..., Awaitable[Any]], args: tuple[Any, ...], name: str
    ) -> None:
        if self._group is None:
            msg = "this dialer has ended"
            raise DialerClosed(msg)
        self._group.start_soon(self._border, fn, args, name, name=name)

    async def _border(
        self, fn: Callable[..., Awaitable[Any]], args: tuple[Any, ...], name: str
    ) -> None:
        """Run one hosted task and let nothing out of it (R20).

        Also no cancellation: on asyncio a task that ends by a native cancel of its own would take its whole group, and
        so every other dial, with it. Nothing runs after the swallowed exception; the task just ends.
        """
        self._last_id += 1
        key = self._last_id
        self._running[key] = name
        try:
            await fn(*args)
        except Exception as exc:  # noqa: BLE001 - see above
            self._log_error("hosted task %r failed", name, error=exc)
        except BaseException as exc:  # noqa: BLE001 - see above
            if find_exit(exc) is not None:
                logger.critical(
                    "hosted task %r raised %r, and nobody waits for it", name, type(exc).__name__
                )
            elif isinstance(exc, BaseExceptionGroup) and (bugs := exc.subgroup(Exception)):
                self._log_error("hosted task %r failed", name, error=bugs)
        finally:
            self._running.pop(key, None)

    def _log_error(self, message: str, *args: object, error: BaseException) -> None:
        log_error(logger, logging.ERROR, message, *args, error=error, redacted=self._redacted)

    def enter_race(self, race: Abortable) -> None:
        """Remember a race, so that the host's end ends it."""
        self._races[race] = None

    def leave_race(self, race: Abortable) -> None:
        """Forget a race that is over."""
        self._races.pop(race, None)

    @property
    def races(self) -> int:
        """How many races are under way."""
        return len(self._races)

    def watch(self) -> None:
        """Have somebody warn of leftovers that take too long; synchronous and cheap when somebody already does."""
        if self._watching or self._group is None or not len(self.cleanups):
            return
        self._watching = True
        contextvars.Context().run(self._spawn_in_group, self._watch, (), "racer cleanup watch")

    async def _watch(self) -> None:
        try:
            await self.cleanups.watch()
        finally:
            self._watching = False

    def close_soon(
        self,
        resource: Closable,
        transport_name: str,
        context: contextvars.Context,
        release: Callable[[], None],
    ) -> Closer | None:
        """Take over `resource`, close it, bounded, then `release`; synchronous. After the host's end it closes by force."""
        if self._group is None:
            self._close_alone(resource, transport_name)
            release()
            return None
        closer = Closer(self.cleanups, resource, transport_name, release)
        self.start_in(context, closer.run, name=f"racer close {transport_name}")
        self.watch()
        return closer

    def drop_from_anywhere(
        self, resource: Closable, transport_name: str, release: Callable[[], None]
    ) -> None:
        """Close `resource` soon, then `release`; for finalizers, which run in any thread at any moment. Never raises."""
        self._call_from_anywhere(self._drop, resource, transport_name, release)

    def _drop(self, resource: Closable, transport_name: str, release: Callable[[], None]) -> None:
        if self.is_open:
            # The loop's bare callback, which this is, may start no task of anyio's: the keeper does.
            self._dropped.append((resource, transport_name, release))
            self._wake_keeper()
        else:  # nor may the keeper on its way out, which looks here once more or not at all
            self._close_alone(resource, transport_name)
            release()

    def _close_alone(self, resource: Closable, transport_name: str) -> None:
        loop = self._loop() if self._loop is not None else None
        if loop is not None:
            _spawn(loop, partial(close_at_once, resource), f"racer close {transport_name}")

    def _take_dropped(self) -> None:
        dropped, self._dropped = self._dropped, []
        for resource, transport_name, release in dropped:
            closer = self.close_soon(resource, transport_name, contextvars.Context(), release)
            if closer is not None:
                closer.force()

    def _wake_keeper(self) -> None:
        if self._wake is not None:
            self._wake.set()

    def _call_from_anywhere(self, fn: Callable[[*_Args], object], *args: *_Args) -> None:
        loop = self._loop() if self._loop is not None else None
        if loop is not None and self._pid == os.getpid():
            call_soon(loop, fn, *args)

    def end_from_anywhere(self) -> None:
        """Begin the end; for finalizers, which run in any thread at any moment. Never raises."""
        self._call_from_anywhere(self._begin_end, "the dialer was dropped")

    def _begin_end(self, why: str) -> None:
        if self._state is _State.OPEN:
            self._state = _State.CLOSING
            self._abort_races(why)
            self._wake_keeper()

    async def aclose(self) -> None:
        """End: guests say goodbye, streams are closed; returns within `END_TIMEOUT` also under cancellation.

        May be called twice; the second call waits for the first. Called in a task that lives here, or below one, it
        only begins the end, of which that task's own is a part.

        Raises:
            WrongLoop: bound elsewhere.
        """
        if self._loop is not None and self._state is not _State.ENDED:
            self._check_place()
        elif self._loop is None and self._state is _State.NEW:
            self.bind()  # guests that were never started still have an aclose()
        ended = self._ended
        if ended is None:
            return
        self._begin_end("the dialer was closed")
        if runs_below(self._keeper):
            await anyio.lowlevel.checkpoint()
            return
        with anyio.move_on_after(END_TIMEOUT, shield=True) as scope:
            await ended.wait()
        if scope.cancelled_caught:
            stuck = ", ".join(sorted(set(self._running.values()))) or "a guest's aclose()"
            logger.warning(
                "the dialer's end did not wait longer than %.1f s for: %s", END_TIMEOUT, stuck
            )

    async def _keep(self) -> None:
        """Own the task group until the end is asked for, or the loop ends."""
        self._keeper = anyio.get_current_task().id
        try:
            async with anyio.create_task_group() as group:
                self._group = group
                if self._ready is not None:
                    self._ready.set()
                try:
                    await self._wait_for_end()
                except GeneratorExit:
                    raise  # the loop was closed with its tasks pending: nothing can be awaited any more
                except BaseException:
                    # The loop ends without aclose(): one bounded chance for guests to say goodbye.
                    self._state = _State.CLOSING
                    self._abort_races("the event loop ended under the dialer")
                    with anyio.CancelScope(shield=True):
                        await self._say_goodbye()
                    raise
                with anyio.move_on_after(_ORDERLY) as scope:
                    await self._say_goodbye()
                    self._take_dropped()
                    await self.cleanups.drained()
                if scope.cancelled_caught:
                    self.cleanups.force_all()
                group.cancel_scope.cancel()
        except Exception as exc:  # noqa: BLE001 - out of here it would take trio's whole run with it
            if not self._is_destroyed():
                self._log_error("the dialer's keeper failed", error=exc)
        finally:
            self._end()

    async def _wait_for_end(self) -> None:
        while self._state is _State.OPEN:
            self._wake = anyio.Event()
            self._take_dropped()
            await self._wake.wait()

    def _is_destroyed(self) -> bool:
        """Return whether the loop is gone, and the keeper only unwinds."""
        loop = self._loop() if self._loop is not None else None
        return loop is None or is_closed_loop(loop)

    async def _say_goodbye(self) -> None:
        await say_goodbye(
            self._goodbyes(),
            limit=_GOODBYE,
            spawn=lambda fn, name: self._spawn_in_group(fn, (), name),
            redacted=self._redacted,
        )

    def _abort_races(self, why: str) -> None:
        for race in list(self._races):
            race.abort(why)

    def _end(self) -> None:
        """Let go of everything that leads to the loop."""
        self._state = _State.ENDED
        self._abort_races("the event loop ended under the dialer")
        self._group = None
        if self._ready is not None:
            self._ready.set()
        if self._ended is not None:
            self._ended.set()
        self._ready = self._wake = self._ended = None
        self._goodbyes = dict  # it leads to the roster, which leads back here
        on_end, self.on_end = self.on_end, None
        if on_end is not None:
            on_end()


def _spawn(loop: Any, fn: Callable[[], Awaitable[None]], name: str) -> None:  # noqa: ANN401 - asyncio's or trio's
    """Start a task as a child of nobody, in an empty context; it must let no exception out."""
    if _is_trio(loop):
        import trio  # noqa: PLC0415 - asyncio's users do not have it

        trio.lowlevel.spawn_system_task(fn, name=name, context=contextvars.Context())
        return
    # A loop that was closed without ending its tasks can no longer say so itself.
    _orphans.difference_update([task for task in _orphans if task.get_loop().is_closed()])
    task: asyncio.Task[None] = loop.create_task(
        _as_coroutine(fn), name=name, context=contextvars.Context()
    )
    _orphans.add(task)
    task.add_done_callback(_orphans.discard)


async def _as_coroutine(fn: Callable[[], Awaitable[None]]) -> None:
    await fn()


def _is_trio(loop: object) -> bool:
    # By name: another thread may be half-way through importing trio.
    return type(loop).__module__.partition(".")[0] == "trio"
