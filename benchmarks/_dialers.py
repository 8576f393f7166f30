"""Who is sent into a network: racer, and what people use instead. All do the same to be called connected."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

import anyio
from anyio.streams.tls import TLSStream

import racer
from benchmarks._names import look_up
from benchmarks._networks import HOST, PROXY
from benchmarks._policies import KINDLING, OUTLINE, race_by
from racer.abc import Progress, Target
from racer.errors import DialError, ErrorType, NotUsable, TransportError, error_type_of
from transports.direct import Direct
from transports.proxy import Socks5

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

    from anyio.abc import ByteStream

    from benchmarks._networks import World
    from benchmarks._policies import Policy
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
        report: the race, if it was one of racer's.
        tcp_before: TCP connections that were begun before the dial that counts.
        reached_before: those of them that came as far as somebody who answers for the site.
    """

    seconds: float
    winner: str | None
    started: int
    errors: dict[str, str]
    report: RaceReport | None = None
    tcp_before: int = 0
    reached_before: int = 0


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


def _entrants(world: World) -> list[racer.Entrant]:
    """Return the routes as an app would list them; Soar has the delay that is its own default, 8 s."""
    entrants = [racer.Entrant(_direct(world)), racer.Entrant(_proxy(world), start_delay=STAGGER)]
    if (soar := world.soar()) is not None:
        entrants.append(racer.Entrant(soar))
    return entrants


async def with_racer(world: World, deadline: float) -> Dialed:
    """Dial as an app would for the first time in its life."""
    async with racer.Dialer(_entrants(world)) as dialer:
        return await _dial(dialer, world, deadline)


async def with_racer_again(world: World, deadline: float) -> Dialed:
    """Dial for the second time, with a memory of the first."""
    # Both as the loop sees them, so that a virtual clock will do.
    memory = racer.Memory(tell_network=lambda: "a lab", clock=anyio.current_time)
    async with racer.Dialer(_entrants(world), memory=memory) as dialer:
        await _dial(dialer, world, deadline)
        tcp, reached = world.dialed_tcp, world.reached
        told = await _dial(dialer, world, deadline)
    return replace(told, tcp_before=tcp, reached_before=reached)


async def _dial(dialer: racer.Dialer, world: World, deadline: float) -> Dialed:
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
        report=report,
    )


# --- what people use instead ----------------------------------------------------------------


@asynccontextmanager
async def _by_direct(world: World) -> AsyncIterator[ByteStream]:
    """Take the steps of `anyio.connect_tcp(HOST, PORT, tls=True)`: look up, TCP, TLS."""
    address = await look_up(world.names, HOST)
    stream = await _secured(await world.dial_tcp(address, PORT), world.context)
    try:
        yield stream
    finally:
        await anyio.aclose_forcefully(stream)


@asynccontextmanager
async def _by_proxy(world: World) -> AsyncIterator[ByteStream]:
    target = Target(HOST, PORT, tls=world.context)
    stream = await _secured(await _proxy(world).connect(target, Progress()), world.context)
    try:
        yield stream
    finally:
        await anyio.aclose_forcefully(stream)


@asynccontextmanager
async def _by_soar(world: World) -> AsyncIterator[ByteStream]:
    """Go through the tunnel alone; a dialer of one is what runs it."""
    soar = world.soar()
    assert soar is not None
    async with (
        racer.Dialer([racer.Entrant(soar, start_delay=0.0)]) as dialer,
        await dialer.dial(HOST, PORT, tls=world.context) as stream,
    ):
        yield stream


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


Route: TypeAlias = "Callable[[World], AbstractAsyncContextManager[ByteStream]]"


def _routes(world: World) -> dict[str, Route]:
    """Return the ways through a world, in the order in which people try them."""
    routes: dict[str, Route] = {"direct": _by_direct, "proxy": _by_proxy}
    return routes | {"soar": _by_soar} if world.has_tunnel else routes


async def with_connect_tcp(world: World, deadline: float) -> Dialed:
    """Go one way, and wait for it."""
    return await _one_by_one(world, deadline, {"direct": _by_direct}, patience=deadline)


async def with_fallback(world: World, deadline: float) -> Dialed:
    """Go one way after the other, each until it fails or its time is over."""
    return await _one_by_one(world, deadline, _routes(world), patience=ROUTE_TIMEOUT)


async def _one_by_one(
    world: World, deadline: float, routes: dict[str, Route], *, patience: float
) -> Dialed:
    began = anyio.current_time()
    errors: dict[str, str] = {}
    with anyio.move_on_after(deadline):
        for name, route in routes.items():
            errors[name] = ErrorType.TIMEOUT.value  # what it is unless it ends in time
            try:
                usable_at = await _try(route, world, patience)
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


async def _try(route: Route, world: World, patience: float) -> float:
    """Return when the route was usable, by the loop's clock."""
    with anyio.fail_after(patience):
        async with route(world) as stream:
            await _prove(stream)
            return anyio.current_time()


async def _prove(stream: ByteStream) -> None:
    if not await echoes(stream):
        msg = "another byte came back"
        raise NotUsable(msg)


async def _with_policy(world: World, deadline: float, *, policy: Policy) -> Dialed:
    """Race as others do: their schedule, over the same routes."""
    began = anyio.current_time()
    routes = {name: partial(route, world) for name, route in _routes(world).items()}
    ran = await race_by(policy, routes, prove=_prove, failures=_FAILURES, deadline=deadline)
    return Dialed(
        seconds=ran.ended_at - began,
        winner=ran.winner,
        started=len(ran.started),
        errors={name: error_type_of(exc).value for name, exc in ran.errors.items()},
    )


DIALERS: Final[dict[str, Dialer]] = {
    "racer": with_racer,
    "connect_tcp": with_connect_tcp,
    "fallback": with_fallback,
    "kindling": partial(_with_policy, policy=KINDLING),
    "outline": partial(_with_policy, policy=OUTLINE),
    "racer-again": with_racer_again,
}
