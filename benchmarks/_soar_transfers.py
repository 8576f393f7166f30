"""What is sent through a tunnel, and how fast it went: the same for every tunnel. Both ends check every octet.

A transfer has a time, not a size: so a slow tunnel takes no longer than a fast one. What counts is what has arrived.
Where nothing has by then, it goes on for a while until something does.
"""

from __future__ import annotations

import hashlib
import json
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import anyio

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anyio.abc import ByteStream

__all__ = ("LATER", "checksum", "download", "echo", "pieces", "upload")

_SETTLING: Final = 0.25  # of a transfer's time: from then on a rate counts as settled
_BLOCK: Final = 1 << 20
_PIECE: Final = 1 << 16
_GONE: Final = (anyio.EndOfStream, anyio.BrokenResourceError)
LATER: Final = 10.0
"""Seconds for which a transfer goes on until something arrives at all."""

_PATIENCE: Final = LATER + 15.0  # seconds for the report of an upload


def pieces() -> Iterator[bytes]:
    """Yield octets without end that do not compress, and of which no two megabytes are the same."""
    block = hashlib.shake_128(b"soar").digest(_BLOCK)
    turn = 0
    while True:
        turned = block[turn:] + block[:turn]
        for start in range(0, _BLOCK, _PIECE):
            yield turned[start : start + _PIECE]
        turn = (turn + 7919) % _BLOCK


def checksum(size: int) -> str:
    """Return the checksum of so many octets of `pieces`."""
    digest = hashlib.sha256()
    for piece in pieces():
        digest.update(piece[:size])
        size -= len(piece)
        if size <= 0:
            return digest.hexdigest()
    raise AssertionError


async def echo(stream: ByteStream) -> None:
    """Send an octet and have it back: the first that comes through a tunnel."""
    await stream.send(b"E\n")
    await stream.receive(1)


async def download(stream: ByteStream, seconds: float, began: float) -> dict[str, Any]:
    """Return what has come within so many seconds.

    Args:
        stream: to the origin, new.
        seconds: from `began` on.
        began: when the stream was asked for, on the monotonic clock.
    """
    chunks: list[bytes] = []
    octets = settled = 0
    settled_at = 0.0
    came = began
    await stream.send(b"G\n")
    while (left := began + seconds + (0 if octets else LATER) - time.monotonic()) > 0:
        with anyio.move_on_after(left):
            try:
                chunk = await stream.receive(1 << 20)
            except (OSError, *_GONE):
                break
            came = time.monotonic()
            chunks.append(chunk)
            octets += len(chunk)
            if not settled and came >= began + _SETTLING * seconds:
                settled, settled_at = octets, came
    return {
        "octets": octets,
        "seconds": max(seconds, time.monotonic() - began),
        "settled": _rate(octets - settled, came - settled_at) if settled else 0.0,
        "right": hashlib.sha256(b"".join(chunks)).hexdigest() == checksum(octets),
    }


async def upload(stream: ByteStream, seconds: float, began: float) -> dict[str, Any]:
    """Return what the origin has received within so many seconds; arguments as for `download`."""
    told: dict[str, Any] = {}
    await stream.send(b"P%.3f\n" % seconds)

    async def hear() -> None:
        report = b""
        with anyio.move_on_after(seconds + _PATIENCE), suppress(OSError, *_GONE):
            while not report.endswith(b"\n"):
                report += await stream.receive()
            told.update(json.loads(report))
        group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(hear)
        with suppress(OSError, *_GONE):  # the report tells what became of it
            for piece in pieces():
                await stream.send(piece)
    if not told:
        return {"failed": f"no report came within {seconds + _PATIENCE:g} s"}
    octets = told["octets"]
    return {
        "octets": octets,
        "seconds": told["ended"] - began,
        "settled": _rate(octets - told["settled"], told["ended"] - told["settled_at"]),
        "right": told["checksum"] == checksum(octets),
    }


def _rate(octets: int, seconds: float) -> float:
    return octets / seconds if seconds > 0 else 0.0
