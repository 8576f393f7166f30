"""A small internet on one machine: sites behind addresses, a link, a censor, and hooks that put a transport into it.

On loopback every connection is a real socket to a middlebox on 127.0.0.1; in memory it is a pair of ends, which a
virtual clock can drive. What crosses, and what the censor does to it, is the same code.
"""

from __future__ import annotations

import errno
import ipaddress
import math
import os
import socket
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import anyio
import anyio.abc
import anyio.lowlevel

from racer.errors import ConfigError
from racer.lab._censor import Blackhole, Hit, Refuse, Rule, matching
from racer.lab._connection import Connection, attributes, bar, place_of, throttles
from racer.lab._datagrams import Clients, DatagramEnd, Exchange
from racer.lab._doh import DoHServer
from racer.lab._link import CLEAN, Profile
from racer.lab._nameserver import DoTServer, NameServer
from racer.lab._path import Marked, Path
from racer.lab._relays import Direction
from racer.lab._running import Running, Timetable
from racer.lab._sites import Site, echo, is_gone
from racer.lab._sockets import (
    LOOPBACK,
    Datagrams,
    SocketEnd,
    accept,
    client_socket,
    connect,
    listen,
)
from racer.lab._zone import Zone, checked_address
from racer.testing import stream_pair

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Mapping

    from anyio.abc import ByteStream, UnreliableObjectStream

    from racer.lab._censor import Over
    from racer.lab._connection import Place
    from racer.lab._datagrams import DatagramHandler
    from racer.lab._path import End
    from racer.lab._proxy import Connect
    from racer.lab._running import Tasks
    from racer.lab._sites import Authority, Handler

__all__ = ("Network",)

_T = TypeVar("_T")


