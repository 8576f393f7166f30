"""A fuzzer that follows coverage: inputs that reach new steps of a parser are kept and changed further.

`python -m tests.transports.soar.fuzz.guided [NAME …] --seconds 60 --out DIR` runs the parsers of `targets.py`, all or by
name, and writes what broke one of them to `DIR`, cut down to what is needed. `make soak` does the same for a while.

A step is one line after another within the watched modules, and how often (1, 2, 4, 8 … times): enough to tell a second
record from a first, a deeper pointer from a shallow one. An input breaks a parser if it raises what it may not, fails an
assertion of `Target.run`, or makes it take more than `MAX_LINES` lines.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from racer.errors import RemoteProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import CodeType, FrameType, ModuleType

    TraceFunction = Callable[[FrameType, str, Any], Any]

__all__ = ("MAX_LINES", "Crash", "Outcome", "Target", "fuzz", "main", "replay")

MAX_LINES: Final = 100_000
"""Lines that one input may take; a bounded parser is far below."""

_ENDS: Final = (0, 1, 2, 15, 16, 31, 32, 63, 64, 127, 128, 191, 192, 193, 254, 255)
_PAIRS: Final = (0, 1, 12, 255, 256, 1024, 0x3FFF, 0x7FFF, 0x8000, 0xC000, 0xC00C, 0xFFFF)
_HOW_MANY: Final = (1, 1, 1, 2, 3, 6)  # changes to one input at once
_CUTS: Final = 400  # tries to make a crasher shorter


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A parser under test.

    Attributes:
        name: as it is asked for on the command line.
        run: hands octets to the parser, and asserts what is true of any result.
        seeds: good inputs, and such as were bad once.
        watched: the packages or modules whose lines count.
        allowed: what `run` may raise.
        longest: octets of an input.
    """

    name: str
    run: Callable[[bytes], object]
    seeds: Callable[[], Iterable[bytes]]
    watched: tuple[ModuleType, ...]
    allowed: tuple[type[Exception], ...] = (RemoteProtocolError,)
    longest: int = 1500


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """What broke a parser.

    Attributes:
        data: the input, as short as it could be made.
        error: what came of it.
    """

    data: bytes
    error: BaseException

    def __str__(self) -> str:
        return f"{type(self.error).__name__}: {self.error}\n  bytes.fromhex({self.data.hex()!r})"


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What a run has seen.

    Attributes:
        executions: inputs tried.
        steps: different steps seen.
        corpus: the inputs that were the first to take one of them.
        crashes: one for each place in the code.
    """

    executions: int = 0
    steps: set[int] = field(default_factory=set)
    corpus: list[bytes] = field(default_factory=list)
    crashes: list[Crash] = field(default_factory=list)


class Endless(BaseException):
    """More than `MAX_LINES` lines; no parser catches it by accident."""


def fuzz(
    target: Target,
    *,
    seed: int,
    executions: int | None = None,
    seconds: float = float("inf"),
    out: Path | None = None,
) -> Outcome:
    """Return what came of `executions` inputs, or of as many as `seconds` allow; the same for the same seed.

    Seeds are tried first, whatever the bounds. Crashers are written to `out`, a directory, as they are found.
    """
    dice = random.Random(seed)
    outcome = Outcome()
    watch = _Watch(target)
    places: set[object] = set()
    ends = time.perf_counter() + seconds

    def attempt(data: bytes) -> None:
        outcome.executions += 1
        error = watch.run(data)
        if error is not None and (place := _place(error)) not in places:
            places.add(place)
            crash = Crash(data=_shorten(watch, data, place), error=error)
            outcome.crashes.append(crash)
            _save(crash, out)
        elif watch.steps - outcome.steps:
            outcome.steps |= watch.steps
            outcome.corpus.append(data)

    for data in target.seeds():
        attempt(data)
    if not outcome.corpus:
        outcome.corpus.append(b"")
    while (executions is None or outcome.executions < executions) and time.perf_counter() < ends:
        attempt(_change(_choose(outcome.corpus, dice), outcome.corpus, dice)[: target.longest])
    return outcome


def replay(target: Target, data: bytes) -> BaseException | None:
    """Return what `data` makes the parser raise beyond what it may; `None` if nothing."""
    return _Watch(target).run(data)


# --- watching -------------------------------------------------------------------------------


class _Watch:
    """Runs inputs, and notes the steps that each took."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._roots = tuple(
            str(Path(module.__file__ or "").parent) + "/"
            if hasattr(module, "__path__")
            else str(module.__file__)
            for module in target.watched
        )
        self._watched = 0
        self._bases: dict[CodeType, int] = {}
        self._hits: dict[int, int] = {}
        self._last = 0
        self._lines = 0
        self.steps: set[int] = set()

    def run(self, data: bytes) -> BaseException | None:
        """Return what went wrong; `steps` are then those of this input."""
        self._hits = {}
        self._last = self._lines = 0
        found: BaseException | None = None
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            self._target.run(data)
        except self._target.allowed:
            pass
        except (Exception, Endless) as exc:
            found = exc
        finally:
            sys.settrace(before)
        # How often, in powers of two: 40 bits for the step, the rest for that.
        self.steps = {step | count.bit_length() << 40 for step, count in self._hits.items()}
        return found

    def _enter(self, frame: FrameType, event: str, arg: Any) -> TraceFunction | None:
        code = frame.f_code
        base = self._bases.get(code)
        if base is None:
            base = 0
            if code.co_filename.startswith(self._roots):
                self._watched += 1
                base = self._watched << 12
            self._bases[code] = base
        return self._line if base else None

    def _line(self, frame: FrameType, event: str, arg: Any) -> TraceFunction:
        if event == "line":
            here = self._bases[frame.f_code] + (frame.f_lineno & 0xFFF)
            step = (self._last << 20 ^ here) & 0xFF_FFFF_FFFF
            self._last = here
            self._hits[step] = self._hits.get(step, 0) + 1
            self._lines += 1
            if self._lines > MAX_LINES:
                raise Endless(f"more than {MAX_LINES} lines")
        return self._line


