"""A recursive resolver in front of a Soar server: unbound where it is installed, else a small forwarder of our own."""

from __future__ import annotations

import contextlib
import secrets
import shutil
import subprocess
from collections import OrderedDict
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Self

import anyio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from anyio.abc import Process, UnreliableObjectStream

__all__ = ("Forwarder", "ResolverBehind", "carry", "resolver_before")

_LOOPBACK: Final = "127.0.0.1"
_PATH: Final = "/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin"
_STARTS: Final = 3
_TRIES, _PAUSE = 100, 0.05  # 5 s and more until a resolver answers
_MAX_PENDING: Final = 1024

_UNBOUND: Final = """\
server:
  interface: {host}
  port: {port}
  do-daemonize: no
  username: ""
  chroot: ""
  directory: "{folder}"
  pidfile: ""
  use-syslog: no
  logfile: ""
  verbosity: 0
  num-threads: 1
  do-ip6: no
  do-not-query-localhost: no
  module-config: "iterator"
  access-control: 127.0.0.0/8 allow
stub-zone:
  name: "{zone}"
  stub-addr: {upstream_host}@{upstream_port}
remote-control:
  control-enable: no
"""


class ResolverBehind(NamedTuple):
    """A resolver that answers.

    Attributes:
        name: what it is, for people.
        address: where.
    """

    name: str
    address: tuple[str, int]


@asynccontextmanager
async def resolver_before(zone: str, server: tuple[str, int]) -> AsyncIterator[ResolverBehind]:
    """Run a resolver on loopback that asks `server` for what is in `zone`; leaving ends it."""
    binary = await anyio.to_thread.run_sync(partial(shutil.which, "unbound", path=_PATH))
    async with contextlib.AsyncExitStack() as stack:
        # More than once: somebody else may have taken the port that was free a moment ago.
        for _ in range(_STARTS if binary else 0):
            address = await stack.enter_async_context(_unbound(str(binary), zone, server))
            if address is not None:
                yield ResolverBehind("unbound", address)
                return
            await stack.aclose()
        forwarder = await stack.enter_async_context(Forwarder(server))
        yield ResolverBehind("a forwarding resolver", forwarder.address)


@asynccontextmanager
async def _unbound(
    binary: str, zone: str, server: tuple[str, int]
) -> AsyncIterator[tuple[str, int] | None]:
    """Run unbound; yields where it answers, `None` if it does not."""
    async with anyio.TemporaryDirectory(prefix="racer-") as folder:
        port = await _free_port()
        settings = Path(folder) / "unbound.conf"
        text = _UNBOUND.format(
            host=_LOOPBACK, port=port, folder=folder, zone=zone,
            upstream_host=server[0], upstream_port=server[1],
        )  # fmt: skip
        await anyio.Path(settings).write_text(text)
        process = await anyio.open_process(
            [binary, "-d", "-c", str(settings)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            address = (_LOOPBACK, port)
            yield address if await _comes_to_answer(process, address, zone) else None
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            with anyio.CancelScope(shield=True), anyio.move_on_after(5):
                await process.aclose()


async def _free_port() -> int:
    async with await anyio.create_udp_socket(local_host=_LOOPBACK) as udp:
        port: int = udp.extra(anyio.abc.SocketAttribute.local_port)
        return port


async def _comes_to_answer(process: Process, address: tuple[str, int], zone: str) -> bool:
    """Return whether the resolver at `address` answers a question about `zone`, now or within seconds."""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in zone.split("."))
    question = b"\x5a\x5a\x01\0\0\x01\0\0\0\0\0\0" + labels + b"\0\0\x06\0\x01"
    for _ in range(_TRIES):
        if process.returncode is not None:
            return False
        with contextlib.suppress(OSError, anyio.BrokenResourceError):
            async with await anyio.create_connected_udp_socket(*address) as udp:
                await udp.send(question)
                with anyio.move_on_after(_PAUSE):
                    await udp.receive()
                    return True
        await anyio.sleep(_PAUSE)
    return False


class Forwarder:
    """Asks one server on behalf of everybody, under ids of its own; an async context manager.

    Args:
        server: where to ask.

    Attributes:
        address: where it listens.
    """

    def __init__(self, server: tuple[str, int]) -> None:
        """Listen nowhere yet."""
        self.address: tuple[str, int] = (_LOOPBACK, 0)
        self._server = server
        self._pending: OrderedDict[int, tuple[bytes, tuple[str, int]]] = OrderedDict()

    async def __aenter__(self) -> Self:
        """Begin."""
        self._near = await anyio.create_udp_socket(local_host=_LOOPBACK)
        self._far = await anyio.create_connected_udp_socket(*self._server)
        self.address = (_LOOPBACK, self._near.extra(anyio.abc.SocketAttribute.local_port))
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._tasks.start_soon(self._ask)
        self._tasks.start_soon(self._tell)
        return self

    async def __aexit__(self, *exc: object) -> None:
        """End; what is pending is not answered."""
        self._tasks.cancel_scope.cancel()
        await self._tasks.__aexit__(None, None, None)
        await self._near.aclose()
        await self._far.aclose()

    async def _ask(self) -> None:
        async for message, client in self._near:
            if len(message) < 12:
                continue
            identity = secrets.randbelow(1 << 16)
            while identity in self._pending:
                identity = secrets.randbelow(1 << 16)
            self._pending[identity] = (message[:2], client)
            if len(self._pending) > _MAX_PENDING:
                self._pending.popitem(last=False)
            await self._far.send(identity.to_bytes(2) + message[2:])

    async def _tell(self) -> None:
        async for answer in self._far:
            pending = self._pending.pop(int.from_bytes(answer[:2]), None)
            if pending is not None:
                own, client = pending
                await self._near.send((own + answer[2:], client))


async def carry(client: UnreliableObjectStream[bytes], resolver: tuple[str, int]) -> None:
    """Carry the datagrams of one client of a lab's to a resolver on loopback, and back, until the client has gone."""
    async with (
        await anyio.create_connected_udp_socket(*resolver) as udp,
        anyio.create_task_group() as tasks,
    ):

        async def back() -> None:
            async for answer in udp:
                await client.send(answer)

        tasks.start_soon(back)
        with contextlib.suppress(anyio.EndOfStream):
            while True:
                await udp.send(await client.receive())
        tasks.cancel_scope.cancel()
