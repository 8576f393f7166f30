"""Octets that say where they belong, so that one lost, doubled or displaced is noticed."""

from __future__ import annotations

import random

__all__ = ("Checker", "pattern")

_BLOCK = 1 << 16


def _block(key: int) -> bytes:
    return random.Random(key).randbytes(_BLOCK)


_BLOCKS: dict[int, bytes] = {}


def pattern(key: int, offset: int, length: int) -> bytes:
    """Return `length` octets of the endless text called `key`, from `offset` on; it repeats after 64 KB and a number."""
    block = _BLOCKS.get(key)
    if block is None:
        block = _BLOCKS[key] = _block(key)
        if len(_BLOCKS) > 64:
            del _BLOCKS[next(iter(_BLOCKS))]
    start = offset % _BLOCK
    whole = block[start : start + length]
    while len(whole) < length:
        whole += block[: length - len(whole)]
    return whole


class Checker:
    """Compares what arrives with the pattern that was sent."""

    def __init__(self, key: int) -> None:
        self.key = key
        self.octets = 0

    def take(self, data: bytes) -> None:
        expected = pattern(self.key, self.octets, len(data))
        assert data == expected, f"text {self.key} is wrong within {self.octets}+{len(data)}"
        self.octets += len(data)
