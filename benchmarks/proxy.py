"""racer's proxy beside plain SOCKS5 servers on the same path: `python -m benchmarks.proxy [--quick] [--json FILE]`.

Client, proxy and far end are processes of their own on loopback; all proxies run during one run, and are measured in turns.
Three questions, each answered by ratios within the run:

* How much a tunnel carries, each way, and what a megabyte costs the proxy in processor time.
* How long it takes from connecting to the proxy until the target's first byte is here, one after the other.
* How many such connections there are in a second with many at once.

`none` is the far end without a proxy. Linux only: what a process has used is read from /proc.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import socket
import statistics
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks._loops import LOOPS, chosen_loops, count, is_installed
from benchmarks._proxy_world import PLAIN, Running, far_end, found, proxy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

__all__ = ("Effort", "Row", "main")

_RIVALS: Final = (PLAIN, "dante")
_NONE: Final = "none"
_MEGABYTE: Final = 1 << 20
_PATIENCE: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much is measured.

    Attributes:
        rounds: turns in which each proxy is measured once.
        megabytes: carried each way in one turn.
        connections: made one after the other in one turn.
        crowd: made by all threads together in one turn.
        threads: how many make them.
    """

    rounds: int = 7
    megabytes: int = 256
    connections: int = 200
    crowd: int = 1000
    threads: int = 32


