"""A dialer from a TOML file, strictly: what is not understood is an error that says where, why, and what was meant.

    timeout = 60.0                # seconds for a whole race; left out: 80
    redact = false                # keep hosts and peers out of telemetry

    [[entrant]]
    transport = "direct"          # the name of an installed transport

    [[entrant]]
    transport = "soar"
    name = "last-resort"          # left out: the transport's name
    start_delay = 8.0             # seconds; left out: the transport's own
    tier = 0
    [entrant.options]             # the transport's own options
    domain = "t.example.com"

Only what is listed takes part: there is never a direct attempt that the file does not name.
"""

from __future__ import annotations

import os
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

from racer import _registry
from racer._dialer import Dialer
from racer._roster import Entrant
from racer.abc import unknown_key
from racer.errors import ConfigError

__all__ = ("configured", "default_path", "load")

_MAX_BYTES: Final = 1024 * 1024  # a configuration of a thousand entrants is a tenth of it
_TOP: Final = ("entrant", "redact", "timeout")
_ENTRANT: Final = ("name", "options", "start_delay", "tier", "transport")

# What races when nothing is configured: the plain way, and beside it, a little later, the way past filters of names that
# takes nobody's help. The second is left out where it is not installed.
_UNCONFIGURED: Final = ("direct", "proxyless")


def load(path: str | os.PathLike[str]) -> Dialer:
    """Return a dialer made as the file says; nothing is dialed.

    Raises:
        ConfigError: the file cannot be read, or something in it cannot be; names the file, the key, the reason and the
            nearest valid key.
        NoTransports: no transport is installed at all.
    """
    file = Path(path)
    try:
        with file.open("rb") as opened:
            raw = opened.read(_MAX_BYTES + 1)
    except (OSError, ValueError) as exc:  # ValueError: a NUL in the name
        msg = f"{file}: cannot be read: {getattr(exc, 'strerror', None) or exc}"
        raise ConfigError(msg) from exc
    if len(raw) > _MAX_BYTES:
        msg = f"{file}: larger than {_MAX_BYTES} bytes"
        raise ConfigError(msg)
    try:
        data = tomllib.loads(raw.decode("utf-8-sig"))  # some editors begin every file with a mark
    except (
        ValueError,
        RecursionError,
    ) as exc:  # ValueError also for an integer of over 4300 digits
        msg = f"{file}: not TOML: {exc}"
        raise ConfigError(msg) from exc
    try:
        return _dialer_from(data)
    except ConfigError as exc:
        msg = f"{file}: {exc}"
        raise ConfigError(msg) from exc


def default_path() -> Path:
    """Return where the configuration is looked for: `RACER_CONFIG`, else the user's configuration directory.

    Never the working directory, where somebody else's file may lie.

    Raises:
        RuntimeError: there is no home directory.
    """
    named = os.environ.get("RACER_CONFIG")
    if named:
        return Path(named)
    return _user_directory() / "racer" / "racer.toml"


def _user_directory() -> Path:
    """Return the user's configuration directory, absolute."""
    # XDG: a relative path is invalid and to be ignored; it would also mean the working directory.
    if sys.platform == "win32":
        return _absolute(os.environ.get("APPDATA")) or _home() / "AppData" / "Roaming"
    if sys.platform == "darwin":
        return _home() / "Library" / "Application Support"
    return _absolute(os.environ.get("XDG_CONFIG_HOME")) or _home() / ".config"


def _absolute(text: str | None) -> Path | None:
    path = Path(text or "")
    return path if path.is_absolute() else None


def _home() -> Path:
    home = Path.home()
    if not home.is_absolute():
        msg = f"the home directory is given as {str(home)!r}, which is relative"
        raise RuntimeError(msg)
    return home


def configured() -> Dialer:
    """Return a dialer for `racer.dial`: as `default_path()` says, or of `direct` and `proxyless` where there is no file.

    Raises:
        ConfigError: the file cannot be used; also when `RACER_CONFIG` names one that is not there.
        NoTransports: no transport is installed.
    """
    try:
        path = default_path()
    except RuntimeError:  # no home directory can be found, so nobody has configured anything
        path = None
    if path is not None and (os.environ.get("RACER_CONFIG") or _may_be_there(path)):
        return load(path)
    first, *others = _UNCONFIGURED
    there = _registry.installed()
    kinds = [first, *(kind for kind in others if kind in there)]
    return Dialer([Entrant(_registry.make(kind, name=kind)) for kind in kinds])


def _may_be_there(path: Path) -> bool:
    """Return whether a file may be there; one that just cannot be reached must not come to mean a direct attempt."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def _dialer_from(data: dict[str, Any]) -> Dialer:
    _refuse_unknown(data, _TOP, "")
    listed = data.get("entrant")
    if (
        not isinstance(listed, list)
        or not listed
        or not all(isinstance(one, dict) for one in listed)
    ):
        msg = "entrant: at least one [[entrant]] table is needed"
        raise ConfigError(msg)
    entrants = [_entrant_from(one, f"entrant {number}") for number, one in enumerate(listed, 1)]
    return Dialer(
        entrants,
        timeout=_take(data, "timeout", (int, float), "a number of seconds", ""),
        redact=_take(data, "redact", (bool,), "true or false", "") or False,
    )


def _entrant_from(data: dict[str, Any], where: str) -> Entrant:
    _refuse_unknown(
        data, _ENTRANT, where, "; the transport's own options go under [entrant.options]"
    )
    kind = _take(data, "transport", (str,), "the name of a transport", where)
    if kind is None:
        msg = f"{where}: transport: missing; it names an installed transport, such as 'direct'"
        raise ConfigError(msg)
    name = _take(data, "name", (str,), "a text", where)
    options = _take(data, "options", (dict,), "a table", where) or {}
    start_delay = _take(data, "start_delay", (int, float), "a number of seconds", where)
    tier = _take(data, "tier", (int,), "a whole number", where)
    try:
        guest = _registry.make(kind, name=name or kind, options=options)
        return Entrant(guest, name=name, start_delay=start_delay, tier=tier)
    except ConfigError as exc:
        msg = f"{where}: {exc}"
        raise ConfigError(msg) from exc


def _take(data: dict[str, Any], key: str, kinds: tuple[type, ...], wanted: str, where: str) -> Any:  # noqa: ANN401 - checked here
    value = data.get(key)
    if value is None:
        return None
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        msg = f"{_at(where)}{key}: must be {wanted}, not {value!r:.60}"
        raise ConfigError(msg)
    return value


def _refuse_unknown(
    data: dict[str, Any], known: tuple[str, ...], where: str, hint: str = ""
) -> None:
    for key in data:
        if key not in known:
            msg = f"{_at(where)}{unknown_key(key, known)}{hint}"
            raise ConfigError(msg)


def _at(where: str) -> str:
    return f"{where}: " if where else ""
