"""What can be dialed: a host, a port and a wish for TLS, checked before any IO."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from racer.errors import InvalidTarget

if TYPE_CHECKING:
    import ssl

__all__ = ("Target",)

_MAX_INPUT = 1024  # longer than any host that could pass, in any script
_MAX_NAME = 253  # RFC 1035 §3.1: 255 octets on the wire
_MAX_LABEL = 63  # RFC 1035 §2.3.4
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\Z")  # RFC 1123 §2.1
_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
# The one form that every reader takes for the same address.
_IPV4 = re.compile(rf"(?:{_OCTET}\.){{3}}{_OCTET}\Z")
_PORT = re.compile(r"[0-9]{1,5}\Z")
_SCOPE = re.compile(r"[A-Za-z0-9._~-]{1,32}\Z")  # RFC 6874, an interface name or index
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,20}\Z")
_PATH = re.compile(r"[/?#\\]")
_URL_PART = re.compile(r"[/?#\\@]")
_MAX_ALPN = 65535  # RFC 7301 §3.1, with a length octet before each name
_HTTPS = 443


@dataclass(frozen=True, slots=True, init=False)
class Target:
    """Where a dial wants to go; immutable, comparable, and valid once made.

    Attributes:
        host: a name as lower-case A-labels (IDNA 2008 with UTS 46 mapping), or an IP address in its shortest form
            without brackets. One trailing dot of an absolute name is kept.
        port: 1 to 65535.
        tls: `True` for TLS with the system's trust, an `ssl.SSLContext` for the caller's own, `False` for none.
        alpn: protocols to offer, most wanted first. Empty with a caller's own context, which has its own list.
    """

    host: str
    port: int
    tls: bool | ssl.SSLContext
    alpn: tuple[str, ...]

    def __init__(
        self,
        host: str,
        port: int = _HTTPS,
        *,
        tls: bool | ssl.SSLContext | None = None,
        alpn: Iterable[str] = (),
    ) -> None:
        """Check and normalise.

        Args:
            host: a name or an IP address, without port; brackets around IPv6 are accepted.
            port: 1 to 65535.
            tls: as the attribute; `None` means TLS on port 443 and none elsewhere.
            alpn: as the attribute.

        Raises:
            InvalidTarget: says which part cannot be, and why.
        """
        set_field = object.__setattr__  # the class is frozen for everyone else
        set_field(self, "host", _checked_host(host))
        set_field(self, "port", _checked_port(port))
        set_field(self, "tls", _checked_tls(tls, default=port == _HTTPS))
        set_field(self, "alpn", _checked_alpn(alpn))
        if self.alpn and not isinstance(self.tls, bool):
            msg = "alpn= and a TLS context of your own: set the protocols on the context instead"
            raise InvalidTarget(msg)

    @classmethod
    def parse(
        cls,
        text: str,
        port: int | None = None,
        *,
        tls: bool | ssl.SSLContext | None = None,
        alpn: Iterable[str] = (),
    ) -> Target:
        """Return the target that `text` names: `host`, `host:port`, an IPv6 address bare or in brackets.

        Args:
            text: the host, with or without a port.
            port: the port where `text` has none; 443 when neither gives one.
            tls: `None` means TLS on port 443 and none elsewhere.
            alpn: protocols to offer.

        Raises:
            InvalidTarget: says which part cannot be, and why; also when both give a port and they differ.
        """
        host, inner = _split_port(text)
        if port is not None:
            _checked_port(port)
        if inner is not None and port is not None and inner != port:
            msg = f"{_shown(text)} has port {inner} in it, and port={port} was given"
            raise InvalidTarget(msg)
        chosen = port if inner is None else inner
        return cls(host, _HTTPS if chosen is None else chosen, tls=tls, alpn=alpn)

    @property
    def is_address(self) -> bool:
        """Whether the host is an IP address, so that no name needs to be looked up."""
        return _address(self.host) is not None

    @property
    def server_hostname(self) -> str:
        """The name for SNI and for the certificate: the host without trailing dot or IPv6 scope (RFC 6066 §3)."""
        return self.host.partition("%")[0].rstrip(".")

    def __str__(self) -> str:
        """Return `host:port`, IPv6 in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def _split_port(text: object) -> tuple[str, int | None]:
    """Split `host[:port]`; the host is checked later."""
    text = _checked_text(text)
    if text.startswith("["):
        inside, bracket, rest = text[1:].partition("]")
        if not bracket:
            msg = f"{_shown(text)} opens a bracket and does not close it"
            raise InvalidTarget(msg)
        if rest and not rest.startswith(":"):
            msg = f"{_shown(text)} has {_shown(rest)} behind the bracket, where only ':port' can stand"
            raise InvalidTarget(msg)
        return f"[{inside}]", _parsed_port(rest[1:], text) if rest else None
    if text.count(":") == 1:
        host, _, port = text.partition(":")
        return host, _parsed_port(port, text)
    return text, None


