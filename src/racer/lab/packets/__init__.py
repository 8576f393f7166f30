"""The packet lab: two hosts on one machine, and every IP packet between them in our hands (Linux, root).

`racer.lab` works on bytes of streams; this works on packets, so that what a trick with segments, records or TTLs comes to
is seen on the wire. Each host is a network namespace with a TUN device, whose other end is a path in Python: two links, a
few routers that count TTLs down, and a censor that reads packets as its rules say.

* `PacketNetwork`: the hosts, the path, and programs run on either side.
* `SNIFilter`, `InjectDNS`, with `Blackhole`, `Refuse`, `Throttle` and `Allow` of `racer.lab`: the censor's rules.
* `Service`, `NameService`: what stands on the server's side.
* `Captured`, `pcap`: what was on the wire, and a file of it for Wireshark.
* `PacketPath`, `Censor`: the same without any IO.
* `why_unavailable`: why none of this can be had here.
"""

from __future__ import annotations

from racer.lab.packets._capture import Captured, Point, Side, pcap
from racer.lab.packets._censor import Censor, Judgement
from racer.lab.packets._ip import Flags, Packet, decode, make_tcp, make_udp
from racer.lab.packets._namespaces import why_unavailable
from racer.lab.packets._network import CLIENT_ADDRESSES, Finished, PacketNetwork
from racer.lab.packets._path import PacketPath
from racer.lab.packets._rules import Action, InjectDNS, Reassembly, SNIFilter
from racer.lab.packets._services import NameService, Service

__all__ = (
    "CLIENT_ADDRESSES",
    "Action",
    "Captured",
    "Censor",
    "Finished",
    "Flags",
    "InjectDNS",
    "Judgement",
    "NameService",
    "Packet",
    "PacketNetwork",
    "PacketPath",
    "Point",
    "Reassembly",
    "SNIFilter",
    "Service",
    "Side",
    "decode",
    "make_tcp",
    "make_udp",
    "pcap",
    "why_unavailable",
)
