"""Where a download's octets go: a file that can begin again, or an output that cannot."""

from __future__ import annotations

import codecs
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO, Final

from anyio import to_thread

from racer.cli._ranges import Have

if TYPE_CHECKING:
    from racer.cli._partial import Part
    from racer.cli._ranges import Version
    from racer.cli._screen import Screen

__all__ = ("FileSink", "OutputSink", "terminal_sink")

_BUFFER: Final = (
    1024 * 1024
)  # octets; a call into a thread for each chunk would cost more than the writing


class FileSink:
    """Writes into a part, which stays its opener's to close.

    Args:
        part: the file.
    """

    def __init__(self, part: Part) -> None:
        """Go on where the part ends."""
        self._part = part
        self._buffer = bytearray()

    @property
    def have(self) -> Have:
        """What is here, the part and what waits to be written."""
        have = self._part.have
        return replace(have, offset=have.offset + len(self._buffer))

    def is_from(self, place: str) -> bool:
        """Return whether what is here was found there."""
        return self._part.is_from(place)

    async def restart(self, version: Version, total: int | None, place: str) -> bool:
        """Throw away what is here."""
        self._buffer.clear()
        await to_thread.run_sync(self._part.restart, version, total, place)
        return True

    async def learn(self, total: int | None) -> None:
        """Note how long the whole is."""
        self._part.learn(total)

    async def write(self, data: bytes) -> None:
        """Add to what is here."""
        self._buffer += data
        if len(self._buffer) >= _BUFFER:
            # Not abandoned when cancelled: what a thread writes has to be over before the file is closed.
            await to_thread.run_sync(self.flush)

    def flush(self) -> None:
        """Write what waits; it blocks."""
        data = bytes(self._buffer)
        self._buffer.clear()
        self._part.write(data)


class OutputSink:
    """Writes to what never gives anything back: a pipe, a device.

    Args:
        out: where to.
    """

    def __init__(self, out: BinaryIO) -> None:
        """Begin with nothing written."""
        self._out = out
        self._have = Have()
        self._place = ""

    @property
    def have(self) -> Have:
        """What was written."""
        return self._have

    def is_from(self, place: str) -> bool:
        """Return whether what was written was found there."""
        return self._place == place

    async def restart(self, version: Version, total: int | None, place: str) -> bool:
        """Take another version, as long as nothing is written."""
        if self._have.offset:
            return False
        self._have, self._place = Have(version=version, total=total), place
        return True

    async def learn(self, total: int | None) -> None:
        """Note how long the whole is."""
        self._have = replace(self._have, total=total)

    async def write(self, data: bytes) -> None:
        """Write; cancelling does not wait for whoever does not read."""
        await to_thread.run_sync(self._put, data, abandon_on_cancel=True)
        self._have = replace(self._have, offset=self._have.offset + len(data))

    def _put(self, data: bytes) -> None:
        self._out.write(data)
        self._out.flush()


class _Terminal:
    """A terminal as an output: shows text, and does not obey it."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def write(self, data: bytes) -> int:
        text = self._decoder.decode(data)
        self._screen.out.write("".join(map(self._shown, text)))
        return len(data)

    def flush(self) -> None:
        self._screen.out.flush()

    def _shown(self, char: str) -> str:
        if char in "\n\t" or char.isprintable():
            return self._screen.text(char)
        return "" if char == "\r" else char.encode("unicode_escape").decode("ascii")


def terminal_sink(screen: Screen) -> OutputSink:
    """Return what shows a text to a person; escape sequences of the server's do not reach the terminal."""
    return OutputSink(_Terminal(screen))  # type: ignore[arg-type] # all that is used of a file is `write` and `flush`
