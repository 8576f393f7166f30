"""How a server is, in figures (design rule S25)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ("ServerCounts", "ServerStatus", "SessionStatus")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStatus:
    """One session.

    Attributes:
        sid: its name on the wire.
        grant_id: that of the grant it showed, or None.
        age: seconds since it began.
        idle: seconds since it was asked anything.
        lease: seconds that its grant is still good for; None for no end.
        streams: how many it has open.
        parked: how many of its questions wait.
        octets: what it holds in memory for its streams and for repeats.
        is_confirmed: whether its client has shown that it got the server's answer.
    """

    sid: bytes
    grant_id: bytes | None
    age: float
    idle: float
    lease: float | None
    streams: int
    parked: int
    octets: int
    is_confirmed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatus:
    """A whole server.

    Attributes:
        uptime: seconds since it began.
        known_for: seconds back to which it remembers every end (SPEC 15.4).
        is_shutting_down: whether it takes no more sessions.
        sessions: those of now.
        tombstones: how many ends are remembered.
        in_part: first messages of which pieces are missing.
        early_packets: kept for first messages that have not come.
        octets: what sessions hold in memory, together.
        questions: how many came since the start: fragments of first messages, packets of sessions that are there, packets
            of others, and all else.
        answers: how many were sent, by kind.
        handshakes: how many first messages were welcomed, refused, asked to try again, unheard, and junk.
        ends: how many sessions have ended, by reason.
    """

    uptime: float
    known_for: float
    is_shutting_down: bool
    sessions: tuple[SessionStatus, ...]
    tombstones: int
    in_part: int
    early_packets: int
    octets: int
    questions: Mapping[str, int]
    answers: Mapping[str, int]
    handshakes: Mapping[str, int]
    ends: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCounts:
    """What of a server's figures is always at hand; the attributes are those of `ServerStatus`.

    Attributes:
        sessions: how many there are.
        octets: what they hold in memory, together, as last counted.
        questions, answers, handshakes, ends: as there.
    """

    sessions: int
    octets: int
    questions: Mapping[str, int]
    answers: Mapping[str, int]
    handshakes: Mapping[str, int]
    ends: Mapping[str, int]
