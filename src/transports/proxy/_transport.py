"""The two kinds of proxy, as transports."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, ClassVar, Final

from racer.errors import ConfigError
from transports.proxy._connect import ConnectClient
from transports.proxy._hop import HANDSHAKE_TIMEOUT, Hop
from transports.proxy._socks5 import Socks5Client

if TYPE_CHECKING:
    import ssl

    from racer.abc import Target, Transport
    from transports.proxy._credential import Credential
    from transports.proxy._hop import Conversation

__all__ = ("HttpConnect", "Socks5")

MAX_FIELDS_BYTES: Final = (
    8192  # of further header fields; what common servers allow for a whole header
)

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")  # RFC 9110 §5.6.2
_VALUE = re.compile(r"(?:[!-~](?:[ \t!-~]*[!-~])?)?\Z")  # RFC 9110 §5.5, without obsolete octets
# What this side answers for, and what would mean something else to a request without content.
_OURS: Final = frozenset(
    {
        "connection",
        "content-length",
        "expect",
        "host",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)


class Socks5(Hop):
    """Reaches targets through a SOCKS5 server (RFC 1928); names are looked up there, never here.

    Chains are made by nesting: `Socks5(far, base=HttpConnect(near))` goes to `near`, through it to `far`, and through
    both to the target. Its place in the race, its limits and its `attempt_timeout` are the base's.

    Args:
        proxy: where the server is, `"host:port"` or a `Target`; the port is 1080 where the text has none.
        base: how it is reached: any transport that gives byte streams, owned and closed by this one. `None` for TCP with
            the system's resolver.
        username: 1 to 255 octets as UTF-8 (RFC 1929), sent only if the server asks. Without TLS it can be read on the
            way, and so can the password.
        password: up to 255 octets as UTF-8; given with a user name or not at all.
        tls: `True` for TLS to the server, verified with the system's trust; an `ssl.SSLContext` is used as it is.
        server_hostname: the name in the server's certificate, where it is not the host of `proxy`.
        handshake_timeout: seconds that TLS and the server's answers may take, finite and above 0; the server dials the
            target meanwhile.
        name: what reports and spans call it.

    Raises:
        ConfigError: an option cannot be; says which and why, and quotes no secret.
    """

    protocol = "socks5"
    title = "SOCKS5"
    default_port: ClassVar[int | None] = 1080  # RFC 1928 §3

    def __init__(
        self,
        proxy: str | Target,
        *,
        base: Transport | None = None,
        username: str | None = None,
        password: str | None = None,
        tls: bool | ssl.SSLContext = False,
        server_hostname: str | None = None,
        handshake_timeout: float = HANDSHAKE_TIMEOUT,
        name: str = "socks5",
    ) -> None:
        """Check everything; nothing is opened."""
        super().__init__(
            proxy,
            base=base,
            username=username,
            password=password,
            tls=tls,
            server_hostname=server_hostname,
            handshake_timeout=handshake_timeout,
            name=name,
        )

    def _conversation(self, target: Target) -> Conversation:
        return Socks5Client(
            target.host, target.port, credential=self._credential, proxy=self._label
        )

    def _check_credential(self, credential: Credential) -> None:
        credential.check_socks()


class HttpConnect(Hop):
    """Reaches targets through an HTTP proxy's CONNECT (RFC 9110 §9.3.6); names are looked up there, never here.

    Chains are made by nesting, as with `Socks5`. Its place in the race, its limits and its `attempt_timeout` are the
    base's.

    Args:
        proxy: where the proxy is, `"host:port"` or a `Target`.
        base: how it is reached: any transport that gives byte streams, owned and closed by this one. `None` for TCP with
            the system's resolver.
        username: for Basic authentication (RFC 7617), up to 2048 octets as UTF-8, without ':'; sent with every request.
            Without TLS it can be read on the way, and so can the password.
        password: up to 2048 octets as UTF-8; given with a user name or not at all.
        tls: `True` for TLS to the proxy, verified with the system's trust; an `ssl.SSLContext` is used as it is.
        server_hostname: the name in the proxy's certificate, where it is not the host of `proxy`.
        headers: further fields for the proxy, names to values in ASCII, up to 8192 octets together; treated as secret.
        handshake_timeout: seconds that TLS and the proxy's answer may take, finite and above 0; the proxy dials the
            target meanwhile.
        name: what reports and spans call it.

    Raises:
        ConfigError: an option cannot be; says which and why, and quotes no secret.
    """

    protocol = "http-connect"
    title = "HTTP"
    alpn: ClassVar[tuple[str, ...]] = ("http/1.1",)

    def __init__(
        self,
        proxy: str | Target,
        *,
        base: Transport | None = None,
        username: str | None = None,
        password: str | None = None,
        tls: bool | ssl.SSLContext = False,
        server_hostname: str | None = None,
        headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
        handshake_timeout: float = HANDSHAKE_TIMEOUT,
        name: str = "http-connect",
    ) -> None:
        """Check everything; nothing is opened."""
        super().__init__(
            proxy,
            base=base,
            username=username,
            password=password,
            tls=tls,
            server_hostname=server_hostname,
            handshake_timeout=handshake_timeout,
            name=name,
        )
        self._headers = _fields(headers)
        if self._credential is not None and any(
            name.lower() == b"proxy-authorization" for name, _ in self._headers
        ):
            msg = "headers: Proxy-Authorization, and username= too; give one of them"
            raise ConfigError(msg)

    def _conversation(self, target: Target) -> Conversation:
        return ConnectClient(
            target.host,
            target.port,
            headers=self._headers,
            credential=self._credential,
            proxy=self._label,
        )

    def _check_credential(self, credential: Credential) -> None:
        credential.check_basic()


def _fields(headers: object) -> tuple[tuple[bytes, bytes], ...]:
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    if isinstance(pairs, str | bytes) or not isinstance(pairs, Iterable):
        msg = f"headers must be a mapping of names to values, not {type(headers).__name__}"
        raise ConfigError(msg)
    fields = []
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            msg = "headers: every field is a pair of a name and a value"
            raise ConfigError(msg)
        fields.append(_field(*pair))
    if sum(len(name) + len(value) + 4 for name, value in fields) > MAX_FIELDS_BYTES:
        msg = f"headers: more than {MAX_FIELDS_BYTES} octets together"
        raise ConfigError(msg)
    return tuple(fields)


def _field(name: object, value: object) -> tuple[bytes, bytes]:
    if not isinstance(name, str) or not _TOKEN.match(name):
        msg = "headers: a field's name is a token (RFC 9110 §5.6.2)"
        raise ConfigError(msg)
    if name.lower() in _OURS:
        msg = f"headers: {name} is not for the caller to set"
        raise ConfigError(msg)
    if not isinstance(value, str) or not _VALUE.match(value):
        msg = f"headers: the value of {name} must be text of visible ASCII"
        raise ConfigError(msg)
    return name.encode(), value.encode()
