"""How the rest of a download is asked for, and what an answer means for what is here already (RFC 9110 §13, §14). Pure.

A beginning and an end are put together only where the server says that they are of one representation: by a strong entity
tag, or by a date of its last change that is old enough to be one, and by the range and the length that it names.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = (
    "MAX_LENGTH",
    "Append",
    "Complete",
    "Have",
    "Refuse",
    "Restart",
    "Verdict",
    "Version",
    "Whole",
    "asking_for",
    "judge",
    "version_of",
)

MAX_LENGTH: Final = 2**63 - 1
"""Octets; what names more is no length."""

_MAX_VALIDATOR: Final = 1024  # octets of a tag or a date; servers send some dozens
_SETTLED: Final = timedelta(seconds=60)
"""RFC 7232 §2.2.2 asked for so much between a change and an answer before their dates were a strong validator; RFC 9110
§8.8.2.2 for one second, which a server that rounds gets wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """Which representation something is a part of, as the server says it.

    Attributes:
        etag: its strong entity tag.
        last_modified: the date of its last change, where that is a strong validator.
        encoding: its content coding; empty for none.
    """

    etag: str | None = None
    last_modified: str | None = None
    encoding: str = ""

    @property
    def if_range(self) -> str | None:
        """What asks for the rest of this very representation; `None` where nothing can."""
        return self.etag or self.last_modified

    def is_same(self, other: Version) -> bool:
        """Return whether both are surely one representation. What cannot be told is not the same."""
        if self.encoding != other.encoding:
            return False
        if self.etag is not None or other.etag is not None:
            return self.etag == other.etag
        return self.last_modified is not None and self.last_modified == other.last_modified


@dataclass(frozen=True, slots=True, kw_only=True)
class Have:
    """What is here already.

    Attributes:
        offset: octets.
        version: of what they are a part.
        total: octets of the whole; `None` while nobody has said it.
    """

    offset: int = 0
    version: Version = Version()
    total: int | None = None

    @property
    def can_go_on(self) -> bool:
        """Whether the rest can be asked for."""
        return self.offset > 0 and self.version.if_range is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """The body goes on where what is here ends, behind `skip` octets that are here already.

    Attributes:
        skip: octets of the body to leave out.
        length: octets of the body; `None` where it is not said.
        total: of the whole; likewise.
    """

    skip: int
    length: int | None
    total: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """The body is the whole of it, and not of what is here.

    Attributes:
        version: of what it is.
        total: its octets; `None` where they are not said.
    """

    version: Version
    total: int | None


