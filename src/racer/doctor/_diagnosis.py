"""What the doctor found, as data and in words."""

from __future__ import annotations

import json
import platform
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from racer._finding import Finding, Verdict
from racer._version import __version__
from racer._words import one_line
from racer.doctor._redaction import Pseudonyms

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ("Diagnosis",)

_ORDER: Final = (Verdict.FAIL, Verdict.WARN, Verdict.OK, Verdict.SKIPPED)
_MOST_NAMED: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """All findings of one examination.

    Attributes:
        target: the host and port that were tried.
        findings: in the order of the checks.
        seconds: how long it took.
        hosts: names that are taken out of a redacted report besides those that can be told by their looks.
        home: the user's home directory, which is taken out too.
    """

    target: str
    findings: tuple[Finding, ...]
    seconds: float
    hosts: tuple[str, ...] = ()
    home: str = ""

    @property
    def ranked(self) -> tuple[Finding, ...]:
        """The findings, what matters most first."""
        return tuple(sorted(self.findings, key=lambda one: _ORDER.index(one.verdict)))

    @property
    def told(self) -> list[tuple[Finding, list[str]]]:
        """The same, each with the advice that was not given before."""
        given: dict[str, None] = {}
        told = []
        for one in self.ranked:
            told.append((one, [line for line in one.advice if line not in given]))
            given.update(dict.fromkeys(one.advice))
        return told

    @property
    def verdict(self) -> Verdict:
        """The gravest verdict; `skipped` only where nothing at all was checked."""
        return min(
            (one.verdict for one in self.findings), key=_ORDER.index, default=Verdict.SKIPPED
        )

    @property
    def summary(self) -> str:
        """The last line: what it comes to."""
        failed = _checks(self.findings, Verdict.FAIL)
        odd = _checks(self.findings, Verdict.WARN)
        ways = [one for one in self.findings if one.check.startswith("transport ")]
        working = [one for one in ways if one.verdict in {Verdict.OK, Verdict.WARN}]
        if not failed and not odd:
            return f"Verdict: all is well; {self.target} is reached."
        wrong = f"wrong: {_listed(failed)}" if failed else f"odd: {_listed(odd)}"
        if not ways:
            return f"Verdict: {wrong}."
        if working:
            names = ", ".join(one.check.removeprefix("transport ") for one in working)
            return f"Verdict: {self.target} is reached, by {names}; {wrong}."
        return f"Verdict: {self.target} is not reached; {wrong}."

    def __str__(self) -> str:
        """Return all of it as lines of plain text."""
        lines: list[str] = []
        for one, advice in self.told:
            lines.append(f"{one.verdict.value.upper():7}  {one_line(one.words)}")
            lines += [f"         try: {one_line(line)}" for line in advice]
        return "\n".join([*lines, "", self.summary])

    def to_dict(self, *, redacted: bool = True) -> dict[str, Any]:
        """Return plain data for a bug report.

        Args:
            redacted: hosts and addresses become `host-1`, `addr-1`, the same one always the same.
        """
        data = {
            "version": 1,
            "racer": __version__,
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.release()}",
            "target": self.target,
            "seconds": round(self.seconds, 3),
            "verdict": self.verdict.value,
            "summary": self.summary,
            "findings": [one.to_dict() for one in self.ranked],
        }
        if not redacted:
            return data
        hidden = Pseudonyms(self.hosts, home=self.home)
        kept = {key: data[key] for key in ("version", "racer", "python", "system")}
        return {key: kept.get(key) or hidden.hide(value) for key, value in data.items()}

    def to_json(self, *, redacted: bool = True) -> str:
        """Return the same as JSON, in ASCII."""
        return json.dumps(self.to_dict(redacted=redacted), indent=2)


def _checks(findings: Iterable[Finding], verdict: Verdict) -> list[str]:
    return list(dict.fromkeys(one.check for one in findings if one.verdict is verdict))


def _listed(names: list[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
