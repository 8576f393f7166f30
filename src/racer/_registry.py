"""Finds guests by entry point, so that built-in and third-party transports enter by the same door."""

from __future__ import annotations

from functools import partial
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, Final

from racer.abc import Guest, MakeContext, unknown_key
from racer.errors import ConfigError, NoTransports

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ("GROUP", "installed", "make")

GROUP: Final = "racer.transports"
"""The entry-point group; each entry is a `racer.abc.Factory`."""


def installed() -> dict[str, EntryPoint]:
    """Return what is installed, by name; nothing is imported.

    Raises:
        ConfigError: two packages install different things under one name: which of them would race is anybody's guess.
    """
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=GROUP):
        other = found.setdefault(point.name, point)
        if other.value != point.value:
            msg = f"transport {point.name!r} is installed twice: as {_origin(other)} and as {_origin(point)}"
            raise ConfigError(msg)
    return found


def _origin(point: EntryPoint) -> str:
    package = None if point.dist is None else point.dist.name
    return f"{point.value} by {package}" if package else point.value


def make(
    kind: str,
    *,
    name: str,
    options: Mapping[str, Any] | None = None,
    points: Mapping[str, EntryPoint] | None = None,
) -> Guest:
    """Return a guest of the installed kind.

    Args:
        kind: the entry point's name.
        name: the entrant's.
        options: for the guest's own factory to check.
        points: what `installed()` has told a moment ago: it reads files; `None` to ask it.

    Raises:
        NoTransports: nothing is installed at all.
        ConfigError: no such kind, two of that name, its import fails, or it refuses the options; says which, and why.
    """
    points = installed() if points is None else points
    if not points:
        msg = (
            f"no transport is installed: no entry point in the group {GROUP!r} was found. racer run from a bare source "
            "tree has none; install it, for example with 'pip install -e .'"
        )
        raise NoTransports(msg)
    if kind not in points:
        msg = f"transport {kind!r} is not installed: {unknown_key(kind, tuple(points))}"
        raise ConfigError(msg)
    point = points[kind]
    try:
        factory = point.load()
    except Exception as exc:
        msg = (
            f"transport {kind!r} ({point.value}) could not be imported: {type(exc).__name__}: {exc}"
        )
        raise ConfigError(msg) from exc
    try:
        inner = partial(_make_inner, points)
        guest = factory(MakeContext(name=name, options=dict(options or {}), factory=inner))
    except ConfigError:
        raise
    except Exception as exc:
        # A bug, whose words may quote any option, a password too: only its kind is told.
        msg = f"transport {kind!r} ({point.value}) could not be made: {type(exc).__name__}"
        raise ConfigError(msg) from exc
    if not isinstance(guest, Guest):
        what = f"the class {guest.__name__}" if isinstance(guest, type) else type(guest).__name__
        msg = f"transport {kind!r} ({point.value}) made {what}, which is no transport"
        raise ConfigError(msg)
    return guest


def _make_inner(
    points: Mapping[str, EntryPoint], kind: str, name: str, options: Mapping[str, Any]
) -> Guest:
    return make(kind, name=name, options=options, points=points)
