"""A client of the Soar benchmark: a new process for every start and every transfer. It prints one line of JSON.

`soar`: the tunnel is in this process. `peer`: it is a program of others', started by this one, that listens for TCP.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any, Final

import anyio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from anyio.abc import ByteStream

__all__ = ("main",)

_PAUSE: Final = 0.3  # seconds between two streams of a running tunnel
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
    from benchmarks._soar_transfers import download, echo, upload  # noqa: PLC0415 - after the start is timed

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


async def _soar(job: dict[str, Any]) -> dict[str, Any]:
    from racer.abc import Progress, Target  # noqa: PLC0415 - with the start
    from racer.testing import LocalHost  # noqa: PLC0415
    from transports.soar import Soar  # noqa: PLC0415

    target = Target(*job["target"])
    async with LocalHost() as host:
        began = time.monotonic()
        soar = Soar(
            domain=job["domain"], server_key=job["key"], resolvers=[f"udp://{job['resolver']}"]
        )
        await soar.start(host)
        try:
            return await _measure(
                lambda: soar.connect(target, Progress()), job, time.process_time, began=began
            )
        finally:
            with anyio.move_on_after(1):
                await soar.aclose()


async def _peer(job: dict[str, Any]) -> dict[str, Any]:
    from benchmarks._soar_lab import running  # noqa: PLC0415 - with the start
    from benchmarks._soar_processes import cpu_seconds  # noqa: PLC0415

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
                try:
                    return await anyio.connect_tcp(address[0], address[1])
                except OSError:
                    await anyio.sleep(_TRY)
            raise TimeoutError

        def used() -> float:
            return cpu_seconds([process.pid])

        with anyio.fail_after(job["patience"] + job.get("seconds", 0) + 20):
            if job["what"] == "start":
                with anyio.CancelScope(deadline=anyio.current_time() + job["patience"]) as scope:
                    return await _measure(open_stream, job, used, began=began)
                if scope.cancelled_caught:
                    raise TimeoutError
            return await _measure(open_stream, job, used, began=began)


class _Failed(Exception):
    pass


async def _run(job: dict[str, Any]) -> dict[str, Any]:
    try:
        with anyio.fail_after(job["patience"] + job.get("seconds", 0) + 25):
            return await (_peer if "command" in job else _soar)(job)
    except TimeoutError:
        return {"failed": f"did not come up within {job['patience']:g} s"}
    except _Failed as exc:
        return {"failed": str(exc)}
    except Exception as exc:  # noqa: BLE001 - whatever a tunnel lets out is the result
        return {"failed": f"{type(exc).__name__}: {exc}".rstrip(": ")}


def main() -> None:
    """Measure as the JSON of the first argument says."""
    print(json.dumps(anyio.run(_run, json.loads(sys.argv[1]))), flush=True)


if __name__ == "__main__":
    main()
