"""Log lines about errors: with their traceback and words or, where hosts may not leave, without their words (T5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging

__all__ = ("log_error",)


def log_error(
    logger: logging.Logger,
    level: int,
    message: str,
    *args: object,
    error: BaseException,
    redacted: bool,
) -> None:
    """Log `message`, filled with `args`, and `error`.

    Args:
        logger: where to.
        level: how grave.
        message: what failed, with `%` placeholders; no host, no peer.
        *args: what fills them; likewise.
        error: what it failed with.
        redacted: leave the error's words, and those of its causes, out: only its type and the lines of code remain.
    """
    if not redacted:
        logger.log(level, message, *args, exc_info=error)
    elif logger.isEnabledFor(level):
        import traceback  # noqa: PLC0415 - only a failure pays for it

        lines = "".join(traceback.format_tb(error.__traceback__))
        text = f"{message}: %s\n%s"
        logger.log(level, text, *args, type(error).__name__, lines)
