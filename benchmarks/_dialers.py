"""Who is sent into a network: racer, and what people use instead. All do the same to be called connected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import anyio
from anyio.streams.tls import TLSStream

import racer
from benchmarks._names import look_up
from benchmarks._networks import HOST, PROXY
from racer.abc import Progress, Target
from racer.errors import DialError, ErrorType, NotUsable, TransportError, error_type_of
from transports.direct import Direct
from transports.proxy import Socks5

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable

    from anyio.abc import ByteStream

    from benchmarks._networks import World
    from racer import RaceReport

__all__ = ("DIALERS", "ROUTE_TIMEOUT", "STAGGER", "Dialed", "Dialer")

PORT: Final = 443
STAGGER: Final = 0.25  # seconds; what RFC 8305 §8 recommends between two addresses
ROUTE_TIMEOUT: Final = 2.0
"""Seconds that the fallback loop gives each route: impatient, as the system alone sends a lost SYN again after 1 s."""

_FAILURES: Final = (
    OSError,  # ssl.SSLError and TimeoutError are such
    TransportError,
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    anyio.EndOfStream,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialed:
    """What became of one dial.

    Attributes:
        seconds: until there was a usable connection, or until it was certain that there would be none.
        winner: the route that was usable; `None` for none.
        started: routes that were tried.
        errors: what kept each of the others, by route, from the closed list of `racer.errors.ErrorType`.
    """

    seconds: float
    winner: str | None
    started: int
    errors: dict[str, str]


Dialer: TypeAlias = "Callable[[World, float], Awaitable[Dialed]]"
"""Dials once in a world, within so many seconds."""


async def echoes(stream: ByteStream) -> bool:
    """Return whether one byte comes back: what a connection has to do to be called usable."""
    await stream.send(b"?")
    return await stream.receive(1) == b"?"


# --- racer ----------------------------------------------------------------------------------


def _direct(world: World) -> Direct:
    return Direct(resolver=world.names, dial_tcp=world.dial_tcp)


def _proxy(world: World) -> Socks5:
    return Socks5(f"{PROXY[0]}:{PROXY[1]}", base=_direct(world), name="proxy")


async def with_racer(world: World, deadline: float) -> Dialed:
    """Dial as an app would that was given these two routes."""
    entrants = [racer.Entrant(_direct(world)), racer.Entrant(_proxy(world), start_delay=STAGGER)]
    async with racer.Dialer(entrants) as dialer:
        began = anyio.current_time()
        try:
            conn = await dialer.dial(HOST, PORT, tls=world.context, timeout=deadline, check=echoes)
        except DialError as exc:
            return _told(anyio.current_time() - began, exc.report)
        took = anyio.current_time() - began
        await conn.aclose()
        return _told(took, conn.report)


def _told(took: float, report: RaceReport) -> Dialed:
    return Dialed(
        seconds=took,
        winner=report.winner,
        started=sum(attempt.started_at is not None for attempt in report.attempts),
        errors={
            attempt.transport: attempt.error_type.value
            for attempt in report.attempts
            if attempt.error_type is not None
        },
    )


# --- what people use instead ----------------------------------------------------------------


async def _go_direct(world: World) -> ByteStream:
    """Take the steps of `anyio.connect_tcp(HOST, PORT, tls=True)`: look up, TCP, TLS."""
    address = await look_up(world.names, HOST)
    return await _secured(await world.dial_tcp(address, PORT), world.context)


async def _go_by_proxy(world: World) -> ByteStream:
    stream = await _proxy(world).connect(Target(HOST, PORT, tls=world.context), Progress())
    return await _secured(stream, world.context)


async def _secured(stream: ByteStream, context: ssl.SSLContext) -> ByteStream:
    try:
        return await TLSStream.wrap(
            stream,
            server_side=False,
            hostname=HOST,
            ssl_context=context,
            standard_compatible=False,
        )
    except BaseException:
        await anyio.aclose_forcefully(stream)
        raise


_ROUTES: Final = (("direct", _go_direct), ("proxy", _go_by_proxy))


async def with_connect_tcp(world: World, deadline: float) -> Dialed:
    """Go one way, and wait for it."""
    return await _one_by_one(world, deadline, _ROUTES[:1], patience=deadline)


async def with_fallback(world: World, deadline: float) -> Dialed:
    """Go one way after the other, each until it fails or its time is over."""
    return await _one_by_one(world, deadline, _ROUTES, patience=ROUTE_TIMEOUT)


async def _one_by_one(
    world: World,
    deadline: float,
    routes: tuple[tuple[str, Callable[[World], Awaitable[ByteStream]]], ...],
    *,
    patience: float,
) -> Dialed:
    began = anyio.current_time()
    errors: dict[str, str] = {}
    with anyio.move_on_after(deadline):
        for name, go in routes:
            errors[name] = ErrorType.TIMEOUT.value  # what it is unless it ends in time
            try:
                usable_at = await _try(go, world, patience)
            except _FAILURES as exc:
                errors[name] = error_type_of(exc).value
            else:
                started = len(errors)
                del errors[name]
                return Dialed(
                    seconds=usable_at - began, winner=name, started=started, errors=errors
                )
    took = anyio.current_time() - began
    return Dialed(seconds=took, winner=None, started=len(errors), errors=errors)


async def _try(
    go: Callable[[World], Awaitable[ByteStream]], world: World, patience: float
) -> float:
    """Return when the route was usable, by the loop's clock."""
    with anyio.fail_after(patience):
        stream = await go(world)
        try:
            if not await echoes(stream):
                msg = "another byte came back"
                raise NotUsable(msg)
            return anyio.current_time()
        finally:
            await anyio.aclose_forcefully(stream)


DIALERS: Final[dict[str, Dialer]] = {
    "racer": with_racer,
    "connect_tcp": with_connect_tcp,
    "fallback": with_fallback,
}
