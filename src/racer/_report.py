"""A race as data: what every entrant did, when, and why it did not win. Pure, and JSON both ways."""

from __future__ import annotations

import enum
import json
import math
from dataclasses import dataclass
from typing import Any, Final

from racer.errors import ErrorType, InvalidReport, Stage

__all__ = ("Attempt", "Outcome", "RaceReport", "RecordedError", "describe")

_VERSION: Final = 1
_MAX_JSON: Final = 4 * 1024 * 1024  # a report of 1,000 entrants is a tenth of it
_MAX_TEXT: Final = 1000  # characters of one error's text in a report, span or log


class Outcome(enum.StrEnum):
    """How an entrant's part in a race ended; exactly one for every entrant and race."""

    CONNECTED = "connected"
    CONNECT_FAILED = "connect_failed"
    TIMED_OUT = "timed_out"
    """Its own time, or the race's, was over."""
    LOST_RACE = "lost_race"
    """Another was faster: not a failure (R11)."""
    CANCELLED = "cancelled"
    """The caller went away."""
    INELIGIBLE = "ineligible"
    """It does not serve this target; nothing was tried."""
    NOT_STARTED = "not_started"
    """The race was over before its turn."""


class RecordedError(Exception):
    """An error read back from a report: its text, and the name of the type it had."""

    def __init__(self, message: str, type_name: str) -> None:
        """Keep both."""
        super().__init__(message)
        self.type_name = type_name


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Attempt:
    """One entrant's part in a race.

    Attributes:
        transport: the entrant's name.
        outcome: how it ended.
        stage: how far it had come; `None` if it never began.
        error: what went wrong, or for `ineligible` nothing; a won race's causes carry no traceback (R13).
        error_type: the reason from the closed list; `None` where nothing went wrong.
        reason: for `ineligible`, the guest's own words.
        start_delay: seconds after its tier opened at which it was to start.
        tier: its tier.
        started_at: seconds since the race's start; `None` if it never began.
        finished_at: seconds since the race's start at which its outcome was fixed; `None` if it never began.
        peer: who was really talked to, `address:port`, if the guest said so.
    """

    transport: str
    outcome: Outcome
    stage: Stage | None = None
    error: BaseException | None = None
    error_type: ErrorType | None = None
    reason: str | None = None
    start_delay: float = 0.0
    tier: int = 0
    started_at: float | None = None
    finished_at: float | None = None
    peer: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; an error becomes its type's name and its text."""
        return {
            "transport": self.transport,
            "outcome": self.outcome.value,
            "stage": self.stage and self.stage.value,
            "error": None
            if self.error is None
            else {"type": _type_name(self.error), "text": _text(self.error)},
            "error_type": self.error_type and self.error_type.value,
            "reason": self.reason,
            "start_delay": self.start_delay,
            "tier": self.tier,
            "started_at": self.started_at,
            "finished_at": self.finished_at,
            "peer": self.peer,
        }

    @classmethod
    def from_dict(cls, data: object) -> Attempt:
        """Return the attempt that `to_dict` described.

        Raises:
            InvalidReport: names the key that is missing, unknown or of the wrong kind.
        """
        fields = _Fields(data, "attempt")
        error = fields.take("error", dict, none=True)
        recorded = None
        if error is not None:
            inner = _Fields(error, "error")
            recorded = RecordedError(inner.take("text", str), inner.take("type", str))
            inner.finish()
        attempt = cls(
            transport=fields.take("transport", str),
            outcome=fields.choice("outcome", Outcome),
            stage=fields.choice("stage", Stage, none=True),
            error=recorded,
            error_type=fields.choice("error_type", ErrorType, none=True),
            reason=fields.take("reason", str, none=True),
            start_delay=fields.seconds("start_delay"),
            tier=fields.take("tier", int),
            started_at=fields.seconds("started_at", none=True),
            finished_at=fields.seconds("finished_at", none=True),
            peer=fields.take("peer", str, none=True),
        )
        fields.finish()
        return attempt

    @property
    def cause(self) -> str:
        """What to tell a person: the error, the reason, or the outcome itself."""
        if self.error is not None:
            return describe(self.error)
        return self.reason or self.outcome.value

    def __eq__(self, other: object) -> bool:
        """Compare as data: errors by type name and text."""
        if not isinstance(other, Attempt):
            return NotImplemented
        return self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        """Hash what never differs between equal attempts."""
        return hash((self.transport, self.outcome, self.stage, self.started_at, self.finished_at))


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceReport:
    """A whole race as data.

    Attributes:
        target: `host:port`.
        tls: whether TLS to the target was part of the race.
        outcome: `connected`; `connect_failed` when all failed; `timed_out` at the deadline; `cancelled` when the
            caller went away; `ineligible` when nothing served the target; `not_started` while it runs.
        winner: the entrant whose stream was handed out (last); `None` if none was.
        duration: seconds from the race's start to its verdict.
        timeout: seconds the race was given.
        started: wall-clock time of the start, seconds since 1970.
        attempts: one for every entrant: those that began in order of their start, then the rest in order of their turn.
    """

    target: str
    tls: bool
    outcome: Outcome
    winner: str | None
    duration: float
    timeout: float
    started: float
    attempts: tuple[Attempt, ...]

    def __getitem__(self, transport: str) -> Attempt:
        """Return the attempt of the entrant of that name; `KeyError` if there was none."""
        for attempt in self.attempts:
            if attempt.transport == transport:
                return attempt
        raise KeyError(transport)

    def explain(self, headline: str) -> str:
        """Return one line that names every entrant and its cause, in start order, behind `headline`."""
        causes = "; ".join(f"{a.transport}: {a.cause}" for a in self.attempts)
        return f"{headline}: {causes}" if causes else headline

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the report as JSON text that `from_json` reads back to an equal one."""
        data = {
            "version": _VERSION,
            "target": self.target,
            "tls": self.tls,
            "outcome": self.outcome.value,
            "winner": self.winner,
            "duration": self.duration,
            "timeout": self.timeout,
            "started": self.started,
            "attempts": [attempt.to_dict() for attempt in self.attempts],
        }
        return json.dumps(data, indent=indent, allow_nan=False, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> RaceReport:
        """Return the report in `text`, at most 4 MiB of it.

        Raises:
            InvalidReport: the text is not JSON, or not a report of a known version; says what is wrong where.
        """
        if len(text) > _MAX_JSON:
            msg = f"a report of {len(text)} bytes; at most {_MAX_JSON} are read"
            raise InvalidReport(msg)
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as exc:
            msg = f"not JSON: {exc}"
            raise InvalidReport(msg) from exc
        fields = _Fields(data, "report")
        if (version := fields.take("version", int)) != _VERSION:
            msg = f"report version {version}; this racer reads version {_VERSION}"
            raise InvalidReport(msg)
        report = cls(
            target=fields.take("target", str),
            tls=fields.take("tls", bool),
            outcome=fields.choice("outcome", Outcome),
            winner=fields.take("winner", str, none=True),
            duration=fields.seconds("duration"),
            timeout=fields.seconds("timeout"),
            started=fields.seconds("started"),
            attempts=tuple(Attempt.from_dict(item) for item in fields.take("attempts", list)),
        )
        fields.finish()
        return report


def describe(exc: BaseException) -> str:
    """Return an error's type and text in one bounded line, with what it was raised from where that says more."""
    text = f"{_type_name(exc)}: {_text(exc)}" if _text(exc) else _type_name(exc)
    cause = exc.__cause__
    if cause is not None and not isinstance(cause, BaseExceptionGroup) and _text(cause) not in text:
        text = f"{text} ({_type_name(cause)}: {_text(cause)})"
    return _cut(text)