def _parsed_port(digits: str, text: str) -> int:
    if not _PORT.match(digits):
        msg = f"{_shown(text)} has {_shown(digits)} where a port from 1 to 65535 belongs"
        raise InvalidTarget(msg)
    return _checked_port(int(digits))


def _checked_text(text: object) -> str:
    """Refuse what is no host at all: other types, URLs, and parts of URLs, which may hold secrets."""
    if not isinstance(text, str):
        msg = f"the host must be a str, not {type(text).__name__}"
        raise InvalidTarget(msg)
    if _URL_PART.search(text) is None:
        return text
    # A user, password, path or query may be secret: none is quoted in an error, and none gets further.
    scheme, is_url, rest = text.partition("://")
    authority, *more = _PATH.split(rest if is_url else text, maxsplit=1)
    host = "" if more and "@" in more[0] else authority.rpartition("@")[2]
    if is_url:
        shown = f"{scheme}://{host}" if _SCHEME.match(scheme) else host
        msg = (
            f"{_shown(shown)} is a URL; dial takes a host, such as {_shown(host or 'example.com')}"
        )
        raise InvalidTarget(msg)
    if "@" in text or more:
        what = "a user in front of the host" if "@" in text else "a path behind the host"
        msg = f"{_shown(host)} came with {what}; dial takes a host, not a URL"
        raise InvalidTarget(msg)
    return text


def _checked_port(port: object) -> int:
    if isinstance(port, bool) or not isinstance(port, int):
        msg = f"the port must be an int, not {type(port).__name__}"
        raise InvalidTarget(msg)
    if not 1 <= port <= 65535:
        number = port if abs(port) < 10**9 else "of that size"
        msg = f"port {number} is not in 1 to 65535"
        raise InvalidTarget(msg)
    return int(port)


def _checked_tls(tls: object, *, default: bool) -> bool | ssl.SSLContext:
    if tls is None:
        return default
    if isinstance(tls, bool):
        return tls
    import ssl  # noqa: PLC0415 - only who brings a context pays for it

    if isinstance(tls, ssl.SSLContext):
        if tls.protocol is ssl.PROTOCOL_TLS_SERVER:
            msg = "tls= is a server's context; a dial needs one made for the client side"
            raise InvalidTarget(msg)
        return tls
    msg = f"tls must be True, False, None or an ssl.SSLContext, not {type(tls).__name__}"
    raise InvalidTarget(msg)


def _checked_alpn(alpn: object) -> tuple[str, ...]:
    if alpn == ():
        return ()
    if isinstance(alpn, str | bytes) or not isinstance(alpn, Iterable):
        msg = (
            f"alpn must be a sequence of protocol names, such as ['h2'], not {type(alpn).__name__}"
        )
        raise InvalidTarget(msg)
    names = tuple(alpn)
    for name in names:
        # RFC 7301 §3.1: one to 255 octets.
        if not isinstance(name, str) or not name.isascii() or not 1 <= len(name) <= 255:
            what = _shown(name) if isinstance(name, str) else type(name).__name__
            msg = f"alpn: {what} is not a protocol name of 1 to 255 ASCII characters"
            raise InvalidTarget(msg)
    if sum(len(name) + 1 for name in names) > _MAX_ALPN:
        msg = f"alpn: {len(names)} protocol names do not fit into one TLS extension"
        raise InvalidTarget(msg)
    return names


