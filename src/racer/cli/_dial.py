"""`python -m racer HOST`: dial, show the race, close the connection."""

from __future__ import annotations

import argparse
import os
import sys
from enum import IntEnum
from typing import TYPE_CHECKING, NoReturn

import anyio

from racer import config
from racer._cleanup import close_within
from racer._target import Target
from racer._version import __version__
from racer._words import one_line
from racer.abc import check_seconds
from racer.cli._screen import Screen
from racer.cli._waterfall import render, seconds
from racer.errors import AllAttemptsFailed, ConfigError, DialTimeout, NoTransports

if TYPE_CHECKING:
    from collections.abc import Sequence

    from racer._dialer import Dialer
    from racer._report import RaceReport

__all__ = ("main",)

_DESCRIPTION = """\
Race the configured transports to HOST, show what each of them did, and close
the connection."""

_EPILOG = """\
The configuration is --config, else the file that RACER_CONFIG names, else
racer.toml in the user's configuration directory, else `direct` alone.

The picture (or JSON) goes to standard output, errors to standard error.
Colour is used on a terminal, unless NO_COLOR is set.

exit codes:
  0    connected
  1    every attempt failed
  2    wrong use: a host, an option or the configuration cannot be
  3    the time was over
  4    there was no transport to try
  130  interrupted (Ctrl-C)
"""


class Exit(IntEnum):
    """What the program's exit code says."""

    CONNECTED = 0
    FAILED = 1
    WRONG_USE = 2
    TIMEOUT = 3
    NO_TRANSPORTS = 4
    INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code.

    Args:
        argv: the arguments; `None` for the program's own.
    """
    options = _parser().parse_args(argv)
    command = _Command(options)
    code, problem = Exit.CONNECTED, ""
    try:
        command.prepare()
        anyio.run(command.dial)
    except KeyboardInterrupt:
        code, problem = Exit.INTERRUPTED, "interrupted"
    except AllAttemptsFailed:
        code, problem = Exit.FAILED, f"every attempt to reach {command.target} failed"
    except DialTimeout as exc:
        code = Exit.TIMEOUT
        problem = f"{command.target} was not reached within {seconds(exc.report.timeout)}"
    except NoTransports as exc:
        code, problem = Exit.NO_TRANSPORTS, str(exc)
    except ConfigError as exc:
        code, problem = Exit.WRONG_USE, str(exc)
    try:
        if command.report is not None:
            _show(command.report, options)
    except BrokenPipeError:
        # Who read our output has gone. Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if problem:
        _complain(problem)
    return code


class _Command:
    """One dial: what it was asked, and the report that is left however it ends."""

    report: RaceReport | None = None
    target: Target
    _dialer: Dialer

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options

    def prepare(self) -> None:
        """Check everything that can be checked before any IO on the network."""
        options = self._options
        if options.timeout is not None:
            check_seconds(options.timeout, "--timeout")
        self.target = Target.parse(options.host, options.port, tls=options.tls)
        path = options.config
        self._dialer = config.configured() if path is None else config.load(path)

    async def dial(self) -> None:
        """Dial, note the report, and close the connection."""
        options = self._options
        async with self._dialer:
            race = self._dialer.race(
                self.target,
                timeout=options.timeout,
                only=options.only,
                exclude=options.exclude,
            )
            try:
                async with race:
                    winner = await anext(race)
            finally:
                try:
                    self.report = race.report
                except RuntimeError:  # cancelled before it began
                    self.report = None
            # Bounded, and without errors: how the stream ends is not what was asked.
            await close_within(winner, scope=anyio.CancelScope())


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="racer",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("host", metavar="HOST", help="a name or address, which may carry the port")
    add("--port", type=_port, metavar="N", help="the port where HOST carries none; else 443")
    add(
        "--tls",
        action=argparse.BooleanOptionalAction,
        help="verify TLS inside the race, or leave it out; by default on port 443 only",
    )
    add("--timeout", type=float, metavar="S", help="seconds for the whole race")
    add("--only", action="append", metavar="NAME", help="let this entrant race (repeatable)")
    add(
        "--exclude",
        action="append",
        default=[],
        metavar="NAME",
        help="leave this entrant out (repeatable)",
    )
    add("--config", metavar="FILE", help="the configuration, in TOML")
    add("--json", action="store_true", help="print the report as JSON")
    add("--plain", action="store_true", help="print ASCII only, without colour")
    add("--version", action="version", version=f"racer {__version__}", help="show it and exit")
    return parser


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        _complain(f"{message} (see --help)")
        raise SystemExit(Exit.WRONG_USE)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 5):
        msg = f"{text!r:.40} is not a port from 1 to 65535"
        raise argparse.ArgumentTypeError(msg)
    return int(text)


def _show(report: RaceReport, options: argparse.Namespace) -> None:
    if options.json:
        print(report.to_json(indent=2), flush=True)  # ASCII by itself
        return
    screen = Screen.of(sys.stdout, plain=options.plain)
    picture = render(report, width=screen.width, colour=screen.colour, unicode=screen.unicode)
    print(screen.text(picture), flush=True)


def _complain(problem: str) -> None:
    print(f"racer: {one_line(problem)}", file=sys.stderr, flush=True)
