"""Which event loops a test runs on, what it may reach, and when a skip is a failure."""

from __future__ import annotations

import asyncio
import functools
import gc
import ipaddress
import os
import random
import socket
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest
import trio
from _pytest.runner import runtestprotocol
from blockbuster import BlockBuster
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Iterator

HERE = Path(__file__).parent
REAL_LOOPS: dict[str, dict[str, Any]] = {"asyncio": {}, "trio": {}}
SHORT_S = 0.01  # a story may have a pause in it for others to cut; it may not wait
UVLOOP = "uvloop"
VIRTUAL = "virtual-"
IN_CI = os.environ.get("CI", "").lower() in {"1", "true"}

settings.register_profile(
    "racer",
    max_examples=40,
    deadline=None,  # the machine is shared; a slow example is not a wrong one
    print_blob=True,
    # `anyio_backend` is a description, not a loop: every example gets a loop of its own.
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
settings.register_profile("soak", parent=settings.get_profile("racer"), max_examples=1_000)
settings.load_profile("racer")


# --- the same dice each time ----------------------------------------------------------------


def pytest_configure(config: pytest.Config) -> None:
    config.option.randomly_reset_seed = False  # three times a test, NumPy's too: we throw once


def _throw_dice_of(item: pytest.Item) -> None:
    """Make what `random` gives depend on the run's seed and the test alone."""
    random.seed(f"{item.config.getoption('randomly_seed', 0)} {item.nodeid}")


# --- a test says one thing ------------------------------------------------------------------


@pytest.hookimpl(specname="pytest_runtest_protocol")
def pytest_protocol_that_says_one_thing(
    item: pytest.Item, nextitem: pytest.Item | None
) -> bool | None:
    """Send the process that hands out tests how a test ended, but neither that it began nor that all is well around it.

    Six messages a test, packed, sent, unpacked and counted, took as long as all else that pytest does for it. What asks
    for the others gets them: `-v`, `--durations`, `--junitxml`, `--hypothesis-show-statistics`.
    """
    asked = item.config.getoption
    if (
        not hasattr(item.config, "workerinput")
        or asked("verbose") > 0
        or asked("durations") is not None
        or asked("xmlpath", None)
        or asked("--hypothesis-show-statistics", False)
    ):
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed or report.sections or report.user_properties:
            if report.passed:
                report.keywords = {}  # marks and parents: a dozen names nobody reads
            item.ihook.pytest_runtest_logreport(report=report)
    return True


# --- event loops ----------------------------------------------------------------------------


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "anyio_backend" not in metafunc.fixturenames:
        return
    if metafunc.definition.get_closest_marker("virtual_time"):
        loops = [VIRTUAL + loop for loop in REAL_LOOPS]
    else:
        loops = list(REAL_LOOPS)
        if metafunc.definition.get_closest_marker("every_loop") and sys.platform != "win32":
            loops.append(UVLOOP)
    metafunc.parametrize("anyio_backend", loops, indirect=True)


@pytest.fixture
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """The loop to run on, made new for each test so that every virtual clock starts at zero."""
    loop: str = request.param
    if loop == UVLOOP:
        return "asyncio", {"use_uvloop": True}
    if loop.startswith(VIRTUAL):
        # Here, not above: coverage has to be running before a package is imported.
        from racer.testing import virtual_backends

        return next(b for b in virtual_backends() if b[0] == loop.removeprefix(VIRTUAL))
    return loop, dict(REAL_LOOPS[loop])


# --- looking for garbage stays cheap --------------------------------------------------------

# Loading and collecting drops next to nothing. The process that only hands out tests goes on like this.
gc.disable()


def pytest_collection_finish() -> None:
    """Take what was loaded and collected out of the collector's sight: it stays to the end of the run.

    Stories about leaks call `gc.collect()` very often, and each call walks all that is there: fourteen thousand tests
    weigh more than anything they make.
    """
    _look_and_forget()
    gc.enable()


@pytest.fixture(autouse=True, scope="module")
def nothing_old_is_walked() -> Iterator[None]:
    """Let nothing that the tests of a module have left be walked in the next one; what they dropped warns in theirs."""
    yield
    _look_and_forget()


def _look_and_forget() -> None:
    gc.collect()
    gc.freeze()


# --- nothing leaves the machine -------------------------------------------------------------


class NetworkReached(RuntimeError):
    """A test tried to leave the loopback interface."""


class _SocketGuard:
    """Refuses traffic to anything but loopback while a test runs.

    An audit hook sees every socket call of the process whatever library makes it, and its
    exception stops the call. The exception may be swallowed by the code under test (a race
    survives a failed attempt), so each one is also kept for the test's verdict.
    """

    def __init__(self) -> None:
        self.armed = False
        self.violations: list[str] = []

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.armed:
            return
        match event:
            case "socket.connect" | "socket.sendto" | "socket.sendmsg":
                sock, address = args
                if sock.family in {socket.AF_INET, socket.AF_INET6} and address is not None:
                    self._judge(event, address[0], "send to")
            case "socket.getaddrinfo" | "socket.gethostbyname" | "socket.gethostbyaddr":
                self._judge(event, args[0], "look up", lookup=True)
            case _:
                pass

    def _judge(
        self, event: str, host: str | bytes | None, verb: str, *, lookup: bool = False
    ) -> None:
        name = host.decode("ascii", "replace") if isinstance(host, bytes) else host
        if name in {None, "", "localhost"}:
            return
        try:
            address = ipaddress.ip_address(str(name).partition("%")[0])
        except ValueError:
            pass
        else:
            mapped = getattr(address, "ipv4_mapped", None)
            if lookup or (mapped or address).is_loopback:
                return
        violation = f"{event}: a test may not {verb} {name!r}; use loopback or a fake"
        self.violations.append(violation)
        raise NetworkReached(violation)

    @contextmanager
    def verdict(self) -> Iterator[None]:
        """Fail the test whose phase runs inside if anything was refused during it."""
        try:
            yield
        except BaseException as exc:
            for violation in self.violations:
                exc.add_note(violation)
            raise
        else:
            if self.violations:
                pytest.fail("\n".join(self.violations), pytrace=False)
        finally:
            self.violations.clear()


_guard = _SocketGuard()
sys.addaudithook(_guard)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    _guard.armed = item.get_closest_marker("network") is None
    _guard.violations.clear()
    _throw_dice_of(item)
    try:
        return (yield)
    finally:
        _guard.armed = False


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    with _guard.verdict(), _no_real_waits(item):
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    with _guard.verdict():
        yield


# --- nothing waits for real time ------------------------------------------------------------


@contextmanager
def _no_real_waits(item: pytest.Item) -> Iterator[None]:
    """Fail a test that slept on a real loop, and was not cancelled out of it."""
    callspec = getattr(item, "callspec", None)
    if callspec is None or callspec.params.get("anyio_backend") not in {*REAL_LOOPS, UVLOOP}:
        yield
        return
    waits: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        for module in (anyio, asyncio, trio):
            patch.setattr(module, "sleep", _watched(module.sleep, waits))
        yield
    if waits:
        pytest.fail("\n".join(waits), pytrace=False)


def _watched(sleep: Callable[..., Awaitable[Any]], waits: list[str]) -> Callable[..., Any]:
    @functools.wraps(sleep)
    async def watched(delay: float, *args: Any, **options: Any) -> Any:
        caller = sys._getframe(1)
        result = await sleep(delay, *args, **options)
        if delay > SHORT_S and Path(caller.f_code.co_filename).is_relative_to(HERE):
            where = f"{Path(caller.f_code.co_filename).relative_to(HERE)}:{caller.f_lineno}"
            waits.append(f"{where}: a test slept for {delay} real seconds; mark it virtual_time")
        return result

    return watched


# --- nothing of ours holds the loop up ------------------------------------------------------


@pytest.fixture(autouse=True, scope="session")
def no_blocking_calls() -> Iterator[None]:
    """Let a blocking call under a frame of ours raise where an asyncio loop runs."""
    tempfile.gettempdir()  # tries out folders once a process, on behalf of whichever test comes first
    detector = BlockBuster(["racer", "transports"], excluded_modules=["racer.testing"])
    detector.activate()
    yield
    detector.deactivate()


# --- a skip in CI is a failure --------------------------------------------------------------


def _fail_if_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    if not (IN_CI and report.skipped) or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
    report.outcome = "failed"
    report.longrepr = f"{report.nodeid}: everything runs in CI, but this was skipped: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _fail_if_skipped(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _fail_if_skipped(report)
    return report