class Network(Running):
    """A network with sites in it, and a censor. An async context manager: what it began ends with it.

    A client's packets cross the link `up`, then meet the censor, which stands in front of the sites; what comes back
    crosses `down`. A connection takes one round trip to stand.

    With `in_memory` it is made for virtual clocks: every time is exact, and nothing but the clock decides it. On
    sockets, the dice are the same for the same seed, but the kernel decides where reads are cut, and so what they hit.

    Args:
        seed: of all its dice; the same seed gives the same network. Each connection has dice of its own, told apart by
            where it leads and the how-manieth it is.
        up: what the link does to what clients send.
        down: what it does to what comes back.
        in_memory: whether connections are pairs of ends in memory instead of sockets.

    Attributes:
        hosts: name to addresses, for name servers and for a transport's resolver.
        rules: what the censor does; may be changed at any time. Connections keep the rules under which they began,
            datagrams obey the latest, except for `Throttle`.
        connects: how many connections were tried, and UDP sockets connected, by (address, port).
        hits: what the censor did, in order; slowing down is not told.
    """

    def __init__(
        self, *, seed: int = 0, up: Profile = CLEAN, down: Profile = CLEAN, in_memory: bool = False
    ) -> None:
        """Keep the arguments; nothing listens yet."""
        self.hosts: dict[str, list[str]] = {}
        self.rules: list[Rule] = []
        self.connects: Counter[tuple[str, int]] = Counter()
        self.hits: list[Hit] = []
        self._up = Direction(up, name="up", seed=seed)
        self._down = Direction(down, name="down", seed=seed)
        self._in_memory = in_memory
        self._sites: dict[tuple[str, int], Site] = {}
        self._datagram_sites: dict[tuple[str, int], DatagramHandler] = {}
        self._doors: dict[tuple[str, int, Over], int] = {}
        self._dialed: dict[int, Connection] = {}
        self._counts: Counter[tuple[str, int, Over]] = Counter()
        self._paths: dict[Path, tuple[str, int]] = {}

    async def add_site(
        self,
        name: str,
        *addresses: str,
        port: int = 443,
        authority: Authority | None = None,
        alpn: tuple[str, ...] = (),
        handler: Handler = echo,
        context: ssl.SSLContext | None = None,
    ) -> Site:
        """Return a site that can be reached under `name` from now on.

        Args:
            name: enters `hosts`.
            *addresses: where it is; any address will do, none of them is really used.
            port: where it listens.
            authority: makes its certificate; without one, and without `context`, it speaks without TLS.
            alpn: protocols it speaks above that TLS, most wanted first.
            handler: what it does with a connection; an error that does not only say that the client has gone ends the
                network's block.
            context: its own TLS context instead.

        Raises:
            ConfigError: no address, one that is none, or one that is taken.
        """
        self._check_running()
        places = _free_places(name, addresses, port, self._sites)
        if context is None and authority is not None:
            names = (name, *(address for address, _ in places))
            context = await authority.make_server_context(*names, alpn=alpn)
        site = Site(name, handler, context=context)
        # Another task may have been faster meanwhile.
        self._enter(name, _free_places(name, addresses, port, self._sites), self._sites, site)
        return site

    def add_datagram_site(
        self, name: str, *addresses: str, port: int, handler: DatagramHandler
    ) -> None:
        """Let something answer datagrams from now on.

        Args:
            name: enters `hosts`.
            *addresses: where it is; any address will do.
            port: where it listens.
            handler: what it does with the datagrams of one client, which it is called for; at most 1024 clients are
                remembered at once, and `receive` raises `EndOfStream` when this one has gone.

        Raises:
            ConfigError: no address, one that is none, or one that is taken.
        """
        self._check_running()
        places = _free_places(name, addresses, port, self._datagram_sites)
        self._enter(name, places, self._datagram_sites, handler)

    async def add_name_server(
        self,
        name: str,
        *addresses: str,
        zone: Zone | None = None,
        authority: Authority | None = None,
    ) -> Zone:
        """Return the zone of a name server that can be asked from now on: over UDP and TCP on port 53.

        Args:
            name: enters `hosts`.
            *addresses: where it is; any address will do.
            zone: what it knows and does; `None` for this network's `hosts`, and no lies.
            authority: makes its certificate, for TLS on port 853 and HTTPS on port 443; `None` for neither.

        Raises:
            ConfigError: no address, one that is none, or one that is taken.
        """
        zone = Zone(self.hosts) if zone is None else zone
        for port in (53,) if authority is None else (53, 853, 443):
            _free_places(name, addresses, port, self._sites)
        plain, dot, doh = NameServer(zone), DoTServer(zone), DoHServer(zone)
        self.add_datagram_site(name, *addresses, port=53, handler=plain.serve_datagrams)
        add = partial(self.add_site, name, *addresses)
        await add(port=53, handler=plain.serve_stream)
        if authority is not None:
            await add(port=853, handler=dot.serve_stream, authority=authority)
            alpn = ("h2", "http/1.1")
            await add(port=443, handler=doh.serve_stream, authority=authority, alpn=alpn)
        return zone

    async def dial_tcp(self, address: str, port: int) -> ByteStream:
        """Return a connection to an address of this network, which the caller closes; for a transport's `dial_tcp=` option.

        Raises:
            OSError: refused, no such host, or this network was left meanwhile.
        """
        return await self._dial(address, port, censored=True)

    async def dial_udp(self, address: str, port: int) -> UnreliableObjectStream[bytes]:
        """Return what sends datagrams to an address of this network, and receives those from there; the caller closes it.

        For a transport's `dial_udp=` option. Datagrams to where nothing is vanish.
        """
        place = place_of(address, port)
        self._check_running()
        self.connects[place] += 1
        if not self._in_memory:
            door = self._door(place, "udp")
            return await anyio.create_connected_udp_socket(LOOPBACK, door)
        await anyio.lowlevel.checkpoint()
        near = DatagramEnd(attributes=attributes(place))
        exchange, far = self._exchange(place, near.deliver)
        near.transmit = exchange.send_up
        near.on_close = far.end
        return near

    def connector(self, *, censored: bool = True) -> Connect:
        """Return how a proxy in this network reaches its sites: by name, through `hosts`, or by address.

        Args:
            censored: whether the rules are for its connections as well; the link is, in any case.
        """

        async def connect_by_name(host: str, port: int) -> ByteStream:
            addresses = self._addresses(host)
            for address in addresses[:-1]:
                try:
                    return await self._dial(address, port, censored=censored)
                except OSError:
                    continue
            return await self._dial(addresses[-1], port, censored=censored)

        return connect_by_name

    def door(self, address: str, port: int, *, over: Over = "tcp") -> int:
        """Return the port on 127.0.0.1 behind which an address is, for programs that cannot be given a hook.

        Their connections stand at once; what crosses them meets the link and the censor, and what would be refused or
        vanish is reset or hangs.

        Raises:
            ConfigError: nothing is there, or this network is in memory.
        """
        place = (checked_address(address), port)
        sites = self._sites if over == "tcp" else self._datagram_sites
        if self._in_memory or place not in sites:
            msg = f"no door leads to {address} port {port} over {over}"
            raise ConfigError(msg)
        return self._door(place, over)

    def cut(self, address: str = "*", port: int | None = None, *, silently: bool = False) -> int:
        """End TCP connections under way, and return how many.

        Args:
            address: to which addresses, as a pattern with `*` and `?`.
            port: to which port; `None` for all.
            silently: let nothing through them any more, instead of resetting both sides.
        """
        rule = Rule(address=address, port=port)
        paths = [path for path, place in self._paths.items() if rule.applies(*place, "tcp")]
        for path in paths:
            if silently:
                path.hang()
            else:
                del self._paths[path]
                path.reset()
        return len(paths)

    def _start(self, group: Tasks) -> None:
        self._timetable = Timetable()
        self._doors.clear()
        self._dialed.clear()
        group.start_soon(self._timetable.run)

    def _enter(self, name: str, places: list[Place], sites: dict[Place, _T], site: _T) -> None:
        sites.update(dict.fromkeys(places, site))
        known = self.hosts.setdefault(name.lower(), [])
        known += [address for address, _ in places if address not in known]

    def _addresses(self, host: str) -> list[str]:
        try:
            return [str(ipaddress.ip_address(host))]
        except ValueError:
            pass
        addresses = self.hosts.get(host.lower().rstrip("."))
        if not addresses:
            raise socket.gaierror(socket.EAI_NONAME, f"the lab knows no host {host!r}")
        return list(addresses)

    # TCP

    async def _dial(self, address: str, port: int, *, censored: bool) -> ByteStream:
        place = place_of(address, port)
        self._check_running()
        self.connects[place] += 1
        connection = self._begin(place, censored=censored)
        barred = connection.bar
        if barred is not None:
            self._hit(barred, place, "tcp")
        vanishes = isinstance(barred, Blackhole)
        await self._timetable.wait_until(
            math.inf if vanishes else connection.stands_at(anyio.current_time())
        )
        if isinstance(barred, Refuse) or (barred is None and place not in self._sites):
            known = any(address == place[0] for address, _ in self._sites)
            number = errno.ECONNREFUSED if known or barred is not None else errno.EHOSTUNREACH
            raise OSError(number, f"{os.strerror(number)} (lab: {place[0]} port {port})")
        if self._in_memory:
            near, far = stream_pair(name=f"{place[0]}:{port}", attributes=attributes(place))
            self._tasks.start_soon(self._carry, connection, far)
            return Marked(near, connection.segments)
        return Marked(await self._connect(connection), connection.segments)

    async def _connect(self, connection: Connection) -> ByteStream:
        sock = client_socket()
        local_port = sock.getsockname()[1]
        self._dialed[local_port] = connection
        try:
            await connect(sock, LOOPBACK, self._door(connection.place, "tcp"))
            return await anyio.abc.SocketStream.from_socket(sock)
        except BaseException as exc:
            sock.close()
            self._dialed.pop(local_port, None)
            if isinstance(exc, ValueError):  # what anyio says of a socket that was reset already
                raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)) from exc
            raise

    def _begin(self, place: Place, *, censored: bool) -> Connection:
        """Return a connection to come; its dice and rules are fixed now, whatever happens first then."""
        rules = matching(self.rules, *place, "tcp") if censored else ()
        count = self._count(place, "tcp")
        return Connection(
            place,
            rules,
            up=self._up.stream(count, *throttles(rules)),
            down=self._down.stream(count, *throttles(rules)),
        )

    async def _carry(self, connection: Connection, client: End) -> None:
        """Be the path between one client and a site."""
        place = connection.place
        site = self._sites.get(place)
        # Nobody is there where something hung that was allowed since, and somebody came in by the door.
        if isinstance(connection.bar, Refuse) or (connection.bar is None and site is None):
            client.abort()
            return
        inner, outer = stream_pair(name=f"lab path to {place[0]}:{place[1]}")
        path = Path(
            client,
            inner,
            up=connection.up,
            down=connection.down,
            inspector=connection.inspector,
            segments=connection.segments,
            on_hit=lambda inspector: self._hit(inspector.hit, place, "tcp", inspector.name),
        )
        if connection.bar is None and site is not None:
            self._tasks.start_soon(site.serve, outer)
        else:
            path.hang()
        self._paths[path] = place
        try:
            await path.run()
        finally:
            self._paths.pop(path, None)
            if connection.bar is not None:
                outer.abort()

    # UDP

    def _exchange(
        self, place: Place, to_client: Callable[[bytes], None]
    ) -> tuple[Exchange, DatagramEnd]:
        """Return the way between a client and a site, and the site's end of it, which is being served."""
        count = self._count(place, "udp")
        rules = matching(self.rules, *place, "udp")
        far = DatagramEnd()
        exchange = Exchange(
            self._timetable,
            up=self._up.datagrams(count, *throttles(rules)),
            down=self._down.datagrams(count, *throttles(rules)),
            to_site=far.deliver,
            to_client=to_client,
            passes=lambda: self._passes(place),
        )
        far.transmit = exchange.send_down
        self._tasks.start_soon(self._serve_datagrams, place, far)
        return exchange, far

    async def _serve_datagrams(self, place: Place, far: DatagramEnd) -> None:
        handler = self._datagram_sites.get(place)
        try:
            if handler is not None:
                await handler(far)
        except Exception as exc:
            if not is_gone(exc):
                raise
        finally:
            far.close()

    def _passes(self, place: Place) -> bool:
        barred = bar(matching(self.rules, *place, "udp"))
        if barred is not None:
            self._hit(barred, place, "udp")
        return barred is None

    # Doors

    def _door(self, place: Place, over: Over) -> int:
        """Return the port on 127.0.0.1 that leads to a place, opened now if it was not."""
        door = self._doors.get((*place, over))
        if door is None:
            door = self._open_tcp(place) if over == "tcp" else self._open_udp(place)
            self._doors[*place, over] = door
        return door

    def _open_tcp(self, place: Place) -> int:
        def take(client: SocketEnd) -> None:
            connection = self._dialed.pop(client.peer_port, None)
            if connection is None:
                connection = self._begin(place, censored=True)
                if connection.bar is not None:
                    self._hit(connection.bar, place, "tcp")
            group.start_soon(self._carry, connection, client)

        group = self._tasks
        listening = listen()
        group.start_soon(accept, listening, take)
        return int(listening.getsockname()[1])

    def _open_udp(self, place: Place) -> int:
        def meet(client: tuple[str, int]) -> tuple[Exchange, DatagramEnd]:
            return self._exchange(place, lambda data: udp.send(data, client))

        udp = Datagrams()
        clients = Clients(meet, forget=lambda known: known[1].end())
        self._tasks.start_soon(
            udp.receive_all, lambda data, client: clients.get(client)[0].send_up(data)
        )
        return udp.port

    # Books

    def _count(self, place: Place, over: Over) -> str:
        self._counts[*place, over] += 1
        return f"{over} {place[0]} {place[1]} {self._counts[*place, over]}"

    def _hit(self, rule: Rule | None, place: Place, over: Over, name: str | None = None) -> None:
        assert rule is not None
        self.hits.append(
            Hit(
                at=anyio.current_time(),
                rule=rule,
                address=place[0],
                port=place[1],
                over=over,
                name=name,
            )
        )


def _free_places(
    name: str, addresses: tuple[str, ...], port: int, taken: Mapping[Place, object]
) -> list[Place]:
    if not addresses:
        msg = f"site {name!r} needs at least one address"
        raise ConfigError(msg)
    if not 1 <= port <= 65_535:
        msg = f"site {name!r}: port must be from 1 to 65535, not {port!r}"
        raise ConfigError(msg)
    places = [(checked_address(address), port) for address in addresses]
    for address, _ in places:
        if (address, port) in taken:
            msg = f"{address} port {port} is taken already; {name!r} cannot be there"
            raise ConfigError(msg)
    return places