@dataclass(frozen=True, slots=True)
class Complete:
    """Everything is here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """The answer is of no use for the rest: ask for the whole.

    Attributes:
        why: in words.
    """

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """The answer is none.

    Attributes:
        why: in words.
        may_pass: whether a later try may do better.
    """

    why: str
    may_pass: bool = False


Verdict: TypeAlias = Append | Restart | Complete | Whole | Refuse


def asking_for(have: Have) -> dict[str, str]:
    """Return the fields of a request for the rest, or for the whole where the rest cannot be asked for."""
    # A coding of the server's choice would give other octets each time, and ranges are of the coded ones (§14.1).
    fields = {"Accept": "*/*", "Accept-Encoding": "identity"}
    if have.can_go_on and have.version.if_range is not None:
        fields |= {"Range": f"bytes={have.offset}-", "If-Range": have.version.if_range}
    return fields


def judge(status: int, headers: Mapping[str, str], have: Have, *, asked_range: bool) -> Verdict:
    """Return what an answer means.

    Args:
        status: of the response; not one that redirects.
        headers: its fields, looked up without regard to case.
        have: what is here.
        asked_range: whether the request was for the rest.
    """
    match status:
        case 200 | 203:
            return _whole(headers, have)
        case 206 if asked_range:
            return _rest(headers, have)
        case 206:
            return Refuse(why="it answered with a part where the whole was asked for")
        case 416 if asked_range:
            return _beyond(headers, have)
        case 408 | 425 | 429 | 500 | 502 | 503 | 504:
            return Refuse(why=f"it answered {status}", may_pass=True)
        case _:
            return Refuse(why=f"it answered {status}")


def version_of(headers: Mapping[str, str]) -> Version:
    """Return which representation a response is of."""
    etag = headers.get("etag", "").strip()
    coding = headers.get("content-encoding", "").strip().lower()
    return Version(
        etag=etag if _is_strong(etag) else None,
        last_modified=_settled(headers),
        encoding="" if coding == "identity" else coding,
    )


def _whole(headers: Mapping[str, str], have: Have) -> Verdict:
    length = headers.get("content-length")
    total = None if length is None else _number(length)
    if length is not None and total is None:
        return Refuse(why=f"its Content-Length is {length!r:.40}")
    version = version_of(headers)
    is_same = have.version.is_same(version) and (total is None or have.total in {None, total})
    if have.offset and is_same and (total is None or total >= have.offset):
        return Append(skip=have.offset, length=total, total=total or have.total)
    return Restart(version=version, total=total)


def _rest(headers: Mapping[str, str], have: Have) -> Verdict:
    said = headers.get("content-range", "")
    if (part := _range(said)) is None:
        return Whole(why=f"it answered with the range {said!r:.60}")
    start, end, total = part
    if start != have.offset or end < start or (total is not None and end >= total):
        return Whole(
            why=f"it answered with the range {said!r:.60}, asked for what begins at {have.offset}"
        )
    if not _may_be_of(headers, have.version):
        return Whole(why="it answered with a part of something else")
    if total is None:
        total = have.total
    if total is None or (have.total is not None and total != have.total):
        return Whole(why="it answered with a part of something of another length")
    if (length := headers.get("content-length")) is not None and _number(length) != end - start + 1:
        return Whole(why=f"it answered with the range {said!r:.60} and {length!r:.40} octets")
    return Append(skip=0, length=end - start + 1, total=total)


def _may_be_of(headers: Mapping[str, str], version: Version) -> bool:
    """Return whether a part's own fields leave it possible that it is of this version; it need not repeat them all."""
    said = version_of(headers)
    if headers.get("etag") is not None and said.etag != version.etag:
        return False
    if headers.get("content-encoding") is not None and said.encoding != version.encoding:
        return False
    changed = headers.get("last-modified")
    return changed is None or version.etag is not None or changed.strip() == version.last_modified


def _beyond(headers: Mapping[str, str], have: Have) -> Verdict:
    unit, _, total = headers.get("content-range", "").strip().partition(" ")
    is_end = unit.lower() == "bytes" and total[:2] == "*/" and _number(total[2:]) == have.offset
    # If-Range held, or the whole would have come: nothing is missing. Only what was told before counts.
    return Complete() if is_end and have.total == have.offset else Whole(why="it has no such range")


def _range(text: str) -> tuple[int, int, int | None] | None:
    """Return first and last octet, and the octets of the whole if they are said, of a `Content-Range` (§14.4)."""
    unit, _, rest = text.strip().partition(" ")
    span, slash, total = rest.strip().partition("/")
    first, dash, last = span.partition("-")
    start, end = _number(first), _number(last)
    if unit.lower() != "bytes" or not slash or not dash or start is None or end is None:
        return None
    if total == "*":
        return start, end, None
    whole = _number(total)
    return None if whole is None else (start, end, whole)


def _number(text: str) -> int | None:
    """Return a number of octets; `None` if it is none."""
    text = text.strip()
    if not (text.isascii() and text.isdecimal() and len(text) <= 19):
        return None
    number = int(text)
    return number if number <= MAX_LENGTH else None


def _is_strong(etag: str) -> bool:
    """Return whether it is an entity tag, and no weak one (§8.8.3)."""
    if not 2 <= len(etag) <= _MAX_VALIDATOR or not (etag[0] == etag[-1] == '"'):
        return False
    return all(char == "!" or "\x23" <= char <= "\x7e" for char in etag[1:-1])


def _settled(headers: Mapping[str, str]) -> str | None:
    """Return the date of the last change if it is a strong validator (§8.8.2.2)."""
    text = headers.get("last-modified", "").strip()
    changed, now = _date(text), _date(headers.get("date", ""))
    if changed is None or now is None or now - changed < _SETTLED:
        return None
    return text


def _date(text: str) -> datetime | None:
    if not text.isascii() or not text.isprintable() or len(text) > _MAX_VALIDATOR:
        return None
    try:
        date = parsedate_to_datetime(text.strip())
    except (ValueError, OverflowError, TypeError, IndexError):
        return None
    return date if date.tzinfo is not None else date.replace(tzinfo=UTC)
