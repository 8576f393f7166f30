"""One YAML document of plain data from bytes that nobody vouches for, plain or gzipped; bounded in every direction.

PyYAML's parser gives events; what is built of them is built here. So no tag makes an object, no alias multiplies, and
depth costs no stack. Scalars keep their text wherever YAML would reshape it: only `null`, `true`, `false` and whole
numbers in decimal become values of their own, and only unquoted. A sequence of digits and dots is never a float.
"""

from __future__ import annotations

import re
import zlib
from typing import TYPE_CHECKING, Any, Final

from racer.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ("MAX_DEPTH", "MAX_NODES", "MAX_PACKED", "MAX_TEXT", "read_yaml", "unpack")

MAX_PACKED: Final = 8 * 1024 * 1024
"""Octets of a file as it comes; the largest front list published has 68 KB."""

MAX_TEXT: Final = 16 * 1024 * 1024
"""Octets when unpacked; that list has 0.55 MB, and each octet costs a few times its size in memory."""

MAX_DEPTH: Final = 16
"""Mappings and sequences within each other; front lists have 6."""

MAX_NODES: Final = 500_000
"""Scalars, mappings and sequences together; that list has 27,000."""

_GZIP = b"\x1f\x8b"
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})\Z")
_WORDS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


def unpack(data: bytes) -> bytes:
    """Return the text in `data`: unpacked if it is gzip, else as it is.

    Raises:
        ConfigError: too long, packed or unpacked, or a torn or damaged gzip file.
    """
    if len(data) > MAX_PACKED:
        msg = f"more than {MAX_PACKED} octets"
        raise ConfigError(msg)
    if not data.startswith(_GZIP):
        return data
    inflater = zlib.decompressobj(wbits=31)  # a gzip header, and its checksum at the end
    try:
        text = inflater.decompress(data, MAX_TEXT + 1)
    except zlib.error as exc:
        msg = f"damaged gzip data: {exc}"
        raise ConfigError(msg) from exc
    if len(text) > MAX_TEXT:
        msg = f"more than {MAX_TEXT} octets when unpacked"
        raise ConfigError(msg)
    if not inflater.eof:
        msg = "gzip data that ends too early"
        raise ConfigError(msg)
    if inflater.unused_data:
        msg = "something follows the gzip data"
        raise ConfigError(msg)
    return text


def read_yaml(data: bytes) -> Any:  # noqa: ANN401 - plain data of any shape
    """Return the one document in `data`, of `dict`, `list`, `str`, `int`, `bool` and `None`; slow for large ones.

    Raises:
        ConfigError: too long, too deep, not YAML, or of more than plain data; says what, and where.
    """
    text = unpack(data)
    if len(text) > MAX_TEXT:
        msg = f"more than {MAX_TEXT} octets"
        raise ConfigError(msg)
    import yaml  # noqa: PLC0415 - only who reads YAML loads it

    try:
        return _Builder().build(_events(text))
    except yaml.YAMLError as exc:
        mark = getattr(exc, "problem_mark", None)
        what = getattr(exc, "problem", None) or "not text"
        where = f"line {mark.line + 1}: " if mark is not None else ""
        msg = f"{where}not YAML: {str(what)[:200]}"
        raise ConfigError(msg) from exc


def _events(text: bytes) -> Iterator[Any]:
    import yaml  # noqa: PLC0415 - loaded already

    # libyaml's parser is about 20 times as fast as the one in Python; the events are the same.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.parse(text, Loader=loader)


class _Builder:
    """Makes plain data of a parser's events."""

    def __init__(self) -> None:
        self._nodes = 0
        self._open: list[
            tuple[Any, list[str]]
        ] = []  # containers, with the key that waits for its value
        self._documents = 0
        self._root: Any = None

    def build(self, events: Iterator[Any]) -> Any:  # noqa: ANN401
        import yaml  # noqa: PLC0415 - loaded already

        for event in events:
            match event:
                case yaml.ScalarEvent():
                    self._check(event)
                    self._add(_scalar(event), event)
                case yaml.MappingStartEvent():
                    self._check(event)
                    self._enter({}, event)
                case yaml.SequenceStartEvent():
                    self._check(event)
                    self._enter([], event)
                case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                    self._open.pop()
                case yaml.AliasEvent():
                    raise _refused(event, "an alias; write out what it stands for")
                case yaml.DocumentStartEvent():
                    self._documents += 1
                    if self._documents > 1:
                        raise _refused(event, "a second document")
                case _:
                    pass
        return self._root

    def _check(self, event: Any) -> None:  # noqa: ANN401 - PyYAML's events have no common type with these fields
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise _refused(event, f"more than {MAX_NODES} values")
        if event.anchor is not None:
            raise _refused(event, "an anchor; write out what it stands for")
        if event.tag is not None and event.tag != "!":
            raise _refused(event, "a tag; only plain data is read")

    def _enter(self, container: Any, event: Any) -> None:  # noqa: ANN401
        self._add(container, event)
        if len(self._open) == MAX_DEPTH:
            raise _refused(event, f"more than {MAX_DEPTH} levels")
        self._open.append((container, []))

    def _add(self, value: Any, event: Any) -> None:  # noqa: ANN401
        if not self._open:
            self._root = value
            return
        container, waiting = self._open[-1]
        if isinstance(container, list):
            container.append(value)
        elif waiting:
            container[waiting.pop()] = value
        elif isinstance(value, dict | list):
            raise _refused(event, "a key that is no text")
        else:
            key = str(event.value)
            if key in container:
                raise _refused(event, f"the key {key[:80]!r} a second time")
            container[key] = None
            waiting.append(key)


def _scalar(event: Any) -> str | int | bool | None:  # noqa: ANN401
    text: str = event.value
    if event.style:  # quoted, or a block: text
        return text
    if text in _WORDS:
        return _WORDS[text]
    return int(text) if _INTEGER.match(text) else text


def _refused(event: Any, what: str) -> ConfigError:  # noqa: ANN401
    return ConfigError(f"line {event.start_mark.line + 1}: {what}")
