"""The program `racer`: which commands there are, what they share, and how each of them ends."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
import traceback
from dataclasses import replace
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

from racer._version import __version__
from racer.cli._exits import CommandError, Exit, complain, ending, fill_closed_outputs, silence

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from importlib.metadata import EntryPoint

    from click.shell_completion import CompletionItem

    from racer.config import Configuration

__all__ = (
    "COMMANDS",
    "COMPLETE",
    "GROUP",
    "SECONDS",
    "CommandError",
    "Exit",
    "WholeNumber",
    "config_option",
    "entrants_option",
    "json_option",
    "load",
    "memory_option",
    "plain_option",
    "program",
    "run",
)

_F = TypeVar("_F", bound="Callable[..., Any]")


class Listed(NamedTuple):
    """A command before it is loaded: the module whose `command` it is, and what it does, for the list of commands."""

    module: str
    summary: str


COMMANDS: Final = {
    "dial": Listed("racer.cli._dial", "Race to a host, and show what each transport did."),
    "get": Listed("racer.cli._get", "Download a URL through the race."),
    "proxy": Listed("racer.cli._proxy", "Serve a SOCKS5 and HTTP proxy whose connections race."),
    "doctor": Listed("racer.cli._doctor", "Find out what is wrong, and say what to try."),
    "config": Listed("racer.cli._config", "Check a configuration, or write the first one."),
    "replay": Listed("racer.cli._replay", "Play a recorded race again, with other delays."),
    "completion": Listed("racer.cli._completion", "Print what makes a shell complete racer."),
}

GROUP: Final = "racer.commands"
"""The entry-point group by which a guest or a third party brings a `click.Command`; the name is the command's."""

_TRACED: Final = frozenset({"demo", "dial", "get", "proxy", "soar"})
"""Commands whose races, or server, are told to the collector that the OTEL_* variables name."""

COMPLETE: Final = "_RACER_COMPLETE"
"""The variable by which a shell asks what a line can be completed to; click's own scheme."""

_NO_ARGUMENTS: Final = getattr(click.exceptions, "NoArgsIsHelpError", ())
"""A group of commands that was called without one; its text is the help. Click 8.1 prints that by itself."""

_HELP: Final = """\
Race several transports to a host, and keep the first that works.

\b
  racer dial example.com              who gets there, and how
  racer get https://example.com/file  download through the race
"""

_EPILOG: Final = """\
\b
Exit codes, of every command:
  0    done
  1    tried, and failed
  2    wrong use: a command, an option, a host or the configuration cannot be
  3    the time was over
  4    there was no transport to try
  5    this machine refused: a file, an address to listen on
  6    the far end answered, and not with what was asked for
  70   a bug in racer
  130  interrupted (Ctrl-C)
  141  who read the output has gone
"""


# --- what commands share --------------------------------------------------------------------


class _Seconds(click.types.FloatParamType):
    """A number of seconds; which of them can be, is each option's own matter."""

    name = "number of seconds"  # as an error has it


SECONDS: Final = _Seconds()


class WholeNumber(click.IntRange):
    """A whole number with bounds."""

    name = "whole number"


def config_option(command: _F) -> _F:
    """Add `--config FILE`, the parameter `config`: for `load`."""
    return click.option(
        "--config",
        metavar="FILE",
        type=click.Path(),
        help="The configuration, in TOML; else the file that RACER_CONFIG names, else racer.toml in the user's "
        "configuration directory.",
    )(command)


