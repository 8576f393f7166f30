"""The system's resolver: one question as everybody asks it, IPv4 alone when that takes long, and a bound on both."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import pytest

from racer.abc import Stage
from racer.errors import TransportBusy
from tests.transports.net.world import BOTH, V4, V6, answer4, answers
from transports._net import resolve
from transports._net.lookups import LookupThreads
from transports._net.resolve import Answer, SystemResolver

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from transports._net.addresses import Family

pytestmark = pytest.mark.every_loop

NO_SUCH_NAME = socket.gaierror(socket.EAI_NONAME, "no such name")

Info = tuple[int, int, int, str, tuple[Any, ...]]


def info4(address: str) -> Info:
    return socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)


def info6(address: str, scope: int = 0) -> Info:
    return socket.AF_INET6, socket.SOCK_STREAM, 6, "", (address, 0, 0, scope)


@dataclass
class System:
    """A `getaddrinfo` that answers from a table, and blocks at the gate of a family while there is one."""

    table: dict[int, list[Info] | Exception] = field(default_factory=dict)
    gates: dict[int, threading.Event] = field(default_factory=dict)
    calls: list[tuple[str, int]] = field(default_factory=list)
    asked: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def __call__(self, host: str, port: object, family: int, kind: int) -> list[Info]:
        assert (port, kind) == (None, socket.SOCK_STREAM)
        self.calls.append((host, family))
        self.asked.release()
        if gate := self.gates.get(family):
            assert gate.wait(30)
        found = self.table.get(family, NO_SUCH_NAME)
        if isinstance(found, Exception):
            raise found
        return found

    def shut(self, *families: int) -> None:
        self.gates |= {family: threading.Event() for family in families}

    def open(self) -> None:
        for gate in self.gates.values():
            gate.set()

    async def was_asked(self, times: int = 1) -> None:
        for _ in range(times):
            assert await anyio.to_thread.run_sync(self.asked.acquire, True, 30)


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> Iterator[System]:
    """Stand in for the system, with pools that no other test has used."""
    system = System()
    monkeypatch.setattr(socket, "getaddrinfo", system)
    monkeypatch.setattr(resolve, "_main", LookupThreads(name="test-main", max_stuck=6))
    monkeypatch.setattr(resolve, "_spare", LookupThreads(name="test-spare", max_stuck=2))
    yield system
    system.open()


async def ask(
    reports: list[Answer], families: Sequence[Family] = BOTH, name: str = "name.example"
) -> None:
    await SystemResolver().resolve(name, families, reports.append)


async def give_up(system: System, *, questions: int) -> None:
    """Ask, wait until so many questions have reached the system, and give up."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, [])
        await system.was_asked(questions)
        tasks.cancel_scope.cancel()


# --- what is asked, and what is made of the answer ------------------------------------------


async def test_one_question_for_all_families_keeps_the_systems_order(system: System) -> None:
    infos = [info4("1.1.1.1"), info6("::2"), info6("::1"), info4("2.2.2.2")]
    system.table[socket.AF_UNSPEC] = infos
    reports: list[Answer] = []
    await ask(reports)
    assert reports == [answers("1.1.1.1", "::2", "::1", "2.2.2.2")]
    assert system.calls == [("name.example", socket.AF_UNSPEC)]


@pytest.mark.parametrize(
    ("family", "number", "info", "address"),
    [
        (V4, socket.AF_INET, info4("1.1.1.1"), "1.1.1.1"),
        (V6, socket.AF_INET6, info6("::1"), "::1"),
    ],
)
async def test_one_family_is_asked_for_alone(
    system: System, family: Family, number: int, info: Info, address: str
) -> None:
    system.table[number] = [info]
    reports: list[Answer] = []
    await ask(reports, (family,))
    assert reports == [Answer(families=(family,), addresses=(address,))]
    assert system.calls == [("name.example", number)]


@pytest.mark.parametrize(
    ("infos", "addresses"),
    [
        ([info4("1.1.1.1"), info4("1.1.1.1")], ["1.1.1.1"]),
        ([info6("fe80::1", 3), info6("fe80::1", 4)], ["fe80::1%3", "fe80::1%4"]),
        ([info6("fe80::1%eth0", 3)], ["fe80::1%eth0"]),
        ([(1, socket.SOCK_STREAM, 0, "", ("/a/unix/socket",)), info4("1.1.1.1")], ["1.1.1.1"]),
        ([], []),
    ],
)
async def test_what_is_made_of_the_systems_words(
    system: System, infos: list[Info], addresses: list[str]
) -> None:
    system.table[socket.AF_UNSPEC] = infos
    reports: list[Answer] = []
    await ask(reports)
    assert reports == [answers(*addresses)]


