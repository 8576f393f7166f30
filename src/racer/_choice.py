"""Which entrants may take part, of those that there are. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from racer.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ("choose", "no_such_entrant")

_MAX_LISTED: Final = 10  # names in one error; a configuration may have a thousand


def choose(
    every: Collection[str],
    only: str | Iterable[str] | None,
    exclude: str | Iterable[str],
    *,
    gone: Collection[str] = (),
) -> frozenset[str]:
    """Return the names that may take part.

    Args:
        every: the names that there are, in their order.
        only: those that may; `None` for all.
        exclude: those that may not; where it is a mapping, which gives each its reason, they may be all.
        gone: names that may be excluded although they are no more.

    Raises:
        ConfigError: there is none of such a name, or none is left.
    """
    wanted = list(every) if only is None else _names(only, "only")
    unwanted = _names(exclude, "exclude")
    former = list(gone)  # what cannot be hashed is no name, and has to be told so
    for name in [*wanted, *(name for name in unwanted if name not in former)]:
        if name not in every:
            raise no_such_entrant(name, every)
    chosen = frozenset(wanted) - frozenset(unwanted)
    if not chosen and not isinstance(exclude, Mapping):
        msg = f"only and exclude leave none of {_listed(every)}"
        raise ConfigError(msg)
    return chosen


def no_such_entrant(name: object, every: Collection[str]) -> ConfigError:
    """Return the error for a name that no entrant has, with the nearest that one has."""
    import difflib  # noqa: PLC0415 - only the wrong pay

    near = difflib.get_close_matches(name, every, n=1) if isinstance(name, str) else []
    hint = f"did you mean {near[0]!r}?" if near else f"there are {_listed(every)}"
    return ConfigError(f"no entrant is called {name!r:.120}; {hint}")


def _names(value: object, what: str) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, bytes) or not isinstance(value, Iterable):
        msg = f"{what} takes an entrant's name or several, not {type(value).__name__}"
        raise ConfigError(msg)
    return list(value)


def _listed(names: Collection[str]) -> str:
    shown = [repr(name) for name in names][:_MAX_LISTED]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
