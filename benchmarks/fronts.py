"""Fronts when many are broken, and what fits through AMP: `python -m benchmarks.fronts [--quick] [--json FILE]`.

* The pool of `fronting` in worlds where three fronts in ten are broken, on a virtual clock: seconds to the first line that
  is good, and dials that were for nothing. Beside it, in the same worlds, what one would write instead: one front after
  the other in random order; and ten at once, of which the first is taken.
* AMP's limits, end to end over loopback with a broker, an origin, and a cache that takes request lines of 8 KiB: the largest
  body that comes through, and what it makes of a URL.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import http.server
import json
import random
import statistics
import threading
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

import anyio
import httpx
import trustme

from benchmarks._amp_cache import CACHE, FRONT, AmpCache, amp_cache
from benchmarks._front_world import Fate, MadeUpLine, World, hunter_in
from racer.abc import Origin
from racer.errors import LocalProtocolError, TransportError
from racer.testing import LocalHost, run_virtual
from transports._net.wakeup import Wakeup
from transports.amp import Amp, AmpBroker, generate_key, public_key_of
from transports.fronting._catalog import Catalog, Front, read_catalog
from transports.fronting._keeper import keep_proven

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from anyio.abc import SocketStream

__all__ = ("AmpLimit", "FrontCost", "main")

HOST: Final = "api.example.com"
BROKEN: Final = ("hangs", "refuses", "unvetted")
BROKER: Final = "amp.broker.example.com"
BUDGET: Final = 30.0  # seconds that anybody has for a line


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontCost:
    """What one way of choosing fronts came to.

    Attributes:
        where: in which worlds.
        who: the way.
        phase: `first` for the first request of a life, `later` for the 20 that follow, 5 minutes apart.
        lines: requests that got a line.
        of: requests.
        median, p95, most: seconds to it.
        wasted: dials for nothing, for each request.
    """

    where: str
    who: str
    phase: str
    lines: int
    of: int
    median: float
    p95: float
    most: float
    wasted: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AmpLimit:
    """What fits through.

    Attributes:
        bits: of the broker's key.
        max_url: characters that a URL may have.
        promised: `max_request_bytes`, headers included.
        body: the largest body of a POST without further headers that came through.
        url: characters of its URL's path.
        per_byte: characters for each byte of body beyond the empty one.
        seconds: for one such request, there and back.
    """

    bits: int
    max_url: int
    promised: int
    body: int
    url: int
    per_byte: float
    seconds: float


# --- fronts -----------------------------------------------------------------------------------


def catalog() -> Catalog:
    """Return two networks, of 200 fronts and of 50."""
    pem = trustme.CA().cert_pem.bytes().decode()
    providers = {
        name: {
            "hostaliases": {HOST: f"api.{name}.example.net"},
            "testurl": f"https://ping.{name}.example.net/ping",
            "masquerades": [
                {"domain": f"f{n}.{name}.example.org", "ipaddress": f"192.0.{2 + which}.{n + 1}"}
                for n in range(count)
            ],
        }
        for which, (name, count) in enumerate((("alpha", 200), ("beta", 50)))
    }
    document = {"trustedcas": [{"commonname": "ca", "cert": pem}], "providers": providers}
    return read_catalog(json.dumps(document).encode())


def fates(seed: int, broken: float, blocked: str) -> Callable[[Front, float], Fate]:
    """Return what becomes of each front in one world: `broken` of them for good, in three ways; those of the network `blocked` hang,
    and the others work after 0.1 to 0.5 s.
    """

    def fate(front: Front, now: float) -> Fate:
        del now
        if front.provider == blocked:
            return Fate("hangs")
        number = hashlib.sha256(f"{seed} {front.key}".encode()).digest()
        if number[0] < 256 * broken:
            return Fate(BROKEN[number[1] % 3], 0.2)
        return Fate("works", 0.1 + number[2] / 640)

    return fate


class Way(Protocol):
    """A way of choosing fronts."""

    async def line(self) -> MadeUpLine:
        """Return a line through a front that is good."""

    async def tend(self) -> None:
        """Do what there is to do between requests, for ever."""


class Pooled:
    """The pool, its hunter and its keeper, as `Fronting` has them; every line carries a request that is answered."""

    def __init__(self, world: World, fronts: Catalog, seed: int) -> None:
        self._hunter, self._pool = hunter_in(world, fronts, seed)
        self._asked = Wakeup()

    async def line(self) -> MadeUpLine:
        found = await self._hunter.hunt(HOST)
        now = anyio.current_time()
        choice = self._pool.take(found.front.key, now)
        assert choice is not None
        self._pool.succeeded(choice, now, took=0.1, host=HOST)
        self._asked.set()
        return cast("MadeUpLine", found.line)

    async def tend(self) -> None:
        await keep_proven(self._pool, self._hunter, self._asked)


class OneByOne:
    """Fronts in random order, each given its own time, the one that worked first of all the next time."""

    def __init__(self, world: World, fronts: Catalog, seed: int) -> None:
        self._world = world
        self._known: list[Front] = []
        self._fronts = [front for p in fronts.providers.values() for front in p.fronts]
        random.Random(seed).shuffle(self._fronts)

    async def tend(self) -> None:
        """Nothing."""

    async def line(self) -> MadeUpLine:
        for front in (*self._known, *self._fronts):
            try:
                line = await self._world.dial(front, None, None)
                if front not in self._known:
                    await self._world.vet(line, None)
            except TransportError:
                continue
            self._known = [front]
            return line
        raise TransportError("no front")


class TenAtOnce(OneByOne):
    """Ten fronts at once, of which the first is taken; then that one, as long as it works."""

    async def line(self) -> MadeUpLine:
        if self._known:
            return await super().line()
        found: list[MadeUpLine] = []
        for start in range(0, len(self._fronts), 10):
            async with anyio.create_task_group() as group:
                for front in self._fronts[start : start + 10]:
                    group.start_soon(self._try, front, found, group.cancel_scope)
            if found:
                return found[0]
        raise TransportError("no front")

    async def _try(self, front: Front, found: list[MadeUpLine], scope: anyio.CancelScope) -> None:
        try:
            line = await self._world.dial(front, None, None)
            await self._world.vet(line, None)
        except TransportError:
            return
        if found:
            await line.aclose()
            return
        found.append(line)
        self._known = [front]
        scope.cancel()


WAYS: Final[dict[str, Callable[[World, Catalog, int], Way]]] = {
    "racer's pool": Pooled,
    "one by one": OneByOne,
    "ten at once": TenAtOnce,
}


async def live(way: Way, world: World, requests: int) -> list[tuple[float | None, int]]:
    """Return seconds and dials of each request, 5 minutes apart; `None` where there was no line.

    Dials between two requests count for the earlier one.
    """
    told: list[tuple[float | None, int]] = []
    async with anyio.create_task_group() as group:
        group.start_soon(way.tend)
        for _ in range(requests):
            began, before = anyio.current_time(), len(world.dials)
            took = None
            with anyio.move_on_after(BUDGET), contextlib.suppress(TransportError):
                line = await way.line()
                took = anyio.current_time() - began
                await line.aclose()
            await anyio.sleep(300)
            told.append((took, len(world.dials) - before))
        group.cancel_scope.cancel()
    return told


def measure_fronts(worlds: int, broken: float, fronts: Catalog) -> list[FrontCost]:
    """Return what each way came to in the same worlds, with both networks and with the larger one blocked."""
    costs = []
    for where, blocked in (("30 % broken", ""), ("+ a network blocked", "alpha")):
        for who, way in WAYS.items():
            told = [
                run_virtual(partial(_story, way, World(fates(seed, broken, blocked)), fronts, seed))
                for seed in range(worlds)
            ]
            costs.append(_cost(where, who, "first", [one[0] for one in told]))
            costs.append(_cost(where, who, "later", [each for one in told for each in one[1:]]))
    return costs


async def _story(
    way: Callable[[World, Catalog, int], Way], world: World, fronts: Catalog, seed: int
) -> list[tuple[float | None, int]]:
    return await live(way(world, fronts, seed), world, 21)


def _cost(where: str, who: str, phase: str, told: list[tuple[float | None, int]]) -> FrontCost:
    times = sorted(took for took, _ in told if took is not None)
    return FrontCost(
        where=where,
        who=who,
        phase=phase,
        lines=len(times),
        of=len(told),
        median=statistics.median(times),
        p95=times[int(0.95 * (len(times) - 1))],
        most=times[-1],
        wasted=statistics.mean(dials - (took is not None) for took, dials in told),
    )


# --- AMP --------------------------------------------------------------------------------------


class _Echo(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: object) -> None:
        pass

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        answer = str(len(body)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


@contextmanager
def origin() -> Iterator[int]:
    """Yield the port of a server that answers with the length of what it got."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Echo)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _ToCache:
    """Connects to the cache, whatever name it goes by."""

    def __init__(self, cache: AmpCache) -> None:
        self._cache = cache

    async def connect(self, host: str, port: int, progress: object) -> SocketStream:
        del host, port, progress
        return await anyio.connect_tcp("127.0.0.1", self._cache.port)


