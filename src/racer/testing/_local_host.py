"""A home for a transport's long-lived tasks where there is no dialer."""

from __future__ import annotations

import contextvars
import logging
from typing import TYPE_CHECKING, Any, Self, TypeVarTuple

import anyio
from opentelemetry import metrics, trace

from racer.abc import Host
from racer.errors import DialerClosed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from anyio.abc import TaskGroup
    from opentelemetry.metrics import Meter
    from opentelemetry.trace import Tracer

__all__ = ("LocalHost",)

_Args = TypeVarTuple("_Args")

_log = logging.getLogger("racer.testing")


class LocalHost(Host):
    """A `racer.abc.Host` for as long as its ``async with`` block lasts, with a tracer and meter that do nothing.

    What a task raises ends nothing else (R20): it is logged, and kept in `errors`.

    Attributes:
        errors: What tasks have raised.
        running: The names of the tasks that have not ended.

    Example:
        Drive a transport by hand::

            async with LocalHost() as host:
                await transport.start(host)
                stream = await transport.connect(Target("example.org"), Progress())
                ...
                await transport.aclose()
    """

    def __init__(self) -> None:
        """Make a host that is not open yet."""
        self.errors: list[Exception] = []
        self.running: list[str] = []
        self._group: TaskGroup | None = None

    async def __aenter__(self) -> Self:
        """Open it."""
        self._group = await anyio.create_task_group().__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        """Cancel what still runs, and wait for it; an exception of the block leaves as it was raised."""
        group, self._group = self._group, None
        assert group is not None
        group.cancel_scope.cancel()
        if isinstance(exc_value, Exception):
            await group.__aexit__(None, None, None)
            return False
        return await group.__aexit__(exc_type, exc_value, traceback)

    @property
    def tracer(self) -> Tracer:
        """A tracer whose spans go nowhere."""
        return trace.NoOpTracer()

    @property
    def meter(self) -> Meter:
        """A meter whose measurements go nowhere."""
        return metrics.NoOpMeter("racer.testing")

    def start_soon(self, fn: Callable[[*_Args], Awaitable[Any]], *args: *_Args, name: str) -> None:
        """Start a task, in an empty context (R21).

        Raises:
            DialerClosed: The block has ended, or not begun.
        """
        if self._group is None:
            raise DialerClosed("this host is not open")
        contextvars.Context().run(self._spawn, fn, args, name)

    def _spawn(self, fn: Callable[..., Awaitable[Any]], args: tuple[Any, ...], name: str) -> None:
        assert self._group is not None
        self._group.start_soon(self._border, fn, args, name, name=name)

    async def _border(
        self, fn: Callable[..., Awaitable[Any]], args: tuple[Any, ...], name: str
    ) -> None:
        self.running.append(name)
        try:
            await fn(*args)
        except Exception as exc:  # noqa: BLE001 - the border of R20
            _log.exception("hosted task %r failed", name)
            self.errors.append(exc)
        finally:
            self.running.remove(name)
