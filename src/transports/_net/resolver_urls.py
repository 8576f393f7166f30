"""Where a resolver is and how it is asked, from a URL. Pure."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, field
from typing import Final

from racer.abc import Target
from racer.errors import ConfigError, InvalidTarget

__all__ = ("ResolverURL", "Scheme")

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,20}\Z")
_WORD: Final = re.compile(r"[A-Za-z0-9._:-]{1,60}\Z")
_PATH: Final = re.compile(r"/[!-~]{0,1023}\Z")  # goes into a request line as it is
_TEMPLATE: Final = "{?dns}"  # how RFC 8484 §3 writes where the question of a GET goes


class Scheme(enum.Enum):
    """How a resolver is asked."""

    UDP = "udp"
    """Do53: datagrams, and TCP for what does not fit into one (RFC 1035, RFC 7766)."""
    TCP = "tcp"
    """Do53 over TCP alone (RFC 7766)."""
    TLS = "tls"
    """DoT (RFC 7858)."""
    HTTPS = "https"
    """DoH (RFC 8484)."""

    @property
    def is_encrypted(self) -> bool:
        """Whether the resolver proves who it is, so that nobody on the way can answer in its place."""
        return self in {Scheme.TLS, Scheme.HTTPS}


_DEFAULT_PORTS: Final = {Scheme.UDP: 53, Scheme.TCP: 53, Scheme.TLS: 853, Scheme.HTTPS: 443}


@dataclass(frozen=True, slots=True)
class ResolverURL:
    """A resolver's URL, valid once made.

    Attributes:
        scheme: how it is asked.
        server: its host and port.
        path: of an `https` URL, as it goes into the request; empty for others. It may identify an account, so it is
            neither in `repr` nor in `str`.
    """

    scheme: Scheme
    server: Target
    path: str = field(default="", repr=False)

    @classmethod
    def parse(cls, text: str, *, option: str = "resolver") -> ResolverURL:
        """Return the resolver that `text` names: `udp://host[:53]`, `tcp://`, `tls://host[:853]`, `https://host/path`.

        Hosts are names or IP addresses, IPv6 in brackets. `https://host/path{?dns}` is the same without the ending.

        Args:
            text: the URL.
            option: what it is an option of, for the error.

        Raises:
            ConfigError: says which part cannot be, and why; never quotes what may be secret.
        """
        word, separator, rest = text.partition("://")
        if not separator:
            shown = f"={text!r}" if _WORD.match(text) else ""
            msg = f"{option}{shown}: not 'system', nor a URL such as udp://192.0.2.53 or https://dns.example/dns-query"
            raise ConfigError(msg)
        scheme = _scheme(word, option)
        option = f"{option} ({scheme.value}://)"
        cut = re.search(r"[/?#\\]", rest)
        authority, path = (rest[: cut.start()], rest[cut.start() :]) if cut else (rest, "")
        if "@" in authority:
            msg = f"{option}: a user or password in front of the host; resolvers take neither"
            raise ConfigError(msg)
        server = _server(authority, scheme, option)
        option = f"{option[:-1]}{server})"
        return cls(scheme, server, _path(path, scheme, option))

    @property
    def is_encrypted(self) -> bool:
        """Whether the resolver proves who it is."""
        return self.scheme.is_encrypted

    @property
    def authority(self) -> str:
        """Host and port as a request names them: no interface of this machine, no port that goes without saying."""
        return self._with_port(self.server.server_hostname)

    def __str__(self) -> str:
        """Return the URL without path, and without a port that goes without saying."""
        return f"{self.scheme.value}://{self._with_port(self.server.host)}"

    def _with_port(self, host: str) -> str:
        shown = f"[{host}]" if ":" in host else host
        port = self.server.port
        return shown if port == _DEFAULT_PORTS[self.scheme] else f"{shown}:{port}"


def _scheme(word: str, option: str) -> Scheme:
    known = [scheme.value for scheme in Scheme]
    if word.lower() in known:
        return Scheme(word.lower())
    if not _SCHEME.match(word):
        msg = f"{option}: what stands before '://' is no scheme; known: {', '.join(known)}"
        raise ConfigError(msg)
    import difflib  # noqa: PLC0415 - only the wrong pay

    near = difflib.get_close_matches(word.lower(), known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
    msg = f"{option}: scheme {word!r} is not known; {hint}"
    raise ConfigError(msg)


def _server(authority: str, scheme: Scheme, option: str) -> Target:
    if not authority or authority.startswith(":"):
        msg = f"{option}: the host is missing"
        raise ConfigError(msg)
    behind = authority.rpartition("]")[2]
    if not authority.startswith("[") and authority.count(":") > 1:
        msg = f"{option}: an IPv6 address in a URL stands in brackets, such as [2001:db8::53]"
        raise ConfigError(msg)
    try:
        return Target.parse(authority, None if ":" in behind else _DEFAULT_PORTS[scheme], tls=False)
    except InvalidTarget as exc:
        msg = f"{option}: {exc}"
        raise ConfigError(msg) from exc


def _path(path: str, scheme: Scheme, option: str) -> str:
    if scheme is not Scheme.HTTPS:
        if path not in {"", "/"}:
            msg = f"{option}: something stands behind host and port; only https:// has a path"
            raise ConfigError(msg)
        return ""
    path = path.removesuffix(_TEMPLATE)
    if not path.startswith("/") and path[:1] not in {"?", "#"}:
        msg = f"{option}: the path is missing, most often /dns-query"
        raise ConfigError(msg)
    if "?" in path or "#" in path:
        msg = (
            f"{option}: a query string or fragment; the question goes into the body (RFC 8484 §4.1)"
        )
        raise ConfigError(msg)
    if not _PATH.match(path):
        msg = f"{option}: the path is longer than 1024 characters, or has some that must be percent-encoded"
        raise ConfigError(msg)
    return path
