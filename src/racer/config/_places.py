"""Where the configuration lies when nobody says so, and what holds when there is none."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio.to_thread

from racer import _registry
from racer._directories import configuration_directory
from racer.config._reading import examine
from racer.config._settings import Configuration, EntrantSettings
from racer.errors import ConfigError, DialerClosed, WrongLoop

if TYPE_CHECKING:
    from racer._dialer import Dialer

__all__ = ("configured", "default_path", "in_use", "load", "read", "reload")

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
    usual = in_use()
    if usual is not None:
        return examine(usual)[0]
    first, *others = _UNCONFIGURED
    there = _registry.installed()
    kinds = [first, *(kind for kind in others if kind in there)]
    return Configuration(entrants=tuple(EntrantSettings(transport=kind) for kind in kinds))


def in_use() -> Path | None:
    """Return the file that racer goes by; `None` where nobody has configured anything."""
    try:
        usual = default_path()
    except RuntimeError:  # no home directory can be found
        return None
    return usual if os.environ.get("RACER_CONFIG") or _may_be_there(usual) else None


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


async def reload(dialer: Dialer, before: Configuration) -> Configuration:
    """Read the file anew and have a running dialer go by it; return what holds now. For programs, on `SIGHUP`.

    No connection is dropped (`Dialer.reconfigure`). With an error everything stays as it was. Reads in a thread; cancelled
    before the end of that it changes nothing.

    Args:
        dialer: made by `before.dialer()`.
        before: what holds now.

    Raises:
        ConfigError, NoTransports: as `read`; or `redact` or `[memory]` differ, which takes a new start of the program.
        WrongLoop, DialerClosed: as `Dialer.reconfigure`.
    """
    after = await anyio.to_thread.run_sync(read, before.file, abandon_on_cancel=True)
    where = after.file or "the configuration"
    if after.memory != before.memory:
        msg = f"{where}: memory: cannot change while the program runs; start it anew"
        raise ConfigError(msg)
    try:
        dialer.reconfigure(after)
    except (WrongLoop, DialerClosed):
        raise
    except ConfigError as exc:
        msg = f"{where}: {exc}"
        raise ConfigError(msg) from exc
    return after


def default_path() -> Path:
    """Return where the configuration is looked for: `RACER_CONFIG`, else the user's configuration directory.

    Never the working directory, where somebody else's file may lie.

    Raises:
        RuntimeError: there is no home directory.
    """
    named = os.environ.get("RACER_CONFIG")
    if named:
        return Path(named)
    return configuration_directory() / "racer" / "racer.toml"


def _may_be_there(path: Path) -> bool:
    """Return whether a file may be there; one that just cannot be reached must not come to mean a direct attempt."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True
