"""The command `racer demo`: watch a race on a censored network that is made up on this machine.

No guest itself: it stands among them, and uses them and the coordinator as any program would.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from racer.cli._exits import Exit, silence
from racer.cli._program import json_option, plain_option, run

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ("command", "main")


@click.command(name="demo", short_help="Watch a race on a censored network on this machine.")
@click.option("--fast", is_flag=True, help="Ten times as fast.")
@click.option(
    "--seed", type=int, default=1, show_default=True, metavar="N", help="Of the network's jitter."
)
@json_option
@plain_option
def command(*, fast: bool, seed: int, as_json: bool, plain: bool) -> int:
    """Watch a race on a censored network that is made up on this machine.

    Nothing is acted: the sockets, the TLS, the resolver and the tunnel are real, and only loopback is used. The picture
    shows one row for each route, from when it started to what became of it; at the end the connection that won is used.
    """
    from transports.demo._show import show  # noqa: PLC0415 - loads guests, which a list of commands has no use for

    try:
        return show(fast=fast, seed=seed, as_json=as_json, plain=plain)
    except BrokenPipeError:  # who read has seen enough
        silence(sys.stdout.fileno())
        return Exit.DONE


def main(argv: Sequence[str] | None = None) -> int:
    """Show the race; return 0 when something won, 1 when nothing did, 130 when interrupted."""
    return run(argv, command=command, name="racer demo")
