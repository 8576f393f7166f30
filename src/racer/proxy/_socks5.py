"""The server's side of SOCKS5 (RFC 1928; RFC 1929 for names and passwords), without IO."""

from __future__ import annotations

import enum
import ipaddress
from typing import TYPE_CHECKING, Final, assert_never

from racer._target import Target
from racer.errors import InvalidTarget
from racer.proxy._requests import OpenTunnel, Refusal, Reply, Spoken

if TYPE_CHECKING:
    from racer.proxy._requests import Event
    from racer.proxy._users import Users

__all__ = ("MAX_REQUEST", "Socks5Server", "reply")

MAX_REQUEST: Final = 4 + 256 + 2
"""Octets of the longest request; greeting and credential are as bounded by their own length octets."""

_VERSION: Final = 5
_AUTH_VERSION: Final = 1  # of the sub-negotiation, RFC 1929 §2


class _Method(enum.IntEnum):
    """RFC 1928 §3."""

    NO_AUTHENTICATION = 0x00
    USERNAME_PASSWORD = 0x02
    NONE_ACCEPTABLE = 0xFF


class _Command(enum.IntEnum):
    """RFC 1928 §4."""

    CONNECT = 1
    BIND = 2
    UDP_ASSOCIATE = 3


class _AddressType(enum.IntEnum):
    """RFC 1928 §5."""

    IPV4 = 1
    DOMAIN_NAME = 3
    IPV6 = 4


class _State(enum.Enum):
    GREETING = enum.auto()
    CREDENTIAL = enum.auto()
    REQUEST = enum.auto()
    OVER = enum.auto()


def reply(code: Reply) -> bytes:
    """Return the answer to a request; it names no address, since none of ours means anything to a client."""
    return bytes([_VERSION, code, 0, _AddressType.IPV4]) + bytes(4 + 2)


