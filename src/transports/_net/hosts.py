"""Addresses of the user's own for some names, in place of any resolver's; like a hosts file, with wildcards. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from racer.abc import Target
from racer.errors import ConfigError, InvalidTarget
from transports._net.addresses import MAX_PER_FAMILY, family_of
from transports._net.resolve import Answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from transports._net.addresses import Family
    from transports._net.resolve import Resolver

__all__ = ("Hosts", "HostsResolver")

_MAX_NAMES: Final = 100_000  # the largest blocklists, and not a mapping that never ends
_ANY: Final = "*."


class Hosts:
    """A table of names and their addresses, valid once made; a copy of what it is made from.

    Args:
        table: names to lists of IP addresses, best first. `*.example.com` is every name below `example.com`, at any
            depth, and not itself. A whole name goes before wildcards, and the longer wildcard before the shorter.
        option: what it is an option of, for errors.

    Raises:
        ConfigError: a name or an address that cannot be; says which, and why.
    """

    def __init__(self, table: object = None, *, option: str = "hosts") -> None:
        """Check and normalise."""
        self._names: dict[str, tuple[str, ...]] = {}
        if table is None:
            return
        if not isinstance(table, Mapping):
            msg = f"{option} must be a table of names and lists of IP addresses, not {type(table).__name__}"
            raise ConfigError(msg)
        if len(table) > _MAX_NAMES:
            msg = f"{option} has {len(table)} names; at most {_MAX_NAMES} are taken"
            raise ConfigError(msg)
        for key, value in table.items():
            name = _checked_name(key, option)
            if name in self._names:
                msg = f"{option}[{key!r}]: the same name as another key"
                raise ConfigError(msg)
            self._names[name] = _checked_addresses(value, f"{option}[{key!r}]")

    def __len__(self) -> int:
        """Return how many names and wildcards it has."""
        return len(self._names)

    def find(self, name: str) -> tuple[str, ...] | None:
        """Return the addresses for `name` (lower-case A-labels, perhaps with a trailing dot); `None` if it has none."""
        bare = name.rstrip(".")
        found = self._names.get(bare)
        while found is None and "." in bare:
            bare = bare.partition(".")[2]
            found = self._names.get(_ANY + bare)
        return found


class HostsResolver:
    """A resolver that goes by a `Hosts` table first, and asks another one for what is not in it.

    Args:
        hosts: names in it are never asked for, in no family.
        other: knows the rest.
    """

    def __init__(self, hosts: Hosts, other: Resolver) -> None:
        """Keep both."""
        self._hosts = hosts
        self._other = other

    async def resolve(
        self, name: str, families: Sequence[Family], report: Callable[[Answer], None]
    ) -> None:
        """Report what the table has, else what the other resolver says; raises what that raises."""
        addresses = self._hosts.find(name)
        if addresses is None:
            await self._other.resolve(name, families, report)
        else:
            fitting = tuple(a for a in addresses if family_of(a) in families)
            report(Answer(families=tuple(families), addresses=fitting))

    def __repr__(self) -> str:
        """Return how many names it knows, and whom it asks for others."""
        return f"HostsResolver(<{len(self._hosts)} names>, {self._other!r})"


def _checked_name(key: object, option: str) -> str:
    if not isinstance(key, str):
        msg = f"{option}: a name must be a text, not {type(key).__name__}"
        raise ConfigError(msg)
    wildcard = _ANY if key.startswith(_ANY) else ""
    try:
        target = Target(key.removeprefix(wildcard), tls=False)
    except InvalidTarget as exc:
        msg = f"{option}: {exc}"
        raise ConfigError(msg) from exc
    if target.is_address:
        msg = f"{option}[{key!r}]: an IP address, where a name belongs"
        raise ConfigError(msg)
    return wildcard + target.host.rstrip(".")


def _checked_addresses(value: object, option: str) -> tuple[str, ...]:
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        msg = f"{option} must be a list of IP addresses, not {type(value).__name__}"
        raise ConfigError(msg)
    if not 1 <= len(value) <= 2 * MAX_PER_FAMILY:
        msg = f"{option}: {len(value)} addresses; one to {2 * MAX_PER_FAMILY} are taken"
        raise ConfigError(msg)
    for address in value:
        if not isinstance(address, str) or family_of(address) is None:
            shown = repr(address[:80]) if isinstance(address, str) else type(address).__name__
            msg = f"{option}: {shown} is not an IP address"
            raise ConfigError(msg)
    return tuple(dict.fromkeys(value))
