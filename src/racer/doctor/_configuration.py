"""The configuration: whether it can be used, and which resolvers it names. Blocks: it reads files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from racer._finding import Finding, Verdict
from racer.config import read
from racer.doctor._asking import Resolver
from racer.errors import ConfigError, NoTransports

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from racer.config import Configuration

__all__ = ("check_configuration", "resolvers_of", "system_resolvers")

SYSTEM: Final = "system"
_MAX_SYSTEM: Final = 3  # as many as the C library asks
_MAX_RESOLVERS: Final = 16
_MAX_DEPTH: Final = 8  # of options in options
_KEYS: Final = ("resolver", "resolvers")


def check_configuration(
    path: str | os.PathLike[str] | None,
) -> tuple[Configuration | None, list[Finding]]:
    """Return the configuration, `None` where there is none that can be used, and what is to be said about it.

    Args:
        path: of the file; `None` for the usual one.
    """
    try:
        configuration = read(path)
    except ConfigError as exc:
        problems = exc.problems or (str(exc),)
        advice = (
            "Correct it; `racer config check` says the same, and `racer config init` prints one that is in order.",
        )
        return None, [
            Finding(
                check="configuration",
                verdict=Verdict.FAIL,
                words=f"The configuration cannot be used: {problem}",
                advice=advice,
            )
            for problem in problems
        ]
    except NoTransports as exc:
        words = f"There is nothing to race: {exc}"
        return None, [Finding(check="configuration", verdict=Verdict.FAIL, words=words)]
    names = ", ".join(entrant.name for entrant in configuration.entrants)
    words = (
        f"There is no configuration file; these race: {names}."
        if configuration.file is None
        else f"{configuration.file} is in order; these race: {names}."
    )
    data: dict[str, Any] = {
        "timeout": configuration.timeout,
        "entrants": [
            {
                "name": one.name,
                "transport": one.transport,
                "start_delay": one.start_delay,
                "tier": one.tier,
                "options": sorted(one.options),  # their names: the values may be secret
            }
            for one in configuration.entrants
        ],
    }
    return configuration, [
        Finding(check="configuration", verdict=Verdict.OK, words=words, data=data)
    ]


def resolvers_of(configuration: Configuration | None) -> list[Resolver]:
    """Return this machine's resolvers, and those that options of entrants name, each once."""
    found: dict[str, Resolver] = {one.label: one for one in system_resolvers()}
    for entrant in configuration.entrants if configuration is not None else ():
        for text in _named(entrant.options, 0):
            try:
                resolver = Resolver.parse(text)
            except ConfigError:
                continue  # the transport knows it by another name
            found.setdefault(resolver.label, resolver)
    return list(found.values())[:_MAX_RESOLVERS]


def _named(options: Mapping[str, Any], depth: int) -> Iterator[str]:
    for key, value in options.items():
        if isinstance(value, Mapping) and depth < _MAX_DEPTH:
            yield from _named(value, depth + 1)  # a transport that is built upon another
        elif key in _KEYS:
            for each in value if isinstance(value, list | tuple) else [value]:
                if isinstance(each, str) and each != SYSTEM:
                    yield each


def system_resolvers() -> list[Resolver]:
    """Return the resolvers that this machine asks, as its settings say; none where they cannot be read."""
    import dns.exception  # noqa: PLC0415 - a tenth of a second
    import dns.resolver  # noqa: PLC0415 - likewise

    try:
        servers = dns.resolver.Resolver(configure=True).nameservers[:_MAX_SYSTEM]
    except dns.exception.DNSException:
        return []
    return [
        Resolver(scheme="udp", host=server, port=53, is_system=True)
        for server in dict.fromkeys(servers)
        if isinstance(server, str)
    ]
