"""Questions that wait at the server for something to say (SPEC 13.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from transports.soar.core.crypto.headers import Info
    from transports.soar.core.instants import Instant
    from transports.soar.core.server.deadlines import Alarm
    from transports.soar.core.server.question import Question

__all__ = ("Park", "Parking")

MAX_PARKED: Final = 2  # for each session and path, SPEC 13.4
MAX_COPIES: Final = 4  # the fourth ends a park, SPEC 13.4
HOLD: Final = 0.6  # seconds after the first copy, SPEC 13.4
SHORT_HOLD: Final = 0.25  # on a path with traffic whose resolver repeats, SPEC 13.4
MEMORY: Final = 1.0  # seconds for which traffic and repeats count


class Park:
    """One question that waits, by its newest copies.

    Attributes:
        number: its packet number.
        question: the newest copy from the address that the first came from.
        elsewhere: the newest from any other, or None.
        info: what the packet says of its path, and of the answer's size.
        since: when its first copy came, in awake seconds.
        until: when it ends.
        copies: how many have come.
        alarm: what ends it.
    """

    __slots__ = ("alarm", "copies", "elsewhere", "info", "number", "question", "since", "until")

    def __init__(self, number: int, question: Question, info: Info, since: float) -> None:
        """Begin with the first copy."""
        self.number = number
        self.question = question
        self.elsewhere: Question | None = None
        self.info = info
        self.since = since
        self.until = since + HOLD
        self.copies = 1
        self.alarm: Alarm | None = None


class _Path:
    """What parking knows of one path."""

    __slots__ = ("parked", "repeated", "traffic")

    def __init__(self) -> None:
        self.parked: list[int] = []
        self.traffic = self.repeated = float("-inf")


class Parking:
    """The parked questions of one session, in order of arrival.

    A resolver forgets its older copies when it asks again, so only the newest is worth an answer. What comes from
    another address may be the same resolver's, or of somebody who replays what he saw: both copies are answered, so that
    he takes no answer away. Held for too long a resolver loses patience with the server, and with everybody who asks
    through it.

    Attributes:
        parks: those that wait, by packet number.
    """

    __slots__ = ("_paths", "parks")

    def __init__(self) -> None:
        """Begin with none."""
        self.parks: dict[int, Park] = {}
        self._paths: dict[int, _Path] = {}

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self.parks)

    def oldest(self) -> Park | None:
        """Return the one that has waited longest, or None."""
        return next(iter(self.parks.values()), None)

    def note_traffic(self, path: int, now: Instant) -> None:
        """Note that something but an empty poll passed on `path`."""
        (self._paths.get(path) or self._path(path)).traffic = now.awake

    def add(self, park: Park, now: Instant) -> Park | None:
        """Park a question, and return the one that has to give way to it, which is out already; or None."""
        path = self._path(park.info.path)
        if self._is_impatient(path, now.awake):
            park.until = park.since + SHORT_HOLD
        crowded = self.parks[path.parked[0]] if len(path.parked) >= MAX_PARKED else None
        if crowded is not None:
            self.remove(crowded)
        self.parks[park.number] = park
        path.parked.append(park.number)
        return crowded

    def repeat(self, park: Park, question: Question, now: Instant) -> bool:
        """Take another copy of a parked question; return whether that ends the park."""
        path = self._path(park.info.path)
        path.repeated = now.awake
        if question.source.address == park.question.source.address:
            park.question = question
        else:
            park.elsewhere = question
        park.copies += 1
        if self._is_impatient(path, now.awake):
            park.until = min(park.until, park.since + SHORT_HOLD)
        return park.copies >= MAX_COPIES or question.source.tcp or now.awake >= park.until

    def remove(self, park: Park) -> None:
        """Let go of a question, which is about to be answered."""
        del self.parks[park.number]
        self._paths[park.info.path].parked.remove(park.number)

    def _path(self, number: int) -> _Path:
        path = self._paths.get(number)
        if path is None:
            path = self._paths[number] = _Path()
        return path

    @staticmethod
    def _is_impatient(path: _Path, awake: float) -> bool:
        return awake - path.traffic < MEMORY and awake - path.repeated < MEMORY
