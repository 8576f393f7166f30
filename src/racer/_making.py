"""How guests are made from a configuration: what a factory is given, and the words for what nobody knows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from racer._words import shown
from racer.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from racer.abc import Guest

__all__ = ("Factory", "MakeContext", "unknown_key")


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeContext:
    """What an entry point's factory is given to make a guest from a configuration.

    Attributes:
        name: the entrant's name in the configuration.
        options: its options, to be checked by the guest: an unknown key is a `ConfigError`. Not in `repr`, since
            keys and passwords may be among them.
        factory: makes another installed guest from its kind, name and options; `None` where that cannot be.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    factory: Callable[[str, str, Mapping[str, Any]], Guest] | None = field(
        default=None, repr=False, compare=False
    )

    def make_guest(self, kind: str, *, name: str, options: Mapping[str, Any]) -> Guest:
        """Return another installed guest, for one that is to be built upon it.

        Raises:
            ConfigError: no such kind is installed, or it refuses the options; says which, and why.
        """
        if self.factory is None:
            msg = f"transport {kind!r} cannot be made here: this context knows no other transports"
            raise ConfigError(msg)
        return self.factory(kind, name, options)

    def refuse_unknown(self, *known: str) -> None:
        """Raise `ConfigError` for an option that is not among `known`, naming the nearest that is."""
        for key in self.options:
            if key not in known:
                raise ConfigError(unknown_key(key, known))


def unknown_key(key: str, known: tuple[str, ...]) -> str:
    """Return the words for a key nobody knows, with the nearest valid one."""
    import difflib  # noqa: PLC0415 - only the wrong pay

    def plain(name: str) -> str:
        return str(name).replace("-", "_").casefold()

    spelt = {plain(name): name for name in known}
    near = [spelt[name] for name in difflib.get_close_matches(plain(key), spelt, n=1)]
    hint = (
        f"; did you mean {near[0]!r}?"
        if near
        else f"; known: {', '.join(sorted(known))}"
        if known
        else "; none is known"
    )
    return f"unknown key {shown(key)}{hint}"


class Factory(Protocol):
    """What stands behind an entry point in the group `racer.transports`."""

    def __call__(self, context: MakeContext) -> Guest:
        """Return a guest made from a configuration's options; no IO.

        Raises:
            ConfigError: an option is unknown or wrong; says which, and why.
        """
