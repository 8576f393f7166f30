"""How soon and how fast, in the simulator: `python -m tests.transports.soar.sim.figures [T3,T4 …] [--seeds 5]`.

Each link of each resolver model: milliseconds to the first octet, cold and warm, and kilobytes a second both ways, after
the first quarter. Medians, with the worst in brackets. Nothing of it costs computing time: a real host adds its own.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from typing import TYPE_CHECKING, NamedTuple

from tests.transports.soar.sim import quirks as kinds
from tests.transports.soar.sim.link import Weather
from tests.transports.soar.sim.simulation import Simulation
from tests.transports.soar.sim.story import Story, Way

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.transports.soar.sim.flow import Flow
    from tests.transports.soar.sim.quirks import Quirks

__all__ = ("LINKS", "Figures", "main", "measure")

NEAR_S = 0.010
LINKS = {
    "T2": (0.0, 0.0),
    "T3": (0.025, 0.0),
    "T4": (0.025, 0.01),
    "T5": (0.09, 0.0),
    "T6": (0.09, 0.025),
}
"""One way delay beyond the resolver in seconds, and loss of each direction of each of the two links."""


class Figures(NamedTuple):
    """Of one run: seconds, and octets a second."""

    cold: float
    warm: float
    down: float
    up: float


def measure(quirks: Quirks, link: str, seed: int, *, down: int, up: int) -> Figures:
    """Return the figures of one run, with so many octets each way."""
    far, loss = LINKS[link]
    near = NEAR_S if far else 0.0
    way = Way(
        resolver=quirks, near=Weather(delay=near, loss=loss), far=Weather(delay=far, loss=loss)
    )
    simulation = Simulation(Story(seed=seed, ways=(way,)))
    client, origin = simulation.client, simulation.server.origin
    cold = simulation.finish(client.dial("echo-1.test", 5, eager=True))
    simulation.rest(5.0)
    warm = simulation.finish(client.dial("echo-2.test", 5, eager=True))
    simulation.rest(1.0)
    load = client.dial(f"get-{down}-3.test", down)
    down_rate = _rate(simulation, load, down, lambda: load.received)
    simulation.rest(1.0)
    before = origin.received
    load = client.dial(f"put-{up}-4.test", up)
    up_rate = _rate(simulation, load, up, lambda: origin.received - before)
    return Figures(_first(cold), _first(warm), down_rate, up_rate)


def _first(flow: Flow) -> float:
    assert flow.first is not None
    return flow.first - flow.began


def _rate(simulation: Simulation, flow: Flow, octets: int, moved: Callable[[], int]) -> float:
    """Return octets a second after the first quarter."""
    simulation.until(lambda: flow.done or moved() >= octets // 4)
    since, already = simulation.world.time, moved()
    simulation.finish(flow)
    assert flow.succeeded, flow
    return (octets - already) / max(simulation.world.time - since, 1e-9)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("links", nargs="?", default="T3,T4,T5,T6", help="separated by commas")
    parser.add_argument("--seeds", type=int, default=3, help="how many runs of each")
    parser.add_argument("--down", type=int, default=4_000_000, help="octets of the download")
    parser.add_argument("--up", type=int, default=1_000_000, help="octets of the upload")
    given = parser.parse_args(arguments)
    print("link  resolver   cold ms      warm ms      down KB/s      up KB/s")  # noqa: T201
    for link in given.links.split(","):
        for quirks in (kinds.PLAIN, *kinds.ALL):
            runs = [
                measure(quirks, link, seed, down=given.down, up=given.up)
                for seed in range(given.seeds)
            ]
            cells = []
            for name, unit, worst in (
                ("cold", 1000, max), ("warm", 1000, max), ("down", 0.001, min), ("up", 0.001, min),
            ):  # fmt: skip
                values = [getattr(run, name) * unit for run in runs]
                cells.append(f"{statistics.median(values):5.0f} [{worst(values):5.0f}]")
            print(f"{link}    {quirks.name:9}", *cells, flush=True)  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
