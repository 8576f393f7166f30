"""A hostile network in a box: links, a name server that lies, a censor, proxies, sites behind a throw-away authority.

Everything runs on one machine, without root: on loopback sockets, or in memory on a virtual clock. No test framework is
needed, and both event loops will do.

    async with lab.Network(up=lab.Profile(delay=0.03), down=lab.Profile(delay=0.03)) as net:
        await net.add_site("news.example", "192.0.2.7", authority=authority)
        net.rules.append(lab.ResetOnName(names=("news.*",)))
        transport = MyTransport(dial_tcp=net.dial_tcp)

* `Network`: sites, a link to them, a censor on it, and hooks for whoever wants to reach them.
* `Blackhole`, `ResetOnName`, `Throttle` and the other rules of its censor.
* `Zone`, with `Forge`, `Drop` and its other rules: what name servers know, and the lies they tell.
* `NameServer`, `DoTServer`, `DoHServer`, `Socks5Proxy`, `HttpProxy`, `Server`: what listens on 127.0.0.1 for itself.
* `TCPRelay`, `UDPRelay`: a link in front of a server that exists already.
* `Authority`: certificates that nobody trusts but who asks.
* `racer.lab.packets`: two hosts and every IP packet between them (Linux, root).
"""

from __future__ import annotations

from racer.lab._censor import (
    AcceptAndHang,
    Allow,
    Blackhole,
    HangOnName,
    Hit,
    Refuse,
    ResetOnName,
    Rule,
    Throttle,
)
from racer.lab._datagrams import DatagramHandler
from racer.lab._doh import DoHServer
from racer.lab._http_proxy import HttpProxy
from racer.lab._link import CLEAN, Bottleneck, DatagramLink, Delivery, Profile, StreamLink
from racer.lab._nameserver import DoTServer, NameServer
from racer.lab._network import Network
from racer.lab._proxy import (
    Connect,
    ProxyFault,
    ProxyRefusal,
    ProxyRequest,
    ProxyStage,
    Then,
)
from racer.lab._relays import TCPRelay, UDPRelay
from racer.lab._server import Server
from racer.lab._sites import Authority, Handler, Site, echo, hello, mute
from racer.lab._socks5 import Socks5Proxy
from racer.lab._splice import forward_to
from racer.lab._zone import (
    Asked,
    Delay,
    Drop,
    Fail,
    Flaw,
    Forge,
    Garbage,
    NameRule,
    Reply,
    Truncate,
    Zone,
)

__all__ = (
    "CLEAN",
    "AcceptAndHang",
    "Allow",
    "Asked",
    "Authority",
    "Blackhole",
    "Bottleneck",
    "Connect",
    "DatagramHandler",
    "DatagramLink",
    "Delay",
    "Delivery",
    "DoHServer",
    "DoTServer",
    "Drop",
    "Fail",
    "Flaw",
    "Forge",
    "Garbage",
    "Handler",
    "HangOnName",
    "Hit",
    "HttpProxy",
    "NameRule",
    "NameServer",
    "Network",
    "Profile",
    "ProxyFault",
    "ProxyRefusal",
    "ProxyRequest",
    "ProxyStage",
    "Refuse",
    "Reply",
    "ResetOnName",
    "Rule",
    "Server",
    "Site",
    "Socks5Proxy",
    "StreamLink",
    "TCPRelay",
    "Then",
    "Throttle",
    "Truncate",
    "UDPRelay",
    "Zone",
    "echo",
    "forward_to",
    "hello",
    "mute",
)
