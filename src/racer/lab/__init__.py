"""A hostile network in a box: links, a name server that lies, a censor, sites behind a throw-away certificate authority.

Everything runs on one machine, without root: on loopback sockets, or in memory on a virtual clock.

    async with lab.Network(up=lab.Profile(delay=0.03)) as net:
        site = await net.add_site("news.example", "192.0.2.7", authority=authority)
        net.rules.append(lab.ResetOnName(names=("news.*",)))
        transport = MyTransport(dial_tcp=net.dial_tcp, hosts=net.hosts)
"""

from __future__ import annotations

from racer.lab._censor import AcceptAndHang, Blackhole, Refuse, ResetOnName, Rule, Throttle
from racer.lab._link import CLEAN, DatagramLink, Delivery, Profile, StreamLink
from racer.lab._nameserver import (
    Delay,
    Drop,
    Fail,
    Forge,
    NameRule,
    NameServer,
    Reply,
    Truncate,
    Zone,
)
from racer.lab._network import Network
from racer.lab._relays import TCPRelay, UDPRelay
from racer.lab._sites import Authority, Handler, Site, echo, hello, mute

__all__ = (
    "CLEAN",
    "AcceptAndHang",
    "Authority",
    "Blackhole",
    "DatagramLink",
    "Delay",
    "Delivery",
    "Drop",
    "Fail",
    "Forge",
    "Handler",
    "NameRule",
    "NameServer",
    "Network",
    "Profile",
    "Refuse",
    "Reply",
    "ResetOnName",
    "Rule",
    "Site",
    "StreamLink",
    "TCPRelay",
    "Throttle",
    "Truncate",
    "UDPRelay",
    "Zone",
    "echo",
    "hello",
    "mute",
)