async def test_the_systems_error_is_raised_as_it_is(system: System) -> None:
    system.table[socket.AF_UNSPEC] = NO_SUCH_NAME
    with pytest.raises(socket.gaierror) as caught:
        await ask([])
    assert caught.value is NO_SUCH_NAME


async def test_a_name_the_codec_refuses_does_not_exist(system: System) -> None:
    system.table[socket.AF_UNSPEC] = UnicodeError("label too long")
    with pytest.raises(socket.gaierror, match="label too long") as caught:
        await ask([])
    assert caught.value.errno == socket.EAI_NONAME


async def test_the_real_system_knows_its_own_name() -> None:
    reports: list[Answer] = []
    await ask(reports, name="localhost")
    assert {"127.0.0.1", "::1"} & set(reports[-1].addresses)


# --- a slow answer --------------------------------------------------------------------------


async def test_ipv4_is_asked_for_alone_when_the_whole_answer_takes_long(system: System) -> None:
    system.table = {
        socket.AF_UNSPEC: [info6("::1"), info4("1.1.1.1")],
        socket.AF_INET: [info4("1.1.1.1")],
    }
    system.shut(socket.AF_UNSPEC)
    reports: list[Answer] = []

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, reports)
        await system.was_asked(2)
        while not reports:
            await anyio.lowlevel.checkpoint()
        assert reports == [answer4("1.1.1.1")]
        system.open()
    assert reports[1:] == [answers("::1", "1.1.1.1")]
    assert [family for _, family in system.calls] == [socket.AF_UNSPEC, socket.AF_INET]


async def test_the_whole_answer_may_come_before_the_one_for_ipv4(system: System) -> None:
    system.table[socket.AF_UNSPEC] = [info4("1.1.1.1")]
    system.shut(socket.AF_UNSPEC, socket.AF_INET)
    reports: list[Answer] = []

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, reports)
        await system.was_asked(2)
        system.gates[socket.AF_UNSPEC].set()
    assert reports == [answers("1.1.1.1")]
    assert SystemResolver().stuck == 1


async def test_what_ipv4_alone_says_of_failure_is_not_the_last_word(system: System) -> None:
    system.table = {socket.AF_UNSPEC: [info6("::1")], socket.AF_INET: NO_SUCH_NAME}
    system.shut(socket.AF_UNSPEC)
    reports: list[Answer] = []

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, reports)
        await system.was_asked(2)
        system.open()
    assert reports == [answers("::1")]


async def test_ipv6_alone_has_nothing_to_ask_beside_it(system: System) -> None:
    system.table[socket.AF_INET6] = [info6("::1")]
    system.shut(socket.AF_INET6)
    reports: list[Answer] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, reports, (V6,))
        await system.was_asked()
        system.open()
    assert reports == [Answer(families=(V6,), addresses=("::1",))]
    assert len(system.calls) == 1


# --- stuck ----------------------------------------------------------------------------------


async def test_giving_up_returns_at_once_and_counts_what_is_stuck(system: System) -> None:
    system.shut(socket.AF_UNSPEC, socket.AF_INET)
    assert SystemResolver().stuck == 0
    await give_up(system, questions=2)
    assert SystemResolver().stuck == 2
    system.open()
    while SystemResolver().stuck:
        await anyio.lowlevel.checkpoint()


async def test_a_cancelled_task_asks_nothing(system: System) -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await ask([])
    assert scope.cancelled_caught
    assert system.calls == []


async def test_a_stuck_name_delays_no_other(system: System) -> None:
    system.shut(socket.AF_UNSPEC)
    await give_up(system, questions=1)
    stuck = system.gates.pop(socket.AF_UNSPEC)
    system.table[socket.AF_UNSPEC] = [info4("1.1.1.1")]
    reports: list[Answer] = []
    await ask(reports, name="other.example")
    assert reports == [answers("1.1.1.1")]
    assert SystemResolver().stuck == 1
    stuck.set()


