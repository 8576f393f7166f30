"""How the demonstration is told: a text, the race alive, and what the site said."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import anyio

from racer import lab
from racer.cli._columns import wrapped
from racer.cli._exits import Exit
from racer.cli._live import Unwatched, view_on
from racer.cli._screen import Screen
from transports.demo._story import FAST, HOST, SLOW, play

if TYPE_CHECKING:
    from racer.cli._live import View
    from transports.demo._story import Censored

__all__ = ("show",)

_TEXT: Final = (
    f"{HOST} in a censored network, made up on this machine (seed {{seed}}): packets to it vanish, its mirror is reset, "
    "and DNS is what is left: Soar goes through {resolver}. One row a route: when it started, what became of it, and why."
)


def show(*, fast: bool, seed: int, as_json: bool, plain: bool) -> Exit:
    """Show the race, and return how it ended.

    Raises:
        ConfigError: the extra `lab` is not installed.
        BrokenPipeError: nobody reads.
    """
    out = sys.stdout
    screen = Screen.of(out, plain=plain)
    view: View = Unwatched() if as_json else view_on(screen)

    def announce(place: Censored) -> None:
        text = _TEXT.format(seed=seed, resolver=place.resolver)
        if not as_json:
            say(screen.text("\n".join(wrapped(text, screen.width))) + "\n")

    def say(text: str) -> None:
        out.write(f"{text}\n")
        out.flush()

    pace = FAST if fast else SLOW
    played = anyio.run(lambda: play(view, lab.Authority(), seed=seed, pace=pace, announce=announce))
    view.end(played.report)
    if as_json:
        say(played.report.to_json(indent=2))
    elif played.answer is not None:
        status, said = played.answer
        say(screen.text(f'\nhello over {played.report.winner}: {status}, "{said}"'))
    return Exit.DONE if played.answer is not None else Exit.FAILED
