"""The server's configuration: a TOML file, read strictly, and what the command line puts over it."""

from __future__ import annotations

import ipaddress
import tomllib
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from racer.abc import unknown_key
from racer.errors import ConfigError
from transports._net.connector import Connector
from transports._net.dns_resolver import DNSResolver, ResolverTLS
from transports._net.files import read_bounded
from transports._net.resolve import SystemResolver
from transports._net.resolver_urls import ResolverURL
from transports.soar._policy import DEFAULT_PORTS
from transports.soar._server import SoarServer
from transports.soar.core.crypto.keys import ServerKey
from transports.soar.program.grants_file import issued, read_grants

if TYPE_CHECKING:
    from collections.abc import Mapping

    from transports._net.resolve import Resolver
    from transports.soar.core.server.credentials import IssuedGrant

__all__ = ("Settings",)

_MAX_FILE: Final = 1 << 20
_MAX_KEY_FILE: Final = 4096
_RELOADED: Final = frozenset({"allow", "ports", "own", "grants"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What `serve` is told.

    Attributes:
        domain: the zones.
        key: the secret key's file.
        host: the IP address to listen on.
        port: for UDP and TCP.
        idle_timeout: seconds of silence that end a session.
        allow: targets that may be reached; `None` for all public ones.
        ports: that may be reached where a rule names none.
        grants: the file of grants.
        needs_grant: whether clients have to show one; by default, if there is a file.
        name_servers: their names and addresses, for the records; by default `ns.` and the first zone, and `host`.
        own: addresses of this machine that clients may not reach, besides `host`.
        max_sessions: at once.
        status: the socket on which `status` asks.
        resolver: the URL of what looks targets up, such as `udp://127.0.0.1`; by default the system's.
        trace_targets: whether spans name targets and grants.
    """

    domain: tuple[str, ...] = ()
    key: Path | None = None
    host: str = "0.0.0.0"  # noqa: S104 - a name server is there for everybody
    port: int = 53
    idle_timeout: float = 120.0
    allow: tuple[str, ...] | None = None
    ports: tuple[int, ...] = DEFAULT_PORTS
    grants: Path | None = None
    needs_grant: bool | None = None
    name_servers: Mapping[str, tuple[str, ...]] | None = None
    own: tuple[str, ...] = ()
    max_sessions: int = 20_000
    status: Path | None = None
    resolver: str | None = None
    trace_targets: bool = False

    @classmethod
    def read(cls, path: Path) -> Settings:
        """Return what the file at `path` says; relative paths in it start from where it is. Blocks.

        Raises:
            ConfigError: it is no such file; says where and why.
            OSError: it cannot be read.
        """
        try:
            table = tomllib.loads(read_bounded(path, _MAX_FILE).decode())
        except (ValueError, RecursionError) as exc:
            msg = f"{path}: {exc}"
            raise ConfigError(msg) from exc
        known = tuple(field.name for field in fields(cls))
        found: dict[str, Any] = {}
        for key, value in table.items():
            if key not in known:
                msg = f"{path}: {unknown_key(key, known)}"
                raise ConfigError(msg)
            try:
                found[key] = _READERS[key](value)
            except ConfigError as exc:
                msg = f"{path}: {key}: {exc}"
                raise ConfigError(msg) from exc
        for key in ("key", "grants", "status"):
            if key in found:
                found[key] = path.parent / found[key]
        return cls(**found)

    def over(self, **options: object) -> Settings:
        """Return these with what is not `None` of `options` in their place."""
        given = {key: value for key, value in options.items() if value is not None}
        return replace(self, **given)  # type: ignore[arg-type]

    @property
    def servers(self) -> Mapping[str, tuple[str, ...]]:
        """The name servers' names and addresses; none where the server listens on whatever the machine has."""
        if self.name_servers:
            return self.name_servers
        is_known = not ipaddress.ip_address(self.host).is_unspecified
        return {f"ns.{self.domain[0]}": (self.host,) if is_known else ()}

    def secret(self) -> ServerKey:
        """Return the key; blocks.

        Raises:
            ConfigError: none is named, or the file has none.
            OSError: it cannot be read.
        """
        if self.key is None:
            msg = "key: no file is named; make one with: keygen FILE"
            raise ConfigError(msg)
        try:
            return ServerKey.parse(read_bounded(self.key, _MAX_KEY_FILE).decode("ascii").strip())
        except ValueError:
            # Of the file's content nothing is quoted: it may be most of a key.
            msg = f"{self.key}: no secret key of a Soar server"
            raise ConfigError(msg) from None

    def server(self) -> SoarServer:
        """Return a server that does as they say; reads the key and the grants, and blocks.

        Raises:
            ConfigError: something can't be; says what.
            OSError: a file cannot be read.
        """
        if not self.domain:
            msg = "domain: no zone is named"
            raise ConfigError(msg)
        try:
            ipaddress.ip_address(self.host)
        except ValueError:
            msg = f"host: {self.host!r} is no IP address"
            raise ConfigError(msg) from None
        return SoarServer(
            domain=self.domain,
            key=self.secret(),
            host=self.host,
            port=self.port,
            idle_timeout=self.idle_timeout,
            allow=self.allow,
            ports=self.ports,
            grants=self.issued(),
            needs_grant=self.demands_grant,
            name_servers=self.servers,
            own=self.own,
            max_sessions=self.max_sessions,
            resolver=self.lookups(),
            shows_targets=self.trace_targets,
        )

    def lookups(self) -> Resolver | None:
        """Return what looks targets up; `None` for the system's resolver.

        Raises:
            ConfigError: that is no URL of a resolver.
        """
        if self.resolver is None or self.resolver == "system":
            return None
        url = ResolverURL.parse(self.resolver)
        return DNSResolver(url, Connector(SystemResolver()), tls=ResolverTLS())

    def issued(self) -> tuple[IssuedGrant, ...]:
        """Return the grants of the file, if there is one; blocks.

        Raises:
            ConfigError: it is no such file.
            OSError: it cannot be read.
        """
        return () if self.grants is None else issued(read_grants(self.grants))

    def differs(self, other: Settings) -> tuple[str, ...]:
        """Return the names of what is not as in `other`, and can't be changed while a server runs."""
        names = (field.name for field in fields(self) if field.name not in _RELOADED)
        return tuple(name for name in names if getattr(self, name) != getattr(other, name))

    @property
    def demands_grant(self) -> bool:
        """Whether clients have to show a grant."""
        return self.grants is not None if self.needs_grant is None else self.needs_grant


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        msg = "must be a text"
        raise ConfigError(msg)
    return value


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (_text(value),)
    if not isinstance(value, list):
        msg = "must be a list of texts"
        raise ConfigError(msg)
    return tuple(_text(each) for each in value)


def _number(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        msg = "must be a number"
        raise ConfigError(msg)
    return value


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        msg = "must be a whole number"
        raise ConfigError(msg)
    return value


def _wholes(value: object) -> tuple[int, ...]:
    if not isinstance(value, list):
        msg = "must be a list of whole numbers"
        raise ConfigError(msg)
    return tuple(_whole(each) for each in value)


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        msg = "must be true or false"
        raise ConfigError(msg)
    return value


def _path(value: object) -> Path:
    return Path(_text(value))


def _servers(value: object) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, dict) or not value:
        msg = "must be a table of names and lists of addresses"
        raise ConfigError(msg)
    return {name: _texts(addresses) for name, addresses in value.items()}


_READERS: Final = {
    "domain": _texts,
    "key": _path,
    "host": _text,
    "port": _whole,
    "idle_timeout": _number,
    "allow": _texts,
    "ports": _wholes,
    "grants": _path,
    "needs_grant": _flag,
    "name_servers": _servers,
    "own": _texts,
    "max_sessions": _whole,
    "status": _path,
    "resolver": _text,
    "trace_targets": _flag,
}
