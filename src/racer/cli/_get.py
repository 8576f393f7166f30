"""`racer get URL`: download through the race; go on where it broke off."""

from __future__ import annotations

import json
import stat
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio
import click

from racer._words import one_line
from racer.abc import check_seconds
from racer.cli._account import Recorder, account
from racer.cli._download import Download, parse_url
from racer.cli._exits import CommandError, Exit, silence
from racer.cli._partial import Part, check_target
from racer.cli._program import (
    SECONDS,
    WholeNumber,
    config_option,
    entrants_option,
    json_option,
    load,
    memory_option,
    plain_option,
)
from racer.cli._progress import octets, progress_on
from racer.cli._screen import Screen
from racer.cli._sinks import FileSink, OutputSink, terminal_sink
from racer.cli._waterfall import seconds
from racer.http import AsyncClient

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import httpx

    from racer._report import RaceReport
    from racer.cli._download import Downloaded, Sink
    from racer.cli._progress import Shown

__all__ = ("command",)

_FRAME: Final = 0.1  # seconds between two looks at how far it is


def _fields(ctx: click.Context, param: click.Parameter, lines: tuple[str, ...]) -> dict[str, str]:
    """Return header fields from `Name: value`."""
    fields = {}
    for line in lines:
        name, colon, value = line.partition(":")
        is_token = name.isascii() and name.replace("-", "").replace("_", "").isalnum()
        if not colon or not is_token or not value.isascii() or not f"{value} ".isprintable():
            raise click.BadParameter("it has to be of the form 'Name: value'", ctx, param)
        fields[name] = value.strip()
    return fields


@click.command()
@click.argument("url", metavar="URL")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(),
    help="Where to; a directory gets the URL's last name. Else standard output.",
)
@click.option("--force", is_flag=True, help="Replace FILE, and a FILE.part of something else.")
@click.option("--max-bytes", type=WholeNumber(min=1), metavar="N", help="Refuse what is larger.")
@click.option(
    "--tries",
    type=WholeNumber(min=1, max=1000),
    default=5,
    show_default=True,
    metavar="N",
    help="How often in a row a connection may break, or bring next to nothing.",
)
@click.option("--timeout", type=SECONDS, metavar="S", help="Seconds for all of it.")
@click.option(
    "-H",
    "--header",
    "headers",
    multiple=True,
    metavar="FIELD",
    callback=_fields,
    help="A field 'Name: value' for the server; others, behind redirects, are not told (repeatable).",
)
@click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors.")
@entrants_option
@config_option
@memory_option
@json_option
@plain_option
def command(
    *,
    url: str,
    output: str | None,
    force: bool,
    max_bytes: int | None,
    tries: int,
    timeout: float | None,
    headers: dict[str, str],
    quiet: bool,
    only: tuple[str, ...],
    exclude: tuple[str, ...],
    config: str | None,
    memory: bool,
    as_json: bool,
    plain: bool,
) -> None:
    """Download URL through the race, and say who won.

    With -o the download grows as FILE.part, and becomes FILE when all of it is here. Broken off, the same command goes on
    where it stopped, by whichever route, if the server says that it is still the same file; else it begins again.
    Redirects are followed, but never from https to http. A FILE that exists stays as it is without --force.
    """
    if as_json and output is None:
        raise click.UsageError("--json needs --output: both would go to standard output")
    if timeout is not None:
        check_seconds(timeout, "--timeout")
    there = parse_url(url)
    file = None if output is None else _file(output, there)
    is_file = file is not None and not _is_device(file)
    if file is not None and is_file:
        check_target(file, force=force)
    read = load(config, memory=memory, only=only, exclude=exclude)
    view = progress_on(
        Screen.of(sys.stderr, plain=plain),
        there.path.rpartition("/")[2] or there.host,
        moves=file is not None or not sys.stdout.isatty(),  # not amidst a text
        quiet=quiet or as_json,
    )
    limits = _Limits(max_bytes=max_bytes, tries=tries, timeout=timeout)
    job = _Job(read.dialer_of(Recorder, remember=True), there, view, headers, limits)
    part: Part | None = None
    try:
        with ExitStack() as stack:
            stack.callback(view.end)
            if file is None or not is_file:
                done = job.run(_output(file, stack, plain=plain))
            else:
                part = stack.enter_context(Part(file, url, force=force))
                done = _into(part, job.run, view)
    except BaseException as exc:
        if as_json and job.download is not None:
            kept = part.have.offset if part is not None and part.have.can_go_on else 0
            told = job.download.so_far
            try:
                _print(
                    account(told, url=there, file=file, reports=job.reports, kept=kept, error=exc)
                )
            except OSError:  # why it failed is what counts
                silence(sys.stdout.fileno())
        raise
    if as_json:
        _print(account(done, url=there, file=file, reports=job.reports))
    elif not quiet:
        _say(done, file, plain=plain)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Limits:
    """How much is borne."""

    max_bytes: int | None
    tries: int
    timeout: float | None