async def measure_amp(
    bits: int, max_url: int, cache: AmpCache, port: int, key: str
) -> AmpLimit | None:
    """Return the largest body that comes through; `None` where the cache takes no such URL at all."""
    allow = [f"http://127.0.0.1:{port}"]
    async with AmpBroker(key=key, allow=allow) as broker, LocalHost() as host:
        cache.hosts[BROKER] = broker.address
        amp = Amp(
            f"https://{BROKER}", public_key_of(key), cache_url=f"https://{CACHE}", fronts=[FRONT],
            tls=cache.context(), max_url=max_url,
        )  # fmt: skip
        amp._dialer._connector = cast("Any", _ToCache(cache))  # noqa: SLF001 - no name leads to loopback
        await amp.start(host)
        route = await amp.prepare(Origin("http", "127.0.0.1", port))

        async def post(size: int) -> bool:
            request = httpx.Request("POST", f"http://127.0.0.1:{port}/", content=bytes(size))
            try:
                response = await route.handle(request)
            except (LocalProtocolError, TransportError):
                return False
            text = await response.aread()
            await response.aclose()
            return bool(text == str(size).encode())

        try:
            empty = cache.asked[-1][1] if await post(0) else None
            low, high = 0, max_url
            while low < high:
                middle = (low + high + 1) // 2
                low, high = (middle, high) if await post(middle) else (low, middle - 1)
            began = time.perf_counter()
            if empty is None or not await post(low):
                return None
            took = time.perf_counter() - began
        finally:
            await route.aclose()
            await amp.aclose()
        url = cache.asked[-1][1]
        promised = amp.traits.max_request_bytes
        assert promised is not None
        return AmpLimit(
            bits=bits, max_url=max_url, promised=promised, body=low, url=url,
            per_byte=(url - empty) / max(low, 1), seconds=took,
        )  # fmt: skip


