"""The client's side of SOCKS5 (RFC 1928, and RFC 1929 for user name and password), without IO."""

from __future__ import annotations

import enum
import ipaddress
from typing import TYPE_CHECKING, Final

from racer.errors import (
    ConfigError,
    CredentialRejected,
    ErrorType,
    LocalProtocolError,
    ProxyRefused,
    RemoteProtocolError,
    Stage,
)

if TYPE_CHECKING:
    from transports.proxy._credential import Credential

__all__ = ("AddressType", "Method", "Reply", "Socks5Client")

MAX_NAME: Final = 255  # RFC 1928 §5: one octet for its length

_VERSION: Final = 5
_AUTH_VERSION: Final = 1  # of the sub-negotiation, RFC 1929 §2
_CONNECT: Final = 1


class Method(enum.IntEnum):
    """How a client proves who it is (RFC 1928 §3)."""

    NO_AUTHENTICATION = 0x00
    USERNAME_PASSWORD = 0x02
    NONE_ACCEPTABLE = 0xFF


class AddressType(enum.IntEnum):
    """What an address field holds (RFC 1928 §5)."""

    IPV4 = 0x01
    DOMAIN_NAME = 0x03
    IPV6 = 0x04


class Reply(enum.IntEnum):
    """What a server says to a request (RFC 1928 §6); other numbers are unassigned."""

    SUCCEEDED = 0x00
    GENERAL_FAILURE = 0x01
    NOT_ALLOWED = 0x02
    NETWORK_UNREACHABLE = 0x03
    HOST_UNREACHABLE = 0x04
    CONNECTION_REFUSED = 0x05
    TTL_EXPIRED = 0x06
    COMMAND_NOT_SUPPORTED = 0x07
    ADDRESS_TYPE_NOT_SUPPORTED = 0x08


# Servers answer a general failure to whatever they have no number for, name lookups above all: it says nothing of
# whether another try would fail, so it must not count as a refusal.
_REFUSALS: Final = {
    Reply.GENERAL_FAILURE: (ErrorType.OTHER, "general failure"),
    Reply.NOT_ALLOWED: (ErrorType.PROXY_REFUSED, "not allowed by its rules"),
    Reply.NETWORK_UNREACHABLE: (ErrorType.HOST_UNREACHABLE, "network unreachable"),
    Reply.HOST_UNREACHABLE: (ErrorType.HOST_UNREACHABLE, "host unreachable"),
    Reply.CONNECTION_REFUSED: (ErrorType.CONNECTION_REFUSED, "connection refused by the target"),
    # Named for IP's time to live, and sent when the target did not answer in time.
    Reply.TTL_EXPIRED: (ErrorType.TIMEOUT, "TTL expired: the target did not answer"),
    Reply.COMMAND_NOT_SUPPORTED: (ErrorType.PROXY_REFUSED, "it does not support CONNECT"),
    Reply.ADDRESS_TYPE_NOT_SUPPORTED: (
        ErrorType.PROXY_REFUSED,
        "it does not support this type of address",
    ),
}

# First octets that give away which other protocol is spoken.
_OTHERS: Final = {
    0x00: "SOCKS4",
    0x04: "SOCKS4",
    0x15: "TLS, which tls=True would speak",
    0x16: "TLS, which tls=True would speak",
    0x48: "HTTP, which HttpConnect would speak",
}


class _State(enum.Enum):
    """What is awaited; the value says it in words."""

    METHOD = "its choice of an authentication method"
    AUTHENTICATION = "its verdict on the credential"
    REPLY = "its answer to the request"
    DONE = "nothing"
    FAILED = "nothing more"


