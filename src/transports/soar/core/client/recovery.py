"""Which of a path's questions are lost (SPEC 11). Only the client can tell, since only it can send.

Questions of one lane that may, or may not, be held wait equally long, so each kind has a queue in the order of sending,
and only the heads are ever looked at: the cost of an answer does not grow with what is outstanding.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from transports.soar.core.client.questions import ANSWERED, IN_FLIGHT, LOST
from transports.soar.core.loss import LossShare

if TYPE_CHECKING:
    from transports.soar.core.client.questions import Question

__all__ = ("PARK_S", "PENDING_S", "Recovery")

PARK_S: Final = 0.6
"""How long a server holds a question that may park (SPEC 13.4)."""
PENDING_S: Final = 10.0
"""How long a lost question's answer is still taken (SPEC 5.4)."""
MOST_PROBE_S: Final = 5.0
"""The longest probe timeout (SPEC 11.3)."""
_PROBES: Final = 2
_FIRST_PROBES: Final = (
    3  # after them a path is asked twice a second at most (SPEC 12.5), however much room it has
)
_MOST_DOUBLINGS: Final = 10


class Recovery:
    """The questions of one path that have no authentic answer; times are seconds of the awake clock.

    Attributes:
        pending: by the id of their message, the lost ones included as long as an answer is taken.
        probes: how often in a row the probe timeout has passed.
        loss: how many of its questions are lost, of those that no server holds.
    """

    __slots__ = (
        "_answered",
        "_expiring",
        "_probed_at",
        "_productive",
        "_queues",
        "_sequence",
        "loss",
        "pending",
        "probes",
    )

    def __init__(self) -> None:
        self.pending: dict[int, Question] = {}
        self.probes = 0
        self.loss = LossShare()
        self._queues: dict[int, deque[Question]] = {}
        self._expiring: deque[tuple[float, Question]] = deque()
        self._sequence = 0
        self._answered = 0  # the highest sequence that has an authentic answer
        self._productive = 0  # the highest whose answer brought stream octets, or a backlog
        self._probed_at = 0.0

    def sent(self, question: Question) -> None:
        """Watch over `question`, which is sent now."""
        self._sequence += 1
        question.sequence = self._sequence
        self.pending[question.id] = question
        key = question.form << 2 | (question.name_class > 1) << 1 | question.may_park
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = deque()
        queue.append(question)

    def answered(self, question: Question, *, is_productive: bool) -> None:
        """Take `question` as answered by an authentic answer, the first for it."""
        question.fate = ANSWERED
        self.pending.pop(question.id, None)
        sequence = question.sequence
        if sequence > self._answered:  # noqa: PLR1730 - max() takes several times as long
            self._answered = sequence
        if is_productive and sequence > self._productive:
            self._productive = sequence
        self.probes = 0
        if self.loss.share and not question.may_park:
            self.loss.arrived()

    def lose(self, question: Question, now: float) -> None:
        """Take `question` as lost; an answer still counts for a while."""
        question.fate = LOST
        self._expiring.append((now + PENDING_S, question))

    def detect(self, now: float) -> list[Question]:
        """Return the questions that are lost by now, oldest first of each kind, and take them as lost."""
        lost: list[Question] = []
        for queue in self._queues.values():
            while queue:
                head = queue[0]
                if head.fate is IN_FLIGHT:
                    if now < self._lost_at(head):
                        break
                    lost.append(head)
                    self.lose(head, now)
                queue.popleft()
        if not lost:
            lost = self._probe(now)
        for question in lost:
            if (
                not question.may_park
            ):  # one that waited may only be late, since its resolver asked again
                self.loss.lost()
        expiring = self._expiring
        while expiring and expiring[0][0] <= now:
            question = expiring.popleft()[1]
            if self.pending.get(question.id) is question:
                del self.pending[question.id]
        return lost

    def deadline(self) -> float | None:
        """Return when `detect` has something to do next."""
        due: float | None = None
        for queue in self._queues.values():
            while queue and queue[0].fate is not IN_FLIGHT:
                queue.popleft()
            if queue:
                at = min(self._lost_at(queue[0]), self._probe_at(queue[0]))
                if due is None or at < due:
                    due = at
        return due

    def in_flight(self) -> list[Question]:
        """Return all questions that are neither answered nor lost."""
        return [q for queue in self._queues.values() for q in queue if q.fate is IN_FLIGHT]

    def _lost_at(self, question: Question) -> float:
        """Return when `question` is lost by 11.2; never, if nothing later was answered."""
        sequence = question.sequence
        if sequence > self._answered:
            return float("inf")
        at = question.sent_at + question.lane.loss_delay
        if question.may_park and sequence > self._productive:
            at += PARK_S
        return at

    def _probe_at(self, question: Question) -> float:
        """Return when the probe timeout of 11.3 passes for `question`, the oldest of its kind."""
        if question.sequence < self._answered:
            return float("inf")
        timeout = question.lane.probe_timeout + (PARK_S if question.may_park else 0.0)
        timeout = min(timeout * (1 << min(self.probes, _MOST_DOUBLINGS)), MOST_PROBE_S)
        return max(question.sent_at, self._probed_at) + timeout

    def _probe(self, now: float) -> list[Question]:
        """Give up the oldest one or two if the probe timeout has passed: what they carried is then sent anew.

        After four times twice as many each further time: many on a path that has died would else be waited for, two by
        two, and nothing asked meanwhile.
        """
        for queue in self._queues.values():
            if queue and now >= self._probe_at(queue[0]):
                break
        else:
            return []
        most = _PROBES << min(max(0, self.probes - _FIRST_PROBES), _MOST_DOUBLINGS)
        self.probes += 1
        self._probed_at = now
        given_up: list[Question] = []
        while queue and len(given_up) < most:
            head = queue[0]
            if head.fate is IN_FLIGHT:
                if given_up and now < head.sent_at + head.lane.srtt:
                    break  # its answer cannot be expected yet
                given_up.append(head)
                self.lose(head, now)
            queue.popleft()
        return given_up
