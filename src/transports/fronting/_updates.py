"""Newer lists of fronts: every address is asked at once, the first that gives one that can be used ends the race."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import urlsplit

import anyio

from racer.errors import ConfigError, NetworkError, RemoteProtocolError, TransportError
from transports._net.http_client import RequestHead
from transports._net.yaml_documents import MAX_PACKED

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from transports._net.http_connection import HTTPConnection

__all__ = ("UPDATE_TIMEOUT", "UpdateURL", "download", "first_usable", "read_url")

UPDATE_TIMEOUT: Final = 20.0
"""Seconds for one update, all addresses together."""

logger = logging.getLogger("racer.fronting")

_T = TypeVar("_T")


class UpdateURL:
    """An `https` URL to fetch a list from.

    Attributes:
        host: in ASCII.
        port: 443 unless the URL says otherwise.
        target: path and query.
    """

    __slots__ = ("host", "port", "target")

    def __init__(self, host: str, port: int, target: str) -> None:
        """Keep the parts."""
        self.host = host
        self.port = port
        self.target = target

    @property
    def authority(self) -> str:
        """What `Host` says."""
        return self.host if self.port == 443 else f"{self.host}:{self.port}"

    def __repr__(self) -> str:
        """Leave out path and query, which may be secret."""
        return f"<https://{self.authority}/…>"


def read_url(text: object) -> UpdateURL:
    """Return the parts of an `https` URL.

    Raises:
        ConfigError: it is none, or has a user in it.
    """
    if isinstance(text, str) and text.isascii() and text.isprintable() and " " not in text:
        try:
            parts = urlsplit(text)
            host, port = parts.hostname, parts.port
        except ValueError:
            parts, host, port = urlsplit(""), None, None
        if parts.scheme == "https" and host and parts.username is None and port != 0:
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            return UpdateURL(host, port or 443, target)
    msg = "update_urls: every one is an https URL without a user; a list that came in the clear could be anybody's"
    raise ConfigError(msg)


async def download(connection: HTTPConnection, url: UpdateURL, authority: str) -> bytes:
    """Return what `url` gives over a connection, which stays the caller's.

    Raises:
        NetworkError: the connection broke.
        RemoteProtocolError: not 200, or too long.
    """
    head = RequestHead(
        method="GET", authority=authority, target=url.target, fields=((b"accept", b"*/*"),)
    )
    answer = await connection.request(head, b"")
    if answer.status != 200:
        msg = f"{url.authority} answered with {answer.status}"
        raise RemoteProtocolError(msg)
    data = bytearray()
    while chunk := await connection.receive_body():
        data += chunk
        if len(data) > MAX_PACKED:
            msg = f"{url.authority} sent more than {MAX_PACKED} octets"
            raise RemoteProtocolError(msg)
    return bytes(data)


async def first_usable(
    fetches: Sequence[Callable[[], Awaitable[bytes]]], read: Callable[[bytes], Awaitable[_T]]
) -> _T:
    """Return what `read` makes of the first data that it accepts; the other fetches are cancelled.

    Args:
        fetches: each gives data; all run at once.
        read: makes something of data, or raises `ConfigError`.

    Raises:
        NetworkError: none gave any within 20 s; the cause is the group of their errors.
    """
    found: list[_T] = []
    errors: list[Exception] = []

    async def run(fetch: Callable[[], Awaitable[bytes]]) -> None:
        try:
            made = await read(await fetch())
        except (OSError, TransportError, RemoteProtocolError, ConfigError) as exc:
            errors.append(exc)
        else:
            found.append(made)
            group.cancel_scope.cancel()

    with anyio.move_on_after(UPDATE_TIMEOUT):
        async with anyio.create_task_group() as group:
            for fetch in fetches:
                group.start_soon(run, fetch)
    if found:
        return found[0]
    told = "; ".join(dict.fromkeys(str(error)[:200] for error in errors)) or "nobody answered"
    failure = NetworkError(f"no list of fronts could be had: {told[:600]}")
    if errors:
        failure.__cause__ = ExceptionGroup(f"{len(errors)} failed", errors)
    raise failure
