"""One client, from its first octet to its last: what it wants is understood, raced for, and carried."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

import anyio
from anyio.abc import SocketAttribute

from racer._cleanup import close_within
from racer._logs import log_error
from racer.errors import ConfigError, DialError, NoTransports, RacerError
from racer.proxy._call import Call
from racer.proxy._doorway import Doorway
from racer.proxy._fetching import Fetcher
from racer.proxy._first_flight import PATIENCE, FirstFlight
from racer.proxy._house import Failure
from racer.proxy._http import HttpServer
from racer.proxy._requests import Fetch, OpenTunnel, Page, Refusal, Reply, Spoken
from racer.proxy._socks5 import Socks5Server, reply
from racer.proxy._splice import Splice
from racer.proxy._tally import CONTENT_TYPE, metrics
from racer.proxy._verdicts import FULL, LOOP, verdict_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anyio.abc import ByteStream

    from racer._connection import Connection
    from racer._target import Target
    from racer.proxy._doorway import Nobody
    from racer.proxy._house import House
    from racer.proxy._requests import Event
    from racer.proxy._verdicts import Verdict

__all__ = ("Conversation",)

_LINGER: Final = 2.0  # seconds in which a client can read its last answer
_MAX_LINGER: Final = 1024 * 1024  # bytes of what it still sends meanwhile
_GONE: Final = (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)

logger = logging.getLogger("racer.proxy")


@runtime_checkable
class _Abortable(Protocol):
    def abort(self) -> None: ...


class Conversation:
    """Serves one client.

    Args:
        stream: its connection, which whoever made it closes.
        house: what is shared.

    Attributes:
        is_idle: whether it has not asked for anything, or was answered: ending it interrupts nothing.
        scope: cancelling it ends the conversation.
    """

    def __init__(self, stream: ByteStream, house: House) -> None:
        """Say nothing yet."""
        self._stream = stream
        self._house = house
        self._fetching: Fetcher | None = None
        self.is_idle = True
        self.scope = anyio.CancelScope()

    async def run(self) -> None:
        """Serve until the client has gone, or has got all that it can get."""
        with self.scope:
            try:
                await self._serve()
            except anyio.EndOfStream:
                return
            except BaseException as exc:
                self._reset()
                if not isinstance(exc, _GONE):
                    raise
            finally:
                if self._fetching is not None:
                    await self._fetching.aclose()

    async def _serve(self) -> None:
        house = self._house
        machine: HttpServer | Socks5Server | Nobody | None = None
        event: Event | None = None
        while not house.is_stopping:
            self.is_idle = True
            event = None
            with anyio.move_on_after(house.handshake_timeout):
                if machine is None:
                    machine = self._doorway().open(await self._stream.receive())
                event = await self._understand(machine)
            self.is_idle = False
            match event:
                case None:
                    return  # it took too long
                case Refusal():
                    self._refused(event)
                    break
                case OpenTunnel():
                    assert isinstance(machine, HttpServer | Socks5Server)
                    if not await self._open_tunnel(machine, event):
                        return
                case Page() | Fetch():
                    assert isinstance(machine, HttpServer)
                    await self._answer(machine, event)
                    if not machine.start_next():
                        break
        await self._linger()

    def _doorway(self) -> Doorway:
        house = self._house
        local = self._stream.extra(SocketAttribute.local_address, None)
        own = local[0] if isinstance(local, tuple) else None
        return Doorway(house.users, pages=house.pages, own_address=own)

    async def _understand(self, machine: HttpServer | Socks5Server | Nobody) -> Event:
        """Return what the client wants, once it has said it.

        Raises:
            EndOfStream: it has gone.
        """
        while True:
            event = machine.next_event()
            if data := machine.bytes_to_send():
                await self._stream.send(data)
            if isinstance(event, Refusal) and not event.is_final:
                self._refused(event)
            elif event is not None:
                return event
            else:
                machine.receive_data(await self._stream.receive())

    def _refused(self, event: Refusal) -> None:
        self._house.tally.request(event.spoken, "denied" if event.is_denied else "refused")
        self._house.fail(Failure(target=None, words=event.words))

    # --- tunnels ----------------------------------------------------------------------------

    async def _open_tunnel(self, machine: HttpServer | Socks5Server, wish: OpenTunnel) -> bool:
        """Carry a tunnel to its end; return whether there was none, and the client may ask for another."""
        house = self._house
        if (verdict := self._objection(wish.target)) is not None:
            return await self._turn_down(machine, wish, verdict, "refused")
        call = Call(self._stream, machine.leftover)
        try:
            with house.racing_for(wish.target) as race:
                await call.make(race)
        except ConfigError as exc:
            call.error = exc
        if call.connection is None:
            if call.error is None:
                house.tally.request(wish.spoken, "left")
                return False
            self._count_race(call.error)
            if not isinstance(call.error, RacerError):
                log_error(logger, logging.ERROR, "a race crashed", error=call.error, redacted=True)
            verdict = verdict_of(call.error, str(wish.target))
            # What was said for the target must not be taken for another request.
            return await self._turn_down(machine, wish, verdict, "failed", is_last=bool(call.early))
        await self._use(machine, wish, call)
        return False

    async def _use(self, machine: HttpServer | Socks5Server, wish: OpenTunnel, call: Call) -> None:
        """Carry the tunnel over what a race gave, or the next one where that does not do, and close it."""
        house = self._house
        is_whole = False
        try:
            assert call.connection is not None
            house.tally.race(call.connection.report)
            if house.leads_back(call.connection.report):
                await self._turn_down(machine, wish, LOOP, "refused", is_last=True)
                return
            house.tally.request(wish.spoken, "connected")
            await self._stream.send(_accepted(machine))
            reply = await self._first_words(wish, call)
            if call.connection is not None:
                is_whole = await self._carry(call.connection, call.early, reply)
        finally:
            if not is_whole:
                self._drop(call)
        if call.connection is not None:
            await close_within(call.connection, scope=anyio.CancelScope())

    async def _first_words(self, wish: OpenTunnel, call: Call) -> bytes:
        """See a ClientHello answered, by another way where need be; return what the target has said by then.

        Without a way left the call has no connection, and the client's is broken.
        """
        names = set(self._house.dialer.eligible(wish.target))
        if len(names) < 2:
            return b""
        flight = FirstFlight(self._stream, call.early)
        self._house.moving.add(flight)
        try:
            with flight.scope:
                await self._see_answered(wish, call, flight, names)
        finally:
            self._house.moving.discard(flight)
        if call.connection is None or flight.scope.cancelled_caught:
            self._drop(call)
            self._reset()
        return flight.reply

    async def _see_answered(
        self, wish: OpenTunnel, call: Call, flight: FirstFlight, names: set[str]
    ) -> None:
        connection = call.connection
        assert connection is not None
        await flight.begin(connection)
        call.early = flight.said
        tried: dict[str, str] = {}
        while connection is not None and flight.size is not None:
            tried[connection.transport_name] = "connected, and did not answer the ClientHello"
            patience = PATIENCE if names - tried.keys() else None
            if await flight.is_answered(connection, patience):
                call.early = flight.said[flight.size :]
                return
            self._drop(call)
            call.early = flight.said
            await self._try_others(wish, call, tried)
            connection, flight.said = call.connection, call.early

    async def _try_others(self, wish: OpenTunnel, call: Call, tried: Mapping[str, str]) -> None:
        """Set the call's connection to one by another way, if there is any."""
        house = self._house
        try:
            with house.racing_for(wish.target, tried) as race:
                await call.make(race)
        except ConfigError as exc:
            call.error = exc
        if call.connection is not None:
            house.tally.race(call.connection.report)
            if house.leads_back(call.connection.report):
                self._drop(call)
        elif call.error is not None:
            self._count_race(call.error)
            self._told(wish.spoken, wish.target, verdict_of(call.error, str(wish.target)), "broken")

    def _drop(self, call: Call) -> None:
        if call.connection is not None:
            call.connection.abort()
            call.connection = None

    async def _carry(self, connection: Connection, early: bytes, reply: bytes) -> bool:
        """Return whether all that was said on either side has arrived at the other."""
        house = self._house
        splice = Splice(self._stream, connection, house.tally)
        house.moving.add(splice)
        house.tally.tunnels += 1
        try:
            await splice.run(early, reply)
        finally:
            house.tally.tunnels -= 1
            house.moving.discard(splice)
            if not splice.is_whole:
                self._reset()
        return splice.is_whole

    def _reset(self) -> None:
        """Break the client's connection, so that nothing cut short looks whole; a stream of another kind is closed."""
        if isinstance(self._stream, _Abortable):
            self._stream.abort()

    def _objection(self, target: Target) -> Verdict | None:
        """Return why a target is not even tried."""
        if self._house.is_itself(target) or self._house.asks_itself(target):
            return LOOP
        return FULL if self._house.is_full() else None

    async def _turn_down(
        self,
        machine: HttpServer | Socks5Server,
        wish: OpenTunnel,
        verdict: Verdict,
        outcome: str,
        *,
        is_last: bool = False,
    ) -> bool:
        """Tell the client, and whoever runs the proxy; return whether the client may ask again, which SOCKS5 has not."""
        self._told(wish.spoken, wish.target, verdict, outcome)
        if isinstance(machine, HttpServer):
            machine.refuse(verdict, close=is_last)
            await self._stream.send(machine.bytes_to_send())
            if machine.start_next():
                return True
        else:
            await self._stream.send(reply(verdict.reply))
        await self._linger()
        return False

    def _told(self, spoken: Spoken, target: Target, verdict: Verdict, outcome: str) -> None:
        self._house.tally.request(spoken, outcome)
        self._house.fail(Failure(target=str(target), words=verdict.words, details=verdict.details))

    def _count_race(self, error: BaseException) -> None:
        if isinstance(error, DialError | NoTransports) and error.report is not None:
            self._house.tally.race(error.report)

    # --- requests that are answered ---------------------------------------------------------

    async def _answer(self, machine: HttpServer, event: Page | Fetch) -> None:
        """Answer one request; whether there can be another, the machine knows.

        Raises:
            EndOfStream: the client has gone.
        """
        if isinstance(event, Page):
            await self._show(machine, event)
            return
        if (verdict := self._objection(event.target)) is not None:
            self._told(Spoken.HTTP, event.target, verdict, "refused")
            machine.refuse(verdict)
            await self._stream.send(machine.bytes_to_send())
            return
        fetcher = self._fetcher(machine)
        self._house.moving.add(fetcher)
        try:
            verdict = await fetcher.forward(event)
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            self._house.tally.request(Spoken.HTTP, "left")
            raise
        finally:
            self._house.moving.discard(fetcher)
        if verdict is None:
            self._house.tally.request(Spoken.HTTP, "connected")
        else:
            self._told(Spoken.HTTP, event.target, verdict, "failed")

    def _fetcher(self, machine: HttpServer) -> Fetcher:
        if self._fetching is None:
            house = self._house
            self._fetching = Fetcher(self._stream, machine, house.dialer, house.tally.race)
        return self._fetching

    async def _show(self, machine: HttpServer, event: Page) -> None:
        status = self._house.status()
        match event.path:
            case "/readyz" if status.is_ready:
                machine.page(200, "text/plain; charset=utf-8", b"ready\n")
            case "/readyz":
                machine.page(503, "text/plain; charset=utf-8", b"not ready\n")
            case _:
                machine.page(200, CONTENT_TYPE, metrics(status).encode())
        self._house.tally.request(Spoken.ADMIN, "connected")
        await self._stream.send(machine.bytes_to_send())

    async def _linger(self) -> None:
        """End our side, and wait a little for the client to end its own: closing at once could destroy the answer."""
        left = _MAX_LINGER
        with anyio.move_on_after(_LINGER):
            await self._stream.send_eof()
            while left > 0:
                left -= len(await self._stream.receive())


def _accepted(machine: HttpServer | Socks5Server) -> bytes:
    if isinstance(machine, HttpServer):
        machine.accept()
        return machine.bytes_to_send()
    return reply(Reply.SUCCEEDED)
