"""A request's body: sent as it comes, and kept for another try only where one could come (H12)."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

__all__ = ("MAX_KEPT", "Upload")

MAX_KEPT: Final = 1024 * 1024
"""Bytes of a streamed body that are kept for another try; a longer one is sent once."""


class Upload:
    """The body of one request.

    Args:
        content: all of it, where it lies in memory.
        source: gives it bit by bit, once; owned from now on.
        length: of a streamed one, if it is known.
        keep: whether what has been sent is kept, bounded, so that another route may send it again.
    """

    def __init__(
        self,
        content: bytes | None = None,
        source: AsyncIterator[bytes] | None = None,
        *,
        length: int | None = None,
        keep: bool = False,
    ) -> None:
        """Read nothing yet."""
        self.content = content if source is None else None
        if self.content is None and source is None:
            self.content = b""
        self.length = length if self.content is None else len(self.content)
        self._source = source
        self._keep = keep
        self._kept: list[bytes] = []
        self._size = 0
        self._begun = False

    @property
    def is_repeatable(self) -> bool:
        """Whether it can still be sent from its beginning."""
        return self.content is not None or not self._begun or self._keep

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to send."""
        return self.content == b""

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield all of it, from the beginning; whatever the source raises is the caller's own."""
        if self.content is not None:
            if self.content:
                yield self.content
            return
        if self._begun and not self._keep:
            msg = "this body was sent already, and not kept"
            raise RuntimeError(msg)
        self._begun = True
        for chunk in tuple(self._kept):
            yield chunk
        assert self._source is not None
        async for chunk in self._source:
            self._remember(chunk)
            if chunk:
                yield chunk

    def reader(self) -> aclosing[AsyncGenerator[bytes, None]]:
        """Return the chunks as a context, at whose end their generator is closed (trio warns of one that is not)."""
        return aclosing(self.chunks())

    def _remember(self, chunk: bytes) -> None:
        if not self._keep:
            return
        self._size += len(chunk)
        if self._size > MAX_KEPT:
            self._keep = False
            self._kept.clear()
        else:
            self._kept.append(bytes(chunk))

    async def aclose(self) -> None:
        """Close the source, if it can be closed."""
        close: Any = getattr(self._source, "aclose", None)
        if close is not None:
            await close()
