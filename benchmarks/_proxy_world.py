"""What the proxies' benchmark runs beside itself: a far end, the proxies, and what of the machine's time each of them took."""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio

from benchmarks._loops import run_on
from racer import Dialer
from racer.proxy import Proxy
from transports.direct import Direct

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ("PLAIN", "Running", "far_end", "found", "proxy")

PLAIN: Final = "microsocks"
"""The one beside which the others stand: SOCKS5 in a few hundred lines of C, a thread for each connection."""

_ROOT: Final = Path(__file__).parents[1]  # from where a child finds this module
_WHERE: Final = "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin"
_PROGRAMS: Final = {"microsocks": "microsocks", "dante": "danted"}
_PIECE: Final = b"x" * (1 << 20)
_PATIENCE: Final = 20.0  # seconds until a proxy listens

_DANTE: Final = """\
logoutput: /dev/null
internal: 127.0.0.1 port = {port}
external: 127.0.0.1
clientmethod: none
socksmethod: none
user.privileged: root
user.unprivileged: nobody
client pass {{ from: 127.0.0.0/8 to: 0.0.0.0/0 }}
socks pass {{ from: 0.0.0.0/0 to: 0.0.0.0/0 protocol: tcp }}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A proxy that runs.

    Attributes:
        name: in the tables.
        port: where it listens on 127.0.0.1.
        pid: its first process.
    """

    name: str
    port: int
    pid: int

    def cpu(self) -> float:
        """Return the seconds of processor time that it and its children have used."""
        wanted = {self.pid}
        used = 0
        for stat in _stats():
            if stat.pid in wanted or stat.parent in wanted:
                wanted.add(stat.pid)
                used += stat.ticks
        return used / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class _Stat:
    pid: int
    parent: int
    ticks: int


def _stats() -> list[_Stat]:
    """Return what proc(5) says of each process, older ones first."""
    found = []
    for entry in sorted(int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit()):
        with contextlib.suppress(OSError):
            text = Path(f"/proc/{entry}/stat").read_text(encoding="ascii", errors="replace")
            fields = text.rpartition(")")[2].split()
            # With what children have used that ended and were waited for: they are in no other line any more.
            found.append(_Stat(entry, int(fields[1]), sum(map(int, fields[11:15]))))
    return found


# --- the far end ----------------------------------------------------------------------------


def _converse(sock: socket.socket) -> None:
    with sock, contextlib.suppress(OSError):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while len(head := sock.recv(9, socket.MSG_WAITALL)) == 9:
            left = int.from_bytes(head[1:], "big")
            match head[:1]:
                case b"D":
                    while left:
                        piece = memoryview(_PIECE)[:left]
                        sock.sendall(piece)
                        left -= len(piece)
                case b"U":
                    buffer = bytearray(len(_PIECE))
                    while left:
                        got = sock.recv_into(buffer, min(left, len(buffer)))
                        if not got:
                            return
                        left -= got
                    sock.sendall(b".")
                case _:
                    sock.sendall(b".")


def _serve_far_end() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        print(listener.getsockname()[1], flush=True)
        threading.Thread(target=_end_with_parent, daemon=True).start()
        while True:
            sock, _ = listener.accept()
            threading.Thread(target=_converse, args=(sock,), daemon=True).start()


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(0)


@contextlib.contextmanager
def far_end() -> Iterator[int]:
    """Run the far end while the context lasts; yields its port."""
    with _child("far-end") as child:
        assert child.stdout is not None
        yield int(child.stdout.readline())


@contextlib.contextmanager
def _child(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "benchmarks._proxy_world", *arguments]
    with subprocess.Popen(  # noqa: S603 - our own interpreter
        command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None
        try:
            yield child
        finally:
            child.stdin.close()


# --- the proxies ----------------------------------------------------------------------------


def found(name: str) -> bool:
    """Return whether a proxy can be run here."""
    return name not in _PROGRAMS or shutil.which(_PROGRAMS[name], path=_WHERE) is not None


@contextlib.contextmanager
def proxy(name: str) -> Iterator[Running]:
    """Run one while the context lasts: a loop's name means racer's own, on that loop."""
    if name not in _PROGRAMS:
        with _child("serve", name) as child:
            assert child.stdout is not None
            yield Running(name=f"racer/{name}", port=int(child.stdout.readline()), pid=child.pid)
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    program = shutil.which(_PROGRAMS[name], path=_WHERE)
    assert program is not None
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "dante.conf")
        config.write_text(_DANTE.format(port=port), encoding="ascii")
        arguments = {
            "microsocks": ["-i", "127.0.0.1", "-p", str(port)],
            "dante": ["-f", str(config), "-p", str(Path(folder, "pid"))],
        }[name]
        with subprocess.Popen(  # noqa: S603 - what the system has installed
            [program, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as child:
            try:
                _await(port)
                yield Running(name=name, port=port, pid=child.pid)
            finally:
                child.send_signal(signal.SIGTERM)


def _await(port: int) -> None:
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)
        else:
            return


async def _serve() -> None:
    async with Dialer([Direct()]) as dialer, Proxy(dialer, port=0) as ours:
        print(ours.address[1], flush=True)
        await anyio.to_thread.run_sync(sys.stdin.read)


def main(argv: Sequence[str]) -> None:
    """Be the child."""
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=("far-end", "serve"))
    parser.add_argument("loop", nargs="?", default="asyncio")
    options = parser.parse_args(argv)
    if options.role == "far-end":
        _serve_far_end()
    else:
        run_on(options.loop, _serve)


if __name__ == "__main__":
    main(sys.argv[1:])
