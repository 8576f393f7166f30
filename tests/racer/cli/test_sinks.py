"""Sinks: what waits to be written, and what cannot be taken back."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from anyio import to_thread

from racer.cli import _sinks
from racer.cli._partial import Part
from racer.cli._ranges import Have, Version
from racer.cli._screen import Screen
from racer.cli._sinks import FileSink, OutputSink, terminal_sink

if TYPE_CHECKING:
    from pathlib import Path

URL = "https://example.com/file"
TAGGED = Version(etag='"a"')


async def test_a_file_counts_what_waits_and_forgets_it_when_it_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_sinks, "_BUFFER", 8)
    part = await to_thread.run_sync(Part, tmp_path / "file", URL)
    sink = FileSink(part)
    assert await sink.restart(TAGGED, 10, URL)
    assert sink.is_from(URL)
    await sink.write(b"0123")
    assert (sink.have.offset, part.have.offset) == (4, 0)
    await sink.write(b"4567")
    assert (sink.have.offset, part.have.offset) == (8, 8)
    await sink.write(b"old")
    assert await sink.restart(Version(etag='"b"'), 3, URL)
    assert sink.have == Have(version=Version(etag='"b"'), total=3)
    await sink.write(b"new")
    await to_thread.run_sync(sink.flush)
    await to_thread.run_sync(part.finish)
    assert await to_thread.run_sync((tmp_path / "file").read_bytes) == b"new"


async def test_an_output_begins_once() -> None:
    out = io.BytesIO()
    sink = OutputSink(out)
    assert await sink.restart(TAGGED, None, URL)
    assert await sink.restart(TAGGED, None, URL)
    assert sink.is_from(URL)
    await sink.write(b"ab")
    await sink.learn(4)
    assert sink.have == Have(offset=2, version=TAGGED, total=4)
    assert not await sink.restart(Version(), None, URL)
    assert out.getvalue() == b"ab"


@pytest.mark.parametrize(
    ("plain", "shown"),
    [(False, "h\u00e9\\x1b]0;x\\x07\n\ufffd"), (True, "h\\xe9\\x1b]0;x\\x07\n\\ufffd")],
)
async def test_a_terminal_is_shown_a_text_cut_anywhere(plain: bool, shown: str) -> None:
    class Terminal(io.StringIO):
        encoding = "utf-8"

    out = Terminal()
    sink = terminal_sink(Screen.of(out, plain=plain, env={}))
    for byte in "h\u00e9\x1b]0;x\x07\r\n".encode() + b"\xff":
        await sink.write(bytes([byte]))
    assert out.getvalue() == shown
    assert sink.have.offset == 12