def _place(error: BaseException) -> object:
    """Return what tells one fault from another: the kind of error, and the line that raised it."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None or isinstance(error, Endless):
        return type(error)
    return type(error), traceback.tb_frame.f_code.co_filename, traceback.tb_lineno


# --- changing -------------------------------------------------------------------------------


def _choose(corpus: Sequence[bytes], dice: random.Random) -> bytes:
    """Return one of the corpus; the latest, which went furthest, in every second draw."""
    return (
        corpus[-1 - dice.randrange(min(len(corpus), 16))]
        if dice.random() < 0.5
        else dice.choice(corpus)
    )


def _change(data: bytes, corpus: Sequence[bytes], dice: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(dice.choice(_HOW_MANY)):
        change = dice.choice(_CHANGES)
        change(changed, dice, corpus)
    return bytes(changed)


def _flip(data: bytearray, dice: random.Random, corpus: Sequence[bytes]) -> None:
    if data:
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)


def _set(data: bytearray, dice: random.Random, corpus: Sequence[bytes]) -> None:
    if data:
        data[dice.randrange(len(data))] = dice.choice((*_ENDS, dice.randrange(256)))


def _set_pair(data: bytearray, dice: random.Random, corpus: Sequence[bytes]) -> None:
    if len(data) > 1:
        place = dice.randrange(len(data) - 1)
        value = dice.choice((*_PAIRS, len(data), len(data) - place, dice.randrange(65_536)))
        data[place : place + 2] = (value & 0xFFFF).to_bytes(2, "big")


def _step(data: bytearray, dice: random.Random, corpus: Sequence[bytes]) -> None:
    if data:
        place = dice.randrange(len(data))
        data[place] = (data[place] + dice.choice((-2, -1, 1, 2))) & 0xFF


def _insert(data: bytearray, dice: random.Random, corpus: Sequence[bytes]) -> None:
    place = dice.randint(0, len(data))
    data[place:place] = dice.randbytes(dice.choice((1, 1, 2, 4, 16)))


def _delete(data: bytearray, dice: random.Random, corpus: Sequence[bytes]) -> None:
    if data:
        place = dice.randrange(len(data))
        del data[place : place + dice.choice((1, 1, 2, 4, 16))]


def _repeat(data: bytearray, dice: random.Random, corpus: Sequence[bytes]) -> None:
    if data:
        begin = dice.randrange(len(data))
        part = data[begin : begin + dice.randint(1, 32)]
        place = dice.randint(0, len(data))
        data[place:place] = part * dice.choice((1, 1, 2, 8))


def _cut(data: bytearray, dice: random.Random, corpus: Sequence[bytes]) -> None:
    if data:
        del data[dice.randrange(len(data)) :]


def _splice(data: bytearray, dice: random.Random, corpus: Sequence[bytes]) -> None:
    other = dice.choice(corpus)
    data[dice.randint(0, len(data)) :] = other[dice.randint(0, len(other)) :]


_CHANGES: Final = (
    _flip, _set, _set, _set_pair, _step, _insert, _delete, _repeat, _cut, _splice,
)  # fmt: skip


# --- crashers -------------------------------------------------------------------------------


def _shorten(watch: _Watch, data: bytes, place: object) -> bytes:
    """Return the shortest input found that fails in the same place: pieces are left out, half of it first."""
    tries = 0
    piece = max(1, len(data) // 2)
    while tries < _CUTS:
        begin = 0
        before = len(data)
        while begin < len(data) and tries < _CUTS:
            shorter = data[:begin] + data[begin + piece :]
            tries += 1
            error = watch.run(shorter)
            if error is not None and _place(error) == place:
                data = shorter
            else:
                begin += piece
        if piece == 1 and len(data) == before:
            break
        piece = max(1, piece // 2)
    return data


def _save(crash: Crash, out: Path | None) -> None:
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        name = f"{type(crash.error).__name__}-{hashlib.sha256(crash.data).hexdigest()[:12]}"
        (out / name).write_bytes(crash.data)


# --- from the command line ------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    """Fuzz the targets named, tell what came of it, and return 1 if one broke."""
    from tests.transports.soar.fuzz.targets import TARGETS

    known = {target.name: target for target in TARGETS}
    parser = argparse.ArgumentParser(description="Fuzz Soar's parsers, guided by coverage.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(known)}")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each target")
    parser.add_argument("--seed", type=int, default=None, help="default: another one each time")
    parser.add_argument("--out", type=Path, default=None, help="where crashers go")
    options = parser.parse_args(argv)
    if unknown := set(options.names) - set(known):
        parser.error(f"no target is called {', '.join(sorted(unknown))}")
    seed = options.seed if options.seed is not None else random.randrange(2**32)
    broken = 0
    for name in options.names or known:
        outcome = fuzz(known[name], seed=seed, seconds=options.seconds, out=options.out)
        sys.stdout.write(
            f"{name}: {outcome.executions} inputs, {len(outcome.steps)} steps, {len(outcome.corpus)} kept,"
            f" {len(outcome.crashes)} crashes (seed {seed})\n"
        )
        for crash in outcome.crashes:
            sys.stdout.write(f"  {crash}\n")
        broken += len(outcome.crashes)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
