"""Text in terminal columns: how wide it is, cut to fit, wrapped. Pure."""

from __future__ import annotations

import unicodedata

__all__ = ("cut", "cut_middle", "padded", "width_of", "wrapped")


def width_of(text: str) -> int:
    """Return how many columns a terminal gives to `text`."""
    return len(text) if text.isascii() else sum(map(_width, text))


def padded(text: str, width: int) -> str:
    """Return `text` with blanks behind it up to `width` columns."""
    return text + " " * (width - width_of(text))


def cut(text: str, width: int, ellipsis: str = "…") -> str:
    """Return `text` if it fits into `width` columns, else its beginning and an ellipsis that do."""
    if width_of(text) <= width:
        return text
    room = width - width_of(ellipsis)
    return ellipsis[:width] if room < 0 else _head(text, room).rstrip(" (") + ellipsis


def cut_middle(text: str, width: int, ellipsis: str = "…") -> str:
    """Return `text` if it fits, else its two ends: names of one family differ at either."""
    room = width - width_of(ellipsis)
    if width_of(text) <= width or room < 2:
        return cut(text, width, ellipsis)
    head = _head(text, (room + 1) // 2)
    tail = _head(text[::-1], room // 2)[::-1]
    while tail and not _width(tail[0]):  # an accent whose letter was cut off
        tail = tail[1:]
    return head + ellipsis + tail


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """Return `text` in lines of at most `width` columns, each but the first behind `indent`.

    Lines break between words, and within a word only where it is longer than a line.
    """
    lines: list[str] = []
    line = ""
    for word in text.split(" "):
        rest = word
        if line.strip() and width_of(line) + 1 + width_of(rest) <= width:
            line = f"{line} {rest}"
            continue
        if line.strip():
            lines.append(line)
            line = indent
        while width_of(line) + width_of(rest) > width:
            piece = _head(rest, width - width_of(line)) or rest[:1]
            lines.append(line + piece)
            rest, line = rest[len(piece) :], indent
        line += rest
    if line.strip() or not lines:
        lines.append(line)
    return lines


def _width(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in {"Mn", "Me"}:
        return 0
    return 2 if unicodedata.east_asian_width(char) in {"W", "F"} else 1


def _head(text: str, width: int) -> str:
    """Return the longest beginning of `text` that fits into `width` columns."""
    used = 0
    for index, char in enumerate(text):
        used += _width(char)
        if used > width:
            return text[:index]
    return text
