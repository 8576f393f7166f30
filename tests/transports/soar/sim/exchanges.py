"""How long small exchanges take where messages are lost: `python -m tests.transports.soar.sim.exchanges [T6] [--seeds 3]`.

One session, one exchange after another, 0.3 s apart: percentiles in milliseconds, and what each costs in questions and
in octets of answers. Virtual time, so the same seed gives the same figures.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from typing import TYPE_CHECKING, NamedTuple

from tests.transports.soar.sim import quirks as kinds
from tests.transports.soar.sim.figures import LINKS, NEAR_S
from tests.transports.soar.sim.link import Weather
from tests.transports.soar.sim.simulation import Simulation
from tests.transports.soar.sim.story import Story, Way

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.transports.soar.sim.quirks import Quirks

__all__ = ("KINDS", "Exchanges", "main", "measure")

PAUSE_S = 0.3


class Exchanges(NamedTuple):
    """Of one run.

    Attributes:
        times: of each exchange, seconds.
        questions: that were asked for each, pauses included.
        octets: of answers for each.
    """

    times: list[float]
    questions: float
    octets: float

    def percentile(self, percent: int) -> float:
        """Return the time within which so many of a hundred are over."""
        return sorted(self.times)[-(-len(self.times) * percent // 100) - 1]


def _dial(simulation: Simulation, target: str, octets: int) -> Callable[[int], float]:
    """Return what opens a stream, writes at once, and takes the time until all has come back."""

    def exchange(number: int) -> float:
        name = target.format(number)
        flow = simulation.client.dial(name, octets, eager=True)
        began = simulation.world.time
        simulation.until(lambda: flow.received == flow.expected, 60.0)
        return simulation.world.time - began

    return exchange


def _write(simulation: Simulation, octets: int) -> Callable[[int], float]:
    """Return what writes to a stream that stays, and takes the time until all has come back."""
    flow = simulation.client.dial("echo-1.test", 10, stays=True)
    simulation.until(lambda: flow.received == 10)

    def exchange(_number: int) -> float:
        began, before = simulation.world.time, flow.received
        flow.write_more(octets)
        simulation.client.pump()
        simulation.until(lambda: flow.received == before + octets, 60.0)
        return simulation.world.time - began

    return exchange


KINDS: dict[str, Callable[[Simulation], Callable[[int], float]]] = {
    "dial, 5 both ways": lambda simulation: _dial(simulation, "echo-{}.test", 5),
    "dial, 1500 back": lambda simulation: _dial(simulation, "get-1500-{}.test", 1_500),
    "10 both ways": lambda simulation: _write(simulation, 10),
    "40 both ways": lambda simulation: _write(simulation, 40),
    "100 both ways": lambda simulation: _write(simulation, 100),
}


def measure(quirks: Quirks, link: str, kind: str, seed: int, *, count: int) -> Exchanges:
    """Return the figures of `count` exchanges of a `kind` over a `link`."""
    far, loss = LINKS[link]
    near = NEAR_S if far else 0.0
    way = Way(
        resolver=quirks, near=Weather(delay=near, loss=loss), far=Weather(delay=far, loss=loss)
    )
    simulation = Simulation(Story(seed=seed, ways=(way,)))
    client, server = simulation.client, simulation.server
    exchange = KINDS[kind](simulation)
    simulation.rest(5.0)
    asked, octets = client.asked, server.octets_out
    times = []
    for number in range(count):
        times.append(exchange(number + 100))
        simulation.rest(PAUSE_S)
    return Exchanges(times, (client.asked - asked) / count, (server.octets_out - octets) / count)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("links", nargs="?", default="T5,T6", help="separated by commas")
    parser.add_argument("--seeds", type=int, default=3, help="how many runs of each")
    parser.add_argument("--count", type=int, default=300, help="exchanges of a run")
    given = parser.parse_args(arguments)
    print("link  exchange             p50   p90   p95   p99   most ms  questions  octets")  # noqa: T201
    for link in given.links.split(","):
        for kind in KINDS:
            runs = [
                measure(kinds.UNBOUND, link, kind, seed, count=given.count)
                for seed in range(given.seeds)
            ]
            whole = Exchanges(
                [each for run in runs for each in run.times],
                statistics.mean(run.questions for run in runs),
                statistics.mean(run.octets for run in runs),
            )
            times = " ".join(f"{1000 * whole.percentile(p):5.0f}" for p in (50, 90, 95, 99, 100))
            print(  # noqa: T201
                f"{link}    {kind:18} {times}     {whole.questions:8.2f} {whole.octets:8.0f}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
