"""Where a suspended coroutine waits, in words short enough for an error message."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

__all__ = ("await_chain", "described", "whereabouts")

# A longer chain of awaits is a runaway recursion: its beginning says enough.
_MAX_DEPTH = 200
_LIBRARIES = frozenset({"anyio", "asyncio", "trio"})


def whereabouts(coroutine: object) -> str:
    """Return such words as ``story.py:10 in story, at wire.py:20 in read, in Event.wait``.

    See `described`. A coroutine that runs, has ended or never began gives ``not suspended``.
    """
    return described(await_chain(coroutine))


def described(frames: Sequence[FrameType]) -> str:
    """Return where a chain of frames waits, given outermost first.

    The outermost frame says whose wait it is and the innermost where it waits; of the event loop's own
    frames below that only the first is named, for what it waits.
    """
    if not frames:
        return "not suspended"
    own = [index for index, frame in enumerate(frames) if not _is_library(frame)]
    if not own:
        return _place(frames[-1])
    words = [_place(frames[own[0]])]
    if own[-1] != own[0]:
        words.append(f"at {_place(frames[own[-1]])}")
    if own[-1] + 1 < len(frames):
        words.append(f"in {frames[own[-1] + 1].f_code.co_qualname}")
    return ", ".join(words)


def await_chain(coroutine: object) -> list[FrameType]:
    """Return the frames from a suspended coroutine down to where it waits, outermost first."""
    frames: list[FrameType] = []
    awaitable: object = coroutine
    while awaitable is not None and len(frames) < _MAX_DEPTH:
        kind = next((k for k in ("cr", "gi", "ag") if hasattr(awaitable, f"{k}_frame")), None)
        frame: FrameType | None = getattr(awaitable, f"{kind}_frame", None)
        if frame is None:
            break
        frames.append(frame)
        awaitable = getattr(awaitable, "gi_yieldfrom" if kind == "gi" else f"{kind}_await")
    return frames


def _is_library(frame: FrameType) -> bool:
    module: str = frame.f_globals.get("__name__", "")
    return module.partition(".")[0] in _LIBRARIES


def _place(frame: FrameType) -> str:
    code = frame.f_code
    return f"{PurePath(code.co_filename).name}:{frame.f_lineno} in {code.co_qualname}"
