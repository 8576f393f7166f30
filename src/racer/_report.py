"""A race as data: what every entrant did, when, and why it did not win. Pure, JSON both ways, and picklable."""

from __future__ import annotations

import enum
import itertools
import math
from dataclasses import dataclass, fields
from typing import Any, Final

from racer._words import describe, one_line, type_name, words
from racer.errors import (
    DialError,
    ErrorType,
    InvalidReport,
    RecordedError,
    Stage,
    error_type_of,
)

__all__ = ("Attempt", "Outcome", "RaceReport", "RecordedError", "describe")

_VERSION: Final = 1
_MAX_JSON: Final = 4 * 1024 * 1024  # a report of 1,000 entrants is a tenth of it
_MAX_CHAIN: Final = 16  # causes of one error that cross a process border with it


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
        timeout: seconds it was given at most; `None` where nobody says: it could not take part, or the report is an old one.
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
    timeout: float | None = None
    started_at: float | None = None
    finished_at: float | None = None
    peer: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; an error becomes its type's name and its text."""
        return {
            "transport": self.transport,
            "outcome": self.outcome.value,
            "stage": None if self.stage is None else self.stage.value,
            "error": None
            if self.error is None
            else {"type": type_name(self.error), "text": words(self.error)},
            "error_type": None if self.error_type is None else self.error_type.value,
            "reason": self.reason,
            "start_delay": self.start_delay,
            "tier": self.tier,
            "timeout": self.timeout,
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
        return _attempt(data, "attempt")

    @property
    def cause(self) -> str:
        """What to tell a person: the error, the reason, or the outcome itself."""
        if self.error is not None:
            return describe(self.error)
        return one_line(self.reason or "") or self.outcome.value

    def __eq__(self, other: object) -> bool:
        """Compare as data: errors by type name and text."""
        if not isinstance(other, Attempt):
            return NotImplemented
        return self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        """Hash what never differs between equal attempts."""
        return hash((self.transport, self.outcome, self.stage, self.started_at, self.finished_at))

    def __copy__(self) -> Attempt:
        """Return the attempt itself, which never changes."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Attempt:
        """Return the attempt itself: many errors cannot be copied."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Let an attempt cross a process border; an error that cannot goes as a `RecordedError`."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "error"}
        return _unpacked, (values, _packed(self))


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
        causes = "; ".join(f"{one_line(a.transport)}: {a.cause}" for a in self.attempts)
        return f"{headline}: {causes}" if causes else headline

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the report as JSON text that `from_json` reads back to an equal one."""
        import json  # noqa: PLC0415 - a dial makes a report, and no text of it

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
        # ASCII, so that it can be written to any file and terminal, lone surrogates of file names included.
        return json.dumps(data, indent=indent, allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> RaceReport:
        """Return the report in `text`, at most 4 MiB of it.

        Raises:
            InvalidReport: the text is not JSON, or not a report of a known version; says what is wrong where.
        """
        import json  # noqa: PLC0415 - likewise

        if not isinstance(text, str | bytes | bytearray):
            msg = f"a report is read from text or bytes, not from {type(text).__name__}"
            raise InvalidReport(msg)
        if len(text) > _MAX_JSON:
            msg = f"a report of {len(text)} bytes; at most {_MAX_JSON} are read"
            raise InvalidReport(msg)
        try:
            data = json.loads(text, object_pairs_hook=_unique)
        except InvalidReport:
            raise
        except (ValueError, RecursionError) as exc:
            msg = f"not JSON: {exc}"
            raise InvalidReport(msg) from exc
        entry = _Fields(data, "report")
        if (version := entry.take("version", int)) != _VERSION:
            told = version if abs(version) < _MAX_JSON else "of that size"
            msg = f"report version {told}; this racer reads version {_VERSION}"
            raise InvalidReport(msg)
        report = cls(
            target=entry.take("target", str),
            tls=entry.take("tls", bool),
            outcome=entry.choice("outcome", Outcome),
            winner=entry.take("winner", str, none=True),
            duration=entry.seconds("duration"),
            timeout=entry.seconds("timeout"),
            started=entry.seconds("started"),
            attempts=tuple(
                _attempt(item, f"attempts[{index}]")
                for index, item in enumerate(entry.take("attempts", list))
            ),
        )
        entry.finish()
        return report


def _attempt(data: object, where: str) -> Attempt:
    entry = _Fields(data, where)
    error = entry.take("error", dict, none=True)
    kind = entry.choice("error_type", ErrorType, none=True)
    recorded = None
    if error is not None:
        inner = _Fields(error, f"{where}.error")
        recorded = RecordedError(inner.take("text", str), inner.take("type", str), error_type=kind)
        inner.finish()
    attempt = Attempt(
        transport=entry.take("transport", str),
        outcome=entry.choice("outcome", Outcome),
        stage=entry.choice("stage", Stage, none=True),
        error=recorded,
        error_type=kind,
        reason=entry.take("reason", str, none=True),
        start_delay=entry.seconds("start_delay"),
        tier=entry.take("tier", int),
        # Not in reports that were written before it was told.
        timeout=entry.seconds("timeout", none=True) if entry.has("timeout") else None,
        started_at=entry.seconds("started_at", none=True),
        finished_at=entry.seconds("finished_at", none=True),
        peer=entry.take("peer", str, none=True),
    )
    entry.finish()
    return attempt


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object, unless a key stands in it twice: readers differ in which of the two they believe."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            msg = f"the key {key[:40]!r} stands twice in one object"
            raise InvalidReport(msg)
        found[key] = value
    return found


def _packed(attempt: Attempt) -> tuple[BaseException, ...]:
    """Return the attempt's error and its causes, outermost first, each fit for `pickle`."""
    chain: list[BaseException] = []
    error = attempt.error
    while error is not None and len(chain) < _MAX_CHAIN:
        chain.append(error if _survives(error) else _recorded(error))
        error = None if isinstance(error, DialError) else error.__cause__
    return tuple(chain)


def _unpacked(values: dict[str, Any], chain: tuple[BaseException, ...]) -> Attempt:
    """Return the attempt, its error linked to its causes again: pickle itself leaves those behind."""
    for error, cause in itertools.pairwise(chain):
        error.__cause__ = cause
    return Attempt(**values, error=chain[0] if chain else None)


def _survives(error: BaseException) -> bool:
    """Whether `error` comes back from pickle as itself; many do not, and some only fail on the far side."""
    import pickle  # noqa: PLC0415 - only who pickles pays for it

    try:
        back = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    except Exception:  # noqa: BLE001 - whatever a guest's error does when asked, its words still get across
        return False
    return type(back) is type(error) and str(back) == str(error)


def _recorded(error: BaseException) -> RecordedError:
    return RecordedError(words(error), type_name(error), error_type=error_type_of(error))


class _Fields:
    """Takes a JSON object apart key by key, so that each fault is named and nothing is overlooked."""

    def __init__(self, data: object, where: str) -> None:
        if not isinstance(data, dict):
            msg = f"{where}: an object was expected, not {type(data).__name__}"
            raise InvalidReport(msg)
        self._left: dict[str, Any] = dict(data)
        self._where = where

    def has(self, key: str) -> bool:
        return key in self._left

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
            msg = f"{self._where}: unknown key {min(self._left)[:40]!r}"
            raise InvalidReport(msg)


def _as_float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf
