"""A configuration as data: who races and how, what is remembered, where the local proxy listens."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from racer import _registry
from racer._dialer import Dialer
from racer._memory import DEFAULT_TTL, Memory
from racer._roster import Entrant, Recipe
from racer.abc import check_seconds
from racer.config._environment import hide
from racer.errors import ConfigError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from racer.abc import Guest

__all__ = (
    "MAX_USERS",
    "Configuration",
    "EntrantSettings",
    "MemorySettings",
    "ProxySettings",
    "check_listen",
    "check_user",
)

_Dialer = TypeVar("_Dialer", bound=Dialer)

MAX_USERS: Final = 1000
_MAX_OCTETS: Final = 255  # of a user's name and password, RFC 1929 §2


@dataclass(frozen=True, slots=True, kw_only=True)
class EntrantSettings(Recipe):
    """One `[[entrant]]`: which transport takes part, with which options.

    Attributes:
        transport: the name of an installed transport.
        name: the entrant's; the transport's where it is left out.
        start_delay: seconds after its tier opened that it starts; `None` for the transport's own.
        tier: opens when every entrant of the lower ones has failed; `None` for the transport's own.
        options: the transport's own, variables of the environment filled in. Not in `repr`.
        secrets: what came from the environment, by the variables' names; shown nowhere.
    """

    transport: str
    name: str = ""
    start_delay: float | None = None
    tier: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    _fresh: list[Guest] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Take the transport's name where there is no other."""
        object.__setattr__(self, "name", self.name or self.transport)

    def make(self) -> Entrant:
        """Return the entrant with a guest of its own, which belongs to the caller; each call makes another.

        Raises:
            ConfigError: the transport is not installed, or refuses an option.
            NoTransports: none is installed at all.
        """
        # The guest that `read` made to check the options is as good as any, and making one may read files.
        guest = self._fresh.pop() if self._fresh else self.make_guest()
        return Entrant(guest, name=self.name, start_delay=self.start_delay, tier=self.tier)

    def make_guest(self, points: Mapping[str, EntryPoint] | None = None) -> Guest:
        """Return a new guest, of those transports that `points` has, or that are installed; raises as `make`."""
        refusal: ConfigError
        try:
            return _registry.make(
                self.transport, name=self.name, options=self.options, points=points
            )
        except ConfigError as exc:
            if not self.secrets:
                raise
            refusal = ConfigError(self.hidden(str(exc)))
        raise refusal  # from here, so that the words it was made of are not behind it either

    def keep(self, guest: Guest) -> None:
        """Keep a guest that was made of these settings for the next `make`."""
        self._fresh.append(guest)

    def hidden(self, text: str) -> str:
        """Return an error's words with nothing in them that came from the environment."""
        innocent = [
            word
            for word in (self.transport, self.name, *self.options)
            if not any(secret in word for secret in self.secrets.values())
        ]
        return hide(text, self.secrets, innocent)

    def has_guest_like(self, other: Recipe) -> bool:
        """Return whether both would make the same guest: name, transport and options are equal."""
        return isinstance(other, EntrantSettings) and (
            (self.name, self.transport) == (other.name, other.transport)
            and _same(self.options, other.options)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySettings:
    """`[memory]`: whether to remember which entrant won.

    Attributes:
        enabled: `None` leaves it to the program: racer's own commands remember, the library does not.
        ttl: seconds after which a win is forgotten; `None` for the memory's own.
        file: where it is kept from run to run, `~` for the home directory; `None` for `Memory.default_path()`, empty for
            this process only.
    """

    enabled: bool | None = None
    ttl: float | None = None
    file: str | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        enabled: object = self.enabled
        if enabled is not None and not isinstance(enabled, bool):
            msg = f"enabled must be true or false, not {type(self.enabled).__name__}"
            raise ConfigError(msg)
        if self.ttl is not None:
            check_seconds(self.ttl, "ttl")
        file: object = self.file
        if file is not None and (not isinstance(file, str) or "\0" in file):
            msg = "file must be the path of a file, without a NUL in it"
            raise ConfigError(msg)

    def make(self, *, remember: bool) -> Memory | None:
        """Return a memory of that kind, or `None` for none; nothing is read yet.

        Args:
            remember: what holds where `enabled` leaves it open.

        Raises:
            ConfigError: the path begins with `~`, and there is no home directory.
        """
        if not (remember if self.enabled is None else self.enabled):
            return None
        ttl = DEFAULT_TTL if self.ttl is None else self.ttl
        try:
            if self.file is None:
                return Memory(Memory.default_path(), ttl=ttl)
            return Memory(Path(self.file).expanduser() if self.file else None, ttl=ttl)
        except RuntimeError as exc:  # no home directory
            if self.file is None:
                return Memory(ttl=ttl)
            msg = f"memory.file: {exc}"
            raise ConfigError(msg) from exc


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxySettings:
    """`[proxy]`: the local proxy of `racer proxy`.

    Attributes:
        listen: an address and a port, `127.0.0.1:1080`; port 0 takes any that is free. Without users only an address of
            this machine alone.
        users: who may use it, names to passwords; empty for everyone. Not in `repr`.
    """

    listen: str = "127.0.0.1:1080"
    users: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        host, _ = _endpoint(self.listen)
        users: object = self.users
        if not isinstance(users, Mapping) or len(users) > MAX_USERS:
            msg = f"users must be a table of up to {MAX_USERS} names and their passwords"
            raise ConfigError(msg)
        for name, password in users.items():
            check_user(name, password)
        if not users and not _is_loopback(host):
            msg = (
                f"listen={self.listen!r:.80}: others than this machine could use the proxy; list who may under "
                "[proxy.users], or listen on 127.0.0.1"
            )
            raise ConfigError(msg)

    @property
    def host(self) -> str:
        """The address to listen on."""
        return _endpoint(self.listen)[0]

    @property
    def port(self) -> int:
        """The port to listen on; 0 for any that is free."""
        return _endpoint(self.listen)[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """What a file says, checked. It makes any number of dialers, and changes running ones (`Dialer.reconfigure`).

    Attributes:
        entrants: who races, first listed preferred.
        timeout: seconds for a whole race; `None` for the dialer's own 80.
        redact: whether hosts and peers stay out of telemetry.
        memory: whether and where winners are remembered.
        proxy: the local proxy.
        file: where it was read; `None` for what holds without a file.
    """

    entrants: tuple[EntrantSettings, ...]
    timeout: float | None = None
    redact: bool = False
    memory: MemorySettings = field(default_factory=MemorySettings)
    proxy: ProxySettings = field(default_factory=ProxySettings)
    file: Path | None = field(default=None, compare=False)

    def dialer(
        self,
        *,
        remember: bool = False,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> Dialer:
        """Return a dialer made as it says, with guests and a memory of its own; the caller closes it. Nothing is dialed.

        Args:
            remember: whether to remember who won where `[memory]` leaves it open.
            tracer_provider: where spans go; `None` for the global provider.
            meter_provider: where metrics go; likewise.

        Raises:
            ConfigError: a transport can no longer be made; or this was not read, and cannot be.
            NoTransports: none is installed at all.
        """
        return self.dialer_of(
            Dialer,
            remember=remember,
            tracer_provider=tracer_provider,
            meter_provider=meter_provider,
        )

    def dialer_of(
        self,
        kind: type[_Dialer],
        *,
        remember: bool = False,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> _Dialer:
        """Return a dialer of a class that is derived from `Dialer`; in all else as `dialer`."""
        return kind(
            self.entrants,
            timeout=self.timeout,
            redact=self.redact,
            memory=self.memory.make(remember=remember),
            tracer_provider=tracer_provider,
            meter_provider=meter_provider,
        )


def _same(one: object, other: object) -> bool:
    """Return whether two values of TOML are the same; `1`, `1.0` and `true` are not, though Python has them equal."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return repr(one) == repr(other)  # nan is the same as nan
    if isinstance(one, datetime.datetime | datetime.time):
        return repr(one) == repr(other)  # and one moment told by two zones is not one text
    return one == other


def check_listen(listen: object, key: str) -> None:
    """Raise `ConfigError` unless this is an IP address, or `localhost`, and a port."""
    _endpoint(listen, key)


def check_user(name: object, password: object) -> None:
    """Raise `ConfigError` unless SOCKS5 and HTTP can carry both; no password is in the words."""
    if not isinstance(name, str) or not _fits(name) or ":" in name:
        msg = f"a user's name has 1 to {_MAX_OCTETS} octets and no ':' (RFC 1929, RFC 7617)"
        raise ConfigError(msg)
    if not isinstance(password, str) or not _fits(password):
        msg = f"a password has 1 to {_MAX_OCTETS} octets (RFC 1929)"
        raise ConfigError(msg)


def _fits(text: str) -> bool:
    return 1 <= len(text.encode(errors="replace")) <= _MAX_OCTETS


def _endpoint(listen: object, key: str = "listen") -> tuple[str, int]:
    msg = f"{key} must be an address and a port, such as '127.0.0.1:1080', not {listen!r:.80}"
    if not isinstance(listen, str):
        raise ConfigError(msg)
    host, colon, port = listen.rpartition(":")
    is_v6 = host.startswith("[") and host.endswith("]")
    address = host[1:-1] if is_v6 else host
    if not colon or not (port.isascii() and port.isdigit() and len(port) <= 5) or int(port) > 65535:
        raise ConfigError(msg)
    if address == "localhost" and not is_v6:
        return address, int(port)
    try:
        version = ipaddress.ip_address(address).version
    except ValueError:
        raise ConfigError(msg) from None
    if (version == 6) != is_v6:
        raise ConfigError(msg)
    return address, int(port)


def _is_loopback(host: str) -> bool:
    return host == "localhost" or ipaddress.ip_address(host).is_loopback
