"""What every carrier does, as the client's driver sees it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

__all__ = ("Carrier", "Deliver", "Failed")

Deliver: TypeAlias = Callable[[Sequence[bytes]], None]
"""Takes messages from the resolver, in the order in which they came; synchronous."""

Failed: TypeAlias = Callable[[Exception], None]
"""Learns that questions under way on this carrier are lost, and why; synchronous."""


class Carrier(Protocol):
    """Takes questions to one resolver, and brings what comes back.

    Nothing is open before the first question, and nothing stays open for long after the last. What cannot be taken now
    is dropped: recovery is the core's (SPEC 11).

    Attributes:
        trouble: what is wrong with answers that came and were none, in words; empty after a good one.
    """

    @property
    def trouble(self) -> str:
        """See above."""

    def send(self, messages: Sequence[bytes], *, fresh: bool = False) -> None:
        """Send questions at once, or as soon as there is a way; never waits, never raises for the network.

        Args:
            messages: DNS messages.
            fresh: from a new source port, or on a new connection (SPEC 12.7).
        """

    async def run(self, deliver: Deliver, failed: Failed) -> None:
        """Serve until cancelled; then everything is closed. Runs once, beside `send`."""
