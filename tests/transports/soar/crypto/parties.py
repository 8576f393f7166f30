"""Both ends of a handshake, made of fixed randomness."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from transports.soar.core.crypto import (
    First,
    FirstMessage,
    Grant,
    PublicKey,
    RetryCookie,
    ServerKey,
    Status,
    Terms,
    open_first,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ("GRANT", "NOW", "SERVER_KEY", "ZONE", "FixedEntropy", "flips", "greet", "pair", "terms")

ZONE = b"\x01t\x07example\x03com\x00"
NOW = 1_800_000_000.25


class FixedEntropy:
    """Octets that look random and are the same each time; no two calls of one object give the same."""

    def __init__(self, seed: str) -> None:
        self._seed = seed.encode()
        self._calls = 0

    def __call__(self, size: int) -> bytes:
        self._calls += 1
        return hashlib.shake_256(self._seed + self._calls.to_bytes(4)).digest(size)


SERVER_KEY = ServerKey.generate(FixedEntropy("server"))
GRANT = Grant.generate(FixedEntropy("grant"))


def greet(
    *,
    public: PublicKey = SERVER_KEY.public,
    zone: bytes = ZONE,
    frames: bytes = b"",
    capacity: int = 38,
    cookie: RetryCookie | None = None,
    grant: Grant | None = None,
    entropy: Callable[[int], bytes] | None = None,
) -> FirstMessage:
    return FirstMessage(
        public=public,
        zone=zone,
        wall=NOW,
        frames=frames,
        capacity=capacity,
        cookie=cookie,
        grant=grant,
        entropy=entropy or FixedEntropy("client"),
    )


def terms(sid: bytes, status: Status = Status.WELCOME) -> Terms:
    if status is not Status.WELCOME:
        return Terms(status=status, time=int(NOW))
    return Terms(
        status=status,
        time=int(NOW),
        idle_timeout=120.0,
        lease=3600,
        max_streams=128,
        stream_window=262_144,
        session_window=1_048_576,
        status_key=SERVER_KEY.status_key(sid),
    )


def pair() -> tuple[FirstMessage, First]:
    """Return both ends, the session established."""
    client = greet()
    server = open_first(SERVER_KEY, ZONE, client.message)
    assert server is not None
    payload = server.answer(terms(server.sid), entropy=FixedEntropy("answer"))
    assert client.receive(payload) is not None
    return client, server


def flips(octets: bytes) -> Iterator[bytes]:
    """Yield `octets` with each single bit flipped."""
    for at in range(len(octets)):
        for bit in range(8):
            yield octets[:at] + bytes([octets[at] ^ 1 << bit]) + octets[at + 1 :]
