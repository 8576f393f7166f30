"""Client, resolver and server with two links between: in network namespaces where root and a C compiler are, else on loopback.

In namespaces every packet of every program crosses the links, so that source ports, fragments and TCP are as they would
be. The packets are carried by a program of ours in C: in Python that work alone would take a core. On loopback two relays
carry datagrams, which costs more of the machine's time, and needs neither.
"""

from __future__ import annotations

import compileall
import contextlib
import enum
import json
import os
import shutil
import socket
import subprocess
import sys
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import anyio
import anyio.to_thread

from benchmarks._results import Unusable
from racer.lab.packets._namespaces import Namespace, why_unavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    from anyio.abc import Process

    from benchmarks._soar_links import Half, Link

__all__ = (
    "Address",
    "Counts",
    "Ground",
    "Host",
    "Lab",
    "chosen_ground",
    "compile_sources",
    "free_ports",
    "in_turns",
    "running",
    "said",
)

_ROOT: Final = Path(__file__).parents[1]
_SOURCE: Final = Path(__file__).with_name("_packet_link.c")
_LOOPBACK: Final = "127.0.0.1"
_ADDRESSES: Final = ("198.18.0.1", "198.18.0.2", "198.18.0.3")  # set apart for measuring, RFC 2544
_QUEUE: Final = 5000  # packets that a device holds for the link
_FAREWELL: Final = 3.0  # seconds that a program has to end
# Without bytecode each start of Python compiles all that it loads, which no user's does.
_NOT_HANDED_ON: Final = frozenset({"PYTHONDONTWRITEBYTECODE"})
_START: Final = 20.0  # seconds that one of ours has to say that it is there


class Address(NamedTuple):
    """Where something listens."""

    host: str
    port: int


class Host(enum.Enum):
    """Where a program runs."""

    CLIENT = 0
    RESOLVER = 1
    SERVER = 2


class Ground(enum.Enum):
    """What the links are made of."""

    NAMESPACES = "namespaces"
    RELAYS = "relays"

    @property
    def words(self) -> str:
        """What that is, for people."""
        if self is Ground.NAMESPACES:
            return "packet by packet, in network namespaces of this machine"
        return "by relays for datagrams on loopback, which take processor time of their own"


@dataclass(frozen=True, slots=True)
class Counts:
    """What has crossed the link between client and resolver: UDP alone.

    Attributes:
        questions: datagrams that the client sent.
        octets_up: of them; with their IP headers where packets were counted.
        answers: datagrams that came from the resolver.
        octets_down: likewise.
    """

    questions: int
    octets_up: int
    answers: int
    octets_down: int


def chosen_ground(wish: str | None) -> tuple[Ground, str | None]:
    """Return what links are made of, and why it is not namespaces.

    Args:
        wish: `namespaces`, `relays`, or `None` for the better that can be had.

    Raises:
        Unusable: namespaces are wished for, and cannot be had.
    """
    if wish == Ground.RELAYS.value:
        return Ground.RELAYS, None
    reason = why_unavailable()
    if reason is None and shutil.which("cc") is None:
        reason = "there is no C compiler `cc` to make the links with (Debian: gcc)"
    if reason is None:
        return Ground.NAMESPACES, None
    if wish is not None:
        msg = f"network namespaces cannot be had here: {reason}; run it as root on Linux, or with --network relays"
        raise Unusable(msg)
    return Ground.RELAYS, reason


@contextmanager
def in_turns() -> Iterator[None]:
    """Let the programs that are started meanwhile, on Linux, not interrupt each other for a packet that has come.

    Four hosts share a machine's cores here. Where a packet wakes its receiver on the core of its sender, as Linux has
    it, there are as many switches as packets, which no host on a machine of its own pays for: the same work then took
    about a fifth more processor time. With the batch policy (sched(7)) a program that runs is let finish its turn.
    """
    if not hasattr(os, "SCHED_BATCH"):
        yield
        return
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    with contextlib.suppress(PermissionError):  # of a policy that may not be left
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    try:
        yield
    finally:
        with contextlib.suppress(PermissionError):
            os.sched_setscheduler(0, *before)