def json_option(command: _F) -> _F:
    """Add `--json`, the parameter `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")(
        command
    )


def plain_option(command: _F) -> _F:
    """Add `--plain`, the parameter `plain`: for `Screen.of`."""
    return click.option(
        "--plain", is_flag=True, help="Print ASCII only, without colour and redrawing."
    )(command)


def memory_option(command: _F) -> _F:
    """Add `--no-memory`, the parameter `memory`: for `load`."""
    return click.option(
        "--no-memory",
        "memory",
        is_flag=True,
        default=True,
        flag_value=False,
        help="Neither use nor change what is remembered of earlier races.",
    )(command)


def entrants_option(command: _F) -> _F:
    """Add `--only NAME` and `--exclude NAME`, the parameters `only` and `exclude`: for `load`, or for a race."""
    only = click.option(
        "--only",
        multiple=True,
        metavar="NAME",
        shell_complete=_entrant_names,
        help="Let only this entrant race (repeatable).",
    )
    exclude = click.option(
        "--exclude",
        multiple=True,
        metavar="NAME",
        shell_complete=_entrant_names,
        help="Leave this entrant out (repeatable).",
    )
    return only(exclude(command))


def _entrant_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from racer.cli._completion import entrant_names  # noqa: PLC0415 - only when a shell asks

    return entrant_names(ctx, param, incomplete)


def load(
    config: str | None,
    *,
    memory: bool = True,
    only: Collection[str] = (),
    exclude: Collection[str] = (),
) -> Configuration:
    """Return what `--config` says, or what is configured where it says nothing, with what the command line changes.

    Args:
        config: the file; `None` for the usual one.
        memory: whether it remembers who won, where the configuration does not say no.
        only: names of the entrants that stay; empty for all.
        exclude: names of those that do not.

    Raises:
        ConfigError: the file cannot be used, no entrant of it is called so, or none is left.
        NoTransports: no transport is installed.
    """
    from racer import config as configuration  # noqa: PLC0415 - not every command reads one

    read = configuration.read(config)
    if not memory:
        read = replace(read, memory=configuration.MemorySettings(enabled=False))
    if only or exclude:
        from racer._choice import choose  # noqa: PLC0415 - likewise

        chosen = choose([each.name for each in read.entrants], only or None, exclude)
        read = replace(read, entrants=tuple(e for e in read.entrants if e.name in chosen))
    return read


# --- the program ----------------------------------------------------------------------------


class Program(click.Group):
    """Commands that are loaded when they are called: a list of them costs no more than its words."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, racer's own first."""
        del ctx
        return [*COMMANDS, *_brought()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, loaded; `None` if there is none of that name."""
        del ctx
        if cmd_name in COMMANDS:
            command = importlib.import_module(COMMANDS[cmd_name].module).command
            assert isinstance(command, click.Command)
            return command
        point = _brought().get(cmd_name)
        return None if point is None else _load(point)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the arguments name; say what was meant where there is none."""
        name = args[0]
        if name.startswith("-") or self.get_command(ctx, name) is not None:
            return super().resolve_command(ctx, args)
        raise click.UsageError(_unknown(name, self.list_commands(ctx)), ctx)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - as click has it
        """Run the command; an error that does not say whose it is, is the command's."""
        try:
            return super().invoke(ctx)
        except click.UsageError as exc:
            if exc.ctx is None and ctx.invoked_subcommand is not None:
                exc.ctx = click.Context(self, parent=ctx, info_name=ctx.invoked_subcommand)
            raise

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return what a word can become: commands, or options. None of the commands is loaded."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only when a shell asks

        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        return [
            *(CompletionItem(name, help=_summary_of(name)) for name in names),
            *click.Command.shell_complete(self, ctx, incomplete),
        ]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, _summary_of(name)) for name in self.list_commands(ctx)])


@click.command(
    cls=Program,
    help=_HELP,
    epilog=_EPILOG,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="racer", message="%(prog)s %(version)s")
