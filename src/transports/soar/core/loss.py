"""How much is lost, as far as it decides whether to say things twice (SPEC 11.6)."""

from __future__ import annotations

from typing import Final

__all__ = ("LossShare",)

_WEIGHT: Final = 1 / 64
_KEPT: Final = 1 - _WEIGHT
NOTABLE: Final = 0.01
"""One loss counts as notable until some thirty outcomes without another have passed."""


class LossShare:
    """The share of packets that are lost: a moving average over their outcomes.

    Attributes:
        share: from 0 to 1; 0 until anything was lost.
    """

    __slots__ = ("share",)

    def __init__(self) -> None:
        self.share = 0.0

    @property
    def is_notable(self) -> bool:
        """Whether so much is lost that a small message is worth sending twice."""
        return self.share >= NOTABLE

    def lost(self) -> None:
        """Count a packet as lost."""
        self.share += (1.0 - self.share) * _WEIGHT

    def arrived(self, count: int = 1) -> None:
        """Count `count` packets as arrived."""
        self.share *= _KEPT**count