class Lab:
    """One client, one resolver and one server, and what lies between; made by `Lab.of`.

    Attributes:
        ground: what the links are made of.
        listens: where the server has to listen.
        upstream: where the resolver has to ask it.
        answers: where the resolver has to listen.
        asks: where the client has to ask it.
        origin: where what the server leads to has to listen.
    """

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self._hosts: list[Namespace] = []
        self._link: Process | None = None
        if ground is Ground.NAMESPACES:
            _, resolver, server = _ADDRESSES
            self.answers = self.asks = Address(resolver, 53)
            self.listens = self.upstream = Address(server, 53)
            self.origin = Address(server, 7777)
        else:
            self.answers, self.asks, self.listens, self.upstream, self.origin = (
                Address(_LOOPBACK, port) for port in free_ports(5)
            )

    @classmethod
    @asynccontextmanager
    async def of(cls, link: Link, ground: Ground, *, seed: int) -> AsyncIterator[Lab]:
        """Make one; leaving takes it away.

        Raises:
            Unusable: it cannot be made; says why.
        """
        lab = cls(ground)
        async with AsyncExitStack() as stack:
            if ground is Ground.NAMESPACES:
                await lab._make_namespaces(link, seed, stack)
            else:
                await lab._make_relays(link, seed, stack)
            yield lab

    def command(self, host: Host, *command: str) -> list[str]:
        """Return a command line that runs `command` on that host."""
        return (
            self._hosts[host.value].command(*command)
            if self.ground is Ground.NAMESPACES
            else list(command)
        )

    async def counts(self) -> Counts:
        """Return what has crossed the link between client and resolver so far.

        Raises:
            Unusable: the program that is the link has ended.
        """
        assert self._link is not None
        assert self._link.stdin is not None
        try:
            await self._link.stdin.send(b"\n")
            told = (await _line(self._link)).split()
        except (anyio.BrokenResourceError, anyio.EndOfStream) as exc:
            msg = f"the link between the hosts ended by itself (status {self._link.returncode}): a bug of this benchmark"
            raise Unusable(msg) from exc
        return Counts(*map(int, told[:4]))

    async def _make_namespaces(self, link: Link, seed: int, stack: AsyncExitStack) -> None:
        folder = await stack.enter_async_context(anyio.TemporaryDirectory(prefix="racer-"))
        program = f"{folder}/packet_link"
        await _compile(program)
        words = [program, str(seed)]
        for half in (link.near, link.far):
            words += [str(round(half.delay * 1e6)), str(round(half.loss * 1e6))]
        files = []
        for name, address in zip(("client", "resolver", "server"), _ADDRESSES, strict=True):
            host = await stack.enter_async_context(Namespace(name, [address]))
            self._hosts.append(host)
            device = ["ip", "link", "set", host.tun.name, "txqueuelen", str(_QUEUE)]
            await anyio.run_process(host.command(*device))
            files.append(host.tun.fileno())
            words += [str(host.tun.fileno()), address]
        self._link = await stack.enter_async_context(running(words, pass_fds=files))

    async def _make_relays(self, link: Link, seed: int, stack: AsyncExitStack) -> None:
        relays = [
            await stack.enter_async_context(running(_relay(*each, seed=seed + number)))
            for number, each in enumerate(
                [(self.asks, self.answers, link.near), (self.upstream, self.listens, link.far)]
            )
        ]
        for relay in relays:
            await _line(relay)
        self._link = relays[0]


def _relay(listen: Address, upstream: Address, half: Half, *, seed: int) -> list[str]:
    told = {"listen": listen, "upstream": upstream, "seed": seed}
    told |= {"delay": half.delay, "loss": half.loss}
    return [sys.executable, "-m", "benchmarks._soar_relay", json.dumps(told)]


async def _compile(program: str) -> None:
    done = await anyio.run_process(
        ["cc", "-O2", "-std=c11", "-o", program, str(_SOURCE)], check=False
    )
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        msg = f"the C compiler cannot make the links ({said[-1] if said else done.returncode}); take --network relays"
        raise Unusable(msg)


def compile_sources() -> bool:
    """Compile what clients load, as an installer does, so that no start is the one that does; return whether that went well."""
    folders = (_ROOT / "src", _ROOT / "benchmarks")
    return all(compileall.compile_dir(folder, quiet=2) for folder in folders)


@asynccontextmanager
async def running(
    command: Sequence[str], *, pass_fds: Sequence[int] = (), log: Path | None = None
) -> AsyncIterator[Process]:
    """Run a program while the context lasts.

    Args:
        command: the program and its arguments.
        pass_fds: files that it gets.
        log: where it writes what it says, for programs of others'; ours say it to us.
    """
    settings: Mapping[str, str] = {
        **{name: value for name, value in os.environ.items() if name not in _NOT_HANDED_ON},
        "PYTHONPATH": f"{_ROOT}{os.pathsep}{_ROOT / 'src'}",
        # Where Debian keeps servers; not on everybody's PATH.
        "PATH": f"{os.environ.get('PATH', os.defpath)}{os.pathsep}/usr/sbin{os.pathsep}/usr/local/sbin",
    }
    with contextlib.ExitStack() as stack:
        out = subprocess.PIPE if log is None else stack.enter_context(log.open("ab"))
        process = await anyio.open_process(
            command,
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=None if log is None else out,
            pass_fds=pass_fds,
            env=settings,
            cwd=_ROOT,
        )
    try:
        yield process
    finally:
        with anyio.CancelScope(shield=True):
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            with anyio.move_on_after(_FAREWELL):
                await process.wait()
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.aclose()


async def said(process: Process, *, within: float = _START) -> str:
    """Return the line that a program of ours says when it is there, or done.

    Raises:
        Unusable: it does not, within so many seconds.
    """
    try:
        with anyio.fail_after(within):
            return await _line(process)
    except (TimeoutError, anyio.EndOfStream) as exc:
        msg = "a program of the benchmark's own did not say a word; what it wrote to standard error is above"
        raise Unusable(msg) from exc


async def _line(process: Process) -> str:
    assert process.stdout is not None
    text = b""
    while not text.endswith(b"\n"):
        text += await process.stdout.receive(65_536)
    return text.decode("utf-8").strip()


def free_ports(number: int) -> list[int]:
    """Return ports of loopback that are free for UDP and TCP."""
    found: list[int] = []
    with contextlib.ExitStack() as stack:
        while len(found) < number:
            tcp = stack.enter_context(socket.socket())
            udp = stack.enter_context(socket.socket(type=socket.SOCK_DGRAM))
            tcp.bind((_LOOPBACK, 0))
            port: int = tcp.getsockname()[1]
            with contextlib.suppress(OSError):
                udp.bind((_LOOPBACK, port))
                found.append(port)
    return found
