"""Keys and credentials as one line of text, with a checksum against slips of the hand (SPEC 3.1, 3.3)."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Final, TypeAlias

from racer.errors import ConfigError
from transports.soar.core.crypto.hashes import digest, equal

__all__ = ("Entropy", "InvalidKey", "Wording")

Entropy: TypeAlias = Callable[[int], bytes]
"""Gives as many fresh, secret, random octets as it is asked for."""

_CHECKSUM_SIZE: Final = 3


class InvalidKey(ConfigError, ValueError):
    """A key or credential that cannot be used; the words say why, and never quote it."""


class Wording:
    """How one kind of key is written: `prefix ‖ base32(key ‖ checksum)`, in lower case, without padding.

    Args:
        what: what errors call the key.
        prefix: what the text begins with, in lower case.
        label: what the checksum is made under.
        size: octets of the key.
    """

    __slots__ = ("_characters", "_label", "_prefix", "_size", "_what")

    def __init__(self, what: str, *, prefix: str, label: bytes, size: int) -> None:
        """Remember the words."""
        self._what = what
        self._prefix = prefix
        self._label = label
        self._size = size
        self._characters = len(prefix) + -(-8 * (size + _CHECKSUM_SIZE) // 5)

    def write(self, key: bytes) -> str:
        """Return the text of `key`."""
        coded = base64.b32encode(key + self._checksum(key))
        return self._prefix + coded.decode().rstrip("=").lower()

    def read(self, text: str) -> bytes:
        """Return the key that `text` holds; letter case and white space around it do not matter.

        Raises:
            InvalidKey: it is no such text, or not whole.
        """
        text = text.strip()
        if not text.isascii() or not text.lower().startswith(self._prefix):
            msg = f"{self._what}: does not begin with {self._prefix!r}"
            raise InvalidKey(msg)
        if len(text) != self._characters:
            msg = f"{self._what}: {len(text)} characters, where there must be {self._characters}"
            raise InvalidKey(msg)
        coded = text[len(self._prefix) :]
        try:
            data = base64.b32decode(coded + "=" * (-len(coded) % 8), casefold=True)
        except ValueError:
            msg = f"{self._what}: has a character that is not of base32 (a-z, 2-7)"
            raise InvalidKey(msg) from None
        key = data[: self._size]
        if not equal(data[self._size :], self._checksum(key)):
            msg = f"{self._what}: its checksum is wrong; a character is missing, wrong or in the wrong place"
            raise InvalidKey(msg)
        return key

    def check(self, key: bytes) -> None:
        """Raise `InvalidKey` unless `key` has its size."""
        if len(key) != self._size:
            msg = f"{self._what}: {len(key)} octets, where there must be {self._size}"
            raise InvalidKey(msg)

    def _checksum(self, key: bytes) -> bytes:
        return digest(_CHECKSUM_SIZE, b"", self._label + key)
