"""Datagrams between clients and what answers them: ends in memory, and the two links of each exchange."""

from __future__ import annotations

import errno
import os
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import anyio
import anyio.lowlevel
from anyio.abc import UnreliableObjectStream

if TYPE_CHECKING:
    from collections.abc import Mapping

    from racer.lab._link import DatagramLink
    from racer.lab._running import Timetable

__all__ = ("Clients", "DatagramEnd", "DatagramHandler", "Exchange")

DatagramHandler = Callable[[UnreliableObjectStream[bytes]], Awaitable[None]]
"""What a site does with the datagrams of one client."""

_T = TypeVar("_T")

_QUEUE: Final = 1024  # datagrams that wait to be read; later ones are lost
_MAX_SIZE: Final = 65_507  # octets of a datagram over IPv4
_MAX_CLIENTS: Final = 1024  # clients of one port that are remembered at once


class DatagramEnd(UnreliableObjectStream[bytes]):
    """One end of an exchange of datagrams in memory, like a connected UDP socket.

    Args:
        attributes: typed attributes, each with its value.

    Attributes:
        closed: whether this end was closed.
        transmit: takes what is sent; to be set.
        on_close: called once, when this end is closed; may be set.
    """

    def __init__(
        self,
        *,
        attributes: Mapping[Any, object] | None = None,
    ) -> None:
        """Begin with nothing received."""
        self.closed = False
        self.transmit: Callable[[bytes], None] = lambda _: None
        self._attributes = dict(attributes or {})
        self.on_close: Callable[[], None] = lambda: None
        self._received: deque[bytes] = deque()
        self._ended = False
        self._news = anyio.Event()
        self._guard = anyio.ResourceGuard("reading from")

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        """The typed attributes, as anyio reads them."""
        return {key: partial(self._attributes.__getitem__, key) for key in self._attributes}

    async def receive(self) -> bytes:
        """Return the next datagram.

        Raises:
            EndOfStream: this end is a site's, and its client has gone.
        """
        with self._guard:
            await anyio.lowlevel.checkpoint()
            while not self._received:
                self._check_open()
                if self._ended:
                    raise anyio.EndOfStream
                await self._news.wait()
            self._check_open()
            return self._received.popleft()

    async def send(self, item: bytes) -> None:
        """Send a datagram; it may be lost.

        Raises:
            OSError: it is too long for any network.
        """
        await anyio.lowlevel.checkpoint()
        self._check_open()
        if len(item) > _MAX_SIZE:
            raise OSError(errno.EMSGSIZE, os.strerror(errno.EMSGSIZE))
        self.transmit(bytes(item))

    async def aclose(self) -> None:
        """Close this end."""
        self.close()
        await anyio.lowlevel.checkpoint()

    def close(self) -> None:
        """Close this end at once; may be called twice."""
        if not self.closed:
            self.closed = True
            self._received.clear()
            self._wake()
            self.on_close()

    def deliver(self, data: bytes) -> None:
        """Take a datagram that has arrived."""
        if not self.closed and len(self._received) < _QUEUE:
            self._received.append(data)
            self._wake()

    def end(self) -> None:
        """Learn that nothing more will arrive."""
        self._ended = True
        self._wake()

    def _check_open(self) -> None:
        if self.closed:
            raise anyio.ClosedResourceError

    def _wake(self) -> None:
        self._news.set()
        self._news = anyio.Event()


class Exchange:
    """The two links between one client and what answers it.

    Args:
        timetable: calls when something arrives.
        up: the link for what the client sends.
        down: the link for what comes back.
        to_site: takes what arrives there.
        to_client: takes what arrives here.
        passes: asked for every datagram, of either direction, whether it gets through what is on the way.
    """

    def __init__(
        self,
        timetable: Timetable,
        *,
        up: DatagramLink,
        down: DatagramLink,
        to_site: Callable[[bytes], None],
        to_client: Callable[[bytes], None],
        passes: Callable[[], bool] = lambda: True,
    ) -> None:
        """Keep the arguments."""
        self._timetable = timetable
        self._up = up
        self._down = down
        self._to_site = to_site
        self._to_client = to_client
        self._passes = passes

    def send_up(self, data: bytes) -> None:
        """Carry a datagram of the client's."""
        self._carry(self._up, data, self._to_site)

    def send_down(self, data: bytes) -> None:
        """Carry a datagram to the client."""
        self._carry(self._down, data, self._to_client)

    def _carry(self, link: DatagramLink, data: bytes, take: Callable[[bytes], None]) -> None:
        if self._passes():
            for delivery in link.send(data, anyio.current_time()):
                self._timetable.enter(delivery.at, partial(take, delivery.data))


class Clients(Generic[_T]):
    """The clients of one UDP port that are remembered; the one that was silent for longest is forgotten first.

    Args:
        make: makes what is kept of a client, from its address.
        forget: ends it.
    """

    def __init__(self, make: Callable[[tuple[str, int]], _T], forget: Callable[[_T], None]) -> None:
        """Begin with nobody."""
        self._make = make
        self._forget = forget
        self._known: OrderedDict[tuple[str, int], _T] = OrderedDict()

    def get(self, client: tuple[str, int]) -> _T:
        """Return what is kept of `client`, made now if there is nothing."""
        if client not in self._known:
            while len(self._known) >= _MAX_CLIENTS:
                self._forget(self._known.popitem(last=False)[1])
            self._known[client] = self._make(client)
        self._known.move_to_end(client)
        return self._known[client]
