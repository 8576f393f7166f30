"""A home for a transport's tasks that is loaded at once: `racer.testing`, which has one, takes longer to load than a start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVarTuple

from racer.abc import Host

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from anyio.abc import TaskGroup
    from opentelemetry.metrics import Meter
    from opentelemetry.trace import Tracer

__all__ = ("Home",)

_Args = TypeVarTuple("_Args")


class Home(Host):
    """Runs tasks in a group of the benchmark's; what one of them raises ends the benchmark."""

    def __init__(self, group: TaskGroup) -> None:
        self._group = group

    @property
    def tracer(self) -> Tracer:
        """A tracer whose spans go nowhere."""
        from opentelemetry import trace  # noqa: PLC0415 - Soar asks for none of its own

        return trace.NoOpTracer()

    @property
    def meter(self) -> Meter:
        """A meter whose measurements go nowhere."""
        from opentelemetry import metrics  # noqa: PLC0415 - likewise

        return metrics.NoOpMeter("benchmarks.soar")

    def start_soon(self, fn: Callable[[*_Args], Awaitable[Any]], *args: *_Args, name: str) -> None:
        """Start a task."""

        async def run() -> None:
            await fn(*args)

        self._group.start_soon(run, name=name)
