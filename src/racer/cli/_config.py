"""`racer config`: check a configuration, write the first one, show what is in force."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from racer import config
from racer._words import one_line
from racer.cli._program import CommandError, Exit, json_option
from racer.config._places import in_use
from racer.config._reading import examine
from racer.config._showing import as_toml, hides, in_force
from racer.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from racer.config import Configuration

__all__ = ("command",)

_PRIVATE = 0o600  # of a file that may hold secrets


@click.group()
def command() -> None:
    """Check a configuration, write the first one, or show what is in force.

    FILE left out is the one that racer goes by: the file that RACER_CONFIG names, else racer.toml in the user's
    configuration directory.
    """


def _file_argument(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.argument("file", required=False, type=click.Path())(function)


@command.command(short_help="Say everything that is wrong with FILE.")
@_file_argument
@json_option
def check(file: str | None, as_json: bool) -> None:  # noqa: FBT001 - click's own call
    """Say everything that is wrong with FILE, as FILE:LINE: key: reason.

    Every transport is asked about its options; nothing is dialed. Exits with 2 where anything is wrong.
    """
    path = Path(file) if file is not None else in_use()
    problems: tuple[str, ...] = ()
    found: Configuration | None = None
    notes: list[str] = []
    try:
        if path is None:
            found = config.read()
        else:
            found, written = examine(path)
            notes = _notes(path, written)
    except ConfigError as exc:
        problems = exc.problems or (str(exc),)
    if as_json:
        names = [] if found is None else [each.name for each in found.entrants]
        listed = [_parted(path, problem) for problem in problems]
        _print_json(
            {
                "file": None if path is None else str(path),
                "valid": not problems,
                "problems": listed,
                "notes": notes,
                "entrants": names,
            }
        )
    else:
        for line in [*problems, *notes]:
            click.echo(one_line(line))
        if found is not None:
            click.echo(_all_is_well(path, found))
    if problems:
        raise CommandError("", Exit.WRONG_USE)


@command.command(short_help="Print a commented configuration to begin with.")
@click.option("--output", "-o", metavar="FILE", type=click.Path(), help="Write it there.")
def init(output: str | None) -> None:
    """Print a commented configuration of everything that can be said, valid as it stands.

    With --output it is written to a file that only you can read. A file that exists is never overwritten.
    """
    text = config.sample()
    if output is None:
        click.echo(text, nl=False)
        return
    file = Path(output)
    _write_new(file, text)
    click.echo(f"{file}: written; edit it, then: racer config check {file}", err=True)
    usual = _usual()
    if usual is not None and file.absolute() != usual.absolute():
        click.echo(f"racer looks for {usual}, or for what RACER_CONFIG names", err=True)


@command.command(short_help="Print what is in force, secrets hidden.")
@_file_argument
@json_option
def show(file: str | None, as_json: bool) -> None:  # noqa: FBT001 - click's own call
    """Print what is in force, defaults included and secrets hidden, as TOML.

    Variables of the environment are named, not shown; what is written out under a name that sounds secret, and users,
    passwords and paths of URLs, stand as [hidden].
    """
    path = Path(file) if file is not None else in_use()
    found, written = (config.read(), {}) if path is None else examine(path)
    data = in_force(found, written)
    if as_json:
        _print_json({"file": None if path is None else str(path), **data})
    else:
        click.echo(f"# {path or 'no file: what holds without one'}\n{as_toml(data)}", nl=False)


def _print_json(data: object) -> None:
    click.echo(json.dumps(data, indent=2, default=str))


def _parted(path: Path | None, problem: str) -> dict[str, Any]:
    rest = problem.removeprefix(f"{path}")
    line, colon, words = rest.removeprefix(":").partition(": ")
    if colon and line.isdigit():
        return {"line": int(line), "text": words}
    return {"line": None, "text": rest.removeprefix(": ")}


def _all_is_well(path: Path | None, found: Configuration) -> str:
    names = ", ".join(each.name for each in found.entrants)
    if path is None:
        return f"{_usual() or 'no home directory'}: there is no file, and so these race: {names}"
    return f"{path}: nothing is wrong; these race: {names}"


def _notes(path: Path, written: dict[str, Any]) -> list[str]:
    """Return what is not wrong, and should be known."""
    secrets = [
        f"entrant {number}: options.{key}"
        for number, entrant in enumerate(written["entrant"], 1)
        for key, value in entrant.get("options", {}).items()
        if hides(value, key)
    ]
    secrets += [
        f"proxy.users.{name}"
        for name, password in written.get("proxy", {}).get("users", {}).items()
        if hides(password, "password")
    ]
    try:
        mode = path.stat().st_mode & 0o777
    except OSError:
        return []
    if not secrets or os.name != "posix" or not mode & 0o044:
        return []
    note = (
        f"{path}: note: others on this machine can read it (mode {mode:04o}), and so {', '.join(secrets)}: "
        "chmod 600, or put ${NAME} in its place"
    )
    return [note]


def _usual() -> Path | None:
    try:
        return config.default_path()
    except RuntimeError:
        return None


def _write_new(file: Path, text: str) -> None:
    """Write a file that was not there, and folders that were not there either; whole or not at all.

    Raises:
        CommandError: it exists, or cannot be written.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE)
    except FileExistsError as exc:
        msg = f"{exc.filename or file}: exists already, and is not overwritten"
        raise CommandError(msg, Exit.SYSTEM) from exc
    except (OSError, ValueError) as exc:
        msg = f"{file}: cannot be written: {getattr(exc, 'strerror', None) or exc}"
        raise CommandError(msg, Exit.SYSTEM) from exc
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as opened:
            opened.write(text)
    except OSError as exc:
        file.unlink(missing_ok=True)
        msg = f"{file}: cannot be written: {exc.strerror or exc}"
        raise CommandError(msg, Exit.SYSTEM) from exc
