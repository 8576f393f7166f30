"""What a transport's requests share: the dialer, the pool, and what is known of routes. It knows no HTTP library."""

from __future__ import annotations

import contextlib
import math
from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio
from anyio.streams.tls import TLSAttribute

from racer._connection import RoutedConnection
from racer._default import default_dialer
from racer._target import Target
from racer.errors import ConfigError, DialerClosed, NotUsable
from racer.http._exchange import Exchange
from racer.http._http1 import HTTP1Connection
from racer.http._http2 import PooledHTTP2
from racer.http._memory import MAX_ORIGINS, RouteMemory
from racer.http._pool import Pool
from racer.http._routes import RouteConnection
from racer.http2._fault import Fault

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Container
    from typing import Any

    from anyio.abc import ByteStream

    from racer._dialer import Dialer
    from racer._race import Finisher
    from racer.http._messages import Body, Origin, Request, Response, Via
    from racer.http._pool import Entry, Limits, Permit, ProtocolConnection

__all__ = ("Engine",)

_ALPN: Final = {True: ("h2", "http/1.1"), False: ("http/1.1",)}


async def _demand_http2(stream: ByteStream) -> None:
    if stream.extra(TLSAttribute.alpn_protocol, None) != "h2":
        msg = "the server does not speak HTTP/2, and http1 is off"
        raise NotUsable(msg)


