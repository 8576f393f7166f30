"""Errors in words: one bounded line, safe for a terminal, a log and a span, whatever the error is made of."""

from __future__ import annotations

from racer.errors import DialError, RecordedError

__all__ = ("describe", "one_line", "shown", "type_name", "words")

_MAX_TEXT = 1000  # characters of one error's words in a report, span or log
_MAX_RAW = 10_000  # characters of an error's own text that are looked at
_MAX_CAUSES = 4
_MAX_MEMBERS = 4
_MAX_DEPTH = 3
_MAX_SHOWN = 80  # characters of a value that was given


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


def shown(value: object) -> str:
    """Return `value` fit for an error: bounded, and total where `repr` is not (ints of over 4300 digits)."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a caller's object; the error about it must still be told
        text = type(value).__name__
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 3]}..."


def _words(exc: BaseException, depth: int) -> str:
    text = _own_text(exc)
    if isinstance(exc, DialError) or depth >= _MAX_DEPTH:  # a race's own text names all its causes
        return text
    said = [text, *_members(exc, text, depth)]
    cause = exc.__cause__
    for _ in range(_MAX_CAUSES):
        if cause is None:
            break
        if isinstance(cause, BaseExceptionGroup):
            said += _members(cause, text, depth)
        elif not _says(said, own := _own_text(cause)):
            said.append(_named(type_name(cause), own))
        cause = None if isinstance(cause, DialError) else cause.__cause__
    more = "; ".join(said[1:])
    return f"{text} ({more})" if text and more else text or more


def _members(exc: BaseException, text: str, depth: int) -> list[str]:
    """Return what the members of a group say that `text` does not."""
    if not isinstance(exc, BaseExceptionGroup):
        return []
    members = [
        _named(type_name(member), _words(member, depth + 1))
        for member in exc.exceptions[:_MAX_MEMBERS]
        if not _says([text], _own_text(member))
    ]
    if (rest := len(exc.exceptions) - _MAX_MEMBERS) > 0:
        members.append(f"and {rest} more")
    return members


def _says(said: list[str], text: str) -> bool:
    """Whether `text` stands, not as a part of longer words, in what was said already."""
    if not text:
        return False
    for line in said:
        start = line.find(text)
        while start >= 0:
            before, after = line[:start][-1:], line[start + len(text) :][:1]
            if not before.isalnum() and not after.isalnum():
                return True
            start = line.find(text, start + 1)
    return False


def _own_text(exc: BaseException) -> str:
    try:
        return one_line(str(exc))
    except Exception:  # noqa: BLE001 - a guest's error whose text cannot even be made must not break the report
        return "(no text: its __str__ failed)"


def _named(name: str, text: str) -> str:
    return f"{name}: {text}" if text else name


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 1]}…"
