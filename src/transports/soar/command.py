"""The command `soar`: of the program `racer` by the entry point `racer.commands`, and of `python -m transports.soar`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from racer.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ("command",)


class _Soar(click.Group):
    """Loads the server's code when one of its commands is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order an operator needs them."""
        del ctx
        return list(_commands())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; `None` if there is none of that name."""
        del ctx
        return _commands().get(cmd_name)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - as click has it
        """Run a command, and say in one sentence what went wrong."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # who read the output has gone
            raise
        except OSError as exc:
            # The number of an error, and the quotes that Python puts around a name, help nobody.
            where = "" if exc.filename is None else f"{exc.filename}: "
            text = f"{where}{exc.strerror or str(exc) or 'no answer in time'}"
            raise _Failed(f"{ctx.invoked_subcommand}: {text}") from exc
        except (ConfigError, ValueError) as exc:
            raise _Failed(f"{ctx.invoked_subcommand}: {exc}") from exc


class _Failed(click.ClickException):
    """A command could not begin, or go on."""

    exit_code = 2


def _commands() -> Mapping[str, click.Command]:
    from transports.soar.program.commands import COMMANDS  # noqa: PLC0415 - a server's, and large

    return COMMANDS


command = _Soar(name="soar", help="Run a Soar server: its key, its grants, the server itself.")