class Engine:
    """Sends requests over connections that won races.

    Args:
        dialer: who races; `None` for the running loop's default one.
        http1: whether HTTP/1.1 may be spoken.
        http2: whether HTTP/2 may be.
        ssl_context: for all targets; `None` for the system's trust. Its list of ALPN protocols is set.
        limits: of the pool.
        retry_statuses: statuses that another route may better.
        tag: what is told of the app and the route in headers of each request; `None` for nothing.
        encode: makes the HTTP library's request of ours, for guests that take requests.

    Raises:
        ConfigError: neither protocol is allowed.
    """

    def __init__(
        self,
        dialer: Dialer | None,
        *,
        http1: bool,
        http2: bool,
        ssl_context: ssl.SSLContext | None,
        limits: Limits,
        retry_statuses: Container[int],
        tag: str | None,
        encode: Callable[[Request], Any],
    ) -> None:
        """Touch no event loop."""
        if not http1 and not http2:
            msg = "http1=False and http2=False leave no protocol"
            raise ConfigError(msg)
        self.memory = RouteMemory()
        self._limits = limits
        self.pool = Pool(limits, self.memory, self._may_multiplex)
        self.retry_statuses = retry_statuses
        self.tag = tag
        self._given = dialer
        self._dialer: Dialer | None = None
        self._http1 = http1
        self._http2 = http2
        self._encode = encode
        self._tls: bool | ssl.SSLContext = True
        self._alpn: tuple[str, ...] = ("h2",) if not http1 else _ALPN[http2]
        if ssl_context is not None:
            ssl_context.set_alpn_protocols(list(self._alpn))
            self._tls, self._alpn = ssl_context, ()
        self._targets: OrderedDict[Origin, Target] = OrderedDict()
        self._guarded: set[Pool] = set()
        self._closed = False

    def _may_multiplex(self, origin: Origin) -> bool:
        return self._http2 and (origin.scheme == "https" or not self._http1)

    async def send(self, request: Request) -> tuple[Response, Via]:
        """Return the response to a request, and by which way it came; its body is the caller's to close.

        Raises:
            Failure: with the name of the HTTP library's error, and racer's as its cause.
            ConfigError: the dialer cannot be used here.
        """
        if self._closed:
            msg = "this transport is closed; make a new one"
            raise DialerClosed(msg)
        dialer = await self.dialer()
        dialer.host.check()
        response, via = await Exchange(self, dialer, request).run()
        # No other route can take over now, but the next request can know better.
        doubt = partial(self.memory.failed, request.origin, via.transport_name)
        response.body = _Watched(response.body, doubt)
        return response, via

    async def dialer(self) -> Dialer:
        """Return who races: the one given, or the running loop's default."""
        if self._given is not None:
            return self._given
        if self._dialer is None or not self._dialer.is_usable:
            self._dialer = await default_dialer()
            # What an earlier loop's dialer won has ended with that loop.
            self.pool = Pool(self._limits, self.memory, self._may_multiplex)
        return self._dialer

    def target(self, origin: Origin) -> Target:
        """Return an origin as what a race is about.

        Raises:
            InvalidTarget: no host can have that name.
        """
        if (known := self._targets.get(origin)) is not None:
            return known
        secure = origin.scheme == "https"
        target = Target(
            origin.host,
            origin.port,
            tls=self._tls if secure else False,
            alpn=self._alpn if secure else (),
        )
        self._targets[origin] = target
        if len(self._targets) > MAX_ORIGINS:
            self._targets.popitem(last=False)
        return target

    def check(self, origin: Origin) -> Callable[[ByteStream], Awaitable[None]] | None:
        """Return what more a stream has to show than TLS: HTTP/2, where nothing else may be spoken."""
        return _demand_http2 if origin.scheme == "https" and not self._http1 else None

    def adopt(self, finisher: Finisher, permit: Permit, dialer: Dialer, pool: Pool) -> Entry:
        """Return the pool's entry of what a race gave; synchronous, so that it always has one owner."""
        try:
            connection = self._speaking(finisher, permit.origin, dialer, pool)
        except BaseException:
            finisher.abort()
            raise
        return pool.add(permit, connection, anyio.current_time())

    def _speaking(
        self, finisher: Finisher, origin: Origin, dialer: Dialer, pool: Pool
    ) -> ProtocolConnection:
        host = dialer.host
        if isinstance(finisher, RoutedConnection):
            return RouteConnection(finisher, host, self._encode)

        def look_again() -> None:
            pool.changed(anyio.current_time())

        if origin.scheme == "https":
            speaks_http2 = finisher.extra(TLSAttribute.alpn_protocol, None) == "h2"
        else:
            speaks_http2 = not self._http1  # by prior knowledge (RFC 9113 §3.3)
        if speaks_http2:
            return PooledHTTP2(finisher, host, look_again)
        return HTTP1Connection(finisher, host, look_again)

    def released(self, entry: Entry, dialer: Dialer, pool: Pool, *, reusable: bool) -> None:
        """Give a place on a connection back; synchronous."""
        pool.release(entry, anyio.current_time(), reusable=reusable)
        if pool.idle and pool not in self._guarded and dialer.host.is_open:
            self._guarded.add(pool)
            try:
                dialer.host.start_soon(self._guard, pool, name="racer http pool")
            except BaseException:
                self._guarded.discard(pool)
                raise

    async def _guard(self, pool: Pool) -> None:
        """Close what is idle for too long, as long as anything is idle; and all of it at the dialer's end."""
        try:
            while True:
                due = pool.expire(anyio.current_time())
                if not pool.idle:
                    return
                await anyio.sleep_until(math.inf if due is None else due)
        except GeneratorExit:
            raise  # the loop was closed with its tasks pending: nothing can be closed any more
        except BaseException:
            pool.close_idle()
            raise
        finally:
            self._guarded.discard(pool)

    def close(self) -> None:
        """Close what is idle, and the rest when its last response is through; synchronous. Again does nothing."""
        self._closed = True
        # Without a loop there is nobody to close anything; the connections were freed with it.
        with contextlib.suppress(RuntimeError):
            self.pool.close()


class _Watched:
    """A response's body; where it breaks, the route comes last for a while (H6)."""

    __slots__ = ("_body", "_doubt")

    def __init__(self, body: Body, doubt: Callable[[float], None]) -> None:
        self._body = body
        self._doubt = doubt

    async def receive(self) -> bytes:
        try:
            return await self._body.receive()
        except Fault:
            self._doubt(anyio.current_time())
            raise

    def receive_nowait(self) -> bytes | None:
        try:
            return self._body.receive_nowait()
        except Fault:
            self._doubt(anyio.current_time())
            raise

    def close(self) -> None:
        self._body.close()
