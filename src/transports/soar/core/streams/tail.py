"""What was sent last, to be said again where packets are lost and nothing new is to be said (SPEC 11.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from transports.soar.core.streams.sender import StreamSent

if TYPE_CHECKING:
    from transports.soar.core.streams.sender import Sender, Sent

__all__ = ("Tail",)

_MOST_RECORDS: Final = 32


class Tail:
    """The last frames that a session has sent, and that its peer is not known to have.

    If their packet is lost, that is noticed a round trip and a margin later. Said again at once it costs neither, and
    what a peer has already does it no harm (SPEC 9.4).

    Args:
        sender: whose frames they are.
        most_octets: how many octets of streams are said again. Where twice as many are under way nothing is: that is
            no small message, and others follow it soon.
    """

    __slots__ = ("_due", "_last", "_most_octets", "_sender")

    def __init__(self, sender: Sender, *, most_octets: int) -> None:
        self._sender = sender
        self._most_octets = most_octets
        self._due: list[Sent] = []  # oldest first; some may have been settled meanwhile
        self._last: list[Sent] = []  # what was said again in vain, perhaps, and is once more

    @property
    def octets(self) -> int:
        """How many octets of streams are to be said again, settled ones included."""
        return sum(each.stop - each.start for each in self._due if type(each) is StreamSent)

    def note(self, sent: list[Sent]) -> None:
        """Remember what a packet carries for the first time, or anew after a loss."""
        due = self._due
        if self._sender.under_way > 2 * self._most_octets or len(due) + len(sent) > _MOST_RECORDS:
            self.forget()
            return
        for record in sent:
            if due and (joined := _join(due[-1], record)) is not None:
                due[-1] = joined  # or each would have a frame of its own again
            else:
                due.append(record)
        self._cut(self.octets - self._most_octets)

    def forget(self) -> None:
        """Say nothing again."""
        self._due.clear()
        self._last.clear()

    def is_due(self) -> bool:
        """Return whether a packet that has nothing else to say could say something again."""
        return bool(self._due and self._is_open(self._due)) or bool(
            self._last and self._is_open(self._last)
        )

    def fill(self, out: bytearray, room: int, *, once_more: bool = False) -> list[Sent]:
        """Append what fits in `room` octets to `out`, and return its records, which are like those of any packet.

        Args:
            out: a packet that has nothing else to say.
            room: octets that it still may have.
            once_more: whether this packet is a poor one to say it in, so that it is worth saying one last time.
        """
        if not (self._due and self._is_open(self._due)):
            return self._sender.fill_again(out, room, self._last) if self._last else []
        said = self._sender.fill_again(out, room, self._due)
        if once_more:
            self._last = said.copy()
        return said

    def _cut(self, octets: int) -> None:
        """Leave out the oldest records that have `octets` in all, and of the last of them what is too much."""
        due = self._due
        while octets > 0:
            first = due[0]
            size = first.stop - first.start if type(first) is StreamSent else 0
            if type(first) is StreamSent and size > octets:
                due[0] = first._replace(start=first.start + octets)
            else:
                del due[0]
            octets -= size

    def _is_open(self, records: list[Sent]) -> bool:
        """Return whether anything is left of `records`; what is settled is dropped, up to the first that is not."""
        while records and not self._sender.is_open(records[0]):
            del records[0]
        return bool(records)


def _join(before: Sent, after: Sent) -> StreamSent | None:
    """Return one record of both if the second goes on where the first ends."""
    if type(before) is not StreamSent or type(after) is not StreamSent:
        return None
    if before.stream != after.stream or before.stop != after.start or before.fin:
        return None
    return StreamSent(before.stream, before.start, after.stop, after.fin)