QUICK: Final = Effort(rounds=3, megabytes=64, connections=60, crowd=200, threads=16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One proxy; medians over the rounds.

    Attributes:
        name: its name.
        down: megabytes a second to the client.
        down_cpu: milliseconds of processor time for one of them.
        up: megabytes a second from the client.
        up_cpu: milliseconds for one of those.
        first_byte: milliseconds until the target's first byte.
        first_byte_p95: the 95th percentile of that.
        rate: connections a second with many at once.
        rate_cpu: milliseconds of processor time for one of them.
    """

    name: str
    down: float
    down_cpu: float
    up: float
    up_cpu: float
    first_byte: float
    first_byte_p95: float
    rate: float
    rate_cpu: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Turn:
    """One proxy in one round: seconds of the clock, and of the processor."""

    down: tuple[float, float]
    up: tuple[float, float]
    first_bytes: list[float]
    crowd: tuple[float, float]


class _Path:
    """A way to the far end: through a proxy, or none."""

    def __init__(self, far: int, running: Running | None) -> None:
        self.name = _NONE if running is None else running.name
        self._far = far
        self._running = running

    def cpu(self) -> float:
        return 0.0 if self._running is None else self._running.cpu()

    def open(self) -> socket.socket:
        port = self._far if self._running is None else self._running.port
        sock = socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._running is not None:
            sock.sendall(b"\5\1\0")
            _expect(sock, 2)
            sock.sendall(b"\5\1\0\1\x7f\0\0\1" + self._far.to_bytes(2, "big"))
            _expect(sock, 10)
        return sock

    def turn(self, effort: Effort) -> _Turn:
        size = effort.megabytes * _MEGABYTE
        return _Turn(
            down=self._timed(self._download, size),
            up=self._timed(self._upload, size),
            first_bytes=[self._first_byte() for _ in range(effort.connections)],
            crowd=self._timed(self._crowd, effort.crowd, effort.threads),
        )

    def _timed(self, work: Callable[..., None], *arguments: int) -> tuple[float, float]:
        cpu, began = self.cpu(), time.perf_counter()
        work(*arguments)
        return time.perf_counter() - began, self.cpu() - cpu

    def _download(self, size: int) -> None:
        with self.open() as sock:
            sock.sendall(b"D" + size.to_bytes(8, "big"))
            buffer = bytearray(_MEGABYTE)
            while size:
                got = sock.recv_into(buffer)
                if not got:
                    msg = f"{self.name} cut the download short"
                    raise RuntimeError(msg)
                size -= got

    def _upload(self, size: int) -> None:
        with self.open() as sock:
            sock.sendall(b"U" + size.to_bytes(8, "big"))
            piece = b"x" * _MEGABYTE
            for _ in range(size // _MEGABYTE):
                sock.sendall(piece)
            _expect(sock, 1)

    def _first_byte(self) -> float:
        began = time.perf_counter()
        with self.open() as sock:
            sock.sendall(b"E" + bytes(8))
            _expect(sock, 1)
            return time.perf_counter() - began

    def _crowd(self, connections: int, threads: int) -> None:
        left = iter(range(connections))
        failed: list[BaseException] = []

        def work() -> None:
            try:
                for _ in left:
                    self._first_byte()
            except (OSError, RuntimeError, ValueError) as exc:
                failed.append(exc)

        crowd = [threading.Thread(target=work) for _ in range(threads)]
        for one in crowd:
            one.start()
        for one in crowd:
            one.join()
        if failed:
            msg = f"{self.name}: {len(failed)} of {threads} threads failed: {failed[0]!r}"
            raise RuntimeError(msg)


def _expect(sock: socket.socket, size: int) -> None:
    got = sock.recv(size, socket.MSG_WAITALL)
    if len(got) != size or (size == 10 and got[1]):
        msg = f"the proxy answered {got!r}"
        raise RuntimeError(msg)


def _row(name: str, turns: list[_Turn], effort: Effort) -> Row:
    def speed(times: Iterable[tuple[float, float]]) -> tuple[float, float]:
        times = list(times)
        seconds = statistics.median(clock for clock, _ in times)
        cpu = sum(cpu for _, cpu in times) / len(times)  # a clock of 10 ms: sums say more
        return effort.megabytes / seconds, cpu * 1e3 / effort.megabytes

    down, down_cpu = speed(turn.down for turn in turns)
    up, up_cpu = speed(turn.up for turn in turns)
    first_bytes = sorted(each for turn in turns for each in turn.first_bytes)
    crowd = statistics.median(turn.crowd[0] for turn in turns)
    return Row(
        name=name,
        down=down,
        down_cpu=down_cpu,
        up=up,
        up_cpu=up_cpu,
        first_byte=statistics.median(first_bytes) * 1e3,
        first_byte_p95=first_bytes[round(0.95 * (len(first_bytes) - 1))] * 1e3,
        rate=effort.crowd / crowd,
        rate_cpu=sum(turn.crowd[1] for turn in turns) * 1e3 / len(turns) / effort.crowd,
    )


def measure(names: Sequence[str], effort: Effort) -> list[Row]:
    """Return a row for each proxy, and one for none."""
    with ExitStack() as stack:
        far = stack.enter_context(far_end())
        paths = [_Path(far, None)]
        paths += [_Path(far, stack.enter_context(proxy(name))) for name in names]
        for path in paths:
            path.turn(Effort(rounds=1, megabytes=8, connections=10, crowd=20, threads=4))
        turns: dict[str, list[_Turn]] = {path.name: [] for path in paths}
        for round_ in range(effort.rounds):
            for path in paths if round_ % 2 else reversed(paths):
                turns[path.name].append(path.turn(effort))
    return [_row(name, each, effort) for name, each in turns.items()]


def _print(rows: Sequence[Row]) -> None:
    plain = next((row for row in rows if row.name == PLAIN), None)
    print(f"\nA SOCKS5 tunnel on loopback; in brackets the ratio to {PLAIN}\n")
    print(
        f"{'proxy':15}{'down MB/s':>15}{'CPU ms/MB':>14}{'up MB/s':>15}{'CPU ms/MB':>14}"
        f"{'1st byte ms':>16}{'p95':>7}{'conn/s':>14}{'CPU ms':>8}"
    )
    for row in rows:

        def beside(field: str, places: int, row: Row = row) -> str:
            value = getattr(row, field)
            base = None if plain is None else getattr(plain, field)
            if not base or row.name == _NONE:
                return f"{value:.{places}f}"
            return f"{value:.{places}f} ({value / base:.2f})"

        print(
            f"{row.name:15}{beside('down', 0):>15}{beside('down_cpu', 2):>14}{beside('up', 0):>15}"
            f"{beside('up_cpu', 2):>14}{beside('first_byte', 2):>16}{row.first_byte_p95:>7.2f}"
            f"{beside('rate', 0):>14}{row.rate_cpu:>8.2f}"
        )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.proxy", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="end within a minute")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument(
        "--loops", type=chosen_loops, default=LOOPS, help=f"some of {','.join(LOOPS)}"
    )
    for name in ("rounds", "megabytes", "connections", "crowd", "threads"):
        parser.add_argument(f"--{name}", type=count, metavar="N")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, and write JSON where asked to."""
    options = _parser().parse_args(argv)
    usual = asdict(QUICK if options.quick else Effort())
    effort = Effort(**{name: getattr(options, name) or value for name, value in usual.items()})
    loops = [loop for loop in options.loops if is_installed(loop)]
    rivals = [name for name in _RIVALS if found(name)]
    for name in sorted({*options.loops, *_RIVALS} - {*loops, *rivals}):
        print(f"{name} is not installed; its row is missing", file=sys.stderr)
    rows = measure([*rivals, *loops], effort)
    _print(rows)
    if options.json is not None:
        told = {
            "python": platform.python_version(),
            "system": platform.platform(),
            "processors": os.cpu_count(),
            "versions": {name: version(name) for name in ("anyio", "trio")},
            "effort": asdict(effort),
            "rows": [asdict(row) for row in rows],
        }
        options.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
