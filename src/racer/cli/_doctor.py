"""`racer doctor [HOST]`: find out what is wrong, say it in words, and say what to try."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import click

from racer._finding import Finding, Verdict
from racer._target import Target
from racer._words import one_line
from racer.cli._columns import wrapped
from racer.cli._program import SECONDS, Exit, WholeNumber, config_option, json_option, plain_option
from racer.cli._screen import Screen
from racer.errors import RacerError

if TYPE_CHECKING:
    from racer._dialer import Dialer
    from racer.doctor import Diagnosis

__all__ = ("command", "render")

_GREEN, _RED, _YELLOW, _DIM, _BOLD, _RESET = (f"\x1b[{code}m" for code in (32, 31, 33, 2, 1, 0))
_MARKS: Final = {
    Verdict.FAIL: ("✗", "FAIL", _RED),
    Verdict.WARN: ("!", "WARN", _YELLOW),
    Verdict.OK: ("✓", "ok", _GREEN),
    Verdict.SKIPPED: ("·", "skip", _DIM),
}


@click.command()
@click.argument("host", metavar="[HOST]", required=False)
@click.option(
    "--tls/--no-tls",
    default=None,
    help="Verify TLS to HOST, or leave it out; by default on port 443 only.",
)
@click.option(
    "--times",
    type=WholeNumber(min=1, max=20),
    default=3,
    show_default=True,
    metavar="N",
    help="Try each transport so often.",
)
@click.option(
    "--timeout",
    type=SECONDS,
    default=20.0,
    show_default=True,
    metavar="S",
    help="Seconds for each try.",
)
@click.option("--full", is_flag=True, help="With --json: leave hosts and addresses in.")
@config_option
@json_option
@plain_option
def command(
    *,
    host: str | None,
    tls: bool | None,
    times: int,
    timeout: float,
    full: bool,
    config: str | None,
    as_json: bool,
    plain: bool,
) -> int:
    """Find out what is wrong, and say what to try.

    Looks at the configuration, asks each resolver and compares what they say, tries each transport by itself, looks at the
    clock, and asks the collector that OTEL_EXPORTER_OTLP_ENDPOINT names. HOST is example.com if none is given.

    With --json hosts, addresses and secrets are left out, so that it can go into a bug report.

    Exit codes: 0 if nothing is wrong, or only odd; 1 if something is wrong; 2 if that is the configuration.
    """
    from racer import doctor  # noqa: PLC0415 - dnspython and more, loaded for this command only
    from racer.config import MemorySettings  # noqa: PLC0415 - likewise

    target = Target.parse(host or doctor.DEFAULT_HOST, tls=tls)
    configuration, findings = doctor.check_configuration(config)
    resolvers = doctor.resolvers_of(configuration)
    dialer: Dialer | None = None
    if configuration is not None:
        try:
            # What the doctor tries teaches no memory, and none puts anybody first.
            forgets = MemorySettings(enabled=False)
            dialer = replace(configuration, memory=forgets).dialer()
        except RacerError as exc:  # what was read can be made, unless a file changed meanwhile
            findings.append(_unmade(exc))

    async def run() -> Diagnosis:
        try:
            return await doctor.examine(
                dialer,
                target,
                resolvers=resolvers,
                findings=findings,
                repeats=times,
                limit=timeout,
                home=_home(),
            )
        finally:
            if dialer is not None:
                await dialer.aclose()

    diagnosis = anyio.run(run)
    if as_json:
        print(diagnosis.to_json(redacted=not full))
    else:
        screen = Screen.of(sys.stdout, plain=plain)
        print(screen.text("\n".join(render(diagnosis, screen))))
    if any(one.check == "configuration" and one.verdict is Verdict.FAIL for one in findings):
        return Exit.WRONG_USE
    return Exit.FAILED if diagnosis.verdict is Verdict.FAIL else Exit.DONE


def render(diagnosis: Diagnosis, screen: Screen) -> list[str]:
    """Return what was found as lines for a person: what matters most first, the verdict last."""
    width = screen.width
    lines: list[str] = []
    for one, advice in diagnosis.told:
        lines += _shown(one, advice, screen, width)
    summary = wrapped(one_line(diagnosis.summary), width)
    return [*lines, "", *(f"{_BOLD}{line}{_RESET}" if screen.colour else line for line in summary)]


def _shown(finding: Finding, advice: list[str], screen: Screen, width: int) -> list[str]:
    mark, word, colour = _MARKS[finding.verdict]
    label = mark if screen.unicode else f"{word:4}"
    indent = " " * (len(label) + 1)
    first, *rest = wrapped(f"{label} {one_line(finding.words)}", width, indent)
    if screen.colour:
        first = f"{colour}{label}{_RESET}{first[len(label) :]}"
    lines = [first, *rest]
    for tip in advice:
        room = width - len(indent)
        lines += [indent + line for line in wrapped(f"- {one_line(tip)}", room, "  ")]
    return lines


def _unmade(exc: RacerError) -> Finding:
    return Finding(
        check="configuration",
        verdict=Verdict.FAIL,
        words=f"No dialer can be made of the configuration: {exc}",
    )


def _home() -> str:
    try:
        return str(Path.home())
    except RuntimeError:
        return ""