class Socks5Server:
    """One client's handshake, up to what it wants.

    Give what comes to `receive_data()`, ask `next_event()` until it gives something, and send `bytes_to_send()` each time.
    After an event nothing more is parsed: what came behind the request is `leftover`.

    Args:
        users: who may come.
    """

    def __init__(self, users: Users) -> None:
        """Await the greeting."""
        self._users = users
        self._state = _State.GREETING
        self._buffer = bytearray()
        self._outgoing = b""

    def receive_data(self, data: bytes) -> None:
        """Take bytes from the client, cut anywhere."""
        self._buffer += data

    def bytes_to_send(self) -> bytes:
        """Return what is to be sent now, once."""
        data, self._outgoing = self._outgoing, b""
        return data

    @property
    def leftover(self) -> bytes:
        """What came behind the request: it is for the target."""
        return bytes(self._buffer) if self._state is _State.OVER else b""

    def next_event(self) -> Event | None:
        """Return what the client wants, or why it gets nothing; `None` when more bytes are needed."""
        while True:
            before = self._state
            event: Event | None
            match before:
                case _State.GREETING:
                    event = self._take_greeting()
                case _State.CREDENTIAL:
                    event = self._take_credential()
                case _State.REQUEST:
                    event = self._take_request()
                case _State.OVER:
                    return None
                case _:
                    assert_never(before)
            if event is not None:
                self._state = _State.OVER
                return event
            if self._state is before:
                return None

    def _take_greeting(self) -> Refusal | None:
        buffer = self._buffer
        if buffer and buffer[0] != _VERSION:
            return _refusal(f"SOCKS version {buffer[0]}: this proxy speaks SOCKS5 (RFC 1928)")
        if len(buffer) < 2 or len(buffer) < 2 + buffer[1]:
            return None
        methods = bytes(buffer[2 : 2 + buffer[1]])
        del buffer[: 2 + len(methods)]
        if _Method.USERNAME_PASSWORD in methods and (
            # Without accounts any credential will do: many clients that have one offer nothing else.
            self._users.are_wanted or _Method.NO_AUTHENTICATION not in methods
        ):
            self._outgoing += bytes([_VERSION, _Method.USERNAME_PASSWORD])
            self._state = _State.CREDENTIAL
            return None
        if _Method.NO_AUTHENTICATION in methods and not self._users.are_wanted:
            self._outgoing += bytes([_VERSION, _Method.NO_AUTHENTICATION])
            self._state = _State.REQUEST
            return None
        self._outgoing += bytes([_VERSION, _Method.NONE_ACCEPTABLE])
        if self._users.are_wanted:
            return _refusal(
                "a user name and password are wanted, and none was offered", denied=True
            )
        return _refusal("the client offers no way to authenticate that this proxy knows")

    def _take_credential(self) -> Refusal | None:
        buffer = self._buffer
        if buffer and buffer[0] != _AUTH_VERSION:
            self._outgoing += bytes([_AUTH_VERSION, 1])
            return _refusal(f"a credential in version {buffer[0]}, not 1 (RFC 1929 §2)")
        if len(buffer) < 2:
            return None
        name_end = 2 + buffer[1]
        if len(buffer) <= name_end or len(buffer) < (end := name_end + 1 + buffer[name_end]):
            return None
        name, password = bytes(buffer[2:name_end]), bytes(buffer[name_end + 1 : end])
        del buffer[:end]
        if self._users.are_wanted and not self._users.let_in(name, password):
            self._outgoing += bytes([_AUTH_VERSION, 1])
            return _refusal("wrong user name or password", denied=True)
        self._outgoing += bytes([_AUTH_VERSION, 0])
        self._state = _State.REQUEST
        return None

    def _take_request(self) -> Event | None:
        buffer = self._buffer
        if buffer and buffer[0] != _VERSION:
            return self._refuse(
                Reply.GENERAL_FAILURE, f"a request in version {buffer[0]}, not 5 (RFC 1928 §4)"
            )
        if len(buffer) < 5:
            return None
        match buffer[3]:
            case _AddressType.IPV4:
                start, end = 4, 8
            case _AddressType.IPV6:
                start, end = 4, 20
            case _AddressType.DOMAIN_NAME:
                start, end = 5, 5 + buffer[4]
            case other:
                return self._refuse(
                    Reply.ADDRESS_TYPE_NOT_SUPPORTED,
                    f"an address of type {other}, which SOCKS5 has not (RFC 1928 §5)",
                )
        if len(buffer) < end + 2:
            return None
        command, kind, raw = buffer[1], buffer[3], bytes(buffer[start:end])
        port = int.from_bytes(buffer[end : end + 2], "big")
        del buffer[: end + 2]
        if command != _Command.CONNECT:
            return self._refuse(Reply.COMMAND_NOT_SUPPORTED, _other_command(command))
        return self._judge(kind, raw, port)

    def _judge(self, kind: int, raw: bytes, port: int) -> Event:
        is_name = kind == _AddressType.DOMAIN_NAME
        try:
            host = raw.decode() if is_name else str(ipaddress.ip_address(raw))
            target = Target(host, port, tls=False)
        except UnicodeDecodeError:
            return self._refuse(Reply.HOST_UNREACHABLE, "a name that is not UTF-8")
        except InvalidTarget as exc:
            return self._refuse(Reply.HOST_UNREACHABLE, str(exc))
        return OpenTunnel(target=target, spoken=Spoken.SOCKS5)

    def _refuse(self, code: Reply, words: str) -> Refusal:
        self._outgoing += reply(code)
        return _refusal(words)


def _refusal(words: str, *, denied: bool = False) -> Refusal:
    return Refusal(words=words, spoken=Spoken.SOCKS5, is_denied=denied)


def _other_command(command: int) -> str:
    match command:
        case _Command.BIND:
            return "BIND: racer has no way to be connected to"
        case _Command.UDP_ASSOCIATE:
            return "UDP ASSOCIATE: racer carries streams, not datagrams"
        case _:
            return f"command {command}, which SOCKS5 has not (RFC 1928 §4)"
