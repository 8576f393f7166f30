"""How far a download is: a bar that moves on a terminal, a line now and then in a pipe, nothing where that is wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import anyio
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    ProgressColumn,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from racer._words import one_line
from racer.cli._columns import cut_middle, wrapped

if TYPE_CHECKING:
    from typing import Protocol

    from rich.progress import Task

    from racer.cli._download import View
    from racer.cli._ranges import Have
    from racer.cli._screen import Screen
    from racer.http._messages import Via

__all__ = ("Bar", "Lines", "Quiet", "Shown", "octets", "progress_on")

_NARROW: Final = 70  # columns; with fewer, only what matters most is shown
_PAUSE: Final = 5.0  # seconds between two lines


def octets(number: int) -> str:
    """Return a size for people."""
    size = float(number)
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if size < 1023.95 or unit == "TiB":
            break
        size /= 1024
    return f"{number} bytes" if unit == "bytes" else f"{size:.1f} {unit}"


if TYPE_CHECKING:

    class Shown(View, Protocol):
        """A view that is also told of time, and of the end."""

        def tick(self) -> None:
            """Look again; called some times a second."""

        def end(self) -> None:
            """Leave nothing of a moving picture behind; the last call, also after an error."""


def progress_on(screen: Screen, name: str, *, moves: bool, quiet: bool) -> Shown:
    """Return the view that fits: a bar where it can be redrawn, else lines.

    Args:
        screen: where it is shown.
        name: of what is downloaded.
        moves: whether a bar may move there.
        quiet: whether nothing is to be shown.
    """
    if quiet:
        return Quiet()
    return Bar(screen, name) if moves and screen.redraws else Lines(screen)


class Quiet:
    """Shows nothing."""

    def begin(self, have: Have, via: Via) -> None:
        """Do nothing."""

    def advance(self, offset: int) -> None:
        """Do nothing."""

    def note(self, text: str) -> None:
        """Do nothing."""

    def tick(self) -> None:
        """Do nothing."""

    def end(self) -> None:
        """Do nothing."""


class Lines:
    """A line for what happens, and one now and then for how far it is.

    Args:
        screen: where the lines go.
    """

    def __init__(self, screen: Screen) -> None:
        """Begin with nothing told."""
        self._screen = screen
        self._total: int | None = None
        self._offset = 0
        self._told: tuple[float, int] = (0.0, 0)

    def begin(self, have: Have, via: Via) -> None:
        """Say who won, and what comes."""
        self._total, self._offset = have.total, have.offset
        self._told = (anyio.current_time(), have.offset)
        size = "of unknown size" if have.total is None else octets(have.total)
        more = f", going on at {octets(have.offset)}" if have.offset else ""
        self._say(f"by {via.transport_name}: {size}{more}")

    def advance(self, offset: int) -> None:
        """Note how far it is."""
        self._offset = offset

    def note(self, text: str) -> None:
        """Say it."""
        self._say(text)

    def tick(self) -> None:
        """Say how far it is, if that was long ago."""
        now, (then, offset) = anyio.current_time(), self._told
        if now - then < _PAUSE or self._offset == offset:
            return
        speed = octets(round((self._offset - offset) / (now - then)))
        self._told = (now, self._offset)
        of = (
            f" of {octets(self._total)} ({self._offset * 100 // self._total} %)"
            if self._total
            else ""
        )
        self._say(f"{octets(self._offset)}{of}, {speed}/s")

    def end(self) -> None:
        """Do nothing."""

    def _say(self, text: str) -> None:
        self._screen.out.write(f"{self._screen.text(one_line(text))}\n")
        self._screen.out.flush()


class _Speed(ProgressColumn):
    """How fast, in the units of how much."""

    def render(self, task: Task) -> Text:
        """Return the words; none while nobody knows."""
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{octets(round(speed))}/s")


class _Console(Console):
    """A console that is told in which characters to draw."""

    def __init__(self, screen: Screen) -> None:
        self._encoding = "utf-8" if screen.unicode else "ascii"
        super().__init__(
            file=screen.out,
            force_terminal=True,
            width=screen.size()[0],
            no_color=not screen.colour,
            highlight=False,
        )

    @property
    def encoding(self) -> str:
        """What the screen takes."""
        return self._encoding


class Bar:
    """A bar that moves in its own place.

    Args:
        screen: a terminal that redraws.
        name: of what is downloaded.
    """

    def __init__(self, screen: Screen, name: str) -> None:
        """Begin while the race is still on."""
        self._screen = screen
        columns = screen.size()[0]
        ellipsis = "…" if screen.unicode else "..."
        self._name = cut_middle(screen.text(one_line(name)), columns // 4, ellipsis)
        parts: list[ProgressColumn] = [
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            TaskProgressColumn(),
        ]
        if columns >= _NARROW:
            parts += [
                DownloadColumn(binary_units=True),
                _Speed(),
                TimeRemainingColumn(),
            ]
        self._progress = Progress(
            *parts, console=_Console(screen), auto_refresh=False, transient=True, expand=True
        )
        self._task = self._progress.add_task(self._name, total=None)
        self._progress.start()

    def begin(self, have: Have, via: Via) -> None:
        """Draw what comes, and say who won."""
        more = f", going on at {octets(have.offset)}" if have.offset else ""
        self.note(f"by {via.transport_name}{more}")
        self._progress.reset(self._task, total=have.total, completed=have.offset)

    def advance(self, offset: int) -> None:
        """Note how far it is."""
        self._progress.update(self._task, completed=offset)

    def note(self, text: str) -> None:
        """Say it above the bar."""
        lines = wrapped(self._screen.text(one_line(text)), self._screen.size()[0], "  ")
        for line in lines:
            self._progress.console.print(line, markup=False, emoji=False, soft_wrap=True)

    def tick(self) -> None:
        """Draw it again."""
        self._progress.refresh()

    def end(self) -> None:
        """Take the bar away."""
        self._progress.stop()
