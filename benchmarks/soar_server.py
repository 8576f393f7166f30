"""What one Soar server process bears: `python -m benchmarks.soar_server [--questions N] [--sessions N] [--messages N] [--json FILE]`.

* Questions a second, through real sockets on loopback, asked by another process that keeps 64 under way: empty polls, and
  polls whose answers are full of a target's octets. Beside them a bare UDP echo, read and written in the same way, which is
  what Python and the system take for themselves. A machine that does other things too slows all of them; so figures are given for each
  second of the server's own CPU time as well.
* Memory of idle sessions: each had a stream and is silent since.
* Hostile messages: random, valid ones with octets changed, and repeats. How many were answered, and what they cost.
"""

from __future__ import annotations

import argparse
import functools
import gc
import json
import os
import random
import resource
import select
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.lowlevel
from anyio.abc import ByteStream

from benchmarks._loops import count
from benchmarks._soar_questions import ZONE, Session
from transports.soar import ServerKey, SoarServer, generate_key
from transports.soar.core.crypto import PublicKey
from transports.soar.core.dns.authority import Authority
from transports.soar.core.dns.zone import Zones
from transports.soar.core.instants import Instant
from transports.soar.core.server.events import StreamOpened
from transports.soar.core.server.server import Server
from transports.soar.core.server.settings import ServerSettings
from transports.soar.core.server.source import Source
from transports.soar.core.streams.frames import (
    Floor,
    MaxData,
    MaxStreamData,
    Reset,
    ResetCode,
    Response,
    StreamData,
)
from transports.soar.core.streams.targets import Target

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ("hostile", "main", "memory", "questions")

IN_FLIGHT: Final = 64
KINDS: Final = ("echo", "polls", "full")
_TARGET: Final = Target.of("93.184.216.34", 443)
_HUGE: Final = 1 << 40
_PATIENCE: Final = 5.0  # seconds for an answer
_UPTIME: Final = 1000.0


# --- questions a second ---------------------------------------------------------------------


class _Flood(ByteStream):
    """A target that always has more."""

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        await anyio.lowlevel.checkpoint()
        return bytes(max_bytes)

    async def send(self, item: bytes) -> None:
        del item
        await anyio.lowlevel.checkpoint()

    async def send_eof(self) -> None:
        pass

    async def aclose(self) -> None:
        await anyio.lowlevel.checkpoint()


async def _dial(address: str, port: int) -> ByteStream:
    del address, port
    await anyio.lowlevel.checkpoint()
    return _Flood()


async def _serve_echo() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.setblocking(False)
        print(sock.getsockname()[1], "-", flush=True)
        while True:
            await anyio.wait_readable(sock)
            try:
                for _ in range(IN_FLIGHT):
                    message, peer = sock.recvfrom(4096)
                    sock.sendto(message, peer)
            except BlockingIOError:
                pass


async def _serve_soar() -> None:
    options: dict[str, Any] = {"domain": ZONE.text, "key": generate_key(), "uptime": _UPTIME}
    async with SoarServer(dial_tcp=_dial, **options) as server:
        print(server.address[1], server.public_key, flush=True)
        await anyio.sleep_forever()


def _asked(sock: socket.socket, message: bytes) -> list[bytes]:
    """Send a question, and return what comes within a moment."""
    sock.send(message)
    found = []
    while select.select([sock], [], [], 0.05)[0]:
        found.append(sock.recv(4096))
    return found


def _made(kind: str, sock: socket.socket, public: str, number: int) -> Iterator[bytes]:
    """Return so many questions, ready to be sent."""
    if kind == "echo":
        return iter([bytes(101)] * number)
    session = Session(PublicKey.parse(public))
    session.shake(functools.partial(_asked, sock))
    asked, question = session.numbered()
    token = session.token(asked, _asked(sock, question)[0])
    frames: list[Any] = [Response(token)]
    if kind == "full":
        opening = StreamData(0, 0, _TARGET.to_wire(), False)
        frames += [opening, MaxData(_HUGE), MaxStreamData(0, _HUGE)]
    _asked(sock, session.question(*frames, name_class=4))
    floor = Floor(2 * IN_FLIGHT)
    return iter([session.question(floor) for _ in range(number)])


