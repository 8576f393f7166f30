"""The file of a memory: believed only when it is its owner's alone, replaced whole, shared by processes. Blocks.

    {"version": 1, "salt": "<32 hex digits>", "records": [[network, host, entrant, won_at, failed_at, doubt, used_at], …]}

Networks and hosts stand in it as hashes under the salt: somebody who glances at the file reads no history of what was
visited. Who holds the file, though, can try names against it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import stat
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn

from racer._memory_table import Key, Record

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from pathlib import Path

__all__ = (
    "MAX_BYTES",
    "SALT_BYTES",
    "Stored",
    "Unusable",
    "digest",
    "locked",
    "read",
    "write",
)

MAX_BYTES: Final = 8 * 1024 * 1024
"""Octets of the file; 10,000 records of entrants with long names take half of it."""

SALT_BYTES: Final = 16

_VERSION: Final = 1
_DIGEST_BYTES: Final = 16
_MAX_NAME: Final = 100  # characters of an entrant's name
_LOCK_TRIES: Final = 50
_LOCK_PAUSE: Final = 0.01  # seconds; half a second in all


class Unusable(ValueError):
    """What lies there is not believed; `may_replace` says whether it may be written over."""

    def __init__(self, why: str, *, may_replace: bool) -> None:
        """Keep whether it may be written over."""
        super().__init__(why)
        self.may_replace = may_replace


@dataclass(frozen=True, slots=True)
class Stored:
    """What a file holds.

    Attributes:
        salt: the key of its hashes.
        records: what is known.
    """

    salt: bytes
    records: Mapping[Key, Record]


def digest(text: str, salt: bytes) -> str:
    """Return what stands in a file for `text`."""
    raw = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(raw, key=salt, digest_size=_DIGEST_BYTES).hexdigest()


def read(path: Path) -> Stored:
    """Return what the file at `path` holds.

    Raises:
        FileNotFoundError: there is none.
        OSError: it cannot be read.
        Unusable: it is not the user's own, others may read or write it, or it is no such file; says what.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(descriptor, "rb") as file:
            _check_owner(os.fstat(file.fileno()))
            data = file.read(MAX_BYTES + 1)
    except IsADirectoryError as exc:
        msg = "not a file"
        raise Unusable(msg, may_replace=False) from exc
    if len(data) > MAX_BYTES:
        msg = f"larger than {MAX_BYTES} bytes"
        raise Unusable(msg, may_replace=True)
    return _parsed(data)


def _check_owner(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        msg = "not a file"
        raise Unusable(msg, may_replace=False)
    if sys.platform == "win32":
        return  # there folders have the rights, and the user's own has none for others
    if found.st_uid != os.geteuid():
        msg = f"it belongs to user {found.st_uid}, and this is user {os.geteuid()}"
        raise Unusable(msg, may_replace=False)
    if found.st_mode & 0o077:
        msg = (
            f"others may use it (mode {stat.S_IMODE(found.st_mode):04o}, and only 0600 is believed)"
        )
        raise Unusable(msg, may_replace=True)


def write(path: Path, stored: Stored) -> None:
    """Put `stored` into the file at `path`, mode 0600; missing folders are made.

    Whoever reads the file, also after a crash in between, finds the old content or the new, never a part.

    Raises:
        OSError: it could not be written; the old file stands.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # In the same folder, so that the rename stays within one file system.
    temporary = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    descriptor = os.open(temporary, flags, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(_to_data(stored))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


@contextlib.contextmanager
def locked(path: Path) -> Generator[bool]:
    """Keep other processes from writing the file at `path` meanwhile; says whether that could be had.

    A lock that somebody holds for longer than half a second is not waited for: the file is still replaced whole, and at
    worst what the other learned in that moment waits for its next writing.
    """
    if sys.platform == "win32":
        yield False
        return
    lock = path.with_name(f".{path.name}.lock")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:
        yield False
        return
    try:
        yield _flock(descriptor)
    finally:
        os.close(descriptor)


def _flock(descriptor: int) -> bool:
    pause = threading.Event()
    for _ in range(_LOCK_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            pause.wait(_LOCK_PAUSE)  # in a worker thread; nothing ever sets it
        else:
            return True
    return False


def _to_data(stored: Stored) -> bytes:
    rows = [
        [
            key.network,
            key.host,
            key.entrant,
            record.won_at,
            record.failed_at,
            round(record.doubt, 6),
            record.used_at,
        ]
        for key, record in stored.records.items()
    ]
    data = {"version": _VERSION, "salt": stored.salt.hex(), "records": rows}
    return json.dumps(data, allow_nan=False).encode("ascii")


def _parsed(data: bytes) -> Stored:
    try:
        found = json.loads(data)
        if not isinstance(found, dict) or not _is_whole(found.get("version")):
            _refuse("no memory of racer's")
        if found["version"] > _VERSION:  # a newer racer still wants it
            _refuse(
                f"version {str(found['version'])[:20]}, and this racer knows {_VERSION}",
                may_replace=False,
            )
        if set(found) != {"version", "salt", "records"} or found["version"] != _VERSION:
            _refuse("no memory of racer's")
        salt = bytes.fromhex(_text(found["salt"], 2 * SALT_BYTES))
        if len(salt) != SALT_BYTES or not isinstance(found["records"], list):
            _refuse("no salt, or no list of records")
        return Stored(salt, dict(_row(row) for row in found["records"]))
    except Unusable:
        raise
    except (ValueError, TypeError, RecursionError) as exc:
        msg = f"damaged: {exc!s:.80}"
        raise Unusable(msg, may_replace=True) from exc


def _row(row: Any) -> tuple[Key, Record]:  # noqa: ANN401 - checked here
    if not isinstance(row, list) or len(row) != 7:
        _refuse("a record is a list of seven")
    network, host, entrant, won_at, failed_at, doubt, used_at = row
    for text in (network, host):
        if len(bytes.fromhex(_text(text, 2 * _DIGEST_BYTES))) != _DIGEST_BYTES:
            _refuse("a hash is cut short")
    record = Record(
        won_at=None if won_at is None else _number(won_at),
        failed_at=None if failed_at is None else _number(failed_at),
        doubt=_number(doubt),
        used_at=_number(used_at),
    )
    return Key(network, host, _text(entrant, _MAX_NAME)), record


def _text(value: object, most: int) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= most:
        _refuse("a text is missing or too long")
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        _refuse("a number is missing")
    number = float(value) if abs(value) < 1e18 else math.inf
    if not 0 <= number < math.inf:
        _refuse("a number that cannot be")
    return number


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _refuse(why: str, *, may_replace: bool = True) -> NoReturn:
    raise Unusable(why, may_replace=may_replace)