def _type_name(exc: BaseException) -> str:
    return exc.type_name if isinstance(exc, RecordedError) else type(exc).__name__


def _text(exc: BaseException) -> str:
    try:
        text = str(exc)
    except Exception:  # noqa: BLE001 - a guest's error whose text cannot even be made must not break the report
        text = "(no text: its __str__ failed)"
    # Lone surrogates come from undecodable file names and bytes; they could not be written as UTF-8.
    return _cut(" ".join(text.encode("utf-8", "backslashreplace").decode().split()))


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 1]}…"


class _Fields:
    """Takes a JSON object apart key by key, so that each fault is named and nothing is overlooked."""

    def __init__(self, data: object, where: str) -> None:
        if not isinstance(data, dict):
            msg = f"{where}: an object was expected, not {type(data).__name__}"
            raise InvalidReport(msg)
        self._left: dict[str, Any] = dict(data)
        self._where = where

    def take(self, key: str, kind: type, *, none: bool = False) -> Any:  # noqa: ANN401 - the kind is checked here
        if key not in self._left:
            msg = f"{self._where}: {key!r} is missing"
            raise InvalidReport(msg)
        value = self._left.pop(key)
        if value is None and none:
            return None
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            msg = f"{self._where}: {key!r} must be {kind.__name__}, not {type(value).__name__}"
            raise InvalidReport(msg)
        return value

    def choice(self, key: str, kind: type[enum.StrEnum], *, none: bool = False) -> Any:  # noqa: ANN401 - likewise
        value = self.take(key, str, none=none)
        if value is None:
            return None
        try:
            return kind(value)
        except ValueError as exc:
            msg = f"{self._where}: {key!r} is {value[:40]!r}, which is none of {', '.join(kind)}"
            raise InvalidReport(msg) from exc

    def seconds(self, key: str, *, none: bool = False) -> Any:  # noqa: ANN401 - likewise
        value = self._left.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            self._left[key] = value = _as_float(value)
        taken = self.take(key, float, none=none)
        if taken is not None and not math.isfinite(taken):
            msg = f"{self._where}: {key!r} is not a finite number"
            raise InvalidReport(msg)
        return taken

    def finish(self) -> None:
        if self._left:
            msg = f"{self._where}: unknown key {sorted(self._left)[0][:40]!r}"
            raise InvalidReport(msg)


def _as_float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf
