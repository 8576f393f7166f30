"""A download told as data: every race, however it ended, and the error as the program says it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import httpx
import pytest

from racer import RaceReport
from racer.cli._account import Recorder, account
from racer.cli._download import Downloaded
from racer.cli._exits import CommandError, Exit
from racer.config import Configuration, EntrantSettings
from racer.errors import AllAttemptsFailed, NetworkError
from racer.testing import ScriptedTransport, fails, hangs, wins
from tests.racer.plugins import install

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.virtual_time

URL = httpx.URL("https://alice:s3cret@example.com/a?b=c")
DONE = Downloaded(
    status=200, size=100, total=None, received=60, resumed_at=40, tries=2, duration=1.5, vias=()
)


async def test_each_race_is_kept_also_one_that_was_left() -> None:
    guests = {"fails": fails(1.0), "hangs": hangs(), "wins": wins(1.0)}
    async with Recorder([ScriptedTransport(*each) for each in guests.items()]) as dialer:
        dialer.race("example.com")  # and never enters it
        with pytest.raises(AllAttemptsFailed):
            await dialer.dial("example.com:80", only="fails")
        with anyio.move_on_after(2.0):
            await dialer.dial("example.net:80", only="hangs")
        async with dialer.race("example.org:80", only="wins") as race:
            outcomes = [report.outcome.value for report in dialer.reports]
            assert outcomes == ["connect_failed", "cancelled", "not_started"]
            await (await anext(race)).aclose()
    told = dialer.reports
    targets = [f"example.{top}:80" for top in ("com", "net", "org")]
    assert [report.target for report in told] == targets
    outcomes = [report.outcome.value for report in told]
    assert outcomes == ["connect_failed", "cancelled", "connected"]
    assert told[1]["hangs"].outcome == "cancelled"
    assert told[1].duration == 2.0


def test_a_configuration_makes_a_dialer_that_keeps_its_races(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install(monkeypatch, "direct")
    entrants = (EntrantSettings(transport="direct"),)
    configuration = Configuration(entrants=entrants, timeout=5.0, redact=True)
    dialer = configuration.dialer_of(Recorder, remember=False)
    assert isinstance(dialer, Recorder)
    assert [entrant.name for entrant in dialer.status().entrants] == ["direct"]
    assert dialer._timeout == 5.0
    assert dialer._telemetry.redact is True
    assert dialer.reports == ()


def test_what_came_is_told_and_nobodys_password() -> None:
    told = account(DONE, url=URL, file=Path("x"), reports=())
    assert told == {
        "url": "https://example.com/a?b=c",
        "file": "x",
        "status": 200,
        "size": 100,
        "received": 60,
        "resumed_at": 40,
        "kept": 0,
        "tries": 2,
        "duration": 1.5,
        "transports": [],
        "races": [],
        "error": None,
    }


def _caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


ERRORS: list[tuple[Callable[[], BaseException], tuple[str | None, str, str]]] = [
    (KeyboardInterrupt, ("KeyboardInterrupt", "interrupted", "interrupted")),
    (lambda: OSError(28, "No space left"), ("OSError", "No space left", "system")),
    (
        lambda: BaseExceptionGroup("of a task group", [NetworkError("it\x1b broke")]),
        ("NetworkError", r"it\x1b broke", "failed"),
    ),
    (
        lambda: CommandError("it answered 404", Exit.REFUSED),
        (None, "it answered 404", "refused"),
    ),
    (
        lambda: _caused(CommandError("gave up: it broke"), NetworkError("it broke")),
        ("NetworkError", "gave up: it broke", "failed"),
    ),
    (lambda: RuntimeError("?"), ("RuntimeError", "this is a bug: RuntimeError: ?", "bug")),
]


@pytest.mark.parametrize(("make", "words"), ERRORS)
def test_an_error_is_told_as_the_program_ends_with_it(
    make: Callable[[], BaseException], words: tuple[str | None, str, str]
) -> None:
    told = account(DONE, url=URL, file=None, reports=(), kept=100, error=make())
    kind, text, end = words
    assert told["error"] == {"type": kind, "text": text, "exit": end}
    assert (told["size"], told["kept"]) == (None, 100)  # nobody has said how long the whole is
    assert "s3cret" not in json.dumps(told)


async def test_races_are_told_as_reports() -> None:
    async with Recorder([ScriptedTransport("guest", fails(0.5))]) as dialer:
        with pytest.raises(AllAttemptsFailed) as caught:
            await dialer.dial("example.com")
    told = account(DONE, url=URL, file=None, reports=dialer.reports, error=caught.value)
    (race,) = told["races"]
    assert RaceReport.from_json(json.dumps(race)) == caught.value.report
    assert told["error"]["type"] == "AllAttemptsFailed"
