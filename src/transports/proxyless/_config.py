"""A `Proxyless` from a configuration's options."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from racer.errors import ConfigError
from transports._net.files import read_bounded
from transports.proxyless._outline import MAX_BYTES
from transports.proxyless._transport import Proxyless

if TYPE_CHECKING:
    from racer.abc import MakeContext

__all__ = ("make",)

_PLAIN: Final = (
    "fallbacks",
    "hosts",
    "max_probes",
    "memory",
    "probe_timeout",
    "resolvers",
    "search_timeout",
    "strategies",
    "ttl",
)


def make(context: MakeContext) -> Proxyless:
    """Return a `Proxyless` from its options: those of the class that are no code, and the following.

    `outline` is the path of a strategy file of Outline's smart dialer, which takes the place of `resolvers`, `strategies`
    and `fallbacks`; with `skip_unsupported = true`, fallbacks in it that are not supported are left out.

    Options:
        resolvers: `"system"`, and URLs such as `"https://192.0.2.1/dns-query"`; up to 64, in the order in which they are
            asked.
        fallbacks: what is left when all of it fails: `socks5://` URLs.
        memory: a file for the winners, so that the next start need not search; left out: none. It names hosts.
        outline (text): the path of a strategy file of Outline's smart dialer, which takes the place of `resolvers`,
            `strategies` and `fallbacks`.
        skip_unsupported (bool): whether fallbacks in that file that are not supported are left out.

    Raises:
        ConfigError: an option is unknown or wrong, or the file cannot be used.
    """
    context.refuse_unknown(*_PLAIN, "outline", "skip_unsupported")
    options: dict[str, Any] = dict(context.options)
    file = options.pop("outline", None)
    skip = options.pop("skip_unsupported", False)
    if not isinstance(skip, bool):
        msg = f"skip_unsupported must be true or false, not {type(skip).__name__}"
        raise ConfigError(msg)
    if file is None:
        if skip:
            msg = "skip_unsupported: is about a strategy file, and outline names none"
            raise ConfigError(msg)
        return Proxyless(**options)
    if not isinstance(file, str):
        msg = f"outline must be the path of a file, not {type(file).__name__}"
        raise ConfigError(msg)
    try:
        text = read_bounded(Path(file), MAX_BYTES)
    except (OSError, ValueError) as exc:
        msg = f"outline: {file}: cannot be read: {getattr(exc, 'strerror', None) or exc}"
        raise ConfigError(msg) from exc
    try:
        return Proxyless.from_outline(text, skip_unsupported=skip, **options)
    except ConfigError as exc:
        msg = f"outline: {file}: {exc}"
        raise ConfigError(msg) from exc
