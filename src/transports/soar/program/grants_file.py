"""The file in which an operator keeps grants: TOML, read strictly, written whole."""

from __future__ import annotations

import datetime
import json
import os
import tomllib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from racer.abc import unknown_key
from racer.errors import ConfigError
from transports._net.files import read_bounded, write_atomically
from transports.soar.core.crypto.grants import Grant
from transports.soar.core.server.credentials import IssuedGrant, TargetRule
from transports.soar.program.files import alone

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ("Entry", "add_grant", "issued", "read_grants", "revoke_grant")

_MAX_FILE: Final = 16 << 20  # octets; some 80,000 grants
_KEYS: Final = ("allow", "credential", "expires", "name", "revoked")
_HEAD: Final = "# Grants of a Soar server. Whoever reads this file can use them.\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One grant as the file has it.

    Attributes:
        grant: id and secret; in no `repr`.
        name: the operator's word for who has it.
        expires: Unix seconds; `None` for no end.
        allow: the targets that it allows, `host:port` each; none is all that the server's policy does.
        is_revoked: whether it was taken back.
    """

    grant: Grant
    name: str = ""
    expires: float | None = None
    allow: tuple[str, ...] = ()
    is_revoked: bool = False

    @property
    def id(self) -> str:
        """Return the grant's public name."""
        return self.grant.id.hex()

    def issued(self) -> IssuedGrant:
        """Return what the server is given."""
        return IssuedGrant(
            grant=self.grant,
            expires=self.expires,
            is_revoked=self.is_revoked,
            targets=tuple(TargetRule.parse(rule) for rule in self.allow),
        )


def issued(entries: Sequence[Entry]) -> tuple[IssuedGrant, ...]:
    """Return what the server is given."""
    return tuple(entry.issued() for entry in entries)


def read_grants(path: Path) -> tuple[Entry, ...]:
    """Return the grants in the file at `path`, in its order; blocks.

    Raises:
        ConfigError: it is not such a file; says where and why, and quotes no secret.
        OSError: it cannot be read.
    """
    try:
        text = read_bounded(path, _MAX_FILE).decode()
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as exc:
        # tomllib may quote what it stumbles over, and that may be a secret.
        words = "not UTF-8" if isinstance(exc, UnicodeDecodeError) else "not TOML"
        msg = (
            f"{path}: {words}"
            if not isinstance(exc, tomllib.TOMLDecodeError)
            else _where(path, exc)
        )
        raise ConfigError(msg) from None
    for key in table:
        if key != "grant":
            msg = f"{path}: {unknown_key(key, ('grant',))}"
            raise ConfigError(msg)
    tables = table.get("grant", [])
    if not isinstance(tables, list):
        msg = f"{path}: grants are written as [[grant]]"
        raise ConfigError(msg)
    entries = tuple(_entry(each, f"{path}: grant {index + 1}") for index, each in enumerate(tables))
    ids = [entry.id for entry in entries]
    if len(set(ids)) != len(ids):
        twice = next(each for each in ids if ids.count(each) > 1)
        msg = f"{path}: grant {twice} stands there twice"
        raise ConfigError(msg)
    return entries


def add_grant(
    path: Path, *, name: str = "", expires: float | None = None, allow: Sequence[str] = ()
) -> Entry:
    """Add a new grant to the file at `path`, which is made if there is none, and return it; blocks.

    Raises:
        ConfigError: the file, or a rule, is none; nothing is changed.
        OSError: it cannot be read or written.
    """
    entry = Entry(grant=Grant.generate(os.urandom), name=name, expires=expires, allow=tuple(allow))
    entry.issued()  # a rule that can't be is said before it is written
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with alone(path):
        entries = read_grants(path) if path.exists() else ()
        _write(path, (*entries, entry))
    return entry


def revoke_grant(path: Path, which: str) -> Entry:
    """Mark the grant with this id, or the start of one, as revoked, and return it; blocks.

    Raises:
        ConfigError: there is none, or more than one.
        OSError: the file cannot be read or written.
    """
    path.stat()  # there has to be one
    with alone(path):
        entries = read_grants(path)
        found = [entry for entry in entries if which and entry.id.startswith(which.lower())]
        if len(found) != 1:
            count = "no grant" if not found else f"{len(found)} grants"
            msg = f"{path}: {count} with an id that begins with {which!r}"
            raise ConfigError(msg)
        revoked = replace(found[0], is_revoked=True)
        _write(path, [revoked if entry is found[0] else entry for entry in entries])
        return revoked


def _where(path: Path, exc: tomllib.TOMLDecodeError) -> str:
    place = str(exc).rpartition("(")[2].rstrip(")")
    return (
        f"{path}: not TOML ({place})"
        if place.startswith(("at line", "at end"))
        else f"{path}: not TOML"
    )


def _entry(table: object, where: str) -> Entry:
    if not isinstance(table, dict):
        msg = f"{where}: not a table"
        raise ConfigError(msg)
    for key in table:
        if key not in _KEYS:
            msg = f"{where}: {unknown_key(key, _KEYS)}"
            raise ConfigError(msg)
    try:
        entry = Entry(
            grant=Grant.parse(_text(table, "credential")),
            name=_text(table, "name", ""),
            expires=_time(table.get("expires")),
            allow=_texts(table.get("allow", [])),
            is_revoked=_flag(table.get("revoked", False)),
        )
        entry.issued()
    except ConfigError as exc:
        msg = f"{where}: {exc}"
        raise ConfigError(msg) from exc
    return entry


def _text(table: dict[str, Any], key: str, default: str | None = None) -> str:
    value = table.get(key, default)
    if not isinstance(value, str):
        msg = f"{key}: {'missing' if value is None else 'must be a text'}"
        raise ConfigError(msg)
    return value


def _time(value: object) -> float | None:
    if value is None:
        return None
    if not isinstance(value, datetime.datetime) or value.tzinfo is None:
        msg = "expires: must be a date and time with its zone, such as 2027-01-31T12:00:00Z"
        raise ConfigError(msg)
    return value.timestamp()


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        msg = "allow: must be a list of host:port"
        raise ConfigError(msg)
    return tuple(value)


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        msg = "revoked: must be true or false"
        raise ConfigError(msg)
    return value


def _write(path: Path, entries: Sequence[Entry]) -> None:
    write_atomically(path, (_HEAD + "".join(_toml(entry) for entry in entries)).encode())


def _toml(entry: Entry) -> str:
    # A JSON string is a TOML string: both escape what they must in the same way.
    lines = ["", "[[grant]]", f"# id {entry.id}"]
    if entry.name:
        lines.append(f"name = {json.dumps(entry.name)}")
    lines.append(f"credential = {json.dumps(entry.grant.to_text())}")
    if entry.expires is not None:
        moment = datetime.datetime.fromtimestamp(entry.expires, tz=datetime.UTC)
        lines.append(f"expires = {moment.strftime('%Y-%m-%dT%H:%M:%SZ')}")
    if entry.allow:
        lines.append(f"allow = {json.dumps(list(entry.allow))}")
    if entry.is_revoked:
        lines.append("revoked = true")
    return "\n".join(lines) + "\n"
