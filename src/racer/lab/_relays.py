"""Links for real sockets: a relay listens on 127.0.0.1, and what crosses it to another port meets the link."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from racer.lab._datagrams import Clients, Exchange
from racer.lab._link import CLEAN, Bottleneck, DatagramLink, Profile, StreamLink
from racer.lab._path import Path
from racer.lab._running import Running, Timetable
from racer.lab._sockets import LOOPBACK, Datagrams, StreamServer, connect_to

if TYPE_CHECKING:
    from racer.lab._running import Tasks
    from racer.lab._sockets import SocketEnd

__all__ = ("Direction", "TCPRelay", "UDPRelay")


class Direction:
    """One direction of a link that many connections share: its rate is for all of them together.

    Args:
        profile: what it does.
        name: goes into the seeds, so that each connection and direction has dice of its own.
        seed: likewise.
    """

    def __init__(self, profile: Profile, *, name: str, seed: int) -> None:
        """Begin with an empty queue."""
        self.profile = profile
        self._name = name
        self._seed = seed
        self._shared = () if profile.rate is None else (Bottleneck(profile.rate, profile.queue),)

    def stream(self, connection: str, *further: Bottleneck) -> StreamLink:
        """Return the link for one connection, told apart by `connection`; `further` are behind the shared rate."""
        return StreamLink(
            self.profile,
            seed=f"{self._seed} {connection} {self._name}",
            bottlenecks=(*self._shared, *further),
        )

    def datagrams(self, client: str, *further: Bottleneck) -> DatagramLink:
        """Return the link for one client's datagrams, likewise."""
        return DatagramLink(
            self.profile,
            seed=f"{self._seed} {client} {self._name}",
            bottlenecks=(*self._shared, *further),
        )


class TCPRelay(StreamServer):
    """A link for TCP. An async context manager.

    Connections stand at once; what is sent through them meets the link. Where the server behind it cannot be reached, the client's connection is reset.

    Args:
        host: where the relay leads to.
        port: likewise.
        up: what the link does to what clients send.
        down: what it does to what comes back.
        seed: of its dice; those of the n-th connection are always the same.

    Attributes:
        address: where it listens; the port is 0 until it is entered.
    """

    def __init__(
        self, host: str, port: int, *, up: Profile = CLEAN, down: Profile = CLEAN, seed: int = 0
    ) -> None:
        """Keep the arguments; nothing listens yet."""
        super().__init__()
        self._upstream = (host, port)
        self._up = Direction(up, name="up", seed=seed)
        self._down = Direction(down, name="down", seed=seed)

    async def _serve(self, end: SocketEnd, number: int) -> None:
        try:
            upstream = await connect_to(*self._upstream)
        except OSError:
            return
        up, down = self._up.stream(str(number)), self._down.stream(str(number))
        await Path(end, upstream, up=up, down=down).run()


class UDPRelay(Running):
    """A link for UDP; each client has a socket of its own behind it. An async context manager.

    Args:
        host: where the relay leads to, an IP address.
        port: likewise.
        up: what the link does to what clients send.
        down: what it does to what comes back.
        seed: of its dice; those of the n-th client are always the same.

    Attributes:
        address: where it listens; the port is 0 until it is entered.
    """

    def __init__(
        self, host: str, port: int, *, up: Profile = CLEAN, down: Profile = CLEAN, seed: int = 0
    ) -> None:
        """Keep the arguments; nothing listens yet."""
        self.address: tuple[str, int] = (LOOPBACK, 0)
        self._upstream = (host, port)
        self._up = Direction(up, name="up", seed=seed)
        self._down = Direction(down, name="down", seed=seed)

    def _start(self, group: Tasks) -> None:
        numbers = itertools.count(1)
        timetable = Timetable()
        udp = Datagrams()
        self.address = (LOOPBACK, udp.port)

        def meet(client: tuple[str, int]) -> tuple[Datagrams, Exchange]:
            number = str(next(numbers))
            behind = Datagrams(connect_to=self._upstream)
            exchange = Exchange(
                timetable,
                up=self._up.datagrams(number),
                down=self._down.datagrams(number),
                to_site=behind.send,
                to_client=lambda data: udp.send(data, client),
            )
            group.start_soon(behind.receive_all, lambda data, _: exchange.send_down(data))
            return behind, exchange

        clients = Clients(meet, forget=lambda known: known[0].close())
        group.start_soon(timetable.run)
        group.start_soon(udp.receive_all, lambda data, client: clients.get(client)[1].send_up(data))