class Socks5Client:
    """One CONNECT through a SOCKS5 server.

    Send `bytes_to_send()`, give what comes to `receive_data()`, again and again until `is_done`. Both the choice
    without authentication and, with a credential, that by user name and password are offered; the server picks.

    Args:
        host: a name in ASCII of 1 to 255 octets, which the server looks up, or an IP address without scope.
        port: 1 to 65535.
        credential: sent only if the server asks for it.
        proxy: what errors call the server.

    Raises:
        ConfigError: no SOCKS5 request can carry this.
    """

    def __init__(self, host: str, port: int, *, credential: Credential | None, proxy: str) -> None:
        """Prepare the greeting, and all that may follow."""
        if credential is not None:
            credential.check_socks()
        self._proxy = proxy
        self._target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._request = bytes([_VERSION, _CONNECT, 0]) + _address(host) + _port(port)
        self._credential = credential
        self._methods = [Method.NO_AUTHENTICATION]
        if credential is not None:
            self._methods.append(Method.USERNAME_PASSWORD)
        self._outgoing = bytes([_VERSION, len(self._methods), *self._methods])
        self._buffer = bytearray()
        self._state = _State.METHOD

    @property
    def is_done(self) -> bool:
        """Whether the stream now leads to the target."""
        return self._state is _State.DONE

    @property
    def awaited(self) -> str:
        """What the server owes, in words."""
        return self._state.value

    @property
    def leftover(self) -> bytes:
        """Bytes that came right behind the reply: the target's first."""
        return bytes(self._buffer) if self.is_done else b""

    def bytes_to_send(self) -> bytes:
        """Return what is to be sent now, once; empty when it is the server's turn."""
        data, self._outgoing = self._outgoing, b""
        return data

    def receive_data(self, data: bytes) -> None:
        """Take bytes from the server, cut anywhere.

        Raises:
            CredentialRejected: it does not accept the credential, or wants one and has none.
            ProxyRefused: it will not, or cannot, reach the target; `code` is its reply.
            RemoteProtocolError: it breaks the protocol.
            LocalProtocolError: called when it is not the server's turn.
        """
        if self._state in {_State.DONE, _State.FAILED} or self._outgoing:
            msg = f"SOCKS5: bytes received while the machine awaits {self.awaited}"
            raise LocalProtocolError(msg)
        self._buffer += data
        try:
            self._advance()
        except BaseException:
            self._state = _State.FAILED
            raise

    def _advance(self) -> None:
        # Each answer ends the server's turn, so there is at most one in what came.
        match self._state:
            case _State.METHOD:
                self._take_method()
            case _State.AUTHENTICATION:
                self._take_verdict()
            case _:
                self._take_reply()
        if self._outgoing and self._buffer:
            msg = f"{self._proxy} answered what it had not been asked yet"
            raise RemoteProtocolError(msg)

    def _take_method(self) -> None:
        buffer = self._buffer
        self._check_version()
        if len(buffer) < 2:
            return
        method = buffer[1]
        del buffer[:2]
        if method == Method.NONE_ACCEPTABLE:
            self._refuse_methods()
        if method not in self._methods:
            msg = f"{self._proxy} chose authentication method {method:#04x}, which was not offered (RFC 1928 §3)"
            raise RemoteProtocolError(msg)
        if method == Method.USERNAME_PASSWORD:
            assert self._credential is not None
            username, password = self._credential.username, self._credential.password
            self._outgoing = b"".join(
                [
                    bytes([_AUTH_VERSION, len(username)]),
                    username,
                    bytes([len(password)]),
                    password,
                ]
            )
            self._state = _State.AUTHENTICATION
        else:
            self._ask()

    def _refuse_methods(self) -> None:
        if self._credential is None:
            msg = f"{self._proxy} wants a credential, and none was given"
            raise CredentialRejected(msg, stage=Stage.HANDSHAKE)
        msg = (
            f"{self._proxy} accepts neither a user name with password nor none at all (method 0xff)"
        )
        raise ProxyRefused(msg, code=Method.NONE_ACCEPTABLE.value, stage=Stage.HANDSHAKE)

    def _take_verdict(self) -> None:
        buffer = self._buffer
        if buffer and buffer[0] != _AUTH_VERSION:
            msg = (
                f"{self._proxy} answered the credential in version {buffer[0]}, not 1 (RFC 1929 §2)"
            )
            raise RemoteProtocolError(msg)
        if len(buffer) < 2:
            return
        status = buffer[1]
        del buffer[:2]
        if status:
            msg = f"{self._proxy} rejected the user name or password (status {status:#04x})"
            raise CredentialRejected(msg, stage=Stage.HANDSHAKE)
        self._ask()

    def _ask(self) -> None:
        self._outgoing = self._request
        self._state = _State.REPLY

    def _take_reply(self) -> None:
        buffer = self._buffer
        self._check_version()
        if len(buffer) < 2:
            return
        if buffer[1] != Reply.SUCCEEDED:
            # At once: what would follow is of no use, and some servers leave it out.
            self._refuse(buffer[1])
        if len(buffer) < 5:
            return
        # The third octet is reserved, and ignored: servers are careless with it. The fifth is a name's length.
        size = self._address_size(buffer[3], buffer[4])
        if len(buffer) < 4 + size + 2:
            return
        del buffer[: 4 + size + 2]
        self._state = _State.DONE

    def _refuse(self, code: int) -> None:
        kind, why = ErrorType.PROXY_REFUSED, "unassigned"
        if code in _REFUSALS:
            kind, why = _REFUSALS[Reply(code)]
        msg = f"{self._proxy} did not connect to {self._target}: {why} (reply {code:#04x})"
        raise ProxyRefused(msg, code=code, error_type=kind, stage=Stage.HANDSHAKE)

    def _address_size(self, kind: int, first: int) -> int:
        match kind:
            case AddressType.IPV4:
                return 4
            case AddressType.IPV6:
                return 16
            case AddressType.DOMAIN_NAME:
                return 1 + first
            case _:
                msg = f"{self._proxy} replied with an address of type {kind:#04x}, which SOCKS5 has not (RFC 1928 §5)"
                raise RemoteProtocolError(msg)

    def _check_version(self) -> None:
        if self._buffer and (version := self._buffer[0]) != _VERSION:
            hint = f"; this looks like {_OTHERS[version]}" if version in _OTHERS else ""
            msg = f"{self._proxy} does not speak SOCKS5: version octet {version:#04x}{hint}"
            raise RemoteProtocolError(msg)


def _address(host: str) -> bytes:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return _name(host)
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None:
            msg = f"{host}: an interface of this machine means nothing to a proxy"
            raise ConfigError(msg)
        return bytes([AddressType.IPV6]) + address.packed
    return bytes([AddressType.IPV4]) + address.packed


def _name(host: str) -> bytes:
    if not host.isascii():
        msg = f"{host!r}: a name for SOCKS5 is in ASCII (A-labels)"
        raise ConfigError(msg)
    if not 1 <= len(host) <= MAX_NAME:
        msg = f"a name of {len(host)} octets; SOCKS5 carries 1 to {MAX_NAME} (RFC 1928 §5)"
        raise ConfigError(msg)
    return bytes([AddressType.DOMAIN_NAME, len(host)]) + host.encode()


def _port(port: int) -> bytes:
    if not 1 <= port <= 65535:
        msg = f"port {port} is not in 1 to 65535"
        raise ConfigError(msg)
    return port.to_bytes(2, "big")
