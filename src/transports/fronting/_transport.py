"""Requests to hidden hosts through the edges of big networks, under names that nobody blocks."""

from __future__ import annotations

import logging
import random
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.to_thread

from racer.abc import Progress, RequestTransport, Traits, TransportStatus, check_seconds
from racer.errors import ConfigError, NotUsable, RemoteProtocolError, TransportError
from transports._net.connector import Connector
from transports._net.drive import close_by_force
from transports._net.files import read_bounded
from transports._net.http_connection import HTTPConnection
from transports._net.resolve import SystemResolver
from transports._net.tls import ClientContext, wrap_tls
from transports._net.wakeup import Wakeup
from transports._net.yaml_documents import MAX_PACKED
from transports.fronting._catalog import Catalog, read_catalog
from transports.fronting._dialing import FrontDialer, Sockets, make_context
from transports.fronting._hunt import Hunter
from transports.fronting._keeper import (
    Store,
    keep_proven,
    keep_remembered,
    keep_updated,
    recall,
    save,
)
from transports.fronting._names import fronted_host
from transports.fronting._pool import Pool
from transports.fronting._route import FrontRoute, Rules
from transports.fronting._updates import UpdateURL, download, first_usable, read_url

if TYPE_CHECKING:
    from racer.abc import DialTCP, Host, Origin, Target

__all__ = ("Fronting",)

MAX_SOCKETS: Final = 32
GOODBYE: Final = 1.0  # seconds that the last save may take

logger = logging.getLogger("racer.fronting")


