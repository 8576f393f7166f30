"""Which protocol a client speaks, told by its first octet. No IO."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from racer.proxy._http import HttpServer
from racer.proxy._requests import Refusal, Spoken
from racer.proxy._socks5 import Socks5Server

if TYPE_CHECKING:
    from racer.proxy._users import Users

__all__ = ("Doorway", "Nobody")

_SOCKS5: Final = 0x05
_SOCKS4: Final = 0x04
_TLS: Final = frozenset({0x16, 0x80})  # a handshake record (RFC 8446 §5.1), or SSL 2's ClientHello

# "Request rejected or failed": version 0, code 91, and an address that means nothing.
_SOCKS4_REJECTED: Final = bytes([0, 91]) + bytes(6)

_WHAT_WE_ARE: Final = "this port is a proxy that speaks SOCKS5 and HTTP/1.1, both without TLS"


class Nobody:
    """A client that speaks what this proxy does not: one answer, and it is over."""

    def __init__(self, answer: bytes, words: str) -> None:
        """Keep them."""
        self._outgoing = answer
        self._words = words

    def receive_data(self, data: bytes) -> None:
        """Take no notice."""

    def bytes_to_send(self) -> bytes:
        """Return the answer, once."""
        data, self._outgoing = self._outgoing, b""
        return data

    def next_event(self) -> Refusal:
        """Say why."""
        return Refusal(words=self._words, spoken=Spoken.UNKNOWN)


class Doorway:
    """Waits for the first octet, and says who is to talk with the client.

    Args:
        users: who may come.
        pages: whether there are pages of the proxy's own.
        own_address: the address that the client has connected to; `None` where nobody knows.
    """

    def __init__(
        self, users: Users, *, pages: bool = False, own_address: str | None = None
    ) -> None:
        """Await the first octet."""
        self._users = users
        self._pages = pages
        self._own_address = own_address

    def open(self, data: bytes) -> Socks5Server | HttpServer | Nobody:
        """Return the machine for a client that began with `data`, at least one octet, which it has received already."""
        machine: Socks5Server | HttpServer | Nobody
        first = data[0]
        if first == _SOCKS5:
            machine = Socks5Server(self._users)
        elif first == _SOCKS4:
            machine = Nobody(
                _SOCKS4_REJECTED,
                "SOCKS4: use SOCKS5 instead, with names sent to the proxy (socks5h://)",
            )
        elif first in _TLS:
            # In plain text, on purpose: TLS libraries say then that no TLS is spoken here.
            machine = Nobody(
                _plain_400(f"You began TLS with the proxy itself: {_WHAT_WE_ARE}."),
                "TLS with the proxy itself: its URL begins with http:// or socks5h://, not with https://",
            )
        elif bytes([first]).isalpha():
            machine = HttpServer(self._users, pages=self._pages, own_address=self._own_address)
        else:
            machine = Nobody(
                _plain_400(f"That is neither SOCKS5 nor HTTP: {_WHAT_WE_ARE}."),
                f"neither SOCKS5 nor HTTP (first octet {first:#04x})",
            )
        machine.receive_data(data)
        return machine


def _plain_400(words: str) -> bytes:
    body = f"{words}\n".encode()
    return (
        b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n"
        b"Content-Length: %d\r\nConnection: close\r\n\r\n%b" % (len(body), body)
    )
