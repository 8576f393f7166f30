"""The program that serves on the server's side of the path: `python -m racer.lab.packets._serving`.

It is told what to serve as JSON on its standard input, says in one line that it does, and ends with that input.
"""

from __future__ import annotations

import importlib
import json
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from racer.lab._doh import DoHServer
from racer.lab._nameserver import DoTServer
from racer.lab._sites import Authority, Site
from racer.lab._zone import Zone
from racer.lab.packets._services import HANDLERS

if TYPE_CHECKING:
    import ssl

    from anyio.abc import ByteStream, TaskGroup

    from racer.lab._sites import Handler

__all__ = ("main",)


async def _serve(told: dict[str, Any], ended: anyio.Event) -> None:
    trusted, forger = Authority(), Authority()
    async with anyio.create_task_group() as group:
        for site in told["sites"]:
            context = None
            if site["tls"]:
                authority = forger if site["forged"] else trusted
                context = authority.server_context(*site["names"])
            for address in site["addresses"]:
                await _listen(
                    group, address, site["port"], HANDLERS[site["handler"]], context=context
                )
        for each in told["resolvers"]:
            zone = Zone(each["hosts"])
            for address in each["addresses"]:
                await _serve_names(group, zone, address, trusted)
        print(json.dumps({"authority": trusted.pem().decode("ascii")}), flush=True)  # noqa: T201 - said to the parent
        await ended.wait()
        group.cancel_scope.cancel()


async def _listen(
    group: TaskGroup, address: str, port: int, handler: Handler, *, context: ssl.SSLContext | None
) -> None:
    listener = await anyio.create_tcp_listener(local_host=address, local_port=port)
    site = Site(address, handler, context=context)

    async def serve(stream: ByteStream) -> None:
        await site.serve(stream)

    group.start_soon(partial(listener.serve, serve))


async def _serve_names(group: TaskGroup, zone: Zone, address: str, authority: Authority) -> None:
    context = authority.server_context(address, alpn=("http/1.1",))
    over_tls, over_https = DoTServer(zone), DoHServer(zone)
    await _listen(
        group, address, 853, over_tls.serve_stream, context=authority.server_context(address)
    )
    await _listen(group, address, 443, over_https.serve_stream, context=context)
    udp = await anyio.create_udp_socket(local_host=address, local_port=53)

    async def answer() -> None:
        async with udp:
            async for question, client in udp:
                for reply in zone.replies(question, over="udp"):
                    await udp.sendto(reply.data, *client)

    group.start_soon(answer)


async def _main() -> None:
    # What takes a moment to load is loaded before anybody asks.
    await anyio.to_thread.run_sync(importlib.import_module, "racer.lab._answers")
    told = json.loads(await anyio.to_thread.run_sync(sys.stdin.buffer.readline))
    ended = anyio.Event()

    async def wait_for_the_parent() -> None:
        await anyio.wait_readable(sys.stdin)  # nothing more is said: it ends when the parent does
        ended.set()

    async with anyio.create_task_group() as group:
        group.start_soon(wait_for_the_parent)
        await _serve(told, ended)
        group.cancel_scope.cancel()


def main() -> None:
    """Serve until the input ends."""
    anyio.run(_main)


if __name__ == "__main__":
    main()
