"""Two hosts, and every packet between them in our hands."""

from __future__ import annotations

import contextlib
import json
import math
import os
import subprocess
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import anyio
import anyio.to_thread

from racer.errors import ConfigError
from racer.lab._link import CLEAN
from racer.lab._running import Tasks
from racer.lab.packets._capture import Side
from racer.lab.packets._namespaces import Namespace, why_unavailable
from racer.lab.packets._path import PacketPath
from racer.lab.packets._services import ask_for

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Mapping, Sequence

    from anyio.abc import Process

    from racer.lab._censor import Hit, Rule
    from racer.lab._link import Profile
    from racer.lab.packets._capture import Captured
    from racer.lab.packets._services import NameService, Service

__all__ = ("CLIENT_ADDRESSES", "Finished", "PacketNetwork")

CLIENT_ADDRESSES: Final = ("198.18.0.1", "2001:db8:ffff::1")
"""The client's own; the first is from those set apart for measuring (RFC 2544)."""

_START: Final = 20.0  # seconds that a service has to begin
_BATCH: Final = 64  # packets that are read at once, before others are delivered


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """What came of a program.

    Attributes:
        status: its exit status.
        output: what it wrote to its standard output.
        errors: what it wrote to its standard error.
    """

    status: int
    output: bytes
    errors: str


class PacketNetwork:
    """A client and a server in network namespaces of their own, and a packet path between. An async context manager.

    Linux and root are needed: `why_unavailable` says whether they are there. Programs are run inside with `run`; this
    process itself stays where it is. On leaving, everything that was made is gone.

        async with packets.PacketNetwork(servers=["192.0.2.7"]) as net:
            net.rules.append(packets.SNIFilter(names=("news.*",)))
            authority = await net.serve(packets.Service(names=("news.example",), addresses=("192.0.2.7",)))
            done = await net.run(packets.Side.CLIENT, "curl", "https://192.0.2.7/")

    Args:
        servers: addresses of the server's side, IPv4 and IPv6; any will do.
        near: the link between client and censor, each way.
        far: the link between censor and server, each way.
        near_hops: routers between client and censor.
        far_hops: routers between censor and server.
        rules: the censor's.
        resolver: the address that the client's programs find in `resolv.conf`.
        seed: of the links' dice.

    Attributes:
        rules: a list of those given; may be changed at any time.

    Raises:
        ConfigError: such a network cannot be made here; says why.
    """

    def __init__(
        self,
        *,
        servers: Sequence[str],
        near: Profile = CLEAN,
        far: Profile = CLEAN,
        near_hops: int = 1,
        far_hops: int = 6,
        rules: Sequence[Rule] = (),
        resolver: str | None = None,
        seed: int = 0,
    ) -> None:
        """Keep the arguments; nothing is made yet."""
        self.rules = list(rules)
        self._path = PacketPath(
            near=near,
            far=far,
            near_hops=near_hops,
            far_hops=far_hops,
            rules=self.rules,
            seed=seed,
        )
        self._hosts = {
            Side.CLIENT: Namespace("client", CLIENT_ADDRESSES, resolver=resolver),
            Side.SERVER: Namespace("server", servers),
        }
        self._stack = AsyncExitStack()
        self._changed = anyio.Event()

    @property
    def captured(self) -> deque[Captured]:
        """What was on the wire, oldest first; may be cleared."""
        return self._path.captured

    @property
    def hits(self) -> list[Hit]:
        """What the censor did, oldest first; may be cleared."""
        return self._path.hits

    async def __aenter__(self) -> Self:
        """Make both hosts, and begin to carry packets."""
        if (reason := await anyio.to_thread.run_sync(why_unavailable)) is not None:
            msg = f"no packet network here: {reason}"
            raise ConfigError(msg)
        async with AsyncExitStack() as stack:
            for host in self._hosts.values():
                await stack.enter_async_context(host)
            tasks = await stack.enter_async_context(Tasks())
            for side in Side:
                tasks.start_soon(self._read, side)
            tasks.start_soon(self._deliver)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *exc: object) -> bool | None:
        """End what runs, and both hosts."""
        return await self._stack.__aexit__(*exc)  # type: ignore[arg-type]

    async def serve(self, *services: Service | NameService) -> bytes:
        """Return the certificate of the authority behind the services, once they are there; they end with the network.

        Raises:
            ConfigError: they could not be started; with the words of the process that should.
        """
        process = await self.open(
            Side.SERVER, sys.executable, "-m", "racer.lab.packets._serving", env=_python_path()
        )
        assert process.stdin is not None
        assert process.stdout is not None
        await process.stdin.send(ask_for(services))
        said = b""
        with anyio.move_on_after(_START), contextlib.suppress(anyio.EndOfStream):
            while not said.endswith(b"\n"):
                said += await process.stdout.receive()
        if not said.endswith(b"\n"):
            said_why = b""
            if process.stderr is not None:
                with anyio.move_on_after(1.0):
                    said_why = b"".join([chunk async for chunk in process.stderr])
            lines = said_why.decode("utf-8", "replace").splitlines()
            # The last line of a traceback that is not a frame around a group of errors.
            words = next((line.strip(" |") for line in reversed(lines) if "Error" in line), "")
            msg = f"the services could not be started: {words or 'they did not say why'}"
            raise ConfigError(msg)
        authority: str = json.loads(said)["authority"]
        return authority.encode("ascii")

    async def run(
        self,
        side: Side,
        *command: str,
        given: bytes = b"",
        env: Mapping[str, str] | None = None,
    ) -> Finished:
        """Return what came of a program that was run on one of the hosts; cancelling kills it.

        Args:
            side: which host.
            *command: the program and its arguments.
            given: its standard input.
            env: settings in its environment besides this process's own.
        """
        done = await anyio.run_process(
            self._hosts[side].command(*command),
            input=given,
            check=False,
            env={**os.environ, **(env or {})},
        )
        return Finished(
            status=done.returncode,
            output=done.stdout,
            errors=done.stderr.decode("utf-8", "replace"),
        )

    async def open(
        self, side: Side, *command: str, env: Mapping[str, str] | None = None
    ) -> Process:
        """Return a program that runs on one of the hosts, with pipes to and from it; it is killed with the network.

        Args:
            side: which host.
            *command: the program and its arguments.
            env: settings in its environment besides this process's own.
        """
        process = await anyio.open_process(
            self._hosts[side].command(*command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **(env or {})},
        )
        self._stack.push_async_callback(_end, process)
        return process

    async def _read(self, side: Side) -> None:
        tun = self._hosts[side].tun
        while True:
            await anyio.wait_readable(tun.fileno())
            for _ in range(_BATCH):
                octets = tun.read()
                if octets is None:
                    break
                self._path.receive(side, octets, anyio.current_time())
            self._changed.set()

    async def _deliver(self) -> None:
        while True:
            now = anyio.current_time()
            self._path.handle_timeout(now)
            for side, octets in self._path.packets_to_send():
                self._hosts[side].tun.write(octets)
            due = self._path.next_timeout()
            if due is not None and due <= now:
                continue
            with anyio.CancelScope(deadline=math.inf if due is None else due):
                await self._changed.wait()
            if self._changed.is_set():
                self._changed = anyio.Event()


async def _end(process: Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    with anyio.CancelScope(shield=True):
        await process.aclose()


def _python_path() -> dict[str, str]:
    """Return what lets another Python find this very package."""
    here = str(Path(__file__).parents[3])
    there = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": f"{here}{os.pathsep}{there}" if there else here}
