"""`racer completion SHELL`, and what an option's values can be completed to."""

from __future__ import annotations

import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Final

import click
from click.shell_completion import get_completion_class, shell_complete

from racer.cli._program import COMPLETE

__all__ = ("answer", "command", "entrant_names")

_MAX_BYTES: Final = 1024 * 1024  # of a configuration
_UNCONFIGURED: Final = ("direct", "proxyless")

_HELP: Final = """\
Print what makes a shell complete racer's commands, options and entrants.

\b
  bash  echo 'eval "$(racer completion bash)"' >> ~/.bashrc
  zsh   echo 'eval "$(racer completion zsh)"' >> ~/.zshrc
  fish  racer completion fish > ~/.config/fish/completions/racer.fish
"""


@click.command(help=_HELP)
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
def command(shell: str) -> None:
    """Print a shell's part of the completion."""
    kind = get_completion_class(shell)
    assert kind is not None  # the choice is between those that click knows
    completion = kind(click.Group(), {}, "racer", COMPLETE)
    # Not its source(), which first runs bash to see how old it is.
    print(completion.source_template % completion.source_vars())


def answer(program: click.Command, instruction: str) -> int:
    """Answer a shell that asks what a line can be completed to; return the exit code."""
    return shell_complete(program, {}, "racer", COMPLETE, instruction)


def entrant_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of the configuration's entrants that begin so; none where it cannot be read.

    Transports are not made, which would take too long between two keys.
    """
    del param
    return [name for name in _names(ctx.params.get("config")) if name.startswith(incomplete)]


def _names(config: str | None) -> list[str]:
    from racer.config import default_path  # noqa: PLC0415 - only when somebody asks

    try:
        path = default_path() if config is None else Path(config)
        with path.open("rb") as opened:
            data = tomllib.loads(opened.read(_MAX_BYTES).decode("utf-8-sig"))
    except (OSError, RuntimeError, ValueError, RecursionError):
        return list(_UNCONFIGURED) if config is None else []
    names: list[str] = []
    with suppress(AttributeError, TypeError):  # what is no entrant has no name
        for entrant in data.get("entrant", []):
            name = entrant.get("name", entrant.get("transport"))
            if isinstance(name, str) and name.isprintable():
                names.append(name)
    return names