def _pump(sock: socket.socket, made: Iterator[bytes]) -> tuple[int, int]:
    """Ask everything, and return how many answers came, and how many octets in them."""
    answers = octets = under_way = 0
    for message in made:
        sock.send(message)
        under_way += 1
        if under_way == IN_FLIGHT:
            if not select.select([sock], [], [], _PATIENCE)[0]:
                break
            try:
                while under_way:
                    octets += len(sock.recv(4096))
                    answers += 1
                    under_way -= 1
            except BlockingIOError:
                pass
    while under_way and select.select([sock], [], [], 0.1)[0]:
        octets += len(sock.recv(4096))
        answers += 1
        under_way -= 1
    return answers, octets


def _cpu_s(pid: int) -> float:
    # proc(5): the command's name may have spaces in it, but ends with the last parenthesis.
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def questions(kind: str, number: int) -> dict[str, float]:
    """Ask a new server so many questions, and return what it bore."""
    what = "echo" if kind == "echo" else "soar"
    command = [sys.executable, "-m", "benchmarks.soar_server", "--serve", what]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:  # noqa: S603 - ours
        try:
            assert server.stdout is not None
            port, public = server.stdout.readline().split()
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
                sock.connect(("127.0.0.1", int(port)))
                sock.setblocking(False)
                made = _made(kind, sock, public, number)
                cpu, began = _cpu_s(server.pid), time.perf_counter()
                answers, octets = _pump(sock, made)
                wall, cpu = time.perf_counter() - began, _cpu_s(server.pid) - cpu
        finally:
            server.kill()
    return {
        "answers": answers,
        "octets": octets / max(1, answers),
        "a second": answers / wall,
        "a CPU second": answers / max(cpu, 0.01),
    }


# --- memory and hostility: no sockets -------------------------------------------------------


class _Core:
    """A server without sockets, on a clock that is turned by hand."""

    def __init__(self) -> None:
        self.key: ServerKey = generate_key()
        zones = Zones((ZONE,))
        authority = Authority(zones, {"ns.example.org": []})
        settings = ServerSettings(key=self.key, zones=zones, authority=authority)
        self.wall = time.time()
        self.time = 0.0
        self.server = Server(settings, entropy=os.urandom, now=self.now)
        self.time = _UPTIME

    @property
    def now(self) -> Instant:
        return Instant(self.time, self.time, self.wall + self.time)

    def ask(self, message: bytes, source: Source) -> list[bytes]:
        self.server.receive_message(message, source, self.now)
        found = [answer for _, answer in self.server.messages_to_send(self.now)]
        while (event := self.server.next_event()) is not None:
            if isinstance(event, StreamOpened):
                event.stream.opened()
        return found

    def wait(self, seconds: float) -> int:
        """Let time pass, and return how many answers that brings."""
        until, answers = self.time + seconds, 0
        while (due := self.server.next_timeout()) is not None and due <= until:
            self.time = due
            self.server.handle_timeout(self.now)
            answers += len(self.server.messages_to_send(self.now))
        self.time = until
        return answers

    def session(self, source: Source) -> Session:
        """Begin a session that had a stream, and is busy with nothing."""
        session = Session(self.key.public, wall=self.now.wall)
        session.shake(lambda message: self.ask(message, source))
        header = _TARGET.to_wire()
        opening = StreamData(0, 0, header + bytes(60), False)
        reset = Reset(0, ResetCode.CLOSED, len(header) + 60)
        for frames in ([opening], [Floor(0)], [reset, Floor(0)], [Floor(0)], [Floor(0)]):
            self.ask(session.question(*frames, name_class=4), source)
        return session


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


