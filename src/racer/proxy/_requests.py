"""What a client of the proxy may want, once its bytes are understood. Pure data."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from racer._target import Target

__all__ = ("Event", "Fetch", "OpenTunnel", "Page", "Refusal", "Reply", "Spoken")


class Spoken(enum.StrEnum):
    """What a client speaks; a label in the metrics."""

    SOCKS5 = "socks5"
    CONNECT = "http_connect"
    HTTP = "http"
    ADMIN = "admin"
    UNKNOWN = "unknown"


class Reply(enum.IntEnum):
    """What a SOCKS5 server says to a request (RFC 1928 §6)."""

    SUCCEEDED = 0x00
    GENERAL_FAILURE = 0x01
    NOT_ALLOWED = 0x02
    NETWORK_UNREACHABLE = 0x03
    HOST_UNREACHABLE = 0x04
    CONNECTION_REFUSED = 0x05
    TTL_EXPIRED = 0x06
    COMMAND_NOT_SUPPORTED = 0x07
    ADDRESS_TYPE_NOT_SUPPORTED = 0x08


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTunnel:
    """A stream to a target is wanted: CONNECT, in either protocol."""

    target: Target
    spoken: Spoken


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """One plain HTTP request is to be forwarded (RFC 9112 §3.2.2).

    Attributes:
        target: where to.
        method: as sent.
        path: path and query, as sent.
        headers: those that are meant for the target, in order; no credential for the proxy is among them.
        has_body: whether a body follows.
    """

    target: Target
    method: str
    path: bytes
    headers: tuple[tuple[bytes, bytes], ...] = field(repr=False)
    has_body: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One of the proxy's own pages is wanted: `/readyz` or `/metrics`."""

    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The client gets no more than the answer that is to be sent already.

    Attributes:
        words: why, in one line; no secret, and nothing of the client's that was not checked.
        spoken: what it speaks, as far as that is known.
        is_denied: whether it was for want of a credential.
        is_final: whether the connection ends with it; else the client may ask again.
    """

    words: str
    spoken: Spoken
    is_denied: bool = False
    is_final: bool = True


Event = OpenTunnel | Fetch | Page | Refusal
