"""An `Amp` from a configuration's options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from racer.errors import ConfigError
from transports.amp._transport import Amp

if TYPE_CHECKING:
    from racer.abc import MakeContext

__all__ = ("make",)

_OPTIONS: Final = ("allow", "broker_url", "cache_url", "fronts", "max_url", "public_key")


def make(context: MakeContext) -> Amp:
    """Return an `Amp` from a configuration's options: all of its own but the hook and the context, which are code.

    `cache_url` may be empty, for none.

    Options:
        cache_url: the cache's base URL; empty asks the broker itself.
        allow: origins that the broker is known to serve; left out: it says so itself.

    Raises:
        ConfigError: an option is unknown or wrong; says which, and why.
    """
    context.refuse_unknown(*_OPTIONS)
    options = dict(context.options)
    for name in ("broker_url", "public_key"):
        if not isinstance(options.get(name), str):
            msg = f"{name}: {'must be a text' if name in options else 'missing'}"
            raise ConfigError(msg)
    if options.get("cache_url") == "":
        options["cache_url"] = None
    return Amp(options.pop("broker_url"), options.pop("public_key"), name=context.name, **options)