def memory(number: int) -> dict[str, float]:
    """Return what so many idle sessions take; of a new process, where that counts."""
    core = _Core()
    core.session(Source(bytes(4), 53))
    core.wait(200.0)
    gc.collect()
    before = _resident()
    for index in range(number):
        core.session(Source(bytes([10, *divmod(index // 64, 256), 1]), 53))
        core.wait(0.003)  # handshakes are admitted at 500 a second
    core.wait(15.0)  # what is kept for repeats is gone
    gc.collect()
    held = _resident() - before
    there = len(core.server.sids())
    return {"sessions": there, "octets": held, "octets a session": held / max(1, there)}


def _hostile_messages(core: _Core, number: int, dice: random.Random) -> dict[str, list[bytes]]:
    source = Source(bytes([192, 0, 2, 1]), 53)
    session = Session(core.key.public, wall=core.now.wall)
    asked: list[bytes] = []

    def ask(message: bytes) -> list[bytes]:
        asked.append(message)
        return core.ask(message, source)

    session.shake(ask)
    asked += [session.question(Floor(2)) for _ in range(20)]
    for message in asked:
        core.ask(message, source)

    def mutated() -> bytes:
        message = bytearray(dice.choice(asked))
        for _ in range(dice.randint(1, 8)):
            message[dice.randrange(len(message))] = dice.randrange(256)
        return bytes(message)

    return {
        "random": [dice.randbytes(dice.randint(0, 300)) for _ in range(number)],
        "mutated": [mutated() for _ in range(number)],
        "replayed": [dice.choice(asked) for _ in range(number)],
    }


def hostile(number: int, *, seed: int = 1) -> dict[str, dict[str, float]]:
    """Give a server so many messages of each kind, and return what became of them."""
    core = _Core()
    source = Source(bytes([198, 51, 100, 1]), 53)
    found = {}
    for kind, messages in _hostile_messages(core, number, random.Random(seed)).items():
        answered = answerable = raised = 0
        most = -512
        before = core.server.counts()
        began = time.perf_counter()
        for message in messages:
            try:
                answers = core.ask(message, source)
            except Exception:  # noqa: BLE001 - it is what is counted
                raised += 1
                continue
            answered += len(answers)
            # To a response, or fewer octets than a header has, nothing may be said (SPEC 18.1).
            answerable += len(message) >= 12 and not message[2] & 0x80
            most = max([most, *(len(answer) - len(message) for answer in answers)])
        spent = time.perf_counter() - began
        answered += core.wait(3.0)  # a fragment waits for others for a moment
        after = core.server.counts()
        found[kind] = {
            "messages": number,
            "answered": answered,
            "silent": answerable - answered,
            "raised": raised,
            "most octets more than asked": most,
            "new sessions": after.sessions - before.sessions,
            "us a message": spent / number * 1e6,
        }
    return found


# --- the table ------------------------------------------------------------------------------


def _rows(figures: dict[str, dict[str, float]]) -> None:
    for name, row in figures.items():
        print(f"  {name:10}", *(f"{value:,.0f} {what}" for what, value in row.items()), sep="  ")


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and return 0."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--questions", type=count, default=60_000)
    parser.add_argument("--sessions", type=count, default=10_000)
    parser.add_argument("--messages", type=count, default=100_000)
    parser.add_argument("--rounds", type=count, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--serve", choices=("echo", "soar"), help=argparse.SUPPRESS)
    parser.add_argument("--hold", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve:
        anyio.run(_serve_echo if options.serve == "echo" else _serve_soar)
    if options.hold:
        print(json.dumps(memory(options.sessions)))
        return 0
    best: dict[str, dict[str, float]] = {}
    for _ in range(options.rounds):
        for kind in KINDS:
            row = questions(kind, options.questions)
            if kind not in best or row["a CPU second"] > best[kind]["a CPU second"]:
                best[kind] = row
    print("questions of one process (best of rounds that take turns):")
    _rows(best)
    command = [sys.executable, "-m", "benchmarks.soar_server", "--hold"]
    command += ["--sessions", str(options.sessions)]
    ran = subprocess.run(command, capture_output=True, check=True, text=True)  # noqa: S603 - ours
    held = json.loads(ran.stdout)
    print("idle sessions:")
    _rows({"memory": held})
    attacked = hostile(options.messages)
    print("hostile messages:")
    _rows(attacked)
    if options.json is not None:
        everything = {"questions": best, "memory": held, "hostile": attacked}
        options.json.write_text(json.dumps(everything, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
