from __future__ import annotations

import random
import re
import sys
from typing import TYPE_CHECKING

import pytest

from racer.errors import LocalProtocolError, RemoteProtocolError
from tests.transports.soar.fuzz import guided
from tests.transports.soar.fuzz.guided import Target, fuzz, main, replay
from tests.transports.soar.fuzz.targets import TARGETS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

HERE = sys.modules[__name__]
SOAK_SECONDS = 40.0


class Planted(Exception):
    """What no blind guess finds."""


def deep(data: bytes) -> None:
    """Break on four octets that are only found one after the other."""
    for place, octet in enumerate(b"\xc0\x3f\x0f\x1f"):
        if data[place : place + 1] != bytes((octet,)):
            return
    raise Planted


def often(data: bytes) -> None:
    """Break on what only shows if one tells how often a line was run."""
    zeros = 0
    for octet in data:
        if octet == 0:
            zeros += 1
    if zeros >= 8:
        raise Planted


def endless(data: bytes) -> None:
    at = 0
    while at < len(data):
        at += data[at]


def picky(data: bytes) -> None:
    if len(data) % 2:
        raise RemoteProtocolError("an odd number of octets")


def target(
    run: Callable[[bytes], object], seeds: Iterable[bytes] = (b"abcd",), *, watch: bool = True
) -> Target:
    return Target(
        name="planted", run=run, seeds=lambda: seeds, watched=(HERE,) if watch else (), longest=64
    )


def test_it_finds_step_by_step_what_no_blind_guess_finds(tmp_path: Path) -> None:
    found = fuzz(target(deep), seed=1, executions=6_000, out=tmp_path)
    (crash,) = found.crashes
    assert isinstance(crash.error, Planted)
    assert crash.data == b"\xc0\x3f\x0f\x1f"
    (file,) = tmp_path.iterdir()
    assert file.name.startswith("Planted-")
    assert file.read_bytes() == crash.data
    assert isinstance(replay(target(deep), crash.data), Planted)
    assert replay(target(deep), crash.data[:3]) is None
    assert re.search(r"Planted: .*fromhex\('c03f0f1f'\)", str(crash), re.DOTALL)

    blind = fuzz(target(deep, watch=False), seed=1, executions=6_000)
    assert blind.crashes == []


def test_it_tells_how_often_a_step_was_taken() -> None:
    (crash,) = fuzz(target(often, [b"abcdefgh"]), seed=3, executions=1_500).crashes
    assert crash.data == bytes(8)


def test_an_input_that_keeps_a_parser_busy_breaks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guided, "MAX_LINES", 1000)
    (crash,) = fuzz(target(endless, [b"\x01"]), seed=1, executions=100).crashes
    assert isinstance(crash.error, guided.Endless)
    assert crash.data == b"\0"


def test_what_a_parser_may_raise_is_no_crash() -> None:
    assert fuzz(target(picky), seed=1, executions=500).crashes == []

    def wrong(data: bytes) -> None:
        raise LocalProtocolError("our own fault")

    assert len(fuzz(target(wrong), seed=1, executions=50).crashes) == 1


def test_the_same_seed_gives_the_same_run() -> None:
    first, second, third = (
        fuzz(target(often), seed=seed, executions=400).corpus for seed in (5, 5, 6)
    )
    assert first == second != third


def test_the_trace_that_was_there_is_there_again() -> None:
    def trace(frame: object, event: str, arg: object) -> None:
        return None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        fuzz(target(picky), seed=1, executions=10)
        assert sys.gettrace() is trace
    finally:
        sys.settrace(before)


def test_targets_have_names_of_their_own() -> None:
    names = [each.name for each in TARGETS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("each", TARGETS, ids=lambda each: each.name)
def test_seeds_are_read_and_a_few_changes_break_nothing(each: Target) -> None:
    seeds = list(each.seeds())
    assert seeds
    outcome = fuzz(each, seed=20, executions=len(seeds) + 150)
    assert outcome.crashes == []
    assert outcome.steps


@pytest.mark.soak
@pytest.mark.timeout(6 * SOAK_SECONDS)
@pytest.mark.parametrize("each", TARGETS, ids=lambda each: each.name)
def test_nothing_breaks_a_parser_for_a_while(each: Target, tmp_path: Path) -> None:
    seed = random.randrange(2**32)  # of the run's own printed seed
    outcome = fuzz(each, seed=seed, seconds=SOAK_SECONDS, out=tmp_path)
    assert [str(crash) for crash in outcome.crashes] == []
    assert outcome.executions > 1000


def test_from_the_command_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    planted = target(deep, [b"\xc0\x3f\x0f\x1f", b"x"])
    monkeypatch.setattr("tests.transports.soar.fuzz.targets.TARGETS", (planted, *TARGETS[1:]))
    out = tmp_path / "crashers"
    assert main(["planted", "--seconds", "0", "--seed", "4", "--out", str(out)]) == 1
    told = capsys.readouterr().out
    assert "planted: 2 inputs" in told
    assert "1 crashes (seed 4)" in told
    assert len(list(out.iterdir())) == 1
    assert main([TARGETS[1].name, "--seconds", "0"]) == 0
    with pytest.raises(SystemExit):
        main(["nobody"])
    assert "no target is called nobody" in capsys.readouterr().err
