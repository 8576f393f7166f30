"""The user's own directories, as each system has them; absolute, never the working directory."""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ("configuration_directory", "state_directory")


def configuration_directory() -> Path:
    """Return where a user's settings lie (`XDG_CONFIG_HOME`).

    Raises:
        RuntimeError: there is no home directory.
    """
    return _directory("APPDATA", "Roaming", "XDG_CONFIG_HOME", ".config")


def state_directory() -> Path:
    """Return where programs keep what they remember for a user (`XDG_STATE_HOME`).

    Raises:
        RuntimeError: there is no home directory.
    """
    return _directory("LOCALAPPDATA", "Local", "XDG_STATE_HOME", ".local/state")


def _directory(windows: str, below_app_data: str, xdg: str, below_home: str) -> Path:
    # XDG: a relative path is invalid and to be ignored; it would also mean the working directory.
    if sys.platform == "win32":
        return _absolute(windows) or _home() / "AppData" / below_app_data
    if sys.platform == "darwin":
        return _home() / "Library" / "Application Support"
    return _absolute(xdg) or _home() / below_home


def _absolute(variable: str) -> Path | None:
    path = Path(os.environ.get(variable) or "")
    return path if path.is_absolute() else None


def _home() -> Path:
    home = Path.home()
    if not home.is_absolute():
        msg = f"the home directory is given as {str(home)!r}, which is relative"
        raise RuntimeError(msg)
    return home
