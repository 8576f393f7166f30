"""What `racer get --json` prints, whole or not: what came, by whom, every race that was run, and why it ended."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from racer._dialer import Dialer
from racer._words import one_line, type_name
from racer.cli._exits import CommandError, alone, ending

if TYPE_CHECKING:
    from pathlib import Path

    import httpx

    from racer._race import Race
    from racer._report import RaceReport
    from racer.cli._download import Downloaded

__all__ = ("Recorder", "account")


class Recorder(Dialer):
    """A dialer that keeps its races, also those that nobody waited for to the end."""

    def __init__(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - as a dialer takes them
        """Make it as any dialer is made."""
        super().__init__(*args, **options)
        self._races: list[Race] = []

    def race(self, *args: Any, **options: Any) -> Race:  # noqa: ANN401 - likewise
        """Return a race, and keep it."""
        race = super().race(*args, **options)
        self._races.append(race)
        return race

    @property
    def reports(self) -> tuple[RaceReport, ...]:
        """The races that began, in the order in which they were made."""
        reports = []
        for race in self._races:
            with suppress(RuntimeError):  # it never began
                reports.append(race.report)
        return tuple(reports)


def account(
    done: Downloaded,
    *,
    url: httpx.URL,
    file: Path | None,
    reports: tuple[RaceReport, ...],
    kept: int = 0,
    error: BaseException | None = None,
) -> dict[str, Any]:
    """Return a download as plain data for JSON.

    Args:
        done: what it came to.
        url: from where; who asks for it as which user is left out.
        file: where to.
        reports: the races that were run.
        kept: octets that a part keeps for another time.
        error: why it is not whole; `None` if it is.
    """
    return {
        "url": str(url.copy_with(userinfo=b"")),
        "file": str(file),
        "status": done.status,
        "size": done.size if error is None else done.total,
        "received": done.received,
        "resumed_at": done.resumed_at,
        "kept": kept,
        "tries": done.tries,
        "duration": done.duration,
        "transports": [via.transport_name for via in done.vias],
        "races": [json.loads(report.to_json()) for report in reports],
        "error": None if error is None else _error(error),
    }


def _error(exc: BaseException) -> dict[str, Any]:
    """Return what the program says of an error as it ends, and the name that its exit code has in `Exit`."""
    code, sentence = ending(exc)
    exc = alone(exc)
    # A command's own error says what it made of another; where there is none, its code is all there is to say.
    found = exc.__cause__ if isinstance(exc, CommandError) else exc
    return {
        "type": None if found is None else type_name(found),
        "text": one_line(sentence),
        "exit": code.name.lower(),
    }
