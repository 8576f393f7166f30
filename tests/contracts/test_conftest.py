"""The suite's own rules hold, and each of them can fail: a small suite breaks every one on purpose."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SUITE = """
from __future__ import annotations

import asyncio
import socket
import time
import warnings

import anyio
import pytest

import racer

PEER = ("192.0.2.1", 9)  # RFC 5737: an address nobody has


def udp():
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


def test_fails_connect_away():
    with udp() as sock:
        sock.connect(PEER)

def test_fails_send_away_though_swallowed():
    with udp() as sock, pytest.raises(RuntimeError, match="192.0.2.1"):
        sock.sendto(b"", PEER)

def test_fails_lookup():
    with pytest.raises(RuntimeError, match="example.com"):
        socket.getaddrinfo("example.com", 443)

async def test_fails_async_connect():
    with pytest.raises(RuntimeError):
        await anyio.connect_tcp("192.0.2.1", 9)

def test_fails_forgotten_socket():
    udp()

def test_fails_warning():
    warnings.warn("a warning", stacklevel=1)

def test_fails_blocking_call():
    ours = compile("time.sleep(0)", f"{racer.__path__[0]}/planted.py", "exec")

    async def main():
        exec(ours, {"time": time})

    asyncio.run(main())

async def test_fails_real_sleep():
    async def nested():
        await anyio.sleep(0.02)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(nested)

async def test_passes_sleep_that_ends_early():
    with anyio.move_on_after(0):
        await anyio.sleep(60)
    await anyio.sleep(0)

def test_fails_strange_mark():
    pytest.mark.unheard_of

@pytest.mark.xfail(reason="passes after all")
def test_fails_expected_failure_that_passes():
    pass

def test_passes_loopback():
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname(), timeout=10):
            pass
    socket.getaddrinfo("localhost", 80)
    socket.getaddrinfo("192.0.2.1", 80)

async def test_passes_on_two_loops(anyio_backend_name):
    await anyio.lowlevel.checkpoint()

@pytest.mark.every_loop
async def test_passes_on_three_loops(anyio_backend_name):
    await anyio.lowlevel.checkpoint()

@pytest.mark.virtual_time
@pytest.mark.parametrize("hours", [24, 48])
async def test_passes_on_virtual_clocks(hours):
    assert anyio.current_time() == 0
    await anyio.sleep(hours * 3600)
    assert anyio.current_time() == hours * 3600

@pytest.mark.skip(reason="not today")
def test_skips():
    pass

@pytest.mark.xfail(reason="known")
def test_xfails():
    raise AssertionError

@pytest.mark.network
@pytest.mark.parametrize("mark", ["network"])
def test_deselected(mark):
    raise AssertionError

@pytest.mark.soak
def test_deselected_too():
    raise AssertionError
"""
SKIPPED_MODULE = """
from __future__ import annotations

import pytest

pytest.skip("no such system", allow_module_level=True)
"""
DICE = """
from __future__ import annotations

import random
from pathlib import Path

import pytest


@pytest.mark.parametrize("number", [1, 2, 3])
def test_throws(number):
    with Path(__file__).with_name("thrown").open("a") as file:
        file.write(f"{number} {random.random()}\\n")
"""
CYCLE = """
from __future__ import annotations

import socket


def test_leaves_a_socket_that_only_the_collector_finds():
    held = [socket.socket()]
    held.append(held)
"""
FAILS = SUITE.count("test_fails_") + 2  # the async ones fail on both loops
PASSES = 1 + 2 + 2 + 3 + 4

pytest_plugins = ["pytester"]


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project of its own with this one's conftest and settings."""
    for name in ("CI", "PYTEST_ADDOPTS", "PYTEST_PLUGINS"):
        monkeypatch.delenv(name, raising=False)
    pytester.makeconftest((ROOT / "tests/conftest.py").read_text(encoding="utf-8"))
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    pytester.makepyprojecttoml(settings.replace('testpaths = ["tests"]', ""))
    pytester.makepyfile(test_suite=SUITE, test_skipped_module=SKIPPED_MODULE, test_cycle=CYCLE)
    return pytester


def test_every_rule_can_fail(suite: pytest.Pytester) -> None:
    result = suite.runpytest_subprocess("-n1", "-p", "no:cacheprovider")
    result.assert_outcomes(
        failed=FAILS, passed=PASSES + 1, errors=1, skipped=2, xfailed=1, warnings=0
    )
    result.stdout.fnmatch_lines(["ERROR test_cycle.py::*"])
    failed = [line for line in result.outlines if line.startswith("FAILED")]
    assert len(failed) == FAILS
    assert all("test_fails_" in line for line in failed)
    result.stdout.fnmatch_lines(["*a test may not send to '192.0.2.1'*"])


def test_a_skip_in_ci_is_a_failure(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    result = suite.runpytest_subprocess(
        "-n0", "-p", "no:cacheprovider", "-k", "skip or xfails", "--continue-on-collection-errors"
    )
    result.assert_outcomes(errors=2, xfailed=1, deselected=FAILS + PASSES + 3)
    result.stdout.fnmatch_lines_random(
        ["*test_skips: everything runs in CI*not today*", "*everything runs in CI*no such system*"]
    )


def test_a_seed_repeats_what_random_gives(suite: pytest.Pytester) -> None:
    suite.makepyfile(test_dice=DICE)
    thrown = suite.path / "thrown"

    def throw(*options: str, count: int = 3) -> set[str]:
        thrown.write_text("")
        suite.runpytest_subprocess("-n0", "test_dice.py", *options).assert_outcomes(
            passed=count, deselected=3 - count
        )
        return set(thrown.read_text().splitlines())

    first = throw("--randomly-seed=5")
    assert len({line.split()[1] for line in first}) == 3
    assert throw("--randomly-seed=5", "-k", "3 or 1", count=2) < first
    assert not first & throw("--randomly-seed=6")