@click.pass_context
def program(ctx: click.Context) -> None:
    """Show what there is, where no command is named."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
    elif ctx.invoked_subcommand in _TRACED:
        from racer import telemetry  # noqa: PLC0415 - for commands that dial

        ctx.with_resource(telemetry.setup_if_asked())  # ended, and flushed, with the command


def run(
    argv: Sequence[str] | None = None, *, command: click.Command = program, name: str = "racer"
) -> int:
    """Run the command that the arguments name, and return its exit code. Every error ends here.

    Args:
        argv: the arguments; `None` for the program's own.
        command: what they are for.
        name: its own.
    """
    arguments = sys.argv[1:] if argv is None else list(argv)
    fill_closed_outputs()
    try:
        if command is program and (instruction := os.environ.get(COMPLETE)):
            from racer.cli._completion import answer  # noqa: PLC0415 - only when a shell asks

            return answer(program, instruction)
        # Not click's own main, which ends the program in its own ways when it is interrupted or a pipe is closed.
        with command.make_context(name, arguments) as context:
            ended = command.invoke(context)
        sys.stdout.flush()  # a full disk is an error too
    except click.exceptions.Exit as exc:
        return exc.exit_code
    except click.UsageError as exc:
        if isinstance(exc, _NO_ARGUMENTS):
            print(exc.format_message(), file=sys.stderr)
        else:
            complain(_usage(exc))
        return Exit.WRONG_USE
    except click.ClickException as exc:  # another package's command, with a code of its choice
        complain(exc.format_message())
        return exc.exit_code
    except BaseException as exc:  # noqa: BLE001 - the one place that ends a program
        return _end(exc)
    return ended if isinstance(ended, int) else Exit.DONE


def _end(exc: BaseException) -> int:
    if isinstance(exc, SystemExit):
        raise exc
    code, sentence = ending(exc)
    if code is Exit.BUG:
        traceback.print_exception(exc)
    if code in {Exit.UNREAD, Exit.SYSTEM}:
        _let_go_of_stdout()
    for line in getattr(exc, "problems", ()) or [sentence]:
        if line:
            complain(line)
    return code


def _let_go_of_stdout() -> None:
    """Let go of standard output if it takes no more."""
    try:
        sys.stdout.flush()
    except OSError:
        silence(sys.stdout.fileno())


def _usage(exc: click.UsageError) -> str:
    """Return what click found wrong, in one sentence."""
    path = "racer" if exc.ctx is None else exc.ctx.command_path
    return f"{exc.format_message().rstrip('.')} (see {path} --help)"


def _brought() -> dict[str, EntryPoint]:
    """Return what other packages bring, by name; nothing is imported. No package replaces a command of racer's own."""
    found: dict[str, EntryPoint] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
        if point.name not in COMMANDS:
            found.setdefault(point.name, point)
    return found


def _load(point: EntryPoint) -> click.Command:
    """Return what another package brings.

    Raises:
        CommandError: it cannot be loaded, or is no command.
    """
    try:
        command = point.load()
    except Exception as exc:
        _, sentence = ending(exc)
        why = sentence if isinstance(exc, ModuleNotFoundError) else f"{type(exc).__name__}: {exc}"
        msg = f"the command {point.name!r} ({point.value}) cannot be loaded: {why}"
        raise CommandError(msg, Exit.WRONG_USE) from exc
    if not isinstance(command, click.Command):
        msg = f"{point.name!r} ({point.value}) is no click command but {type(command).__name__}"
        raise CommandError(msg, Exit.WRONG_USE)
    return command


def _summary_of(name: str) -> str:
    """Return what a command does, in a few words."""
    if name in COMMANDS:
        return COMMANDS[name].summary
    try:
        return _load(_brought()[name]).get_short_help_str(limit=60)
    except CommandError:
        return "(cannot be loaded)"


def _unknown(name: str, commands: Sequence[str]) -> str:
    """Return what to say of a command that does not exist."""
    text = f"there is no command {name!r:.60}"
    if near := difflib.get_close_matches(name, commands, n=1):
        return f"{text}; did you mean {near[0]!r}?"
    if _is_host(name):
        return f"{text}; to dial a host: racer dial {name}"
    return text


def _is_host(text: str) -> bool:
    from racer._target import Target  # noqa: PLC0415 - where nothing else is left to do
    from racer.errors import ConfigError  # noqa: PLC0415 - likewise

    try:
        host = Target.parse(text).host
    except ConfigError:
        return False
    return host == "localhost" or "." in host or ":" in host
