"""`racer dial HOST`: dial, show the race while it runs and when it is over, close the connection."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import click

from racer._cleanup import close_within
from racer._explain import explain
from racer._report import Outcome
from racer._target import Target
from racer.abc import check_seconds
from racer.cli._columns import wrapped
from racer.cli._exits import CommandError, Exit, silence
from racer.cli._live import Unwatched, view_on, watch
from racer.cli._program import (
    SECONDS,
    config_option,
    entrants_option,
    json_option,
    load,
    memory_option,
    plain_option,
)
from racer.cli._screen import Screen
from racer.cli._waterfall import seconds
from racer.errors import AllAttemptsFailed, DialTimeout

if TYPE_CHECKING:
    from anyio.abc import ByteStream

    from racer._dialer import Dialer
    from racer._report import RaceReport
    from racer.cli._live import View

__all__ = ("command",)

_FAILED: Final = (Outcome.CONNECT_FAILED, Outcome.TIMED_OUT)
_FILE: Final = click.Path(path_type=Path)


def _port(ctx: click.Context, param: click.Parameter, text: str | None) -> int | None:
    """Return the number, in ASCII digits; whether it is one from 1 to 65535 is the target's to say."""
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 5):
        raise click.BadParameter(f"{text!r:.40} is not a port from 1 to 65535", ctx, param)
    return int(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wish:
    """What to dial, and who may."""

    target: Target
    timeout: float | None
    only: tuple[str, ...] | None
    exclude: tuple[str, ...]


@click.command()
@click.argument("host", metavar="HOST")
@click.option(
    "--port", callback=_port, metavar="N", help="The port where HOST carries none; else 443."
)
@click.option(
    "--tls/--no-tls",
    default=None,
    help="Verify TLS inside the race, or leave it out; by default on port 443 only.",
)
@click.option("--timeout", type=SECONDS, metavar="S", help="Seconds for the whole race.")
@entrants_option
@click.option("--html", metavar="FILE", type=_FILE, help="Write the race as a page, too.")
@click.option(
    "--save", metavar="FILE", type=_FILE, help="Write the report, too; `racer replay` takes it."
)
@config_option
@memory_option
@json_option
@plain_option
def command(
    *,
    host: str,
    port: int | None,
    tls: bool | None,
    timeout: float | None,
    only: tuple[str, ...],
    exclude: tuple[str, ...],
    html: Path | None,
    save: Path | None,
    config: str | None,
    memory: bool,
    as_json: bool,
    plain: bool,
) -> None:
    """Race the configured transports to HOST, show what each of them did, and close the connection.

    HOST is a name or an address, which may carry the port. On a terminal the race is drawn while it runs; in a pipe each
    event is a line. Then the whole race is shown, and why entrants failed.
    """
    if timeout is not None:
        check_seconds(timeout, "--timeout")
    wish = _Wish(
        target=Target.parse(host, port, tls=tls),
        timeout=timeout,
        only=only or None,
        exclude=exclude,
    )
    for file in (html, save):
        _check_place(file)
    view: View = Unwatched() if as_json else view_on(Screen.of(sys.stdout, plain=plain))
    dial = _Dial(load(config, memory=memory).dialer(remember=True), wish, view)
    try:
        anyio.run(dial.run)
    except AllAttemptsFailed as exc:
        msg = f"every attempt to reach {wish.target} failed"
        raise CommandError(msg, Exit.FAILED) from exc
    except DialTimeout as exc:
        msg = f"{wish.target} was not reached within {seconds(exc.report.timeout)}"
        raise CommandError(msg, Exit.TIMEOUT) from exc
    finally:
        if dial.report is not None:
            _show(dial.report, view, as_json=as_json, plain=plain)
            _write(dial.report, html=html, save=save)


async def _is_proven(stream: ByteStream) -> None:
    """Ask no more: nothing is read from a connection that is only tried, but its TLS was the target's own word.

    For the memory, to which who won without a byte from the target has proven nothing.
    """
    del stream


class _Dial:
    """One dial, and the report that is left however it ends."""

    report: RaceReport | None = None

    def __init__(self, dialer: Dialer, wish: _Wish, view: View) -> None:
        self._dialer = dialer
        self._wish = wish
        self._view = view

    async def run(self) -> None:
        """Dial, note the report, and close the connection."""
        wish = self._wish
        async with self._dialer:
            race = self._dialer.race(
                wish.target,
                timeout=wish.timeout,
                only=wish.only,
                exclude=wish.exclude,
                check=_is_proven if wish.target.tls else None,
            )
            try:
                winner = await watch(race, self._view)
            finally:
                try:
                    self.report = race.report
                except RuntimeError:  # cancelled before it began
                    self.report = None
            # Bounded, and without errors: how the stream ends is not what was asked.
            await close_within(winner, scope=anyio.CancelScope())


def _show(report: RaceReport, view: View, *, as_json: bool, plain: bool) -> None:
    """Write what is left of a race. Who has stopped reading learns it from the exit code, which is the dial's."""
    try:
        if as_json:
            print(report.to_json(indent=2), flush=True)  # ASCII by itself
        else:
            view.end(report)
            if report.outcome in _FAILED:
                _advise(report, Screen.of(sys.stdout, plain=plain))
    except BrokenPipeError:
        silence(sys.stdout.fileno())


def _advise(report: RaceReport, screen: Screen) -> None:
    """Say what is most likely wrong, and what to try; the doctor says the same of what it finds."""
    told = explain(report)
    lines = ["", *(f"most likely: {one.words}" for one in told.likely)]
    lines += [f"try: {line}" for line in told.advice]
    for line in lines:
        print(screen.text("\n".join(wrapped(line, screen.width, "  "))))


def _check_place(file: Path | None) -> None:
    """Refuse a file that cannot be written, before a race is run for nothing.

    Raises:
        CommandError: there is no such directory, or it is one.
    """
    if file is not None and (file.is_dir() or not file.parent.is_dir()):
        msg = f"{file}: {'is a directory' if file.is_dir() else 'there is no such directory'}"
        raise CommandError(msg, Exit.SYSTEM)


def _write(report: RaceReport, *, html: Path | None, save: Path | None) -> None:
    """Write a race where it was asked for."""
    if html is not None:
        from racer.report import page  # noqa: PLC0415 - few ask for it

        html.write_text(page(report), encoding="utf-8")
    if save is not None:
        save.write_text(f"{report.to_json(indent=2)}\n", encoding="utf-8")
