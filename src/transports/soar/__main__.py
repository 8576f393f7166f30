"""`python -m transports.soar`: the same as `racer soar`."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ("main",)

_UNREAD: Final = 141  # as a shell says it of SIGPIPE


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that `arguments` say, and return its exit status: 0, 1 if it failed, 2 if it could not begin."""
    try:
        import click  # noqa: PLC0415 - an extra
    except ModuleNotFoundError:
        sys.stderr.write(
            "click is not installed; install it with: pip install 'racer-dialer[cli]'\n"
        )
        return 2
    from transports.soar.command import command  # noqa: PLC0415 - needs click

    told = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with command.make_context("python -m transports.soar", told) as context:
            command.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as exc:
        return exc.exit_code
    except click.UsageError as exc:
        exc.show()
        return exc.exit_code
    except click.ClickException as exc:
        sys.stderr.write(f"{exc.format_message()}\n")
        return exc.exit_code
    except BrokenPipeError:
        # Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _UNREAD
    return 0


if __name__ == "__main__":
    sys.exit(main())
