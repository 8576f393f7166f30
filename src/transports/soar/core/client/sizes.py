"""How long names and answers may be on a path: begun small, raised on live questions, lowered by black holes (SPEC 12.6)."""

from __future__ import annotations

from typing import Final

__all__ = ("Ladder", "Sizes")

_LOSSES: Final = 3
_LOSSES_WITHIN_S: Final = 10.0
_FIRST_BAN_S: Final = 60.0
_MOST_BAN_S: Final = 600.0


class Ladder:
    """One size that can be raised step by step.

    A size that passes now and then is no black hole, however much is lost: losses count only while it doesn't pass, and
    smaller ones do.

    Attributes:
        steps: what may be used, smallest first.
        current: the largest of them that has been seen to pass.
    """

    __slots__ = (
        "_at",
        "_ban_s",
        "_banned_until",
        "_losing",
        "_losses",
        "_passed",
        "_trial",
        "current",
        "steps",
    )

    def __init__(self, steps: tuple[int, ...]) -> None:
        self.steps = steps
        self.current = steps[0]
        self._at = 0
        self._trial = False
        self._losses: list[float] = []
        self._losing = steps[0]  # the size that they are of
        self._ban_s = _FIRST_BAN_S
        self._banned_until = 0.0
        self._passed: dict[
            int, float
        ] = {}  # when the newest question of each size was sent that was answered

    def next_trial(self, now: float) -> int | None:
        """Return the size that one question may try now; `None` while another is trying, or a ban lasts."""
        if self._trial or self._at + 1 >= len(self.steps) or now < self._banned_until:
            return None
        return self.steps[self._at + 1]

    def began(self, size: int) -> None:
        """Note that a question of `size` was sent."""
        if size > self.current:
            self._trial = True

    def passed(self, size: int, sent_at: float) -> None:
        """Take an authentic answer to a question of `size`."""
        passed = self._passed
        if passed.get(size, sent_at) <= sent_at:
            passed[size] = sent_at
        if self._losses and size >= self._losing:
            self._losses.clear()
        if size > self.current:
            self._at = self.steps.index(size)
            self.current = size
            self._trial = False

    def told_nothing(self, size: int) -> None:
        """Take an authentic answer to a trial of `size` that turned out no larger than smaller ones may be."""
        if size > self.current:
            self._trial = False

    def missed(self, size: int, sent_at: float, now: float) -> None:
        """Take the loss of a question of `size`."""
        if size > self.current:
            self._trial = False
        elif size < self.current or not self._at:
            return
        passed = self._passed
        if passed.get(size, 0.0) >= sent_at or not any(
            at >= sent_at for smaller, at in passed.items() if smaller < size
        ):
            return
        kept = self._losses if size == self._losing else []
        self._losing = size
        self._losses = [at for at in kept if at > now - _LOSSES_WITHIN_S]
        self._losses.append(now)
        if len(self._losses) >= _LOSSES:
            self._lower(size, now)

    def too_big(self, size: int, now: float) -> None:
        """Lower at once: the resolver itself said that an answer of `size` did not fit."""
        if size and size >= self.current:
            self._trial = False
            self._lower(size, now)

    def _lower(self, size: int, now: float) -> None:
        self._losses.clear()
        if size == self.current and self._at:
            self._at -= 1
            self.current = self.steps[self._at]
        self._banned_until = now + self._ban_s
        self._ban_s = min(2 * self._ban_s, _MOST_BAN_S)


class Sizes:
    """Both directions of a path: classes of names up (SPEC 4.2), size classes of answers down (SPEC 8.2).

    Attributes:
        up: classes of names.
        down: size classes.
        has_begun: whether sizes may be raised: a stream's first octets have come.
    """

    __slots__ = ("down", "has_begun", "up")

    def __init__(self, classes: tuple[int, ...], *, datagram: bool) -> None:
        self.up = Ladder(classes)
        # Size class 2 asks for more than the 1,232 octets that our own OPT record admits by UDP.
        self.down = Ladder((0, 1) if datagram else (0, 1, 2))
        self.has_begun = False
