"""A client of the Soar benchmark: a new process for every start and every transfer. It prints one line of JSON, and waits.

What it has cost until then can be read off; it ends with its standard input.

`soar`: the tunnel is in this process. `peer`: it is a program of others', started by this one, that listens for TCP.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.to_thread

from benchmarks._soar_transfers import download, echo, upload

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from anyio.abc import ByteStream

__all__ = ("main",)

_PAUSE: Final = 0.3  # seconds between two streams of a running tunnel
_REPORT: Final = 30.0  # seconds for what comes late, and the report of an upload
_CONNECT: Final = 2.0  # seconds that a connection has to stand
_TRY: Final = 0.005  # seconds until a peer's port is tried again


async def _measure(
    open_stream: Callable[[], Awaitable[ByteStream]],
    job: dict[str, Any],
    used: Callable[[], float],
    *,
    began: float,
) -> dict[str, Any]:
    """Do what is asked, on a tunnel that has not been used.

    Args:
        open_stream: returns a new stream to the origin.
        job: what to do.
        used: returns the processor seconds of the tunnel.
        began: when the first stream is asked for.
    """
    if job["what"] == "start":
        async with await open_stream() as stream:
            await echo(stream)
            came = time.monotonic()
        found: dict[str, Any] = {
            "cold": came - began,
            "spawn": came - job["spawned"],
            "warm": [],
        }
        for _ in range(job["warm"]):
            await anyio.sleep(_PAUSE)
            asked = time.monotonic()
            async with await open_stream() as stream:
                await echo(stream)
                found["warm"].append(time.monotonic() - asked)
        return found
    transfer = download if job["what"] == "down" else upload
    before = used()
    async with await open_stream() as stream:
        found = await transfer(stream, job["seconds"], began)
        found["cpu"] = used() - before
    return found


async def _soar(job: dict[str, Any]) -> None:
    from benchmarks._soar_home import Home  # noqa: PLC0415 - loading is a part of the start
    from racer.abc import Progress, Target  # noqa: PLC0415 - likewise
    from transports.soar import Soar  # noqa: PLC0415 - likewise

    # As for a target with TLS, whose first octets need not wait until the server is connected to it.
    target = Target(*job["target"], tls=True)
    async with anyio.create_task_group() as group:
        began = time.monotonic()
        soar = Soar(
            domain=job["domain"], server_key=job["key"], resolvers=[f"udp://{job['resolver']}"]
        )
        await soar.start(Home(group))
        await _tell(
            await _measure(
                lambda: soar.connect(target, Progress()), job, time.process_time, began=began
            )
        )
        os._exit(0)  # without a farewell, whose questions would be somebody else's


async def _peer(job: dict[str, Any]) -> None:
    from benchmarks._soar_lab import running  # noqa: PLC0415 - with the start
    from benchmarks._soar_processes import cpu_seconds  # noqa: PLC0415 - likewise

    log = anyio.Path(job["log"])
    address = job["target"]
    began = time.monotonic()
    job["spawned"] = began
    async with running(job["command"], log=log._path) as process:  # noqa: SLF001 - the plain path
        until = began + job["patience"]

        async def open_stream() -> ByteStream:
            while time.monotonic() < until:
                if process.returncode is not None:
                    words = (await log.read_text(errors="replace")).strip().splitlines()
                    msg = f"its client ended: {words[-1] if words else process.returncode}"
                    raise _Failed(msg)
                # Anew each time: before a tunnel's interface is there, packets go elsewhere, and from another address.
                with anyio.move_on_after(_CONNECT), suppress(OSError):
                    return await anyio.connect_tcp(address[0], address[1])
                await anyio.sleep(_TRY)
            raise TimeoutError

        def used() -> float:
            return cpu_seconds([process.pid])

        # A start has to be over in time, and a transfer to have begun.
        more = 0.0 if job["what"] == "start" else job["seconds"] + _REPORT
        with anyio.fail_after(job["patience"] + more):
            found = await _measure(open_stream, job, used, began=began)
        await _tell(found)


async def _tell(found: dict[str, Any]) -> None:
    """Print what was found, and return when it was read and nobody needs this process any more."""
    print(json.dumps(found), flush=True)
    await anyio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)


class _Failed(Exception):
    pass


async def _run(job: dict[str, Any]) -> None:
    try:
        with anyio.fail_after(job["patience"] + job.get("seconds", 0) + 2 * _REPORT):
            await (_peer if "command" in job else _soar)(job)
    except TimeoutError:
        await _tell({"failed": f"did not come up within {job['patience']:g} s"})
    except _Failed as exc:
        await _tell({"failed": str(exc)})
    except Exception as exc:  # noqa: BLE001 - whatever a tunnel lets out is the result
        while isinstance(exc, ExceptionGroup):  # as the task group, around what ended it
            exc = exc.exceptions[0]
        await _tell({"failed": f"{type(exc).__name__}: {exc}".rstrip(": ")})


def main() -> None:
    """Measure as the JSON of the first argument says."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who started us
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # a peer's client ends with us
    anyio.run(_run, json.loads(sys.argv[1]))


if __name__ == "__main__":
    main()
