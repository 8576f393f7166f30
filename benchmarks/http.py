"""HTTP over the race beside plain httpx and httpx2: `python -m benchmarks.http [--quick] [--json FILE]`.

Two questions, each answered by a comparison within one run, over TLS on loopback, the server in a process of its own:

* What a request costs over a plain client of the same library: on a kept connection, and with a new one each time. In pairs
  whose order alternates.
* The storm: requests over a small pool, twenty at a time, many cancelled at random. How many that nobody cancelled got no
  answer, and whether the client still works afterwards.
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import random
import statistics
import sys
import time
from collections import Counter
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio
import httpx
import httpx2

from benchmarks._loops import LOOPS, chosen_loops, count, is_installed, run_on
from benchmarks._origin import site
from racer import Dialer
from racer.http import Limits, RacerTransport
from transports.direct import Direct

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
    from types import ModuleType

    from benchmarks._origin import Site

__all__ = ("Effort", "RequestCost", "StormRow", "main")

_LIBRARIES: Final[dict[str, Any]] = {"httpx": httpx, "httpx2": httpx2}
_PROTOCOLS: Final = ("HTTP/1.1", "HTTP/2")
_KINDS: Final = ("kept", "new")
_CLIENTS: Final = ("httpx", "httpx2", "racer/httpx", "racer/httpx2")
_AT_ONCE: Final = 20
_CONNECTIONS: Final = 4
_AFTERWARDS: Final = 20
_PATIENCE: Final = 15.0  # seconds after which a request of the storm counts as lost


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much is measured.

    Attributes:
        kept: pairs of requests on kept connections, after a warm-up of a fifth more.
        new: pairs of requests with a new connection each.
        storm: requests of one storm.
    """

    kept: int = 1500
    new: int = 300
    storm: int = 1000


QUICK: Final = Effort(kept=300, new=60, storm=200)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCost:
    """A request over the race beside a plain one.

    Attributes:
        loop: the event loop.
        library: whose clients they are.
        protocol: what was spoken.
        connection: `kept`, or a `new` one for each request.
        pairs: how many of each were timed.
        plain: median seconds of the plain client.
        raced: median seconds over the race.
        ratio: raced to plain.
        plain_times: seconds of each request of the plain client.
        raced_times: likewise over the race, each made beside the one at the same place.
    """

    loop: str
    library: str
    protocol: str
    connection: str
    pairs: int
    plain: float
    raced: float
    ratio: float
    plain_times: tuple[float, ...]
    raced_times: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StormRow:
    """What a storm did to one client.

    Attributes:
        loop: the event loop.
        client: the library, or `racer/` and the library.
        protocol: what was spoken.
        requests: how many were made.
        answered: of them, with a whole answer.
        cancelled: given up by the storm itself.
        lost: given up by nobody, and not answered.
        worst: what most of the lost ones got instead.
        afterwards: of twenty plain requests after the storm, those that were answered.
        seconds: how long the storm took.
    """

    loop: str
    client: str
    protocol: str
    requests: int
    answered: int
    cancelled: int
    lost: int
    worst: str
    afterwards: int
    seconds: float


@asynccontextmanager
async def _client(
    name: str, library: ModuleType, far: Site, protocol: str, limits: Mapping[str, int]
) -> AsyncIterator[Any]:
    """Yield a client: a plain one, or one that races with `direct` alone."""
    http2 = protocol == "HTTP/2"
    if not name.startswith("racer"):
        async with library.AsyncClient(
            verify=far.context(),
            http2=http2,
            limits=library.Limits(**limits),
            timeout=_PATIENCE,
        ) as client:
            yield client
        return
    async with Dialer([Direct()]) as dialer:
        transport = RacerTransport(
            dialer,
            http2=http2,
            ssl_context=far.context(),
            limits=Limits(**limits),
        )
        async with library.AsyncClient(transport=transport, timeout=_PATIENCE) as client:
            yield client


