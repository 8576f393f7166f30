"""A request's body: sent as it comes, kept for another try in bounds, and never read twice by mistake (H12)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from racer.http2 import Upload
from racer.http2._upload import MAX_KEPT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.virtual_time


class Source:
    """Gives chunks, and counts."""

    def __init__(self, *chunks: bytes) -> None:
        self.left = list(chunks)
        self.closed = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if not self.left:
            raise StopAsyncIteration
        return self.left.pop(0)

    async def aclose(self) -> None:
        self.closed = True


async def read(upload: Upload, most: int = 100) -> bytes:
    taken: list[bytes] = []
    async with upload.reader() as chunks:
        async for chunk in chunks:
            taken.append(chunk)
            if len(taken) == most:
                break
    return b"".join(taken)


async def test_what_lies_in_memory_can_be_sent_as_often_as_wanted() -> None:
    upload = Upload(b"body")
    assert (upload.length, upload.is_empty, upload.is_repeatable) == (4, False, True)
    assert [await read(upload) for _ in range(3)] == [b"body"] * 3
    empty = Upload()
    assert (empty.length, empty.is_empty, await read(empty)) == (0, True, b"")
    await upload.aclose()


async def test_a_stream_is_sent_once() -> None:
    source = Source(b"a", b"", b"b")
    upload = Upload(source=source, length=2)
    assert (upload.length, upload.is_empty, upload.is_repeatable) == (2, False, True)
    assert await read(upload) == b"ab"
    assert not upload.is_repeatable
    with pytest.raises(RuntimeError, match="sent already"):
        await read(upload)
    await upload.aclose()
    assert source.closed


@pytest.mark.parametrize("most", [1, 2, 100])
async def test_one_that_is_kept_begins_again_wherever_it_was_left(most: int) -> None:
    upload = Upload(source=Source(b"a", b"b", b"c"), keep=True)
    await read(upload, most)
    assert upload.is_repeatable
    assert await read(upload) == b"abc"
    assert await read(upload) == b"abc"


async def test_a_long_one_is_kept_no_longer() -> None:
    upload = Upload(source=Source(bytes(MAX_KEPT), b"x", b"y"), keep=True)
    await read(upload, 1)
    assert upload.is_repeatable
    assert len(await read(upload)) == MAX_KEPT + 2
    assert not upload.is_repeatable
    assert upload._kept == []
