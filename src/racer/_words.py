"""Errors in words: one bounded line, safe for a terminal, a log and a span, whatever the error is made of."""

from __future__ import annotations

from racer.errors import DialError, RecordedError

__all__ = ("describe", "one_line", "type_name", "words")

_MAX_TEXT = 1000  # characters of one error's words in a report, span or log
_MAX_RAW = 10_000  # characters of an error's own text that are looked at
_MAX_CAUSES = 4
_MAX_MEMBERS = 4
_MAX_DEPTH = 3


def describe(exc: BaseException) -> str:
    """Return an error's type and text in one bounded line, with its causes where they say more."""
    return _cut(_named(type_name(exc), words(exc)))


def words(exc: BaseException) -> str:
    """Return what `describe` says behind the type's name; empty if there is nothing to say."""
    return _cut(_words(exc, 0))


def type_name(exc: BaseException) -> str:
    """Return the name of an error's type, of the one it had if it was read back from a report."""
    return one_line(exc.type_name if isinstance(exc, RecordedError) else type(exc).__name__)


def one_line(text: str) -> str:
    """Return `text` on one bounded line that can be written anywhere: no control characters, no lone surrogates.

    Peers choose some of these texts. Their escape sequences must not reach a terminal, nor their line breaks a log.
    """
    text = " ".join(text[:_MAX_RAW].split())
    if not text.isprintable():
        text = "".join(
            char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
            for char in text
        )
    return _cut(text)


def _words(exc: BaseException, depth: int) -> str:
    text = _own_text(exc)
    if isinstance(exc, DialError) or depth >= _MAX_DEPTH:  # a race's own text names all its causes
        return text
    more = _members(exc, text, depth)
    cause = exc.__cause__
    for _ in range(_MAX_CAUSES):
        if cause is None:
            break
        own = _own_text(cause)
        if isinstance(cause, BaseExceptionGroup):
            more += _members(cause, text, depth)
        elif not own or own not in text:
            more.append(_named(type_name(cause), own))
        cause = None if isinstance(cause, DialError) else cause.__cause__
    if not more:
        return text
    return f"{text} ({'; '.join(more)})" if text else "; ".join(more)


def _members(exc: BaseException, said: str, depth: int) -> list[str]:
    """Return what the members of a group say that `said` does not."""
    if not isinstance(exc, BaseExceptionGroup):
        return []
    members = [
        _named(type_name(member), _words(member, depth + 1))
        for member in exc.exceptions[:_MAX_MEMBERS]
        if not (own := _own_text(member)) or own not in said
    ]
    if (rest := len(exc.exceptions) - _MAX_MEMBERS) > 0:
        members.append(f"and {rest} more")
    return members


def _own_text(exc: BaseException) -> str:
    try:
        return one_line(str(exc))
    except Exception:  # noqa: BLE001 - a guest's error whose text cannot even be made must not break the report
        return "(no text: its __str__ failed)"


def _named(name: str, text: str) -> str:
    return f"{name}: {text}" if text else name


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 1]}…"