class _Job:
    """The part of a download that runs on an event loop, and what is left of it however it ends."""

    download: Download | None = None

    def __init__(
        self,
        dialer: Recorder,
        url: httpx.URL,
        view: Shown,
        headers: Mapping[str, str],
        limits: _Limits,
    ) -> None:
        self._dialer = dialer
        self._url = url
        self._view = view
        self._headers = headers
        self._limits = limits

    @property
    def reports(self) -> tuple[RaceReport, ...]:
        """The races that were run."""
        return self._dialer.reports

    def run(self, sink: Sink) -> Downloaded:
        """Return when everything is in the sink; the dialer is closed."""
        return anyio.run(self._run, sink)

    async def _run(self, sink: Sink) -> Downloaded:
        limits = self._limits
        async with self._dialer, AsyncClient(self._dialer, trust_env=False) as client:
            self.download = Download(
                client,
                self._url,
                sink,
                view=self._view,
                headers=self._headers,
                max_bytes=limits.max_bytes,
                tries=limits.tries,
            )
            with anyio.move_on_after(limits.timeout):
                async with anyio.create_task_group() as group:
                    group.start_soon(self._tick)
                    done = await self.download.run()
                    group.cancel_scope.cancel()
                return done
        msg = f"not done within {seconds(limits.timeout or 0.0)}"
        raise CommandError(msg, Exit.TIMEOUT)

    async def _tick(self) -> None:
        while True:
            self._view.tick()
            await anyio.sleep(_FRAME)


def _into(part: Part, run: Callable[[Sink], Downloaded], view: Shown) -> Downloaded:
    """Download into a part, and make it a file when all of it is here."""
    sink = FileSink(part)
    try:
        try:
            done = run(sink)
        finally:
            sink.flush()
    except BaseException:
        if part.have.can_go_on:
            view.note(
                f"{part.path} keeps {octets(part.have.offset)}: the same command goes on there"
            )
        raise
    part.finish()
    return done


def _output(device: Path | None, stack: ExitStack, *, plain: bool) -> OutputSink:
    """Return a sink for what never gives anything back: standard output, or a device."""
    if device is not None:
        return OutputSink(stack.enter_context(device.open("wb")))
    if sys.stdout.isatty():
        return terminal_sink(Screen.of(sys.stdout, plain=plain))
    return OutputSink(sys.stdout.buffer)


def _file(named: str, url: httpx.URL) -> Path:
    """Return where to write: in a directory, the URL's last name, never one of the server's choice."""
    if not named:  # a variable of a script that is not set; a path would take it for this directory
        msg = "--output names no file"
        raise CommandError(msg, Exit.WRONG_USE)
    output = Path(named)
    if not output.is_dir():
        return output
    name = url.path.rpartition("/")[2]
    if name in {"", ".", ".."}:
        name = "index.html"
    if not name.isprintable() or "\\" in name:
        msg = (
            f"the URL's last name, {name!r:.60}, is no good name for a file; name one with --output"
        )
        raise CommandError(msg, Exit.WRONG_USE)
    return output / name


def _is_device(file: Path) -> bool:
    """Return whether it is written as it is: a terminal, a pipe, /dev/null."""
    try:
        mode = file.stat().st_mode
    except OSError:
        return False
    return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)


def _print(told: dict[str, Any]) -> None:
    print(json.dumps(told, indent=2), flush=True)


def _say(done: Downloaded, file: Path | None, *, plain: bool) -> None:
    """Say in one line of standard error what came, how fast and by whom."""
    names = list(dict.fromkeys(via.transport_name for via in done.vias))
    by = f", by {', then '.join(names)}" if names else ""
    more = f", {octets(done.resumed_at)} of it earlier" if done.resumed_at else ""
    what = "" if file is None else f"{file}: "
    text = f"{what}{octets(done.size)} in {seconds(done.duration)}{by}{more}"
    screen = Screen.of(sys.stderr, plain=plain)
    print(screen.text(one_line(text)), file=sys.stderr, flush=True)
