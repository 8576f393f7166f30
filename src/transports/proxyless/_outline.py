"""Outline's strategy files, read strictly: `dns`, `tls` and `fallback`, in YAML or JSON. Pure.

dns:
  - system: {}
  - https: { name: 9.9.9.9 }                              # DoH, port 443, path /dns-query
  - https: { name: dns.example, address: 192.0.2.1:8443 } # the name in TLS and HTTP, and where to connect
  - tls: { name: 9.9.9.9 }                                # DoT, port 853
  - udp: { address: 9.9.9.9 }                             # Do53, as is tcp
tls: ["", "split:2,20*5", "tlsfrag:1"]
fallback: ["socks5://192.0.2.9:1080"]
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from racer.abc import Target, unknown_key
from racer.errors import ConfigError, InvalidTarget
from transports._net.resolver_urls import ResolverURL, Scheme
from transports._net.yaml_documents import read_yaml
from transports.proxyless._strategies import Strategy, parse_strategy

__all__ = (
    "MAX_BYTES",
    "MAX_FALLBACKS",
    "MAX_RESOLVERS",
    "MAX_STRATEGIES",
    "SYSTEM",
    "Config",
    "ResolverAt",
    "Socks5At",
    "parse_fallback",
    "read_outline",
)

MAX_BYTES: Final = 262_144
"""Octets of a strategy file; the published ones have 2,000."""

MAX_RESOLVERS: Final = 64
"""Resolvers of one search; the longest published list has 29."""

MAX_STRATEGIES: Final = 32
"""Strategies of one search; published lists have 5."""

MAX_FALLBACKS: Final = 16
"""Fallbacks of one search."""

SYSTEM: Final = "system"

_TOP: Final = ("dns", "fallback", "tls")
_KINDS: Final = ("https", "system", "tcp", "tls", "udp")
_DOH_PATH: Final = "/dns-query"
_DEFAULT_PORTS: Final = {Scheme.UDP: 53, Scheme.TCP: 53, Scheme.TLS: 853, Scheme.HTTPS: 443}
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,20}\Z")
_SOCKS_PORT: Final = 1080  # RFC 1928 §3


@dataclass(frozen=True, slots=True)
class ResolverAt:
    """A resolver with a URL, which may be reached under another address than its name's.

    Attributes:
        url: how it is asked, and the name that it has to prove.
        address: where to connect; `None` for the URL's own host and port.
    """

    url: ResolverURL
    address: Target | None = None

    def __str__(self) -> str:
        """Return it for people."""
        return str(self.url) if self.address is None else f"{self.url} at {self.address}"


@dataclass(frozen=True, slots=True)
class Socks5At:
    """A SOCKS5 proxy to fall back on.

    Attributes:
        proxy: where it is.
        credential: user name and password, neither in `repr` nor in `str`; `None` for none.
    """

    proxy: Target
    credential: _Credential | None = None

    def __str__(self) -> str:
        """Return it for people."""
        return f"socks5://{self.proxy}"


@dataclass(frozen=True, slots=True, repr=False)
class _Credential:
    username: str
    password: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """A strategy file.

    Attributes:
        resolvers: `SYSTEM`, and those with a URL, in the file's order; empty where it names none.
        strategies: likewise; empty where it names none.
        fallbacks: likewise.
        skipped: fallbacks of kinds that are not supported, in words.
    """

    resolvers: tuple[str | ResolverAt, ...] = ()
    strategies: tuple[Strategy, ...] = ()
    fallbacks: tuple[Socks5At, ...] = ()
    skipped: tuple[str, ...] = ()


def read_outline(text: str | bytes, *, skip_unsupported: bool = False) -> Config:
    """Return what a strategy file says.

    Args:
        text: the file's content.
        skip_unsupported: whether fallbacks of a kind that Outline knows and this does not, such as Shadowsocks, are
            left out instead of being an error.

    Raises:
        ConfigError: something in it cannot be, or is not supported; says where, what, and why, and quotes no secret.
    """
    octets = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if len(octets) > MAX_BYTES:
        msg = f"a strategy file of more than {MAX_BYTES} octets"
        raise ConfigError(msg)
    data = read_yaml(octets)
    if not isinstance(data, dict):
        msg = f"a strategy file is a mapping with the keys {', '.join(_TOP)}"
        raise ConfigError(msg)
    for key in data:
        if key not in _TOP and not key.startswith("$"):
            raise ConfigError(unknown_key(key, _TOP))
    resolvers = _listed(data, "dns", MAX_RESOLVERS)
    if not resolvers and "dns" in data:
        msg = "dns: at least one resolver is needed"
        raise ConfigError(msg)
    found, skipped = _fallbacks(_listed(data, "fallback", MAX_FALLBACKS), skip=skip_unsupported)
    return Config(
        resolvers=tuple(_resolver(each, f"dns[{i}]") for i, each in enumerate(resolvers)),
        strategies=tuple(
            parse_strategy("" if each is None else each, option=f"tls[{i}]")
            for i, each in enumerate(_listed(data, "tls", MAX_STRATEGIES))
        ),
        fallbacks=found,
        skipped=skipped,
    )


def _listed(data: dict[str, Any], key: str, most: int) -> list[Any]:
    value = data.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        msg = f"{key}: must be a list, not {_kind(value)}"
        raise ConfigError(msg)
    if len(value) > most:
        msg = f"{key}: a list of {len(value)}; at most {most} are taken"
        raise ConfigError(msg)
    return value


def _resolver(entry: object, where: str) -> str | ResolverAt:
    if not isinstance(entry, dict) or len(entry) != 1:
        msg = f"{where}: must be a mapping with one key, one of {', '.join(_KINDS)}"
        raise ConfigError(msg)
    ((kind, settings),) = entry.items()
    if kind not in _KINDS:
        msg = f"{where}: {unknown_key(kind, _KINDS)}"
        raise ConfigError(msg)
    where = f"{where}: {kind}"
    settings = {} if settings is None else settings
    if not isinstance(settings, dict):
        msg = f"{where}: must be a mapping, not {_kind(settings)}"
        raise ConfigError(msg)
    if kind == SYSTEM:
        _check_keys(settings, (), where)
        return SYSTEM
    scheme = Scheme(kind)
    if not scheme.is_encrypted:
        _check_keys(settings, ("address",), where)
        return ResolverAt(ResolverURL(scheme, _endpoint(settings, "address", scheme, where)))
    _check_keys(settings, ("address", "name"), where)
    named = _endpoint(settings, "name", scheme, where)
    path = _DOH_PATH if scheme is Scheme.HTTPS else ""
    address = _endpoint(settings, "address", scheme, where) if "address" in settings else None
    # A name's trailing dot means that no search domain is added, and is none of TLS's or HTTP's business (RFC 6066 §3).
    server = Target(named.server_hostname, named.port, tls=False)
    return ResolverAt(ResolverURL(scheme, server, path), None if address == named else address)


def _endpoint(settings: dict[str, Any], key: str, scheme: Scheme, where: str) -> Target:
    value = settings.get(key)
    if not isinstance(value, str) or not value:
        msg = f"{where}: {key}: {'must be a text' if key in settings else 'missing'}"
        raise ConfigError(msg)
    # An IPv6 address needs no brackets here.
    has_port = value.rpartition("]")[2].count(":") == 1
    try:
        return Target.parse(value, None if has_port else _DEFAULT_PORTS[scheme], tls=False)
    except InvalidTarget as exc:
        msg = f"{where}: {key}: {exc}"
        raise ConfigError(msg) from exc


def _check_keys(settings: dict[str, Any], known: tuple[str, ...], where: str) -> None:
    for key in settings:
        if key not in known:
            words = unknown_key(key, known) if known else f"unknown key {key!r:.60}: it has none"
            msg = f"{where}: {words}"
            raise ConfigError(msg)


def _fallbacks(entries: list[Any], *, skip: bool) -> tuple[tuple[Socks5At, ...], tuple[str, ...]]:
    found: list[Socks5At] = []
    skipped: list[str] = []
    for index, entry in enumerate(entries):
        where = f"fallback[{index}]"
        if (kind := _unsupported(entry, where)) is None:
            found.append(parse_fallback(entry, option=where))
        elif skip:
            skipped.append(f"{where}: {kind}")
        else:
            msg = (
                f"{where}: {kind} is not supported, only socks5:// is; "
                "skip_unsupported=True leaves out what is not"
            )
            raise ConfigError(msg)
    return tuple(found), tuple(skipped)


def _unsupported(entry: object, where: str) -> str | None:
    """Return the kind of a fallback that is not supported; `None` for one that may be."""
    if isinstance(entry, dict):
        if len(entry) != 1:
            msg = f"{where}: a fallback is a text, or a mapping with one key"
            raise ConfigError(msg)
        (kind,) = entry
        return kind if _SCHEME.match(kind) else "a fallback of that kind"
    if not isinstance(entry, str):
        msg = f"{where}: a fallback is a text, or a mapping with one key, not {_kind(entry)}"
        raise ConfigError(msg)
    if "|" in entry:
        return "a pipe as a fallback"
    scheme = entry.partition(":")[0]
    if scheme.lower() == "socks5":
        return None
    return f"{scheme}://" if _SCHEME.match(scheme) else "a fallback of that kind"


def parse_fallback(text: str, *, option: str = "fallback") -> Socks5At:
    """Return the proxy of a URL such as `socks5://user:password@192.0.2.9:1080`.

    Raises:
        ConfigError: says what cannot be, and quotes no user and no password.
    """
    try:
        url = urlsplit(text)
        port = url.port or _SOCKS_PORT
    except ValueError:
        msg = f"{option}: not a URL such as socks5://192.0.2.9:1080"
        raise ConfigError(msg) from None
    if url.scheme != "socks5" or not url.hostname:
        msg = f"{option}: not a URL such as socks5://192.0.2.9:1080"
        raise ConfigError(msg)
    if url.path.strip("/") or url.query or url.fragment:
        msg = f"{option}: something stands behind host and port"
        raise ConfigError(msg)
    try:
        proxy = Target(url.hostname, port, tls=False)
    except InvalidTarget as exc:
        msg = f"{option}: {exc}"
        raise ConfigError(msg) from exc
    if url.username is None and url.password is None:
        return Socks5At(proxy)
    return Socks5At(proxy, _Credential(unquote(url.username or ""), unquote(url.password or "")))


def _kind(value: object) -> str:
    words: dict[type, str] = {dict: "a mapping", list: "a list", str: "a text"}
    return words.get(type(value), "that")
