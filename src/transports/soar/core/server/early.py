"""Early packets that come before their first message (SPEC 8.4)."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from transports.soar.core.server.parking import MAX_COPIES

if TYPE_CHECKING:
    from collections.abc import Callable

    from transports.soar.core.instants import Instant
    from transports.soar.core.server.arrival import Arrival
    from transports.soar.core.server.deadlines import Alarm, Deadlines
    from transports.soar.core.server.question import Question

__all__ = ("EarlyPackets",)

MAX_OCTETS: Final = 1 << 20  # SPEC 19; the oldest give way
OVERHEAD: Final = 512  # octets that one costs besides its packet: its question and the books
EARLY_LIFE: Final = 2.0  # SPEC 8.4
EARLY_WAIT: Final = 0.6  # SPEC 13.5: no question waits longer


class _Early:
    """One that waits, by its newest copy; its question is answered before it is given up."""

    __slots__ = ("arrival", "copies", "is_answered", "sid")

    def __init__(self, sid: bytes, arrival: Arrival) -> None:
        self.sid = sid
        self.arrival = arrival
        self.copies = 1
        self.is_answered = False


class EarlyPackets:
    """Keep packets for a session that isn't there yet: two seconds and a megabyte of them at most.

    Nothing about them is proven, so nothing is kept by session but the order. A question that has waited 0.6 s, or
    come four times, is dismissed, while its packet may still be executed: not with a notice, since the session may yet
    begin. As with parks the newest copy is the one to answer: a resolver has forgotten the others.
    """

    def __init__(
        self,
        deadlines: Deadlines,
        *,
        dismiss: Callable[[Question], None],
        max_octets: int = MAX_OCTETS,
    ) -> None:
        """Answer by `dismiss` the questions that waited in vain."""
        self._deadlines = deadlines
        self._dismiss = dismiss
        self._max_octets = max_octets
        self._serial = 0
        self._kept: OrderedDict[int, tuple[_Early, Alarm, Alarm]] = OrderedDict()
        self._by_sid: dict[bytes, list[int]] = {}
        self._by_packet: dict[bytes, _Early] = {}
        self.octets = 0

    def __len__(self) -> int:
        """Return how many packets are kept."""
        return len(self._kept)

    def add(self, sid: bytes, arrival: Arrival, now: Instant) -> None:
        """Keep a packet for the session `sid`, or take another copy of one that is kept."""
        known = self._by_packet.get(arrival.packet)
        if known is not None:
            self._take_copy(known, arrival)
            return
        self.octets += OVERHEAD + len(arrival.packet)
        while self.octets > self._max_octets and self._kept:
            self._give_up(next(iter(self._kept)))
        self._serial += 1
        serial = self._serial
        early = self._by_packet[arrival.packet] = _Early(sid, arrival)
        if not arrival.question.fits_form:  # a probe is answered with nothing anyway
            self._dismiss_one(early)
        answer = self._deadlines.set(now.awake + EARLY_WAIT, lambda _now: self._dismiss_one(early))
        end = self._deadlines.set(now.awake + EARLY_LIFE, lambda _now: self._give_up(serial))
        self._kept[serial] = (early, answer, end)
        self._by_sid.setdefault(sid, []).append(serial)

    def take(self, sid: bytes) -> list[tuple[Arrival, bool]]:
        """Return what was kept for a session that begins now, oldest first, and whether its question still waits."""
        taken = []
        for serial in self._by_sid.pop(sid, ()):
            early = self._drop(serial)
            taken.append((early.arrival, not early.is_answered))
        return taken

    def _take_copy(self, early: _Early, arrival: Arrival) -> None:
        question = arrival.question
        if early.is_answered or not question.fits_form:
            self._dismiss(question)
            return
        if question.copy.name != early.arrival.question.copy.name:
            # The same packet in another name is no newer copy: whoever asked for the older one waits for it still.
            self._dismiss_one(early)
            self._dismiss(question)
            return
        # In its session it goes on waiting since the first copy came.
        since = early.arrival.question.came
        early.arrival = arrival._replace(question=question._replace(came=since))
        early.copies += 1
        if early.copies >= MAX_COPIES or question.source.tcp:
            self._dismiss_one(early)

    def _dismiss_one(self, early: _Early) -> None:
        if not early.is_answered:
            early.is_answered = True
            self._dismiss(early.arrival.question)

    def _give_up(self, serial: int) -> None:
        early = self._drop(serial)
        serials = self._by_sid[early.sid]
        serials.remove(serial)  # the first: what is given up is the oldest
        if not serials:
            del self._by_sid[early.sid]
        self._dismiss_one(early)

    def _drop(self, serial: int) -> _Early:
        early, answer, end = self._kept.pop(serial)
        self._deadlines.cancel(answer)
        self._deadlines.cancel(end)
        del self._by_packet[early.arrival.packet]
        self.octets -= OVERHEAD + len(early.arrival.packet)
        return early
