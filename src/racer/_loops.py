"""Which event loop and task run here, whether a loop is gone, and how to reach one from anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVarTuple

import anyio
from anyio.lowlevel import current_token

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ("call_soon", "current_loop", "is_closed_loop", "runs_below")

_Args = TypeVarTuple("_Args")


def current_loop() -> object:
    """Return what identifies the running event loop: asyncio's loop, or trio's token.

    Raises:
        anyio.NoEventLoopError: none runs in this thread.
    """
    return current_token().native_token


def is_closed_loop(loop: object) -> bool:
    """Return whether an asyncio loop was closed, by whatever means. A trio run always ends its tasks itself."""
    is_closed = getattr(loop, "is_closed", None)
    return bool(is_closed is not None and is_closed())


def runs_below(task_id: int) -> bool:
    """Return whether the running task is a child of the one of that id, or a child's child; for rare moments."""
    parents = {task.id: task.parent_id for task in anyio.get_running_tasks()}
    above = anyio.get_current_task().parent_id
    while above is not None and above != task_id:
        above = parents.get(above)
    return above is not None


def call_soon(loop: object, fn: Callable[[*_Args], object], *args: *_Args) -> bool:
    """Have `loop` call `fn` soon, from any thread and at any moment; return whether it still can. Never raises.

    The call is a bare callback: it may start no task of anyio's, and nothing it raises is heard.
    """
    # asyncio's loop and trio's token, each with its own word for the same thing.
    call = getattr(loop, "call_soon_threadsafe", None) or getattr(loop, "run_sync_soon", None)
    try:
        if call is not None:
            call(fn, *args)
    except Exception:  # noqa: BLE001 - the loop is gone: RuntimeError on asyncio, RunFinishedError on trio
        return False
    return call is not None
