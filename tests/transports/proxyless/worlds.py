"""Small censored worlds on a virtual clock, and a `Proxyless` in them."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import transports._net.dns_carriers  # noqa: F401 - not in a worker thread later, for which no virtual clock waits
from racer import lab
from racer.abc import Progress, Target
from racer.testing import LocalHost
from transports._net.tls import wrap_tls
from transports.proxyless import Proxyless

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator

    from anyio.abc import ByteStream

HOST = "news.example"
ADDRESS, FORGED, LIAR, HONEST = "192.0.2.7", "198.51.100.66", "192.0.2.53", "192.0.2.54"
PROXY = ("203.0.113.9", 1080)
DELAY = 0.015625  # seconds each way; a binary fraction, so that sums of it are exact
UDP, DOT = f"udp://{LIAR}", f"tls://{HONEST}"

TRUSTED, FORGER = lab.Authority(), lab.Authority()
CONTEXT: ssl.SSLContext = TRUSTED.client_context()


class World:
    """A site, two resolvers of which one may lie, a proxy abroad, and a censor.

    Attributes:
        net: the network.
        zone: the one that may lie.
        site: the site.
        network: which network the machine thinks it is in; may be changed.
    """

    def __init__(self, net: lab.Network, zone: lab.Zone, site: lab.Site, host: LocalHost) -> None:
        self.net = net
        self.zone = zone
        self.site = site
        self.network = "home"
        self._host = host

    @classmethod
    @asynccontextmanager
    async def of(cls, *rules: lab.Rule) -> AsyncIterator[World]:
        link = lab.Profile(delay=DELAY)
        async with AsyncExitStack() as stack:
            net = await stack.enter_async_context(lab.Network(up=link, down=link, in_memory=True))
            site = await net.add_site(HOST, ADDRESS, authority=TRUSTED, handler=lab.hello)
            context = await FORGER.make_server_context(HOST)
            await net.add_site("forged.example", FORGED, context=context)
            zone = await net.add_name_server("liar.example", LIAR)
            await net.add_name_server("honest.example", HONEST, authority=TRUSTED)
            proxy = lab.Socks5Proxy(connect=net.connector(censored=False))
            await net.add_site("proxy.example", PROXY[0], port=PROXY[1], handler=proxy.serve_stream)
            net.rules += rules
            host = await stack.enter_async_context(LocalHost())
            yield cls(net, zone, site, host)

    def make(self, **options: Any) -> Proxyless:
        defaults: dict[str, Any] = {
            "resolvers": [UDP, DOT],
            "strategies": ["", "split:1", "tlsfrag:1", "split:1|tlsfrag:1"],
            "resolver_tls": CONTEXT,
            "dial_tcp": self.net.dial_tcp,
            "dial_udp": self.net.dial_udp,
            "network": lambda: self.network,
        }
        return Proxyless(**(defaults | options))

    async def started(self, **options: Any) -> Proxyless:
        made = self.make(**options)
        await made.start(self._host)
        return made

    @property
    def host(self) -> LocalHost:
        return self._host

    @property
    def dialed(self) -> int:
        """How many connections to the site were begun."""
        return self.net.connects[ADDRESS, 443]


def target(host: str = HOST, port: int = 443, **options: Any) -> Target:
    return Target(host, port, **({"tls": CONTEXT} | options))


class Told(Progress):
    """Keeps what an attempt tells."""

    def __init__(self) -> None:
        self.stages: list[str] = []
        self.peers: list[str] = []
        self.events: list[tuple[str, dict[str, Any]]] = []

    def stage(self, stage: Any) -> None:
        self.stages.append(str(stage))

    def peer(self, address: str, port: int | None = None, *, network: str = "tcp") -> None:
        self.peers.append(f"{address}:{port}")

    def event(self, name: str, attributes: Any = None) -> None:
        self.events.append((name, dict(attributes)))

    @property
    def chosen(self) -> tuple[str, str, bool]:
        """Resolver, strategy, and whether both were remembered; of the last choice."""
        chosen = [told for name, told in self.events if name == "racer.proxyless.strategy"]
        found: tuple[str, str, bool] = tuple(chosen[-1].values())
        return found


async def use(transport: Proxyless, wanted: Target | None = None) -> tuple[str, str, bool]:
    """Connect, speak TLS and HTTP as a program would; return what was chosen."""
    told = Told()
    wanted = wanted or target()
    async with await transport.connect(wanted, told) as stream:
        await exchange(stream, wanted)
    return told.chosen


async def exchange(stream: ByteStream, wanted: Target) -> None:
    assert wanted.tls is CONTEXT
    secured = await wrap_tls(stream, CONTEXT, server_hostname=wanted.server_hostname)
    await secured.send(b"GET / HTTP/1.1\r\n\r\n")
    assert (await secured.receive()).startswith(b"HTTP/1.1 200")
