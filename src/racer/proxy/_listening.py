"""Where the proxy listens, and whether an address is its own."""

from __future__ import annotations

import errno
import ipaddress
import socket
import sys
from typing import TYPE_CHECKING, Final

from racer.errors import ConfigError

if TYPE_CHECKING:
    from racer._target import Target

__all__ = ("checked_host", "is_own", "listen")

_BACKLOG: Final = 1024
_LOCALHOST: Final = "127.0.0.1"


def checked_host(host: object, *, is_guarded: bool) -> str:
    """Return the address to listen on.

    Args:
        host: an IP address of this machine, or `localhost`.
        is_guarded: whether clients have to say who they are.

    Raises:
        ConfigError: it is no address, or it lets everybody in.
    """
    if host == "localhost":
        return _LOCALHOST
    try:
        address = ipaddress.ip_address(host) if isinstance(host, str) else None
    except ValueError:
        address = None
    if address is None:
        msg = f"host must be an IP address of this machine to listen on, such as 127.0.0.1, not {host!r:.60}"
        raise ConfigError(msg)
    if not address.is_loopback and not is_guarded:
        msg = (
            f"listening on {address} without users: whoever reaches this machine could use the proxy in your name; "
            "name users, or listen on 127.0.0.1"
        )
        raise ConfigError(msg)
    return str(address)


def listen(host: str, port: int) -> socket.socket:
    """Return a TCP socket that listens; the caller closes it.

    Raises:
        OSError: the address is taken, or not of this machine; says which.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)  # noqa: FBT003 - the standard library's signature
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if sys.platform != "win32":  # where it would let two programs have one port
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bare, _, scope = host.partition("%")
        sock.bind((bare, port, 0, _interface(scope)) if ":" in host else (host, port))
        sock.listen(_BACKLOG)
    except BaseException as exc:
        sock.close()
        if isinstance(exc, OSError):
            shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            raise OSError(exc.errno, f"cannot listen on {shown}: {_reason(exc)}") from exc
        raise
    return sock


def is_own(target: Target, address: tuple[str, int]) -> bool:
    """Return whether a target is the proxy itself, as far as the target alone tells.

    Args:
        target: what a client asks for.
        address: where the proxy listens.
    """
    if target.port != address[1]:
        return False
    own = ipaddress.ip_address(address[0].partition("%")[0])
    name = target.host.rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):  # RFC 6761 §6.3
        return own.is_loopback or own.is_unspecified
    try:
        wanted = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    wanted = getattr(wanted, "ipv4_mapped", None) or wanted
    if wanted == own:
        return True
    if wanted.is_unspecified:  # the system takes it for loopback
        return own.is_loopback or own.is_unspecified
    return own.is_unspecified and (wanted.is_loopback or _is_of_this_machine(str(wanted)))


def _is_of_this_machine(address: str) -> bool:
    """Return whether `address` is one of this machine's; nothing is sent.

    To itself a machine speaks from the very address that it speaks to (RFC 6724 §5, rule 1).
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.setblocking(False)  # noqa: FBT003 - the standard library's signature
            sock.connect((address, 9))
            own: str = sock.getsockname()[0]
    except OSError:  # no way there: connecting will say it
        return False
    return ipaddress.ip_address(own.partition("%")[0]) == ipaddress.ip_address(address)


def _interface(scope: str) -> int:
    if not scope:
        return 0
    return int(scope) if scope.isdecimal() else socket.if_nametoindex(scope)


def _reason(exc: OSError) -> str:
    if exc.errno == errno.EADDRINUSE:
        return "another program listens there already"
    return exc.strerror or str(exc)
