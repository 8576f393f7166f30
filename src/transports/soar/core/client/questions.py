"""What a client remembers of one question that it asked."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from transports.soar.core.client.rtt import RoundTrips
    from transports.soar.core.dns.answers import Form

__all__ = ("ANSWERED", "FRAGMENT", "IN_FLIGHT", "LOST", "Fate", "Question")

FRAGMENT = -1
"""The packet number of a question that has none, since it carries a piece of a first message."""


class Fate(IntEnum):
    """What has become of a question."""

    IN_FLIGHT = 0
    LOST = 1
    ANSWERED = 2


# Asked for with every question and answer, and an enumeration is slow to ask for its members.
IN_FLIGHT: Final = Fate.IN_FLIGHT
LOST: Final = Fate.LOST
ANSWERED: Final = Fate.ANSWERED


class Question:
    """One question: one name, one packet, asked once, on one path (SPEC 4.6).

    Attributes:
        id: of the DNS message.
        asked: name, type and class, lower case; what an answer has to repeat.
        owner: the session that asked.
        number: its packet number, or `FRAGMENT`.
        form: in which it was asked.
        name_class: of its name.
        size_class: of the answer that it allows.
        may_park: whether the server may hold it.
        sequence: its place among the questions of its path.
        sent_at: seconds, awake clock.
        sent_elapsed: seconds, elapsed clock.
        lane: the round trips that its answer tells of.
        records: what the stream table says it carries.
        needs_answer: whether it carries something that must arrive.
        floor: the floor that it told the server, or -1.
        reports: the packet numbers that it reported as lost.
        had_edns: whether it had an OPT record.
        is_hinted: whether an unproven answer has been counted against it already.
        is_local: whether the resolver refused it for a limit of its own; its loss says nothing.
        first: for a fragment, the first message that it is a piece of.
        fate: what became of it.
    """

    __slots__ = (
        "asked",
        "fate",
        "first",
        "floor",
        "form",
        "had_edns",
        "id",
        "is_hinted",
        "is_local",
        "lane",
        "may_park",
        "name_class",
        "needs_answer",
        "number",
        "owner",
        "records",
        "reports",
        "sent_at",
        "sent_elapsed",
        "sequence",
        "size_class",
    )

    def __init__(
        self,
        *,
        id: int,  # noqa: A002 -- it is what the DNS calls it
        asked: bytes,
        owner: Any,  # noqa: ANN401 -- a path does not know what a session is
        number: int,
        form: Form,
        name_class: int,
        size_class: int,
        may_park: bool,
        sent_at: float,
        sent_elapsed: float,
        lane: RoundTrips,
    ) -> None:
        self.id = id
        self.asked = asked
        self.owner = owner
        self.number = number
        self.form = form
        self.name_class = name_class
        self.size_class = size_class
        self.may_park = may_park
        self.sent_at = sent_at
        self.sent_elapsed = sent_elapsed
        self.lane = lane
        self.sequence = 0
        self.records: list[Any] = []
        self.needs_answer = False
        self.floor = -1
        self.reports: tuple[int, ...] = ()
        self.had_edns = True
        self.is_hinted = False
        self.is_local = False
        self.first: object = None
        self.fate = IN_FLIGHT