def _checked_host(text: object) -> str:
    host = _checked_text(text)
    if not host:
        msg = "the host is empty"
        raise InvalidTarget(msg)
    if len(host) > _MAX_INPUT:
        msg = f"a host of {len(host)} characters: a name has at most {_MAX_NAME}"
        raise InvalidTarget(msg)
    if host.startswith("[") and host.endswith("]"):
        if ":" not in host:
            msg = f"{_shown(host)}: brackets are for IPv6 addresses"
            raise InvalidTarget(msg)
        host = host[1:-1]
    if ":" in host:
        return _checked_ipv6(host)
    return host if _IPV4.match(host) else _checked_name(host)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _checked_ipv6(host: str) -> str:
    bare, percent, scope = host.partition("%")
    try:
        address = ipaddress.IPv6Address(bare)
    except ValueError as exc:
        msg = f"{_shown(host)} is not an IPv6 address"
        if host.count(":") == 1:
            msg = f"{_shown(host)} has a port in it; give it as port=, or use Target.parse"
        raise InvalidTarget(msg) from exc
    if percent and not _SCOPE.match(scope):
        msg = f"{_shown(scope)} is not the name or number of a network interface"
        raise InvalidTarget(msg)
    return f"{address}{percent}{scope}"


def _checked_name(host: str) -> str:
    name = host.lower() if host.isascii() else _to_ascii(host)
    absolute = name.endswith(".")
    bare = name[:-1] if absolute else name
    if len(bare) > _MAX_NAME:
        msg = f"{_shown(host)} has {len(bare)} characters; a name has at most {_MAX_NAME}"
        raise InvalidTarget(msg)
    labels = bare.split(".")
    for label in labels:
        _check_label(label, host)
    if labels[-1].isdigit() or re.match(r"0x[0-9a-f]*\Z", labels[-1]):
        # The C library would read '127.1' or '0x7f000001' as an address; nobody else in the path would.
        msg = f"{_shown(host)} looks like an IPv4 address and is not four numbers from 0 to 255"
        raise InvalidTarget(msg)
    return name


def _check_label(label: str, host: str) -> None:
    if not label:
        msg = f"{_shown(host)} has an empty label"
        raise InvalidTarget(msg)
    if len(label) > _MAX_LABEL:
        msg = f"{_shown(host)} has a label of {len(label)} characters; at most {_MAX_LABEL} are allowed"
        raise InvalidTarget(msg)
    if _LABEL.match(label):
        return
    bad = sorted(set(re.findall(r"[^a-z0-9-]", label)))
    if bad:
        shown = ", ".join(map(repr, bad[:5]))
        msg = f"{_shown(host)}: {shown} cannot be in a host name (RFC 1123 §2.1)"
    else:
        msg = f"{_shown(host)}: a label begins and ends with a letter or digit"
    raise InvalidTarget(msg)


def _to_ascii(host: str) -> str:
    """Return the A-labels of a name in any script (IDNA 2008; UTS 46 maps case and full-width forms first)."""
    import idna  # noqa: PLC0415 - its tables are large, and most hosts are ASCII

    try:
        mapped = idna.uts46_remap(host, std3_rules=True)
        # Labels already ASCII are no business of IDNA's, which would refuse 'r3---sn' for its hyphens.
        return ".".join(
            label if label.isascii() else idna.alabel(label).decode("ascii")
            for label in mapped.split(".")
        )
    except UnicodeError as exc:  # IDNAError is one
        msg = f"{_shown(host)} is not a name under IDNA 2008: {_shown(str(exc))}"
        raise InvalidTarget(msg) from exc


def _shown(text: str) -> str:
    """Return `text` fit for an error: quoted, escaped, and cut."""
    shown = repr(text[:80])
    return shown if len(text) <= 80 and len(shown) <= 90 else f"{shown[:80]}...{shown[0]}"