def _url(far: Site, protocol: str) -> str:
    return f"https://localhost:{far.http2 if protocol == 'HTTP/2' else far.http1}/"


# --- what a request costs -------------------------------------------------------------------


async def _pairs(
    library: ModuleType, far: Site, protocol: str, connection: str, pairs: int
) -> tuple[list[float], list[float]]:
    limits = {"max_keepalive_connections": 0 if connection == "new" else 20}
    url = _url(far, protocol)
    plain: list[float] = []
    raced: list[float] = []
    async with (
        _client("plain", library, far, protocol, limits) as one,
        _client("racer", library, far, protocol, limits) as other,
    ):
        order = [(one, plain), (other, raced)]
        gc.collect()
        for _ in range(pairs + pairs // 5):
            for client, times in order:
                began = time.perf_counter()
                response = await client.get(url)
                times.append(time.perf_counter() - began)
                if response.http_version != protocol:
                    msg = f"{response.http_version} was spoken, not {protocol}"
                    raise RuntimeError(msg)
                # What is left to the loop is not the next one's.
                await anyio.lowlevel.checkpoint()
            order.reverse()
    return plain[pairs // 5 :], raced[pairs // 5 :]


def measure_cost(
    loop: str, library: str, *, protocol: str, connection: str, far: Site, pairs: int
) -> RequestCost:
    """Return one row of the first table."""
    plain, raced = run_on(loop, _pairs, _LIBRARIES[library], far, protocol, connection, pairs)
    one, other = statistics.median(plain), statistics.median(raced)
    return RequestCost(
        loop=loop,
        library=library,
        protocol=protocol,
        connection=connection,
        pairs=pairs,
        plain=one,
        raced=other,
        ratio=other / one,
        plain_times=tuple(plain),
        raced_times=tuple(raced),
    )


# --- the storm ------------------------------------------------------------------------------


class _Storm:
    def __init__(self, client: Any, url: str, requests: int) -> None:  # noqa: ANN401 - of either library
        self._client = client
        self._url = url
        self._left = requests
        self._dice = random.Random(7)
        self.answered = 0
        self.cancelled = 0
        self.lost: Counter[str] = Counter()

    async def run(self) -> None:
        async with anyio.create_task_group() as group:
            for _ in range(_AT_ONCE):
                group.start_soon(self._work)

    async def _work(self) -> None:
        dice = self._dice
        while self._left > 0:
            self._left -= 1
            # A third is quick and waited for, a third is quick and given up at any moment, a third is given up because
            # the server takes a minute.
            kind = dice.randrange(3)
            patience = _PATIENCE if kind == 0 else dice.uniform(0.001, 0.2)
            delay = 60_000 if kind == 2 else dice.randint(1, 30)
            path = f"wait/{delay}/{dice.choice([0, 1000, 100_000])}"
            with anyio.move_on_after(patience) as scope:
                try:
                    response = await self._client.get(self._url + path)
                except Exception as exc:  # noqa: BLE001 - whatever a client lets out is the result
                    self.lost[f"{type(exc).__name__}: {exc}"] += 1
                    continue
                self.answered += response.status_code == 200
            if scope.cancelled_caught:
                if patience == _PATIENCE:
                    self.lost["no answer in time"] += 1
                else:
                    self.cancelled += 1


async def _storm(name: str, far: Site, protocol: str, requests: int) -> tuple[_Storm, int, float]:
    library = _LIBRARIES[name.rpartition("/")[2]]
    limits = {"max_connections": _CONNECTIONS}
    url = _url(far, protocol)
    async with _client(name, library, far, protocol, limits) as client:
        storm = _Storm(client, url, requests)
        began = time.perf_counter()
        await storm.run()
        took = time.perf_counter() - began
        after = 0
        for _ in range(_AFTERWARDS):
            with anyio.move_on_after(_PATIENCE):
                with suppress(Exception):  # counted by its absence
                    after += (await client.get(url)).status_code == 200
    return storm, after, took


def measure_storm(loop: str, client: str, protocol: str, far: Site, requests: int) -> StormRow:
    """Return one row of the second table."""
    storm, after, took = run_on(loop, _storm, client, far, protocol, requests)
    worst = max(storm.lost, key=lambda told: storm.lost[told], default="")
    return StormRow(
        loop=loop,
        client=client,
        protocol=protocol,
        requests=requests,
        answered=storm.answered,
        cancelled=storm.cancelled,
        lost=sum(storm.lost.values()),
        worst=worst,
        afterwards=after,
        seconds=took,
    )


# --- telling --------------------------------------------------------------------------------


def _print_costs(costs: Iterable[RequestCost]) -> None:
    print(
        "\nA request over the race beside a plain one, TLS on loopback, medians in microseconds\n"
    )
    print(
        f"{'loop':9}{'library':9}{'protocol':10}{'connection':12}{'plain':>8}{'raced':>8}{'ratio':>8}"
    )
    for cost in costs:
        print(
            f"{cost.loop:9}{cost.library:9}{cost.protocol:10}{cost.connection:12}"
            f"{cost.plain * 1e6:>8.0f}{cost.raced * 1e6:>8.0f}{cost.ratio:>8.2f}"
        )


def _print_storms(rows: Iterable[StormRow]) -> None:
    print(f"\nThe storm: {_AT_ONCE} at a time over at most {_CONNECTIONS} connections\n")
    print(
        f"{'loop':9}{'protocol':10}{'client':14}{'answered':>9}{'cancelled':>10}{'lost':>6}"
        f"{'afterwards':>12}"
    )
    for row in rows:
        print(
            f"{row.loop:9}{row.protocol:10}{row.client:14}{row.answered:>9}{row.cancelled:>10}"
            f"{row.lost:>6}{row.afterwards:>9}/{_AFTERWARDS}"
        )
        if row.worst:
            print(f"{'':19}most of the lost: {row.worst:.42}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.http", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="end within a minute or two")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument(
        "--loops", type=chosen_loops, default=LOOPS, help=f"some of {','.join(LOOPS)}"
    )
    parser.add_argument("--pairs", type=count, metavar="N", help="pairs on kept connections")
    parser.add_argument("--new", type=count, metavar="N", help="pairs with new connections")
    parser.add_argument("--storm", type=count, metavar="N", help="requests of a storm")
    return parser


def _effort(options: argparse.Namespace) -> Effort:
    usual = QUICK if options.quick else Effort()
    return Effort(
        kept=options.pairs or usual.kept,
        new=options.new or usual.new,
        storm=options.storm or usual.storm,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, and write JSON where asked to."""
    options = _parser().parse_args(argv)
    effort = _effort(options)
    loops = [loop for loop in options.loops if is_installed(loop)]
    for loop in sorted(set(options.loops) - set(loops)):
        print(f"{loop} is not installed; its rows are missing", file=sys.stderr)
    with site() as far:
        costs = [
            measure_cost(
                loop,
                library,
                protocol=protocol,
                connection=connection,
                far=far,
                pairs=effort.kept if connection == "kept" else effort.new,
            )
            for loop in loops
            for library in _LIBRARIES
            for protocol in _PROTOCOLS
            for connection in _KINDS
        ]
        _print_costs(costs)
        storms = [
            measure_storm(loop, client, protocol, far, effort.storm)
            for loop in loops
            for protocol in _PROTOCOLS
            for client in _CLIENTS
        ]
        _print_storms(storms)
    if options.json is not None:
        told = {
            "python": platform.python_version(),
            "system": platform.platform(),
            "versions": {
                name: version(name) for name in ("anyio", "h11", "h2", "httpx", "httpx2", "trio")
            },
            "effort": asdict(effort),
            "costs": [asdict(cost) for cost in costs],
            "storms": [asdict(row) for row in storms],
        }
        options.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
