"""In which form a path is asked: the first that got a proven answer (SPEC 5.1)."""

from __future__ import annotations

from typing import Final

from transports.soar.core.dns.answers import Form

__all__ = ("ORDER", "FormChoice")

ORDER: Final = (Form.DS, Form.TXT, Form.SOA)
"""What is tried, best first: DS costs one round trip through every resolver that was measured."""

_MOST_FAILURES: Final = 3  # of a form that never worked here, before the next is tried


class FormChoice:
    """The form of one path's questions.

    Attributes:
        current: the form to ask in.
        is_proven: whether a proven answer came in it.
        edns: whether questions have an OPT record.
    """

    __slots__ = ("_failures", "current", "edns", "is_proven")

    def __init__(self) -> None:
        self.current = ORDER[0]
        self.is_proven = False
        self.edns = True
        self._failures = 0

    def worked(self, form: Form) -> None:
        """Keep `form`: an answer in it was authentic."""
        if not self.is_proven or form is self.current:
            self.current = form
            self.is_proven = True
            self._failures = 0

    def failed(self, form: Form) -> None:
        """Count a question in `form` without proven answer; go on to the next form if this one never worked."""
        if self.is_proven or form is not self.current:
            return
        self._failures += 1
        if self._failures >= _MOST_FAILURES:
            self._failures = 0
            self.current = ORDER[(ORDER.index(form) + 1) % len(ORDER)]

    def doubt(self) -> None:
        """Let the race begin anew: the path has been silent for long, whatever worked before."""
        self.is_proven = False
        self._failures = 0
