"""Octets as a page that an AMP cache takes for one, and back. Pure.

The page holds base64 (RFC 4648 §4) in `pre` elements, in lines of 32 characters; the first character says which version
this is. A cache may move, add and rewrite whatever it likes outside of that text.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final

from racer.errors import RemoteProtocolError

__all__ = ("MAX_PAGE", "armor", "unarmor")

MAX_PAGE: Final = 4 * 1024 * 1024
"""Octets of a page; what is in it is a quarter less."""

VERSION: Final = b"0"

_LINE: Final = 32
_LINES: Final = 992
"""Lines in an element: with their ends 32,736 octets, below the 32 KiB that caches are known to take."""

# The mandatory markup of AMP, to the letter: https://amp.dev/documentation/guides-and-tutorials/learn/spec/amp-boilerplate
_START: Final = b"-amp-start 8s steps(1,end) 0s 1 normal both"
_FRAMES: Final = b"keyframes -amp-start{from{visibility:hidden}to{visibility:visible}}"
_STYLE: Final = (
    b"body{"
    + b";".join(b"%sanimation:" % p + _START for p in (b"-webkit-", b"-moz-", b"-ms-", b""))
    + b"}"
    + b"".join(b"@%s" % p + _FRAMES for p in (b"-webkit-", b"-moz-", b"-ms-", b"-o-", b""))
)
_NO_STYLE: Final = (
    b"body{"
    + b";".join(b"%sanimation:none" % p for p in (b"-webkit-", b"-moz-", b"-ms-", b""))
    + b"}"
)
_HEAD: Final = (
    b'<!doctype html>\n<html amp>\n<head>\n<meta charset="utf-8">\n'
    b'<script async src="https://cdn.ampproject.org/v0.js"></script>\n'
    b'<link rel="canonical" href="#">\n<meta name="viewport" content="width=device-width">\n'
    b"<style amp-boilerplate>" + _STYLE + b"</style>"
    b"<noscript><style amp-boilerplate>" + _NO_STYLE + b"</style></noscript>\n</head>\n<body>\n"
)
_TAIL: Final = b"</body>\n</html>\n"

_MARK = re.compile(rb"<(?:!--|(/?)([A-Za-z][A-Za-z0-9-]*))")
_RAW: Final = frozenset({b"script", b"style", b"template", b"textarea", b"title"})
_SPACE = re.compile(rb"[ \t\r\n\f]+")


def armor(payload: bytes) -> bytes:
    """Return a page that holds `payload`."""
    text = VERSION + base64.b64encode(payload)
    lines = [text[at : at + _LINE] for at in range(0, len(text), _LINE)]
    elements = [
        b"<pre>\n" + b"\n".join(lines[at : at + _LINES]) + b"\n</pre>\n"
        for at in range(0, len(lines), _LINES)
    ]
    return _HEAD + b"".join(elements) + _TAIL


def unarmor(page: bytes) -> bytes:
    """Return what a page holds; linear in its length.

    Raises:
        RemoteProtocolError: it holds nothing, is too long, or of a version that is not known.
    """
    if len(page) > MAX_PAGE:
        msg = f"a page of more than {MAX_PAGE} octets"
        raise RemoteProtocolError(msg)
    text = _SPACE.sub(b"", b"".join(_elements(page)))
    if not text:
        msg = "a page that holds no data"
        raise RemoteProtocolError(msg)
    if text[:1] != VERSION:
        msg = f"a page of version {text[:1]!r}, and only {VERSION!r} is known"
        raise RemoteProtocolError(msg)
    try:
        return base64.b64decode(text[1:], validate=True)
    except binascii.Error as exc:
        msg = f"a page whose data is torn: {exc}"
        raise RemoteProtocolError(msg) from exc


def _elements(page: bytes) -> list[bytes]:
    """Return the texts of the `pre` elements, tags within them left out."""
    found: list[bytes] = []
    lowered = page.lower()
    at, depth = 0, 0
    while True:
        mark = _MARK.search(page, at)
        if depth:
            found.append(page[at : mark.start() if mark else len(page)])
        if mark is None:
            return found
        if mark[2] is None:
            at = _behind(page, b"-->", mark.end())
            continue
        at = _behind(page, b">", mark.end())
        name = mark[2].lower()
        if name == b"pre":
            depth = depth - 1 if mark[1] and depth else depth + (not mark[1])
        elif name in _RAW and not mark[1]:
            at = _behind(lowered, b"</" + name, at)


def _behind(page: bytes, what: bytes, at: int) -> int:
    """Return where `what` ends, or the page does."""
    found = page.find(what, at)
    return len(page) if found < 0 else found + len(what)
