"""Who was handed a stream, and has not closed it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

__all__ = ("StreamLeak", "StreamLedger", "Tracked")


class Tracked(Protocol):
    """What a ledger can keep: a `MemoryStream`, a `ScriptedRoute`, or anything else that has these."""

    @property
    def name(self) -> str:
        """For errors."""

    @property
    def made_at(self) -> float | None:
        """When it was made, on the event loop's clock."""

    @property
    def closed(self) -> bool:
        """Whether its resources are free."""


class StreamLeak(AssertionError):
    """Streams were left open; `leaked` holds them."""

    def __init__(self, message: str, leaked: Sequence[Tracked]) -> None:
        """Keep the leaked streams beside the words."""
        super().__init__(message)
        self.leaked = tuple(leaked)


class StreamLedger:
    """Knows every stream that was entered into it, and which of them are still open.

    Example:
        >>> from racer.testing import run_virtual, stream_pair
        >>> async def forget() -> None:
        ...     ledger = StreamLedger()
        ...     stream_pair(name="forgotten", ledger=ledger)[1].abort()
        ...     ledger.assert_all_closed()
        >>> run_virtual(forget)
        Traceback (most recent call last):
        ...
        racer.testing._ledger.StreamLeak: 1 of 2 streams left open: 'forgotten' (made at t=0.0)
    """

    def __init__(self) -> None:
        """Begin an empty ledger."""
        self._streams: list[Tracked] = []

    def add(self, stream: Tracked) -> None:
        """Enter a stream."""
        self._streams.append(stream)

    @property
    def streams(self) -> tuple[Tracked, ...]:
        """Every stream entered, in order."""
        return tuple(self._streams)

    @property
    def open_streams(self) -> tuple[Tracked, ...]:
        """The streams that are not closed, in order."""
        return tuple(stream for stream in self._streams if not stream.closed)

    def assert_all_closed(self, *, but: Collection[Tracked | str] = ()) -> None:
        """Fail unless every stream is closed, except those named: these may be open or closed.

        Args:
            but: Streams, or names of streams.

        Raises:
            StreamLeak: Names each stream left open.
            ValueError: `but` holds something the ledger does not know, and so would excuse nothing.
        """
        for excused in but:
            if not any(_is(stream, excused) for stream in self._streams):
                raise ValueError(f"the ledger knows no stream {excused!r}")
        leaked = [s for s in self.open_streams if not any(_is(s, excused) for excused in but)]
        if leaked:
            names = ", ".join(f"{s.name!r} (made at t={s.made_at})" for s in leaked)
            raise StreamLeak(
                f"{len(leaked)} of {len(self._streams)} streams left open: {names}", leaked
            )


def _is(stream: Tracked, wanted: Tracked | str) -> bool:
    return stream is wanted or stream.name == wanted
