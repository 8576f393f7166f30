"""The far end of a benchmark: a child process, so that its work is not measured with the client's."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import struct
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ("Peer", "peer")

_ROOT: Final = Path(__file__).parents[1]  # from where the child finds this module
_BACKLOG: Final = 1024
_RESET: Final = struct.pack("ii", 1, 0)  # SO_LINGER: closing resets


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """Where a benchmark can connect to, on loopback.

    Attributes:
        silent: a port that accepts, reads, and never says a word; to a TLS client it is a middlebox that hangs.
        tls: a port that finishes a TLS handshake for `localhost`, then is as silent; 0 when it was not wanted.
        refused: a port that refuses.
        authority: the throw-away authority behind `tls`, PEM.
    """

    silent: int
    tls: int
    refused: int
    authority: str


@contextlib.contextmanager
def peer(*, tls: bool = False) -> Iterator[Peer]:
    """Run the child while the context lasts. IPv6 is served where the machine has any."""
    command = [sys.executable, "-m", "benchmarks._peer", *(["tls"] if tls else [])]
    # Bound and not listening: it refuses, and nobody else can come to listen there.
    with (
        socket.socket() as unheard,
        subprocess.Popen(  # noqa: S603 - our own interpreter
            command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as child,
    ):
        unheard.bind(("127.0.0.1", 0))
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            told = json.loads(child.stdout.readline())
            yield Peer(refused=unheard.getsockname()[1], **told)
        finally:
            child.stdin.close()


class _Silent(asyncio.Protocol):
    """Reads until the client ends."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # No TIME_WAIT is left on either side: thousands of dials would use up the ports, and the later ones pay for it.
        connection = cast("socket.socket", transport.get_extra_info("socket"))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)


async def _listen(context: ssl.SSLContext | None) -> int:
    loop = asyncio.get_running_loop()
    ipv4 = await loop.create_server(_Silent, "127.0.0.1", 0, backlog=_BACKLOG, ssl=context)
    port = cast("int", ipv4.sockets[0].getsockname()[1])
    with contextlib.suppress(OSError):
        await loop.create_server(_Silent, "::1", port, backlog=_BACKLOG, ssl=context)
    return port


def _certified() -> tuple[ssl.SSLContext, str]:
    import trustme  # noqa: PLC0415 - only who wants TLS needs it

    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost", "127.0.0.1").configure_cert(context)
    return context, authority.cert_pem.bytes().decode("ascii")


async def _serve(*, tls: bool) -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()

    def wait_for_the_parent() -> None:
        sys.stdin.read()  # ends when the parent is done, and when it dies
        loop.call_soon_threadsafe(ended.set)

    context, authority = _certified() if tls else (None, "")
    told = {
        "silent": await _listen(None),
        "tls": 0 if context is None else await _listen(context),
        "authority": authority,
    }
    threading.Thread(target=wait_for_the_parent, daemon=True).start()
    print(json.dumps(told), flush=True)
    await ended.wait()


if __name__ == "__main__":
    asyncio.run(_serve(tls="tls" in sys.argv[1:]))
