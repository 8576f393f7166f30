"""A packet as it reached the server."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from transports.soar.core.crypto.headers import Header
    from transports.soar.core.server.question import Question

__all__ = ("Arrival",)


class Arrival(NamedTuple):
    """A packet of a session, and the question that brought it.

    Attributes:
        header: unmasked.
        packet: whole, as masked.
        question: what its answer is for.
    """

    header: Header
    packet: bytes
    question: Question
