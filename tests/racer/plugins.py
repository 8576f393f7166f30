"""Entry points for tests: what third parties install, good and bad, without installing anything."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Any, NoReturn

from racer import _registry
from racer.errors import ConfigError
from racer.testing import ScriptedTransport, wins

if TYPE_CHECKING:
    import pytest

    from racer.abc import Guest, MakeContext

__all__ = ("install", "made", "make", "not_a_factory", "point")

made: list[ScriptedTransport] = []
"""What `make` has made since the last `install`."""

not_a_factory = "a text"


def point(name: str, factory: str = "make") -> EntryPoint:
    """Return an entry point for a factory: one of this module, or `module:attribute`."""
    value = factory if ":" in factory else f"{__name__}:{factory}"
    return EntryPoint(name=name, value=value, group=_registry.GROUP)


def install(monkeypatch: pytest.MonkeyPatch, *points: str | EntryPoint) -> None:
    """Let nothing but `points` be installed; a text stands for `point(text)`."""
    found = [point(one) if isinstance(one, str) else one for one in points]

    def entry_points(*, group: str) -> list[EntryPoint]:
        return [one for one in found if one.group == group]

    monkeypatch.setattr(_registry, "entry_points", entry_points)
    made.clear()


def make(context: MakeContext) -> Guest:
    context.refuse_unknown("after", "ports")
    guest = ScriptedTransport(context.name, wins(context.options.get("after", 0.0)))
    made.append(guest)
    return guest


def make_nothing(context: MakeContext) -> Any:
    return None


def make_class(context: MakeContext) -> Any:
    return ScriptedTransport


def make_bug(context: MakeContext) -> NoReturn:
    context.options["key"]
    raise AssertionError


def make_refusal(context: MakeContext) -> NoReturn:
    raise ConfigError("key: must be 32 bytes")
