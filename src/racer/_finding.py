"""What a check found: a verdict, words, advice. What `racer doctor` is made of, and what guests bring to it."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ("Finding", "Verdict")


class Verdict(enum.StrEnum):
    """How a check ended."""

    OK = "ok"
    WARN = "warn"
    """It works, and something is odd."""
    FAIL = "fail"
    SKIPPED = "skipped"
    """It could not be made, or there was nothing to check."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one check found.

    Attributes:
        check: what was checked, in a few words: `clock`, `resolver udp://192.0.2.53`, `transport direct`.
        verdict: how it ended.
        words: what was found, in a sentence or two; hosts and addresses may be in it, secrets may not.
        advice: what to try, each in a sentence.
        data: what else helps, for a bug report: plain values that JSON takes, likewise without secrets.
    """

    check: str
    verdict: Verdict
    words: str
    advice: tuple[str, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "check": self.check,
            "verdict": self.verdict.value,
            "words": self.words,
            "advice": list(self.advice),
            "data": dict(self.data),
        }