async def test_where_questions_for_ipv6_are_swallowed_ipv4_goes_on(system: System) -> None:
    system.table[socket.AF_INET] = [info4("1.1.1.1")]
    system.shut(socket.AF_UNSPEC)
    for _ in range(6):
        await give_up(system, questions=2)
    assert SystemResolver().stuck == 6
    system.calls.clear()

    for _ in range(3):
        reports: list[Answer] = []
        with pytest.raises(TransportBusy, match="6 earlier lookups"):
            await ask(reports)
        assert reports == [answer4("1.1.1.1")]
    assert {family for _, family in system.calls} == {socket.AF_INET}


async def test_with_eight_stuck_a_new_lookup_is_refused_and_says_so(system: System) -> None:
    system.shut(socket.AF_UNSPEC, socket.AF_INET)
    for _ in range(2):
        await give_up(system, questions=2)
    for _ in range(4):
        await give_up(system, questions=1)
    assert SystemResolver().stuck == 8
    calls = len(system.calls)
    with pytest.raises(TransportBusy) as caught:
        await ask([])
    assert str(caught.value) == (
        "name.example was not looked up: 8 earlier lookups were given up and are still stuck in the system's resolver"
    )
    assert caught.value.stage is Stage.RESOLVE
    with pytest.raises(TransportBusy):
        await ask([], (V6,))
    assert len(system.calls) == calls

    system.open()
    system.table[socket.AF_UNSPEC] = [info4("1.1.1.1")]
    while SystemResolver().stuck:
        await anyio.lowlevel.checkpoint()
    reports: list[Answer] = []
    await ask(reports)
    assert reports == [answers("1.1.1.1")]


async def test_eight_that_were_given_up_at_once_are_eight_too(system: System) -> None:
    system.shut(socket.AF_UNSPEC, socket.AF_INET)
    for _ in range(8):
        await give_up(system, questions=1)
    assert SystemResolver().stuck >= 8
    with pytest.raises(TransportBusy, match="still stuck"):
        await ask([])


# --- the process's end, and its children ----------------------------------------------------


def run_program(program: str, *arguments: str) -> str:
    """Return what a program prints; it must end by itself, and well."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


STUCK = """
import sys, threading, socket
import anyio
from racer.abc import Progress, Target
from transports.direct import Direct

asked = threading.Semaphore(0)

def stuck(*args, **options):
    asked.release()
    threading.Event().wait()

socket.getaddrinfo = stuck
direct = Direct()

async def give_up():
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(direct.connect, Target("name.example", 443), Progress())
        await anyio.to_thread.run_sync(asked.acquire)
        tasks.cancel_scope.cancel()

LOOPS = {"asyncio": ("asyncio", {}), "uvloop": ("asyncio", {"use_uvloop": True}), "trio": ("trio", {})}
"""


@pytest.mark.parametrize("loop", ["asyncio", "trio", *(["uvloop"] if os.name == "posix" else [])])
def test_a_process_ends_although_lookups_are_stuck(loop: str) -> None:
    program = STUCK + (
        "async def main():\n"
        "    for _ in range(3): await give_up()\n"
        "backend, options = LOOPS[sys.argv[1]]\n"
        "anyio.run(main, backend=backend, backend_options=options)\n"
        "print('the loop has ended,', direct.status().health)\n"
    )
    assert run_program(program, loop).startswith("the loop has ended, ")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
def test_a_forked_child_has_threads_of_its_own_and_no_stuck_lookups() -> None:
    program = STUCK + (
        "import os\n"
        "from transports._net import resolve\n"
        "async def main():\n"
        "    for _ in range(8): await give_up()\n"
        "anyio.run(main)\n"
        "resolve._main._lock.acquire()\n"  # as if another thread had it at that moment
        "child = os.fork()\n"
        "if child:\n"
        "    _, status = os.waitpid(child, 0)\n"
        "    print('the child ended with', os.waitstatus_to_exitcode(status))\n"
        "else:\n"
        "    socket.getaddrinfo = lambda *args: [(socket.AF_INET, 1, 6, '', ('127.0.0.1', 0))]\n"
        "    listener = socket.create_server(('127.0.0.1', 0))\n"
        "    async def child_main():\n"
        "        assert direct.status().health == 'ok'\n"
        "        stream = await direct.connect(Target('name.example', listener.getsockname()[1]), Progress())\n"
        "        await stream.aclose()\n"
        "    try: anyio.run(child_main)\n"
        "    except BaseException: os._exit(1)\n"
        "    os._exit(7)\n"
    )
    assert run_program(program) == "the child ended with 7\n"
