"""A dialer over scripted guests, and everything of its races that could be left behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import anyio
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

from racer import Connection, Dialer, Entrant
from racer.abc import Progress, Target, Traits, Transport
from racer.testing import MemoryStream, StreamLedger, stream_pair

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import ReadableSpan, Span

    from racer import Attempt
    from racer.abc import Guest

__all__ = ("Acting", "Scene", "Spans")

HOST = "example.com"


class Spans(SpanProcessor):
    """Every span started, and every span ended."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.ended: list[ReadableSpan] = []

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        self.started.append(span.name)

    def on_end(self, span: ReadableSpan) -> None:
        self.ended.append(span)

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.ended if span.name == name]

    def assert_all_ended(self) -> None:
        assert sorted(self.started) == sorted(span.name for span in self.ended)


class Acting(Transport):
    """A guest that runs a function of the test's own in place of `connect`, and gives what that returns."""

    def __init__(
        self,
        name: str,
        act: Callable[[Acting], Awaitable[Any]],
        *,
        ledger: StreamLedger | None = None,
        **traits: Any,
    ) -> None:
        self.name = name
        self.traits = Traits(**traits)
        self.ledger = StreamLedger() if ledger is None else ledger
        self.began_at: list[float] = []
        self.running = 0
        self.observed: list[Attempt] = []
        self.progress = Progress()
        self._act = act

    def stream(self, **options: Any) -> MemoryStream:
        """Return the near end of a pair that is on the books."""
        near, _ = stream_pair(name=self.name, **options)
        self.ledger.add(near)
        return near

    async def connect(self, target: Target, progress: Progress) -> Any:
        self.began_at.append(anyio.current_time())
        self.progress = progress
        self.running += 1
        try:
            return await self._act(self)
        finally:
            self.running -= 1

    def observe(self, attempt: Attempt) -> None:
        self.observed.append(attempt)


class Scene:
    """A dialer, the books of all its guests, and its spans. Ends with the dialer's end, and checks what is left.

    Args:
        *entrants: guests that have a ledger, or entrants with such.
        options: the dialer's.
    """

    def __init__(self, *entrants: Entrant | Guest, **options: Any) -> None:
        self.spans = Spans()
        # An empty resource: finding out about the machine takes a thread each time.
        self.provider = TracerProvider(resource=Resource({}), shutdown_on_exit=False)
        self.provider.add_span_processor(self.spans)
        self.dialer = Dialer(entrants, tracer_provider=self.provider, **options)
        self.guests: list[Any] = [
            one.transport if isinstance(one, Entrant) else one for one in entrants
        ]

    async def dial(self, host: str = HOST, port: int = 80, **options: Any) -> Connection:
        return await self.dialer.dial(host, port, **options)

    @property
    def open_streams(self) -> list[Any]:
        return [stream for guest in self.guests for stream in guest.ledger.open_streams]

    @property
    def tasks(self) -> list[str]:
        """The names of the hosted tasks that belong to attempts."""
        names = self.dialer._host._running.values()
        return [name for name in names if name.startswith(("racer attempt", "racer close"))]

    async def settle(self) -> None:
        """Wait until no attempt and no cleanup is under way."""
        while self.tasks or self.dialer.status().cleanups:
            await self.dialer._host.cleanups.drained()
            await anyio.lowlevel.checkpoint()

    async def assert_clean(self, *, but: Iterable[object] = ()) -> None:
        """Check that nothing is left of any race, once it has settled, except streams that are in use."""
        await self.settle()
        status = self.dialer.status()
        assert (status.races, status.cleanups) == (0, 0)
        assert [entrant.active for entrant in status.entrants] == [0] * len(self.guests)
        assert self.open_streams == list(but)
        assert [guest.name for guest in self.guests if guest.running] == []
        self.spans.assert_all_ended()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, exc_type: type[BaseException] | None, *rest: object) -> None:
        await self.dialer.aclose()
        if exc_type is None:
            assert self.open_streams == []
            self.spans.assert_all_ended()
