"""Where a benchmark ran: enough to know which figures may stand beside each other."""

from __future__ import annotations

import base64
import datetime
import os
import platform
import shutil
import statistics
import subprocess
import time
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ("Machine", "pace")

_HERE = Path(__file__).parent
_GIB = 1 << 30
_WORK: Final = bytes(range(140))
_BLOCKS: Final = 5  # of which the median is told: one that was interrupted does not count
_TIMES: Final = 200


def pace() -> float:
    """Return how long a fixed piece of work takes now, in seconds: `base64.b32encode` of 140 octets.

    A rented machine is at times half as fast as at others, and its clock doesn't tell. Where processors are the limit,
    figures of two runs can only be compared beside their paces. Takes some 20 ms.
    """
    blocks = []
    for _ in range(_BLOCKS):
        began = time.perf_counter()
        for _ in range(_TIMES):
            base64.b32encode(_WORK)
        blocks.append((time.perf_counter() - began) / _TIMES)
    return statistics.median(blocks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine as it was when a benchmark began.

    Attributes:
        cpu: its model.
        cores: how many this process may use.
        memory: GiB of it, rounded; 0 if unknown.
        system: the operating system's name.
        kernel: its release.
        python: implementation and version.
        racer: the version that was measured.
        commit: the state of the sources, if they are in git: short hash, with `+` for one with changes.
        versions: of other packages whose work is in the figures, by name.
        load: how many processes wanted a core, on average over the last minute, before it began; `None` if unknown.
        date: when it began, in UTC, ISO 8601.
        pace: what `pace()` gave when it began, in seconds; `None` in older files.
    """

    cpu: str
    cores: int
    memory: int
    system: str
    kernel: str
    python: str
    racer: str
    commit: str | None = None
    versions: dict[str, str] = field(default_factory=dict)
    load: float | None = None
    date: str = ""
    pace: float | None = None

    @classmethod
    def here(cls, packages: Iterable[str] = ("anyio",)) -> Self:
        """Return this machine, now.

        Args:
            packages: distributions whose versions are told.
        """
        now = datetime.datetime.now(tz=datetime.UTC)
        return cls(
            cpu=_cpu(),
            cores=_cores(),
            memory=_memory(),
            system=platform.system(),
            kernel=platform.release(),
            python=f"{platform.python_implementation()} {platform.python_version()}",
            racer=_version("racer-dialer"),
            commit=_commit(),
            versions={name: _version(name) for name in packages},
            load=_load(),
            date=now.isoformat(timespec="seconds"),
            pace=pace(),
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Return what `to_dict` gave; keys that are not known are left out, so that older racers read newer files."""
        return cls(**{name: data[name] for name in cls.__slots__ if name in data})

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return asdict(self)

    @property
    def words(self) -> str:
        """Say it in one line."""
        load = "" if self.load is None else f", load {self.load:.2f}"
        memory = f", {self.memory} GiB" if self.memory else ""
        commit = "" if self.commit is None else f" ({self.commit})"
        pace = "" if self.pace is None else f", pace {1e6 * self.pace:.1f} us"
        return (
            f"{self.cpu}, {self.cores} cores{memory}; {self.system} {self.kernel}; {self.python}; "
            f"racer {self.racer}{commit}; {self.date}{load}{pace}"
        )

    def unlike(self, other: Machine) -> list[str]:
        """Return, in words, what differs between two machines so that times are not to be compared."""
        facts = {
            "CPU": (self.cpu, other.cpu),
            "cores": (self.cores, other.cores),
            "system": (self.system, other.system),
            "Python": (self.python, other.python),
        }
        return [f"{name}: {one} and {two}" for name, (one, two) in facts.items() if one != two]


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() in {"model name", "Model", "cpu model"} and value.strip():
            return " ".join(value.split())
    return platform.processor() or platform.machine() or "unknown"


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # only Linux tells
        return os.cpu_count() or 1


def _memory() -> int:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / _GIB)
    except (AttributeError, ValueError, OSError):
        return 0


def _load() -> float | None:
    try:
        return round(os.getloadavg()[0], 2)
    except (AttributeError, OSError):
        return None


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _commit() -> str | None:
    git = shutil.which("git")
    if git is None:
        return None

    def ask(*words: str) -> str:
        done = subprocess.run(  # noqa: S603 - our own words
            [git, *words], cwd=_HERE, capture_output=True, check=True, text=True, timeout=10
        )
        return done.stdout.strip()

    try:
        changed = ask("status", "--porcelain", "--untracked-files=no", "--", "../src", ".")
        return ask("rev-parse", "--short", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return None
