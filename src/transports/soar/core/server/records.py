"""What a session remembers of each packet number (SPEC 8.3, 8.6, 8.7, 9.2, 9.3)."""

from __future__ import annotations

import enum
from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from transports.soar.core.streams.sender import Sent

__all__ = ("ANSWERED", "DEAD", "MAX_OUTSTANDING", "WAITING", "Record", "RecordState", "Records")

MAX_OUTSTANDING: Final = 8_192  # packet numbers above the floor, SPEC 8.7
MAX_SEALED: Final = (
    1 << 20
)  # octets of answers that a session keeps for repeats; the oldest go first


class RecordState(enum.Enum):
    """How far the answer to a packet is."""

    WAITING = (
        enum.auto()
    )  # its frames are executed; it is parked, or no copy has come under its form's type
    ANSWERED = enum.auto()  # its answer is sealed
    DEAD = enum.auto()  # the client gave it up before it came: it is neither executed nor answered


# Asked for with every packet, and an enumeration is slow to ask for its members.
WAITING: Final = RecordState.WAITING
ANSWERED: Final = RecordState.ANSWERED
DEAD: Final = RecordState.DEAD


class Record:
    """One packet number.

    Attributes:
        state: how far its answer is.
        since: when its first copy came, in awake seconds.
        sealed: the answer's octets, while they are kept.
        sent: what the answer carried, until the client has it or says that it is lost.
        repeats: how often the octets were sent again.
        was_held: it was parked.
        is_lost: the client has counted the answer lost, and will not say so again. So nothing that must arrive may be
            put into it any more.
    """

    __slots__ = ("is_lost", "repeats", "sealed", "sent", "since", "state", "was_held")

    def __init__(self, since: float, state: RecordState = WAITING) -> None:
        """Begin with the first copy."""
        self.state = state
        self.since = since
        self.sealed: bytes | None = None
        self.sent: list[Sent] | None = None
        self.repeats = 0
        self.was_held = False
        self.is_lost = False


class Records:
    """The packet numbers of one session, from the client's floor on.

    Attributes:
        floor: below it nothing is remembered; the client has settled it.
        highest: the highest number that came; -1 for none.
        sealed_octets: how much is kept for repeats.
        get: returns what is known of a number, or None if it was never seen.
    """

    __slots__ = ("_by_age", "_records", "floor", "get", "highest", "sealed_octets")

    def __init__(self) -> None:
        """Begin with number 0."""
        self._records: dict[int, Record] = {}
        self.get: Final = self._records.get
        self._by_age: deque[int] = deque()
        self.floor = 0
        self.highest = -1
        self.sealed_octets = 0

    def __len__(self) -> int:
        """Return how many numbers are remembered."""
        return len(self._records)

    def admits(self, number: int) -> bool:
        """Return whether the number is one that may be executed and answered (SPEC 8.7)."""
        return self.floor <= number < self.floor + MAX_OUTSTANDING

    def add(self, number: int, since: float) -> Record:
        """Take in a number that was never seen, of an authentic packet."""
        record = self._records[number] = Record(since)
        if number > self.highest:  # noqa: PLR1730 - max() takes several times as long
            self.highest = number
        return record

    def bury(self, number: int, since: float) -> None:
        """Give up a number that was never seen: what comes of it will be neither executed nor answered."""
        self._records[number] = Record(since, DEAD)

    def seal(
        self, number: int, record: Record, sealed: bytes, sent: list[Sent], *, keep: int
    ) -> None:
        """Keep the answer to a number for repeats, of all answers the youngest `keep` octets."""
        record.state = ANSWERED
        record.sealed = sealed
        record.sent = sent or None
        self.sealed_octets += len(sealed)
        by_age = self._by_age
        by_age.append(number)
        while by_age and (self.sealed_octets > keep or by_age[0] < self.floor):
            oldest = self._records.get(by_age.popleft())
            if oldest is not None and oldest.sealed is not None:
                self.sealed_octets -= len(oldest.sealed)
                oldest.sealed = None

    def drop_sealed(self) -> None:
        """Keep no answer for repeats any more; what is known of their numbers stays."""
        for record in self._records.values():
            record.sealed = None
        self._by_age.clear()
        self.sealed_octets = 0

    def raise_floor(self, floor: int) -> list[tuple[int, Record]]:
        """Forget all numbers below `floor`, and return what was known of them."""
        old = self.floor
        if floor <= old:
            return []
        self.floor = floor
        records = self._records
        numbers: Iterable[int] = range(old, floor)
        if floor - old > len(records):  # a jump over numbers that never came
            numbers = sorted(number for number in records if number < floor)
        freed = []
        for number in numbers:
            record = records.pop(number, None)
            if record is not None:
                if record.sealed is not None:
                    self.sealed_octets -= len(record.sealed)
                freed.append((number, record))
        return freed
