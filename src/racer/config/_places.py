"""Where the configuration lies when nobody says so, and what holds when there is none."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from racer import _registry
from racer.config._reading import examine
from racer.config._settings import Configuration, EntrantSettings

if TYPE_CHECKING:
    from racer._dialer import Dialer

__all__ = ("configured", "default_path", "load", "read")

# What races when nothing is configured: the plain way, and beside it, a little later, the way past filters of names that
# takes nobody's help. The second is left out where it is not installed.
_UNCONFIGURED: Final = ("direct", "proxyless")


def read(path: str | os.PathLike[str] | None = None) -> Configuration:
    """Return what a file says, checked: every option of every transport too. Nothing is dialed.

    Args:
        path: of the file; `None` for the one at `default_path()`, and `direct` and `proxyless` where there is none.

    Raises:
        ConfigError: the file cannot be read, or something in it cannot be; names the file, and in `problems` each line, key
            and reason, with the nearest valid key. Also when `RACER_CONFIG` names a file that is not there.
        NoTransports: no transport is installed at all.
    """
    if path is not None:
        return examine(path)[0]
    try:
        usual = default_path()
    except RuntimeError:  # no home directory can be found, so nobody has configured anything
        usual = None
    if usual is not None and (os.environ.get("RACER_CONFIG") or _may_be_there(usual)):
        return examine(usual)[0]
    first, *others = _UNCONFIGURED
    there = _registry.installed()
    kinds = [first, *(kind for kind in others if kind in there)]
    return Configuration(entrants=tuple(EntrantSettings(transport=kind) for kind in kinds))


def load(path: str | os.PathLike[str]) -> Dialer:
    """Return a dialer made as the file says; nothing is dialed. The caller closes it.

    Raises:
        ConfigError, NoTransports: as `read`.
    """
    return read(path).dialer()


def configured() -> Dialer:
    """Return a dialer for `racer.dial`: as `default_path()` says, or of `direct` and `proxyless` where there is no file.

    Raises:
        ConfigError, NoTransports: as `read`.
    """
    return read().dialer()


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


def _may_be_there(path: Path) -> bool:
    """Return whether a file may be there; one that just cannot be reached must not come to mean a direct attempt."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True
