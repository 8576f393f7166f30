"""A dial that is under way, and the attempt of a race that it is made for."""

from __future__ import annotations

import contextvars
from typing import TYPE_CHECKING

import anyio

from racer.abc import Stage

if TYPE_CHECKING:
    from racer.abc import Progress
    from transports.soar._stream import SoarStream
    from transports.soar.core.client.dial import Dial
    from transports.soar.core.client.reasons import EndReason

__all__ = ("PendingDial",)


class PendingDial:
    """A dial whose target is not connected yet.

    Attributes:
        dial: the core's.
        stream: its stream, which may be in use already.
        progress: is told.
        context: the attempt's, for what it causes (T3).
        stage: how far it is.
        is_awaited: whether `open` waits for it.
        reason: why it failed.
        event: set when it is over.
    """

    __slots__ = ("context", "dial", "event", "is_awaited", "progress", "reason", "stage", "stream")

    def __init__(self, dial: Dial, stream: SoarStream, progress: Progress) -> None:
        self.dial = dial
        self.stream = stream
        self.progress = progress
        self.context = contextvars.copy_context()
        self.stage = Stage.HANDSHAKE
        self.is_awaited = True
        self.reason: EndReason | None = None
        self.event = anyio.Event()

    def reach(self, stage: Stage) -> None:
        """Come that far; the race is told while the stage is ours to tell."""
        self.stage = stage
        if self.is_awaited:
            self.progress.stage(stage)
