"""A client over a dialer over ways to origins in memory: the stage of most stories about HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import anyio
import httpx

from racer import Dialer, Entrant
from racer.http import RacerTransport
from tests.racer.http.origin import MemoryWay, Origin
from tests.racer.scene import Spans

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from racer.abc import Guest
    from racer.http._engine import Engine
    from tests.racer.http.origin import Talk

__all__ = ("URL", "Web", "answers", "hangs_up", "never")

URL = "http://origin.example/"


def answers(status: int, body: bytes = b"") -> Callable[[Talk], Awaitable[None]]:
    """Return what answers every request so."""

    async def answer(talk: Talk) -> None:
        await talk.body()
        await talk.respond(status, body)

    return answer


async def never(talk: Talk) -> None:
    """Take a request, and say nothing."""
    await talk.body()
    await anyio.sleep_forever()


async def hangs_up(talk: Talk) -> None:
    """Take a request, and end the connection."""
    await talk.body()
    await anyio.aclose_forcefully(talk.wire.stream)


class Web:
    """A client whose every way leads to an origin of its own.

    Args:
        ways: for each transport's name what its origin does, or a guest; `None` for one that refuses.
        delays: when each is to start.
        protocol: what is spoken.
        library: whose client it is.
        entrants: instead of `ways`.
        timeout: the client's.
        options: the transport's.
    """

    def __init__(
        self,
        ways: dict[str, Any] | None = None,
        *,
        delays: dict[str, float] | None = None,
        protocol: str = "HTTP/1.1",
        library: Any = httpx,
        entrants: Sequence[Entrant | Guest] | None = None,
        timeout: Any = None,
        dialer_options: dict[str, Any] | None = None,
        tracer_provider: Any = None,
        client: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self.origins: dict[str, Origin] = {}
        self.ways: dict[str, Any] = {}
        self.spans = Spans()
        self._delays = delays or {}
        http2 = protocol == "HTTP/2"
        for name, answer in (ways or {}).items():
            if answer is None:
                self.ways[name] = MemoryWay(name, None)
            elif callable(answer):
                self.origins[name] = Origin(answer, prior_knowledge=http2)
                self.ways[name] = MemoryWay(name, self.origins[name])
            else:
                self.ways[name] = answer
                if isinstance(answer, MemoryWay) and answer.origin is not None:
                    self.origins[name] = answer.origin
        listed = entrants or [
            Entrant(way, start_delay=self._delays.get(name)) for name, way in self.ways.items()
        ]
        self.dialer = Dialer(listed, tracer_provider=tracer_provider, **(dialer_options or {}))
        options.setdefault("http1", not http2)
        options.setdefault("http2", http2)
        self.transport = RacerTransport(self.dialer, **options)
        self.client = library.AsyncClient(
            transport=self.transport, timeout=timeout, **(client or {})
        )

    @property
    def engine(self) -> Engine:
        return self.transport._engine

    async def __aenter__(self) -> Self:
        for origin in self.origins.values():
            await origin.__aenter__()
        return self

    async def __aexit__(self, exc_type: type[BaseException] | None, *rest: object) -> None:
        try:
            if exc_type is None:
                await self.assert_clean()
        finally:
            await self.client.aclose()
            await self.dialer.aclose()
            for origin in reversed(self.origins.values()):
                await origin.__aexit__(None, None, None)
        if exc_type is None:
            for way in self.ways.values():
                if (ledger := getattr(way, "ledger", None)) is not None:
                    ledger.assert_all_closed()

    async def assert_clean(self) -> None:
        """Check that no request holds anything, once what is being closed is closed."""
        await self.settle()
        pool = self.engine.pool
        assert (pool.in_use, pool.waiting) == (0, 0)
        assert pool.connections == pool.idle == len(list(pool._entries()))
        assert self.dialer.status().races == 0

    async def settle(self) -> None:
        """Wait until nothing is being closed any more."""
        await self.dialer.host.cleanups.drained()
        for _ in range(10):
            await anyio.lowlevel.checkpoint()

    def asked(self) -> dict[str, int]:
        """Return how many requests came by each way."""
        return {name: len(origin.seen) for name, origin in self.origins.items()}

    def connects(self) -> dict[str, int]:
        """Return how often each way was gone."""
        return {name: way.connects for name, way in self.ways.items()}

    async def get(self, url: str = URL, **options: Any) -> Any:
        return await self.client.get(url, **options)

    async def post(self, url: str = URL, **options: Any) -> Any:
        return await self.client.post(url, **options)

    async def request(self, method: str, url: str = URL, **options: Any) -> Any:
        return await self.client.request(method, url, **options)
