"""Watches every seal of a run: no key and nonce may ever seal two different texts."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING
from unittest import mock

from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ("Seals", "watched_seals")

WATCHED = (
    "transports.soar.core.crypto.packets.ChaCha20Poly1305",
    "transports.soar.core.crypto.noise.ChaCha20Poly1305",
)


class Seals:
    """All that was sealed, by key and nonce."""

    def __init__(self) -> None:
        self.count = 0
        self.made: dict[tuple[bytes, bytes], int] = {}

    def sealed(self, key: bytes, nonce: bytes, data: bytes, aad: bytes | None) -> None:
        self.count += 1
        text = hash((data, aad))
        known = self.made.setdefault((key, nonce), text)
        assert known == text, "one key and number sealed two texts"


@contextlib.contextmanager
def watched_seals() -> Iterator[Seals]:
    """Watch until the block is left."""
    seals = Seals()

    class Watched:
        def __init__(self, key: bytes) -> None:
            self._key = bytes(key)
            self._cipher = ChaCha20Poly1305(key)
            self.decrypt = self._cipher.decrypt

        def encrypt(self, nonce: bytes, data: bytes, aad: bytes | None) -> bytes:
            seals.sealed(self._key, bytes(nonce), bytes(data), aad)
            return self._cipher.encrypt(nonce, data, aad)

    with contextlib.ExitStack() as stack:
        for place in WATCHED:
            stack.enter_context(mock.patch(place, Watched))
        yield seals
