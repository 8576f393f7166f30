"""How many questions a path bears at once (SPEC 12.2 to 12.4).

Loss alone says little on a path that always loses some; a growing queue, failures that the resolver admits, and loss
above what is usual are what shrinks the window.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ("BURST", "FIRST_WINDOW", "LEAST_WINDOW", "MOST_WINDOW", "UNPROVEN_WINDOW", "Window")

FIRST_WINDOW: Final = 12
LEAST_WINDOW: Final = 4
UNPROVEN_WINDOW: Final = 128
"""The most, until that many in flight came back without a queue."""
MOST_WINDOW: Final = 768
BURST: Final = 16
"""The most questions sent in one instant while the window is below 192; then a twelfth of it."""

_LOSS_CUT: Final = 0.7
_QUEUE_CUT: Final = 0.85
_LIMIT_CUT: Final = 0.8  # of what was in flight when the resolver said no
_REST_ROUNDS: Final = 2  # without growth after a cut
_MOST_FAILURES: Final = 0.05
_LOSS_MARGIN: Final = 0.10
_QUEUE_S: Final = 0.010
# So few questions queue up nowhere but on a machine that is busy with something else, and asking less does not help that.
_LEAST_QUEUED: Final = 16.0
# A flight that small is lost for want of luck, or with the handshake that it came with. It shrinks the window, but is no
# reason to feel one's way up from there by a sixteenth a round, which takes a minute.
_LEAST_LOST: Final = 32.0
_BASE_WEIGHT: Final = 1 / 16
# One loss among a handful is no rate: a round has some outcomes, and what is counted in it is chance to some part, so
# many standard deviations are taken off before it is held against the path.
_LEAST_OUTCOMES: Final = 8
_DEVIATIONS: Final = 1.5
_LEAST_FAILURES: Final = 2
_BURST_PART: Final = 1 / 12
_LIMITED_S: Final = 30.0  # after a refusal: as long as a resolver is taken to be near its own limit
_PACE: Final = 2.0  # bursts follow each other at twice the rate that the window allows


class _Undo(NamedTuple):
    """What a cut for loss is taken back to, the loss that it was for, and the sum of that in the rounds since."""

    size: float
    last_cut: float
    loss: float
    rests: float


class Window:
    """The congestion window of one path, in questions; times are seconds of the awake clock.

    Attributes:
        size: how many questions may be unanswered and not lost.
        in_flight: how many are.
        base: the loss that the path has when nothing presses it; `None` until a round without growth.
    """

    __slots__ = (
        "_failed",
        "_held",
        "_is_proven",
        "_last_cut",
        "_least_sum",
        "_limited_until",
        "_lost",
        "_peak",
        "_queues",
        "_refused_until",
        "_rest",
        "_round_began",
        "_tokens",
        "_tokens_at",
        "_undo",
        "base",
        "in_flight",
        "size",
    )

    def __init__(self) -> None:
        self.size = float(FIRST_WINDOW)
        self.in_flight = 0
        self.base: float | None = None
        self._is_proven = False
        self._last_cut = float(MOST_WINDOW)
        self._rest = 0
        self._refused_until = 0.0
        self._limited_until = float("-inf")
        self._tokens = float(BURST)
        self._tokens_at = 0.0
        self._round_began: float | None = None
        self._queues: list[float] = []
        self._least_sum = 0.0
        self._held = 0
        self._lost = 0
        self._failed = 0
        self._peak = 0
        self._undo: _Undo | None = None

    @property
    def most(self) -> int:
        """The size that the window does not pass yet."""
        return MOST_WINDOW if self._is_proven else UNPROVEN_WINDOW

    def room(self, now: float, srtt: float) -> int:
        """Return how many questions may be sent now: what the window leaves, and not more than a burst."""
        free = int(self.size) - self.in_flight
        if free <= 0:
            return 0
        self._refill(now, srtt)
        return min(free, int(self._tokens))

    def next_burst(self, now: float, srtt: float) -> float:
        """Return when a quarter of a burst may follow, for a path that has room in its window and no more tokens."""
        self._refill(now, srtt)
        missing = max(0.0, self._burst / 4 - self._tokens)
        return now + missing * srtt / (_PACE * self.size)

    def sent(self, now: float) -> None:
        """Count a question as in flight."""
        if self._round_began is None:
            self._round_began = now
        self._tokens -= 1
        in_flight = self.in_flight = self.in_flight + 1
        if in_flight > self._peak:  # noqa: PLR1730 - max() takes several times as long
            self._peak = in_flight

    def left(self) -> None:
        """Give a place back for a question that says nothing about the path."""
        self.in_flight -= 1

    def answered(self, queue: float, least: float, srtt: float, now: float) -> None:
        """Take an authentic answer: `queue` is its round trip above `least`, its lane's least."""
        self._queues.append(queue)
        self._least_sum += least
        self._end_round(now, srtt)

    def answered_late(self, srtt: float, now: float) -> None:
        """Take an authentic answer to a question that the server held.

        Its resolver may have asked again meanwhile, and then takes no answer to the copy before: how long it took says
        nothing of a queue.
        """
        self._held += 1
        self._end_round(now, srtt)

    def _end_round(self, now: float, srtt: float) -> None:
        began = self._round_began
        if began is not None and now - began >= srtt:
            self._turn(now, srtt)

    def lost(self, srtt: float, now: float) -> None:
        """Count a question as lost."""
        self._lost += 1
        self._turn(now, srtt)

    def was_late(self) -> None:
        """Take back one loss of this round: its answer came after all."""
        if self._lost:
            self._lost -= 1

    def failed(self, srtt: float, now: float) -> None:
        """Count an answer that admits a failure."""
        self._failed += 1
        self._turn(now, srtt)

    def refused(self, srtt: float, now: float) -> None:
        """Obey a resolver that is at its own limit, once in a round trip (SPEC 12.4)."""
        self._limited_until = now + _LIMITED_S
        if now < self._refused_until:
            return
        self._refused_until = now + srtt
        self._cut(_LIMIT_CUT * self.in_flight)

    def is_limited(self, now: float) -> bool:
        """Whether the resolver has said lately that it has no place for more questions."""
        return now < self._limited_until

    @property
    def _burst(self) -> float:
        # What a wide window sends in five milliseconds or so: to wake up for less costs more than it spares a resolver.
        return max(BURST, self.size * _BURST_PART)

    def _refill(self, now: float, srtt: float) -> None:
        rate = _PACE * self.size / max(srtt, 1e-4)
        self._tokens = min(self._burst, self._tokens + (now - self._tokens_at) * rate)
        self._tokens_at = now

    def _turn(self, now: float, srtt: float) -> None:
        """End the round, if it has lasted long enough to say something."""
        began = self._round_began
        if began is None or now - began < srtt:
            return
        answered = len(self._queues)
        outcomes = answered + self._held + self._lost
        if outcomes < _LEAST_OUTCOMES:
            return
        loss = self._lost / outcomes
        if self._judge(answered, outcomes, loss) == 0:
            self.base = loss if self.base is None else self.base + (loss - self.base) * _BASE_WEIGHT
            if self._undo is not None:
                self._reconsider(self._undo, loss)
        self._round_began = now
        self._queues.clear()
        self._least_sum = 0.0
        self._held = self._lost = self._failed = 0
        self._peak = self.in_flight

    def _judge(self, answered: int, outcomes: int, loss: float) -> int:
        """Set the window by the round that ends; return whether it grew (1), shrank (-1) or stayed (0)."""
        least = self._least_sum / answered if answered else 0.0
        queue = sorted(self._queues)[answered // 2] if answered else 0.0
        base = self.base or 0.0
        if self._undo is not None:  # the cut for so much loss is still on trial
            base = max(base, self._undo.loss)
        sure = (self._lost - _DEVIATIONS * self._lost**0.5) / outcomes
        is_lossy = sure > max(2 * base, base + _LOSS_MARGIN)
        has_failures = self._failed >= _LEAST_FAILURES and self._failed > _MOST_FAILURES * outcomes
        if self._peak >= UNPROVEN_WINDOW and answered and queue < 0.3 * least:
            self._is_proven = True
        rest, self._rest = self._rest, max(0, self._rest - 1)
        if is_lossy or has_failures:
            undo = None if has_failures else _Undo(self.size, self._last_cut, loss, 0.0)
            self._rest = _REST_ROUNDS
            last_cut, is_small = self._last_cut, self.size < _LEAST_LOST
            self._cut(self.size * _LOSS_CUT)
            if is_small and not has_failures:
                self._last_cut = last_cut
            self._undo = undo
            return -1
        if queue > 0.5 * least + _QUEUE_S:
            if self.size <= _LEAST_QUEUED:
                return 0
            self._cut(max(_LEAST_QUEUED, self.size * _QUEUE_CUT))
            return -1
        if self._peak >= int(self.size) and not rest and self.size < self.most:
            slow = self.size >= self._last_cut
            step = max(1.0, self.size / 16) if slow else self.size
            self.size = min(float(self.most), self.size + step)
            return 1
        return 0

    def _reconsider(self, undo: _Undo, loss: float) -> None:
        """Take a cut for loss back, if about as much was lost in the rounds after it: the path always does (SPEC 12.3)."""
        rests = undo.rests + loss
        if self._rest:
            self._undo = undo._replace(rests=rests)
            return
        self._undo = None
        usual = rests / _REST_ROUNDS
        if undo.loss <= max(2 * usual, usual + _LOSS_MARGIN):
            self.size = max(self.size, undo.size)
            self._last_cut = undo.last_cut

    def _cut(self, size: float) -> None:
        self._undo = None
        self.size = max(float(LEAST_WINDOW), min(self.size, size))
        self._last_cut = self.size
