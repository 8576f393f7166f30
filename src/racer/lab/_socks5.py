"""A SOCKS5 proxy (RFC 1928, RFC 1929)."""

from __future__ import annotations

import enum
import errno
import ipaddress
import socket
from typing import TYPE_CHECKING, Final

from racer.errors import ConfigError
from racer.lab._proxy import Inbox, Over, Proxy, ProxyRequest, ProxyStage

if TYPE_CHECKING:
    import ssl
    from collections.abc import Sequence

    from anyio.abc import ByteStream

    from racer.lab._proxy import Connect, ProxyFault, ProxyRefusal

__all__ = ("Socks5Proxy",)

_VERSION: Final = 5
_CREDENTIAL_VERSION: Final = 1  # RFC 1929 §2
_CONNECT: Final = 1  # RFC 1928 §4


class _Method(enum.IntEnum):
    """RFC 1928 §3."""

    NONE = 0
    CREDENTIAL = 2
    UNACCEPTABLE = 255


class _Kind(enum.IntEnum):
    """RFC 1928 §5."""

    IPV4 = 1
    NAME = 3
    IPV6 = 4


class _Reply(enum.IntEnum):
    """RFC 1928 §6."""

    SUCCEEDED = 0
    FAILURE = 1
    NETWORK_UNREACHABLE = 3
    HOST_UNREACHABLE = 4
    REFUSED = 5
    COMMAND_UNKNOWN = 7
    KIND_UNKNOWN = 8


_BY_ERRNO: Final = {
    errno.ENETUNREACH: _Reply.NETWORK_UNREACHABLE,
    errno.EHOSTUNREACH: _Reply.HOST_UNREACHABLE,
    errno.ECONNREFUSED: _Reply.REFUSED,
}


class Socks5Proxy(Proxy):
    """A SOCKS5 server on 127.0.0.1: CONNECT, to names and addresses, with user and password or without.

    An async context manager. In memory, or inside a `Network`, it need not listen: `serve_stream` is a handler.

    Args:
        connect: how targets are reached, such as `Network.connector()`; `None` for TCP from this machine.
        credential: user name and password that are wanted; `None` if anybody may come.
        faults: how it misbehaves, and whom it refuses; the first that applies counts.
        pace: seconds between the bytes of what it says itself; 0 for all at once.
        bound: the address and port that replies name: an IP address, or a name.
        context: its own TLS context, such as `Authority.server_context` gives; `None` to speak without TLS.

    Attributes:
        requests: what it was asked for, refusals included.
        faults: a list of those given; may be changed at any time.
        tunnels: how many are open.
        address: where it listens; the port is 0 until it is entered.
    """

    scheme = "socks5"

    def __init__(
        self,
        *,
        connect: Connect | None = None,
        credential: tuple[str, str] | None = None,
        faults: Sequence[ProxyFault | ProxyRefusal] = (),
        pace: float = 0.0,
        bound: tuple[str, int] = ("0.0.0.0", 0),  # noqa: S104 - an answer, not an address to bind
        context: ssl.SSLContext | None = None,
    ) -> None:
        """Keep the arguments; nothing listens yet."""
        super().__init__(
            connect=connect, credential=credential, faults=faults, pace=pace, context=context
        )
        self._bound = _packed(*bound)

    async def _converse(self, stream: ByteStream) -> None:
        inbox = Inbox(stream)
        await self._reach(ProxyStage.CONNECTED, stream)
        user = await self._admit(stream, inbox)
        version, command, _, kind = await inbox.exactly(4)
        if version != _VERSION:
            raise Over
        host = await _host(inbox, kind)
        if host is None:
            await self._say(stream, self._reply(_Reply.KIND_UNKNOWN))
            raise Over
        port = int.from_bytes(await inbox.exactly(2), "big")
        self.requests.append(ProxyRequest(host=host, port=port, user=user))
        await self._reach(ProxyStage.REQUEST, stream, host)
        refusal = self._refusal(host)
        if refusal is not None or command != _CONNECT:
            code = _Reply.COMMAND_UNKNOWN if refusal is None else refusal.code
            await self._say(stream, self._reply(code))
            raise Over
        await self._tunnel(stream, host, port, inbox.buffered)

    async def _admit(self, stream: ByteStream, inbox: Inbox) -> str | None:
        """Return who the client is, if a credential is wanted; else `None`.

        Raises:
            Over: it was not let in.
        """
        version, count = await inbox.exactly(2)
        if version != _VERSION:
            raise Over
        methods = await inbox.exactly(count)
        await self._reach(ProxyStage.GREETING, stream)
        wanted = _Method.NONE if self._credential is None else _Method.CREDENTIAL
        if wanted not in methods:
            await self._say(stream, bytes([_VERSION, _Method.UNACCEPTABLE]))
            raise Over
        await self._say(stream, bytes([_VERSION, wanted]))
        if self._credential is None:
            return None
        version, length = await inbox.exactly(2)
        user = (await inbox.exactly(length)).decode(errors="replace")
        (length,) = await inbox.exactly(1)
        password = (await inbox.exactly(length)).decode(errors="replace")
        await self._reach(ProxyStage.CREDENTIAL, stream)
        is_right = version == _CREDENTIAL_VERSION and (user, password) == self._credential
        await self._say(stream, bytes([_CREDENTIAL_VERSION, 0 if is_right else 1]))
        if not is_right:
            raise Over
        return user

    def _answer(self, error: OSError | None) -> bytes:
        if error is None:
            return self._reply(_Reply.SUCCEEDED)
        if isinstance(error, socket.gaierror):
            return self._reply(_Reply.HOST_UNREACHABLE)
        return self._reply(_BY_ERRNO.get(error.errno or 0, _Reply.FAILURE))

    def _reply(self, code: int) -> bytes:
        return bytes([_VERSION, code, 0]) + self._bound


async def _host(inbox: Inbox, kind: int) -> str | None:
    """Return the host of a request; `None` when its address is of no known kind."""
    match kind:
        case _Kind.IPV4:
            return str(ipaddress.IPv4Address(await inbox.exactly(4)))
        case _Kind.IPV6:
            return str(ipaddress.IPv6Address(await inbox.exactly(16)))
        case _Kind.NAME:
            (length,) = await inbox.exactly(1)
            return (await inbox.exactly(length)).decode(errors="replace")
        case _:
            return None


def _packed(host: str, port: int) -> bytes:
    """Return an address as a reply carries it."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        name = host.encode()
        if not 1 <= len(name) <= 255:
            msg = f"bound names {host!r}, which is too long or empty"
            raise ConfigError(msg) from None
        packed = bytes([_Kind.NAME, len(name)]) + name
    else:
        kind = _Kind.IPV4 if address.version == 4 else _Kind.IPV6
        packed = bytes([kind]) + address.packed
    return packed + port.to_bytes(2, "big")
