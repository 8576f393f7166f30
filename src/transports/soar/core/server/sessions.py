"""The table of sessions: how many there may be, in all and for each neighbourhood (SPEC 18.4)."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ("SessionTable", "Tabled")


class Tabled(Protocol):
    """What the table knows of a session."""

    @property
    def sid(self) -> bytes:
        """Its name on the wire."""

    @property
    def prefix(self) -> bytes:
        """Where its first message came from."""


S = TypeVar("S", bound=Tabled)


class SessionTable(Generic[S]):
    """Sessions by SID.

    One resolver serves many clients, so a prefix may have a quarter of the table. Whoever replays or floods first
    messages makes sessions that no data packet ever confirms. These may fill a quarter too, and give way, oldest
    first, where there's no room: an honest client confirms its own within a round trip.

    Attributes:
        get: returns the session of that name, or None.
    """

    def __init__(self, max_sessions: int) -> None:
        """Hold at most `max_sessions`."""
        self._max = max_sessions
        self._share = max(1, max_sessions // 4)
        self._sessions: dict[bytes, S] = {}
        self.get: Final = self._sessions.get
        self._in_prefix: dict[bytes, int] = {}
        self._unconfirmed: OrderedDict[bytes, S] = OrderedDict()
        self._unconfirmed_in: dict[bytes, OrderedDict[bytes, S]] = {}

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._sessions)

    def __iter__(self) -> Iterator[S]:
        """Iterate over those of now, in order of their beginning; changing the table meanwhile is fine."""
        return iter(list(self._sessions.values()))

    @property
    def unconfirmed(self) -> int:
        """How many have not had a data packet yet."""
        return len(self._unconfirmed)

    def has_room(self, prefix: bytes) -> bool:
        """Return whether a session may begin there, now or after `victim` has been removed."""
        if len(self._sessions) >= self._max:
            return bool(self._unconfirmed)
        if self._in_prefix.get(prefix, 0) >= self._share:
            return prefix in self._unconfirmed_in
        return True

    def victim(self, prefix: bytes) -> S | None:
        """Return the session that has to end before another begins in `prefix`, or None; see `has_room` first."""
        if self._in_prefix.get(prefix, 0) >= self._share and prefix in self._unconfirmed_in:
            return next(iter(self._unconfirmed_in[prefix].values()))
        if len(self._sessions) >= self._max or len(self._unconfirmed) >= self._share:
            return next(iter(self._unconfirmed.values()), None)
        return None

    def add(self, session: S) -> None:
        """Take in a session, unconfirmed."""
        sid, prefix = session.sid, session.prefix
        self._sessions[sid] = session
        self._in_prefix[prefix] = self._in_prefix.get(prefix, 0) + 1
        self._unconfirmed[sid] = session
        self._unconfirmed_in.setdefault(prefix, OrderedDict())[sid] = session

    def confirm(self, session: S) -> None:
        """Note that a data packet has come; once is enough."""
        if self._unconfirmed.pop(session.sid, None) is not None:
            waiting = self._unconfirmed_in[session.prefix]
            del waiting[session.sid]
            if not waiting:
                del self._unconfirmed_in[session.prefix]

    def remove(self, session: S) -> None:
        """Let go of a session that is in the table."""
        self.confirm(session)
        del self._sessions[session.sid]
        left = self._in_prefix[session.prefix] - 1
        if left:
            self._in_prefix[session.prefix] = left
        else:
            del self._in_prefix[session.prefix]
