"""The one hash of Soar: BLAKE2s, keyed or not, whose digest length is part of the function (SPEC 1)."""

from __future__ import annotations

import hashlib
import hmac

__all__ = ("digest", "equal")


def digest(size: int, key: bytes, data: bytes) -> bytes:
    """Return `H(size, key, data)` of SPEC 1: a digest of 1 to 32 octets, keyed unless `key` is empty."""
    return hashlib.blake2s(data, digest_size=size, key=key).digest()


def equal(first: bytes, second: bytes) -> bool:
    """Return whether both are the same, in a time that tells nothing of where they differ."""
    return hmac.compare_digest(first, second)
