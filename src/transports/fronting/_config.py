"""A `Fronting` from a configuration's options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from racer.errors import ConfigError
from transports.fronting._transport import Fronting

if TYPE_CHECKING:
    from racer.abc import MakeContext

__all__ = ("make",)

_OPTIONS: Final = (
    "country",
    "fronts",
    "http2",
    "origin_header",
    "state_dir",
    "update_interval",
    "update_urls",
    "via_header",
)


def make(context: MakeContext) -> Fronting:
    """Return a `Fronting` from a configuration's options: all of its own but the hook and the context, which are code.

    `fronts` is the path of the list.

    Options:
        fronts: the path of the list of fronts, plain or gzipped.
        country: two letters, for the list's policies on names; left out: the default ones.
        state_dir: a folder for the latest list and the fronts that worked, readable by their owner alone; left out: nothing
            is kept from one run to the next.

    Raises:
        ConfigError: an option is unknown or wrong; says which, and why.
    """
    context.refuse_unknown(*_OPTIONS)
    options = dict(context.options)
    fronts = options.pop("fronts", None)
    if not isinstance(fronts, str):
        msg = (
            "fronts: the path of the list is missing"
            if fronts is None
            else "fronts: must be a path"
        )
        raise ConfigError(msg)
    folder = options.get("state_dir")
    if folder is not None and not isinstance(folder, str):
        msg = "state_dir: must be a path"
        raise ConfigError(msg)
    if not isinstance(options.get("http2", True), bool):
        msg = "http2: must be true or false"
        raise ConfigError(msg)
    return Fronting(fronts, name=context.name, **options)
