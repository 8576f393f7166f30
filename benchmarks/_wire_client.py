"""The client inside a packet network: told what to do in lines of JSON, it says in lines of JSON what came of it."""

from __future__ import annotations

import json
import ssl
import sys
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
from anyio.abc import SocketAttribute

import racer
from racer.abc import Progress, Target
from racer.errors import DialError, ErrorType, TransportError, error_type_of
from racer.testing import LocalHost
from transports.direct import Direct
from transports.proxyless import Proxyless, parse_strategy
from transports.proxyless._dial import ShapingDialer, prove
from transports.proxyless._hearsay import Known

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from anyio.abc import ByteStream

    from racer.abc import AttributeValue

__all__ = ("main",)

_FAILURES = (OSError, TransportError, anyio.BrokenResourceError, anyio.EndOfStream)


class _Choice(Progress):
    """Keeps what the transport chose."""

    def __init__(self) -> None:
        self.chosen: dict[str, AttributeValue] = {}

    def event(self, name: str, attributes: Mapping[str, AttributeValue] | None = None) -> None:
        if name == "racer.proxyless.strategy":
            self.chosen = {
                key.rpartition(".")[2]: value for key, value in (attributes or {}).items()
            }


async def _timed(
    connect: Callable[[], Awaitable[ByteStream]], target: Target, timeout: float
) -> dict[str, Any]:
    """Connect, speak TLS, ask, and read an octet; return what came of it and how long it took."""
    began = anyio.current_time()
    found: dict[str, Any] = {"ok": False, "error": ErrorType.TIMEOUT.value, "port": 0}
    assert isinstance(target.tls, ssl.SSLContext)
    with anyio.move_on_after(timeout):
        try:
            stream = await connect()
            found["port"] = stream.extra(SocketAttribute.local_port)
            await prove(stream, target, target.tls)
            found |= {"ok": True, "error": None}
        except _FAILURES as exc:
            found["error"] = error_type_of(exc).value
    found["seconds"] = anyio.current_time() - began
    return found


async def _by_strategy(told: dict[str, Any], target: Target) -> list[dict[str, Any]]:
    dialer = ShapingDialer()

    async def use(text: str) -> dict[str, Any]:
        strategy, known = parse_strategy(text), Known(told["addresses"])

        async def connect() -> ByteStream:
            return await dialer.dial(target, strategy, known, Progress())

        return {"strategy": text} | await _timed(connect, target, told["timeout"])

    # In turns, so that the machine's other work falls on all of them alike.
    return [await use(text) for _ in range(told["times"]) for text in told["strategies"]]


async def _by_search(told: dict[str, Any], target: Target) -> list[dict[str, Any]]:
    options: dict[str, Any] = {"strategies": told["strategies"]} if told["strategies"] else {}
    options |= {"resolvers": told["resolvers"], "resolver_tls": target.tls}
    transport = Proxyless(network=lambda: "lab", **options)

    async def dial() -> dict[str, Any]:
        choice = _Choice()

        async def connect() -> ByteStream:
            return await transport.connect(target, choice)

        result = await _timed(connect, target, told["timeout"])
        return result | {"chosen": choice.chosen}

    async with LocalHost() as host:
        await transport.start(host)
        found = [await dial() for _ in range(told["times"])]
        await transport.aclose()
    return found


async def _reads_an_octet(stream: ByteStream) -> bool:
    await stream.send(b"HEAD / HTTP/1.1\r\nHost: site\r\nConnection: close\r\n\r\n")
    return bool(await stream.receive(1))


async def _with_racer(told: dict[str, Any], target: Target) -> dict[str, Any]:
    """Dial as an app would that has nothing configured, but for whom it trusts."""
    assert isinstance(target.tls, ssl.SSLContext)
    careful = Proxyless(resolvers=told["resolvers"], resolver_tls=target.tls, network=lambda: "lab")
    async with racer.Dialer([Direct(), careful]) as dialer:
        began = anyio.current_time()
        try:
            conn = await dialer.dial(target, timeout=told["timeout"], check=_reads_an_octet)
            report, took = conn.report, anyio.current_time() - began
            await conn.aclose()
        except DialError as exc:
            report, took = exc.report, anyio.current_time() - began
    return {
        "seconds": took,
        "winner": report.winner,
        "started": sum(attempt.started_at is not None for attempt in report.attempts),
        "errors": {
            attempt.transport: attempt.error_type.value
            for attempt in report.attempts
            if attempt.error_type is not None
        },
    }


async def _with_connect_tcp(told: dict[str, Any], target: Target) -> dict[str, Any]:
    """Connect as most programs do."""
    assert isinstance(target.tls, ssl.SSLContext)
    began = anyio.current_time()
    found: dict[str, Any] = {"winner": None, "started": 1, "errors": {"direct": "timeout"}}
    with anyio.move_on_after(told["timeout"]):
        try:
            async with await anyio.connect_tcp(
                target.host,
                target.port,
                tls=True,
                ssl_context=target.tls,
                tls_standard_compatible=False,
            ) as stream:
                await _reads_an_octet(stream)
                found |= {"winner": "direct", "errors": {}, "seconds": anyio.current_time() - began}
        except _FAILURES as exc:
            found["errors"] = {"direct": error_type_of(exc).value}
    return {"seconds": anyio.current_time() - began} | found


async def _by_dialer(told: dict[str, Any], target: Target) -> list[dict[str, Any]]:
    dial = {"racer": _with_racer, "connect_tcp": _with_connect_tcp}[told["dialer"]]
    return [await dial(told, target) for _ in range(told["times"])]


async def _main() -> None:
    while line := await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
        told = json.loads(line)
        context = ssl.create_default_context(cadata=told["authority"])
        context.verify_flags &= (
            ~ssl.VERIFY_X509_STRICT
        )  # not every trustme puts in what 3.13 asks for
        target = Target(told["host"], tls=context)
        work = _by_dialer if told["dialer"] else _by_search if told["resolvers"] else _by_strategy
        print(json.dumps(await work(told, target)), flush=True)


def main() -> None:
    """Do what each line of standard input says, on the loop that is named."""
    anyio.run(_main, backend=sys.argv[1])


if __name__ == "__main__":
    main()
