"""How a command ends: its exit code, and one line for a person where something went wrong."""

from __future__ import annotations

import os
import sys
from enum import IntEnum
from typing import Final

from racer._words import one_line
from racer.errors import ConfigError, DialTimeout, NoTransports, RacerError

__all__ = (
    "CommandError",
    "Exit",
    "alone",
    "complain",
    "ending",
    "fill_closed_outputs",
    "needs",
    "silence",
)

_EXTRAS: Final = {
    "click": "cli",
    "rich": "cli",
    "httpx2": "httpx2",
    "opentelemetry.exporter": "otlp",
    "trustme": "lab",
}
"""What brings a package that the base installation does not have."""


class Exit(IntEnum):
    """What the program's exit code says; the same for every command."""

    DONE = 0
    """What was asked for is done."""
    FAILED = 1
    """It was tried, and failed: every attempt, or what came after."""
    WRONG_USE = 2
    """A command, an option, a host or the configuration cannot be; nothing was tried."""
    TIMEOUT = 3
    """The time was over."""
    NO_TRANSPORTS = 4
    """There was no transport to try."""
    SYSTEM = 5
    """This machine refused: a file cannot be written, an address cannot be listened on."""
    REFUSED = 6
    """The far end answered, and not with what was asked for."""
    BUG = 70
    """A mistake in the program, with a traceback. EX_SOFTWARE of sysexits.h."""
    INTERRUPTED = 130
    """Ctrl-C; as a shell says it of SIGINT."""
    UNREAD = 141
    """Who read the output has gone; as a shell says it of SIGPIPE."""


_CODES: Final[dict[type[BaseException], Exit]] = {
    KeyboardInterrupt: Exit.INTERRUPTED,
    BrokenPipeError: Exit.UNREAD,
    NoTransports: Exit.NO_TRANSPORTS,
    ConfigError: Exit.WRONG_USE,
    DialTimeout: Exit.TIMEOUT,
    RacerError: Exit.FAILED,
    TimeoutError: Exit.TIMEOUT,
    OSError: Exit.SYSTEM,
}
"""Of two that fit an error, the first counts."""


class CommandError(RacerError):
    """A command ends with this code, for the reason that the text says in one sentence.

    Args:
        message: for a person; empty where everything is said already.
        code: the exit code.
    """

    def __init__(self, message: str, code: Exit = Exit.FAILED) -> None:
        """Keep the code beside the words."""
        super().__init__(message)
        self.code = code


def ending(exc: BaseException) -> tuple[Exit, str]:
    """Return the exit code for an error and the sentence about it, which is empty where there is nothing to say.

    Every command's errors come by here, so that one code means one thing. An error that no command means to raise is
    a bug; its traceback is the caller's to print.
    """
    exc = alone(exc)
    if isinstance(exc, CommandError):
        return exc.code, str(exc)
    if isinstance(exc, ModuleNotFoundError) and (sentence := needs(exc.name or "")):
        return Exit.WRONG_USE, sentence
    code = next((code for kind, code in _CODES.items() if isinstance(exc, kind)), Exit.BUG)
    return code, _sentence(exc, code)


def _sentence(exc: BaseException, code: Exit) -> str:
    match code:
        case Exit.INTERRUPTED:
            return "interrupted"
        case Exit.UNREAD:
            return ""
        case Exit.TIMEOUT:
            return str(exc) or "the time was over"
        case Exit.SYSTEM:
            return _system(exc)
        case Exit.BUG:
            return f"this is a bug: {type(exc).__name__}: {exc}"
        case _:
            return str(exc)


def alone(exc: BaseException) -> BaseException:
    """Return the one error in groups of one: how a task group says what one task said."""
    while isinstance(exc, BaseExceptionGroup):
        interrupted = exc.subgroup(KeyboardInterrupt)
        if interrupted is None and len(exc.exceptions) != 1:
            return exc
        exc = (interrupted or exc).exceptions[0]
    return exc


def _system(exc: BaseException) -> str:
    """Return what the operating system said, without the number that helps nobody."""
    if not isinstance(exc, OSError) or exc.strerror is None:
        return str(exc) or type(exc).__name__
    return exc.strerror if exc.filename is None else f"{exc.filename}: {exc.strerror}"


def needs(module: str) -> str:
    """Return what to install for a module that is not there; empty where that is no extra of ours."""
    for package, extra in _EXTRAS.items():
        if module == package or module.startswith(f"{package}."):
            return (
                f"{package} is not installed; install it with: pip install 'racer-dialer[{extra}]'"
            )
    return ""


def complain(sentence: str) -> None:
    """Say on one line of standard error what went wrong; whether anybody reads it changes nothing."""
    try:
        # Over the ^C that a terminal shows.
        start = "\r" if sys.stderr.isatty() else ""
        print(f"{start}racer: {one_line(sentence)}", file=sys.stderr, flush=True)
    except OSError:
        silence(sys.stderr.fileno())


def silence(descriptor: int) -> None:
    """Let what is still to be written go nowhere, since Python would complain once more when it flushes at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def fill_closed_outputs() -> None:
    """Give the program outputs where it was started without; else its first file would be what is written to."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            setattr(sys, name, os.fdopen(nowhere, "w", encoding="utf-8"))
