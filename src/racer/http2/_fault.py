"""What can go wrong with a request, in words of HTTP, before it becomes an error of the caller's own library."""

from __future__ import annotations

from typing import Final

__all__ = ("BROKEN", "Fault")

BROKEN: Final = (Exception,)
"""What means that a stream is of no use any more: whatever it raises. A bug in a guest is its failure (R15)."""


class Fault(Exception):
    """A request that failed on one route.

    Args:
        kind: the name of the HTTP library's error that fits (`ReadError`, `ConnectTimeout`, …).
        message: what happened, without the transport's name.
        sent: whether a byte of the request may have left (H3).
        unprocessed: whether the peer said that it did nothing with it (RFC 9113 §8.7): then it counts as not sent.
        silent: whether no byte of an answer had come.

    Attributes:
        transport: the entrant's name; filled in by who knows it.
        reused: whether the connection had served an earlier request; likewise.
    """

    def __init__(
        self,
        kind: str,
        message: str,
        *,
        sent: bool = True,
        unprocessed: bool = False,
        silent: bool = False,
    ) -> None:
        """Keep the facts beside the words."""
        super().__init__(message)
        self.kind = kind
        self.sent = sent and not unprocessed
        self.unprocessed = unprocessed
        self.silent = silent
        self.transport = ""
        self.reused = False

    @property
    def is_timeout(self) -> bool:
        """Whether it only means that nothing came in time."""
        return self.kind.endswith("Timeout")

    def of(self, transport: str, *, reused: bool = False) -> Fault:
        """Return itself, told where it happened."""
        self.transport, self.reused = transport, reused
        return self