class Fronting(RequestTransport):
    """Requests in TLS to the edge of a content delivery network, for a host that only the network sees (domain fronting).

    It works from a list of fronts in the `domainfront` schema (docs/fronting-and-amp.md): edges' addresses, the names to
    show, the roots that their certificates have to lead to, and under which name each network knows a host. A front is
    used once it has answered a vetting; of those that have, the fastest goes first. What fails rests, longer each time.

    The edge ends TLS: the network reads requests and answers. TLS with the host itself cannot be had this way.

    Args:
        fronts: the list: its octets, plain or gzipped, or the path of a file that is read at the start.
        country: two letters, for the list's policies on names; `None` takes the default ones.
        state_dir: a folder for the latest list and the fronts that worked, readable by their owner alone; `None` keeps
            nothing from one run to the next.
        update_urls: `https` URLs that are asked for a newer list, all at once, at the start and then every
            `update_interval`; also through fronts, where the list carries their hosts.
        update_interval: seconds, finite and above 0.
        update_tls: the context for those URLs, used as it is; `None` for the system's trust.
        dial_tcp: makes every TCP connection in place of our own sockets.
        origin_header: a response's field that marks 403 and 5xx as the origin's word; empty if no origin does that.
        via_header: a request's field that tells the origin which provider forwarded; empty, the default, tells nothing.
        http2: whether HTTP/2 is offered to fronts.
        name: what reports and spans call it.

    Raises:
        ConfigError: an option or a list that cannot be; says which, where and why.
    """

    traits = Traits(start_delay=0.5, attempt_timeout=30.0, max_concurrent=MAX_SOCKETS)

    def __init__(
        self,
        fronts: bytes | str | Path,
        *,
        country: str | None = None,
        state_dir: str | Path | None = None,
        update_urls: Sequence[str] = (),
        update_interval: float = 43_200.0,
        update_tls: ssl.SSLContext | None = None,
        dial_tcp: DialTCP | None = None,
        origin_header: str = "X-Lantern-Origin",
        via_header: str = "",
        http2: bool = True,
        name: str = "fronting",
    ) -> None:
        """Check everything, and read a list that is given as octets; no IO."""
        self.name = name
        check_seconds(update_interval, "update_interval")
        self._update_interval = update_interval
        self._update_urls = _checked_urls(update_urls)
        self._rules = Rules(
            origin_header=_field(origin_header, "origin_header").lower(),
            via_header=_field(via_header, "via_header"),
        )
        self._http2 = http2
        self._store = Store(None if state_dir is None else Path(state_dir))
        self._path = None if isinstance(fronts, bytes) else Path(fronts)
        self._connector = Connector(SystemResolver(), dial_tcp=dial_tcp)
        self._update_context = ClientContext(update_tls, alpn=("http/1.1",))
        self._sockets = Sockets(MAX_SOCKETS)
        self._dialer = FrontDialer(
            self._dial, self._sockets, country=_checked_country(country), http2=http2
        )
        self._pool: Pool | None = None
        self._hunter: Hunter | None = None
        self._context: ssl.SSLContext | None = None
        self._changed: Wakeup | None = None
        self._asked: Wakeup | None = None
        self._tasks: anyio.CancelScope | None = None
        self._tasks_ended: anyio.Event | None = None
        self._users = 0
        self._is_closed = False
        if isinstance(fronts, bytes):
            catalog = read_catalog(fronts)
            self._install(catalog, make_context(catalog, http2=http2))

    # --- the contract ----------------------------------------------------------------------------

    def serves(self, target: Target) -> str | None:
        """Return why no front could carry requests to `target`; `None` before the list was read, too."""
        if target.tls is not True:
            if target.tls is False:
                return "fronts carry https alone"
            return "TLS ends at the front, where a context of the caller's own could verify nothing"
        if target.port != 443:
            return "fronts carry port 443 alone"
        if self._pool is not None and not self._pool.serves(target.host):
            return "no provider in the list of fronts knows this host"
        return None

    async def start(self, host: Host) -> None:
        """Read the list, the kept one or else the given one, and what was remembered; begin to keep both.

        Another dialer that goes by the same object is counted; what is kept going lives in the first one's host.

        Raises:
            ConfigError: neither list can be used.
        """
        if self._users:
            self._users += 1
            return
        await self._load()
        assert self._pool is not None
        assert self._hunter is not None
        await recall(self._pool, self._store)
        self._changed, self._asked = Wakeup(), Wakeup()
        self._tasks, self._tasks_ended = anyio.CancelScope(), anyio.Event()
        host.start_soon(self._keep, name=f"{self.name}: keep fronts")
        self._is_closed = False
        self._users = 1

    async def prepare(self, origin: Origin) -> FrontRoute:
        """Return a route to `origin` with a line that is ready; the caller closes it. Cancelling leaves nothing open.

        Raises:
            NotUsable: no provider knows the host.
            TransportBusy: too many connections are open.
            TransportError: no front could be reached, or it was closed, or not started.
        """
        if self._is_closed or self._hunter is None or self._pool is None:
            msg = (
                f"transport {self.name!r} {'was closed' if self._is_closed else 'was not started'}"
            )
            raise TransportError(msg)
        host = origin.host.lower().rstrip(".")
        if origin.scheme != "https" or origin.port != 443 or not self._pool.serves(host):
            msg = f"no provider in the list of fronts knows {origin.scheme}://{host}:{origin.port}"
            raise NotUsable(msg)
        found = await self._hunter.hunt(host)
        self._on_demand()
        return FrontRoute(
            origin,
            found,
            hunter=self._hunter,
            pool=self._pool,
            rules=self._rules,
            on_change=self._on_change,
        )

    def status(self) -> TransportStatus:
        """Return how many fronts there are, and, on a running loop, how many are proven and how many rest."""
        if self._pool is None:
            return TransportStatus(health="its list was not read yet")
        catalog = self._pool.catalog
        details: dict[str, Any] = {
            "fronts": catalog.count(),
            "providers": len(catalog.providers),
            "connections": self._sockets.open,
        }
        try:
            now = anyio.current_time()
        except anyio.NoEventLoopError:
            return TransportStatus(details=details)
        details["fronts.proven"] = self._pool.proven(now)
        details["fronts.resting"] = self._pool.resting(now)
        demoted = self._pool.demoted(now)
        health = "ok" if not demoted else f"demoted: {', '.join(map(repr, demoted))}"
        return TransportStatus(health=health[:200], details=details)

    async def aclose(self) -> None:
        """Stop what it keeps going, and save once more, once every user has; routes are their holders'."""
        self._users = max(0, self._users - 1)
        if self._users:
            return
        was_running = self._tasks is not None and not self._is_closed
        self._is_closed = True
        if not was_running or self._tasks is None or self._tasks_ended is None:
            return
        self._tasks.cancel()
        with anyio.move_on_after(GOODBYE, shield=True):
            await self._tasks_ended.wait()
            if self._store.keeps and self._pool is not None:
                await save(self._pool, self._store)

    async def update(self) -> None:
        """Fetch a newer list now and go on with it, whole; nothing changes where none can be had.

        Raises:
            NetworkError: no URL gave one that can be used; the cause has their reasons.
        """
        fetches = [lambda url=url: self._fetch(url) for url in self._update_urls]
        fetches += [lambda url=url: self._fetch_fronted(url) for url in self._update_urls]
        data, catalog, context = await first_usable(fetches, self._read)
        self._install(catalog, context)
        await anyio.to_thread.run_sync(self._store.write_list, data)

    def __repr__(self) -> str:
        """Return what shapes it; no host."""
        count = self._pool.catalog.count() if self._pool is not None else "unread"
        return f"<{type(self).__name__} {self.name!r}: {count} fronts>"

    # --- within ----------------------------------------------------------------------------------

    async def _dial(self, address: str, port: int) -> Any:  # noqa: ANN401 - a ByteStream
        return await self._connector.connect(address, port, Progress())

    def _install(self, catalog: Catalog, context: ssl.SSLContext) -> None:
        """Go on with a list that was checked, all at once."""
        for note in catalog.notes:
            logger.warning("the list of fronts: %s", note)
        self._context = context
        if self._pool is not None:
            self._pool.replace(catalog)
            return
        self._pool = Pool(catalog, rng=random.SystemRandom())
        self._hunter = Hunter(self._dialer, self._pool, self._roots, self._on_change)

    def _roots(self) -> ssl.SSLContext:
        assert self._context is not None
        return self._context

    def _on_change(self) -> None:
        if self._changed is not None:
            self._changed.set()
        self._on_demand()

    def _on_demand(self) -> None:
        if self._asked is not None:
            self._asked.set()

    async def _load(self) -> None:
        kept = await anyio.to_thread.run_sync(self._store.read_list)
        if kept is not None:
            try:
                _, catalog, context = await self._read(kept)
            except ConfigError as exc:
                logger.warning("the list of fronts that was kept cannot be used: %s", exc)
            else:
                self._install(catalog, context)
                return
        if self._pool is not None:
            return
        assert self._path is not None
        try:
            data = await anyio.to_thread.run_sync(read_bounded, self._path, MAX_PACKED)
            _, catalog, context = await self._read(data)
        except (OSError, ValueError, ConfigError) as exc:
            msg = f"fronts: {exc}"
            raise ConfigError(msg) from exc
        self._install(catalog, context)

    async def _read(self, data: bytes) -> tuple[bytes, Catalog, ssl.SSLContext]:
        """Return a list that can be used, with its roots, and its octets."""

        def read() -> tuple[bytes, Catalog, ssl.SSLContext]:
            catalog = read_catalog(data)
            try:
                return data, catalog, make_context(catalog, http2=self._http2)
            except ssl.SSLError as exc:
                msg = f"trustedcas: a certificate that cannot be used: {exc.reason}"
                raise ConfigError(msg) from exc

        return await anyio.to_thread.run_sync(read)

    async def _keep(self) -> None:
        """Run what goes on between requests, until closed."""
        assert self._tasks is not None
        assert self._pool is not None
        assert self._hunter is not None
        assert self._changed is not None
        assert self._asked is not None
        assert self._tasks_ended is not None
        try:
            with self._tasks:
                async with anyio.create_task_group() as group:
                    group.start_soon(keep_proven, self._pool, self._hunter, self._asked)
                    if self._store.keeps:
                        group.start_soon(keep_remembered, self._pool, self._store, self._changed)
                    if self._update_urls:
                        group.start_soon(keep_updated, self.update, self._update_interval)
        finally:
            self._tasks_ended.set()

    async def _fetch(self, url: UpdateURL) -> bytes:
        """Return what `url` gives, asked directly."""
        context = await self._update_context.get()
        stream = await self._connector.connect(url.host, url.port, Progress())
        try:
            try:
                secured = await wrap_tls(stream, context, server_hostname=url.host)
            except (anyio.EndOfStream, anyio.BrokenResourceError) as exc:
                msg = f"{url.authority} cut off TLS"
                raise RemoteProtocolError(msg) from exc
            connection = HTTPConnection(secured, http2=False, peer=url.authority)
            return await download(connection, url, url.authority)
        finally:
            await close_by_force(stream)

    async def _fetch_fronted(self, url: UpdateURL) -> bytes:
        """Return what `url` gives, asked through a front."""
        assert self._pool is not None
        assert self._hunter is not None
        if url.port != 443 or not self._pool.serves(url.host):
            msg = f"no front carries {url.authority}"
            raise NotUsable(msg)
        found = await self._hunter.hunt(url.host)
        try:
            known_as = fronted_host(found.provider, url.host)
            assert known_as is not None
            return await download(found.line.connection, url, known_as)
        finally:
            await found.line.aclose()


def _checked_urls(urls: object) -> tuple[UpdateURL, ...]:
    if isinstance(urls, str) or not isinstance(urls, Sequence):
        msg = f"update_urls must be a list of URLs, not {type(urls).__name__}"
        raise ConfigError(msg)
    return tuple(read_url(url) for url in urls if url != "")


def _checked_country(country: object) -> str | None:
    if country is None:
        return None
    if not isinstance(country, str) or len(country) != 2 or not country.isalpha():
        msg = "country must be a code of two letters (ISO 3166)"
        raise ConfigError(msg)
    return country.lower()


def _field(name: object, option: str) -> bytes:
    if not isinstance(name, str) or not all(
        c.isascii() and (c.isalnum() or c in "-_") for c in name
    ):
        msg = f"{option} must be the name of a header field, or empty"
        raise ConfigError(msg)
    return name.encode("ascii")
