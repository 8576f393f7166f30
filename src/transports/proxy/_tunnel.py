"""The stream behind a proxy's yes: what came too early first, and no word of the TLS that ends at the proxy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import anyio
from anyio.abc import ByteStream
from anyio.streams.tls import TLSAttribute

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ("Tunnel", "tunnel")

# Who asks a tunnel for its certificate or its ALPN means the target's, and the proxy's would be taken for it.
_OF_TLS: Final = frozenset(
    value for name, value in vars(TLSAttribute).items() if not name.startswith("_")
)


def tunnel(stream: ByteStream, first: bytes) -> ByteStream:
    """Return a stream to the target over `stream`, which it owns; `stream` itself when there is nothing to add.

    Args:
        stream: the stream to the proxy, which has said yes.
        first: bytes that came behind the yes.
    """
    if first or not _OF_TLS.isdisjoint(stream.extra_attributes):
        return Tunnel(stream, first)
    return stream


class Tunnel(ByteStream):
    """A stream with bytes of its own in front; everything else is the stream's within."""

    def __init__(self, stream: ByteStream, first: bytes = b"") -> None:
        """Take the stream over."""
        self._stream = stream
        self._first = first
        self._reading = anyio.ResourceGuard("reading from")

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        """The attributes of the stream within, without those of its TLS, which ends at the proxy."""
        return {k: v for k, v in self._stream.extra_attributes.items() if k not in _OF_TLS}

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Return at least one and at most `max_bytes` bytes; a cancelled call loses none."""
        if not self._first:
            return await self._stream.receive(max_bytes)
        if max_bytes < 1:
            msg = "max_bytes must be a positive integer"
            raise ValueError(msg)
        with self._reading:
            await anyio.lowlevel.checkpoint()
            if self._first:
                data, self._first = self._first[:max_bytes], self._first[max_bytes:]
                return data
        return await self._stream.receive(max_bytes)  # closed meanwhile, which it says

    async def send(self, item: bytes) -> None:
        """Send all of `item`."""
        await self._stream.send(item)

    async def send_eof(self) -> None:
        """End this side's direction, if the stream within can; TLS raises `NotImplementedError`."""
        await self._stream.send_eof()

    async def aclose(self) -> None:
        """Close all the way down; under cancellation by force."""
        self._first = b""
        await self._stream.aclose()
