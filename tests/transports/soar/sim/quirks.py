"""How six real resolvers differ, as measured; times in seconds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tests.transports.soar.sim.dns import DS, NS, A

__all__ = (
    "ALL",
    "BIND",
    "DNSMASQ",
    "KNOT",
    "KNOT_FORWARDER",
    "OLD",
    "PLAIN",
    "POWERDNS",
    "UNBOUND",
    "Full",
    "Quirks",
)


class Full(Enum):
    """What a resolver does with a question beyond its limit."""

    IGNORES = "ignores it"
    REFUSES = "refuses it at once"
    DROPS_OLDEST = "fails the oldest that waits"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quirks:
    """One kind of resolver.

    Attributes:
        name: its name in tests.
        repeats: after how long each further copy goes out; `None` for a timer that doubles, shared by the server.
        tcp_after: when a copy goes by TCP.
        gives_up: when it says SERVFAIL; `None` for never.
        probe: the type that it minimises with (`None`: it doesn't), and how many names at most.
        probes_whole_name: a probe for the whole name comes before any type but A and DS.
        checks_nxdomain: a partial name that is NXDOMAIN is asked for once more, to validate it, beside the whole name.
        punishes: after a partial name that is refused, the whole name is SERVFAIL.
        limit, full: questions under way, and what happens beyond.
        shuffles_case: 0x20.
        lowers_soa: names in a SOA come back in lower case.
        keeps: answers are kept so long although their TTL is 0, and by type or for all types.
        prefetches: what is taken from the cache is asked again in the background.
        second_edns: EDNS size of the second copy.
        throttles: so many silent questions in a row make it fail everything for `throttled` seconds.
        limits_plain: answers without EDNS are cut at 512.
        passes_edns: the client's own EDNS goes upstream.
        passes_repeats: a client's repeat, octet for octet, goes upstream once more.
        knows_edns: an old one without it asks, and answers, in 512 octets.
        longest_name: octets of the longest name that passes.
    """

    name: str
    repeats: tuple[float, ...] | None = ()
    tcp_after: float | None = None
    gives_up: float | None = None
    probe: int | None = None
    probe_names: int = 0
    probes_whole_name: bool = False
    checks_nxdomain: bool = False
    punishes: bool = False
    limit: int = 4098
    full: Full = Full.IGNORES
    shuffles_case: bool = False
    lowers_soa: bool = False
    keeps: float = 0.0
    keeps_all_types: bool = False
    prefetches: bool = False
    second_edns: int | None = None
    throttles: int | None = None
    throttled: float = 60.0
    limits_plain: bool = True
    passes_edns: bool = False
    passes_repeats: bool = False
    knows_edns: bool = True
    longest_name: int = 255

    def __str__(self) -> str:
        return self.name

    def probes(self, labels: int, qtype: int) -> list[tuple[int, int]]:
        """Return (labels below the zone, type) of the questions that come before the real one."""
        if self.probe is None:
            return []
        found = [(count, self.probe) for count in range(1, labels)][: self.probe_names]
        if self.probes_whole_name and qtype not in (A, DS):
            found.append((labels, A))
        return found


PLAIN = Quirks(name="plain", gives_up=10.0)
UNBOUND = Quirks(
    name="unbound",
    repeats=None,
    probe=A,
    probe_names=10,
    probes_whole_name=True,
    checks_nxdomain=True,
    limit=1024,
)
BIND = Quirks(
    name="bind",
    repeats=(0.8, 1.6, 2.4, 4.0, 7.2),
    gives_up=10.0,
    probe=NS,
    probe_names=3,
    limit=900,
    full=Full.DROPS_OLDEST,
    keeps=0.5,
    second_edns=512,
)
KNOT = Quirks(
    name="knot",
    repeats=(0.071,),
    tcp_after=0.26,
    gives_up=12.0,
    probe=NS,
    probe_names=1,
    shuffles_case=True,
    lowers_soa=True,
    keeps=5.0,
    prefetches=True,
)
POWERDNS = Quirks(
    name="powerdns",
    gives_up=1.52,
    probe=A,
    probe_names=10,
    keeps=1.0,
    keeps_all_types=True,
    throttles=64,
)
DNSMASQ = Quirks(
    name="dnsmasq",
    limit=150,
    full=Full.REFUSES,
    limits_plain=False,
    passes_edns=True,
    passes_repeats=True,
)
KNOT_FORWARDER = Quirks(
    name="knot-forwarder",
    repeats=(2.0, 4.0, 6.0),
    gives_up=8.0,
    shuffles_case=True,
    lowers_soa=True,
    throttles=1,
    throttled=5.0,
)
OLD = Quirks(name="old", gives_up=10.0, knows_edns=False, longest_name=101)
ALL = (UNBOUND, BIND, KNOT, POWERDNS, DNSMASQ)
