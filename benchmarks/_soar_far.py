"""The far end of the Soar benchmark, each part a process of its own: the origin, Soar's server, and who asks whether it is there."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import socket
import sys
import threading
import time
from typing import Final

from benchmarks._soar_transfers import LATER, pieces

__all__ = ("main",)

_LINE: Final = 64
_AFTERWARDS: Final = (
    20.0  # seconds for which an upload is drained, so that the report is not lost with it
)
_STARTING: Final = 20.0  # seconds until a resolver answers for itself
_FINDING: Final = 3.0  # seconds that it has to ask the server
_UPTIME: Final = (
    3600.0  # the server has been known for an hour: early frames are in order (SPEC 7.9)
)


def _serve(stream: socket.socket) -> None:
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with stream, contextlib.suppress(OSError):
        line = b""
        while not line.endswith(b"\n") and len(line) < _LINE:
            octet = stream.recv(1)
            if not octet:
                return
            line += octet
        match line[:1]:
            case b"E":
                stream.sendall(line)
                while octets := stream.recv(1 << 16):
                    stream.sendall(octets)
            case b"G":
                for piece in pieces():
                    stream.sendall(piece)
            case b"P":
                _take(stream, float(line[1:]))
            case _:
                pass  # whoever that was


def _take(stream: socket.socket, seconds: float) -> None:
    """Receive for so long, and report what came."""
    began = time.monotonic()
    digest = hashlib.sha256()
    octets = settled = 0
    settled_at = began
    while (left := began + seconds + (0 if octets else LATER) - time.monotonic()) > 0:
        stream.settimeout(left)
        try:
            came = stream.recv(1 << 16)
        except TimeoutError:
            break
        if not came:
            break
        octets += len(came)
        digest.update(came)
        if not settled and time.monotonic() >= began + seconds / 4:
            settled, settled_at = octets, time.monotonic()
    report = {
        "octets": octets,
        "ended": time.monotonic(),
        "settled": settled,
        "settled_at": settled_at,
        "checksum": digest.hexdigest(),
    }
    stream.settimeout(_AFTERWARDS)
    stream.sendall(json.dumps(report).encode() + b"\n")
    until = time.monotonic() + _AFTERWARDS
    while time.monotonic() < until and stream.recv(1 << 16):
        pass


def _run_origin(port: int) -> None:
    with socket.create_server(("", port), backlog=128) as listener:
        print("up", flush=True)
        while True:
            stream, _ = listener.accept()
            threading.Thread(target=_serve, args=(stream,), daemon=True).start()


async def _run_server(domain: str, host: str, port: int, allow: str) -> None:
    import anyio  # noqa: PLC0415 - the origin has no use for it

    from transports.soar import SoarServer, generate_key  # noqa: PLC0415 - likewise

    async with SoarServer(
        domain=domain, key=generate_key(), host=host, port=port, allow=[allow], uptime=_UPTIME
    ) as server:
        print(server.public_key, flush=True)
        await anyio.sleep_forever()


def _ask(host: str, port: int, zone: str) -> str:
    """Wait until a resolver is there, and have it find the server, so that neither is in what is timed.

    It answers for itself where no recursion is desired. Whether it then gets an answer to the second question is the
    server's affair: not every peer's server knows what a zone has.
    """
    until = time.monotonic() + _STARTING
    while not _answers(host, port, _question(zone, recursion=False), 0.2):
        if time.monotonic() > until:
            return "silent"
        time.sleep(0.05)
    _answers(host, port, _question(zone, recursion=True), _FINDING)
    return "answered"


def _question(zone: str, *, recursion: bool) -> bytes:
    """Return a question for the zone's name servers."""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in zone.split("."))
    head = b"\x5a\x5a" + bytes([recursion]) + b"\0\0\x01\0\0\0\0\0\0"
    return head + labels + b"\0\0\x02\0\x01"


def _answers(host: str, port: int, question: bytes, seconds: float) -> bool:
    with socket.socket(type=socket.SOCK_DGRAM) as sock, contextlib.suppress(OSError):
        sock.settimeout(seconds)
        sock.connect((host, port))
        sock.send(question)
        return bool(sock.recv(4096))
    return False


def _end_with_the_parent() -> None:
    sys.stdin.buffer.read()  # ends when the parent is done, and when it dies
    os._exit(0)


def main() -> None:
    """Be the origin, or the server, until ended; or ask a resolver."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who started us
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    what, *words = sys.argv[1:]
    if what == "origin":
        _run_origin(int(words[0]))
    elif what == "ask":
        print(_ask(words[0], int(words[1]), words[2]), flush=True)
    else:
        import anyio  # noqa: PLC0415 - as above

        domain, host, port, allow = words
        anyio.run(_run_server, domain, host, int(port), allow)


if __name__ == "__main__":
    main()