def measure_limits(sizes: Sequence[int], urls: Sequence[int]) -> list[AmpLimit]:
    """Return what fits for each size of key and length of URL."""
    rows = []
    with amp_cache({}) as cache, origin() as port:
        for bits in sizes:
            key = generate_key(bits)
            for max_url in urls:
                row = anyio.run(measure_amp, bits, max_url, cache, port, key)
                if row is not None:
                    rows.append(row)
    return rows


# --- telling ----------------------------------------------------------------------------------


def tell(costs: Sequence[FrontCost], limits: Sequence[AmpLimit], broken: float) -> None:
    """Print both tables."""
    print(f"200 and 50 fronts of two networks, {broken:.0%} broken; seconds to a good line")
    print(
        f"{'':20}{'':14}{'request':>8}{'lines':>11}{'median':>8}{'p95':>7}{'most':>7}{'wasted':>8}"
    )
    for cost in costs:
        lines = f"{cost.lines}/{cost.of}"
        print(
            f"{cost.where:20}{cost.who:14}{cost.phase:>8}{lines:>11}{cost.median:8.2f}"
            f"{cost.p95:7.2f}{cost.most:7.2f}{cost.wasted:8.2f}"
        )
    print("\nAMP through a cache that takes request lines of 8192 octets")
    print(f"{'key':>6}{'max_url':>9}{'promised':>10}{'body':>7}{'URL':>7}{'per byte':>10}{'ms':>7}")
    for row in limits:
        print(
            f"{row.bits:6}{row.max_url:9}{row.promised:10}{row.body:7}{row.url:7}"
            f"{row.per_byte:10.2f}{1e3 * row.seconds:7.1f}"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fronts", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--quick", action="store_true", help="fewer worlds, one key")
    parser.add_argument("--worlds", type=int, help="how many")
    parser.add_argument("--broken", type=float, default=0.3, help="share of broken fronts")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    options = parser.parse_args(arguments)
    worlds = options.worlds or (20 if options.quick else 200)
    costs = measure_fronts(worlds, options.broken, catalog())
    sizes = (2048,) if options.quick else (2048, 3072, 4096)
    urls = (2000, 8000, 16_000) if options.quick else (2000, 4000, 8000, 16_000, 32_000)
    limits = measure_limits(sizes, urls)
    tell(costs, limits, options.broken)
    if options.json is not None:
        figures = {"fronts": [asdict(c) for c in costs], "amp": [asdict(row) for row in limits]}
        options.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
