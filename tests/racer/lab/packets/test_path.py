"""The path to the last digit: who meets the censor when, and what dies where."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from racer.lab import Blackhole, Profile
from racer.lab.packets import Flags, PacketPath, Point, Side, SNIFilter, decode, make_tcp, pcap
from tests.racer.lab.hellos import client_hello

if TYPE_CHECKING:
    from racer.lab._censor import Rule

CLIENT = ("198.18.0.1", 40_000)
SERVER = ("192.0.2.7", 443)


def path(*rules: Rule, near_hops: int = 2, far_hops: int = 3) -> PacketPath:
    return PacketPath(
        near=Profile(delay=0.25),
        far=Profile(delay=0.5),
        near_hops=near_hops,
        far_hops=far_hops,
        rules=list(rules),
    )


def segment(data: bytes = b"", *, ttl: int = 64, flags: Flags = Flags.ACK, seq: int = 1) -> bytes:
    return make_tcp(CLIENT, SERVER, seq=seq, ack=9, flags=flags, ttl=ttl, data=data)


def run(path: PacketPath, until: float = 100.0) -> list[tuple[float, Side, bytes]]:
    """Return what arrives, and when."""
    arrived = []
    while (now := path.next_timeout()) is not None and now <= until:
        path.handle_timeout(now)
        arrived += [(now, side, octets) for side, octets in path.packets_to_send()]
    return arrived


def points(path: PacketPath) -> list[tuple[float, Point, Side]]:
    return [(each.at, each.point, each.side) for each in path.captured]


def test_a_packet_crosses_both_links_and_all_routers() -> None:
    way = path()
    way.receive(Side.CLIENT, segment(b"data"), 1.0)
    ((at, side, octets),) = run(way)
    assert (at, side) == (1.75, Side.SERVER)
    assert octets == segment(b"data", ttl=59)
    assert points(way) == [
        (1.0, Point.SENT, Side.CLIENT),
        (1.25, Point.SEEN, Side.CLIENT),
        (1.75, Point.DELIVERED, Side.CLIENT),
    ]


def test_the_way_back_is_as_long() -> None:
    way = path()
    way.receive(Side.SERVER, make_tcp(SERVER, CLIENT, seq=1, ack=1, flags=Flags.ACK), 1.0)
    ((at, side, _),) = run(way)
    assert (at, side) == (1.75, Side.CLIENT)
    assert points(way)[1] == (1.5, Point.SEEN, Side.SERVER)


@pytest.mark.parametrize(
    ("ttl", "seen", "arrives"),
    [(1, False, False), (2, False, False), (3, True, False), (5, True, False), (6, True, True)],
)
def test_a_ttl_is_used_up_router_by_router(ttl: int, seen: bool, arrives: bool) -> None:
    way = path(near_hops=2, far_hops=3)
    way.receive(Side.CLIENT, segment(ttl=ttl), 0.0)
    assert bool(run(way)) is arrives
    found = [point for _, point, _ in points(way)]
    assert (Point.SEEN in found) is seen
    assert (Point.EXPIRED in found) is not arrives


def test_without_routers_in_between_the_censor_sees_what_dies_behind_it() -> None:
    way = path(near_hops=0, far_hops=1)
    way.receive(Side.CLIENT, segment(ttl=1), 0.0)
    assert run(way) == []
    assert [point for _, point, _ in points(way)] == [Point.SENT, Point.SEEN, Point.EXPIRED]


def test_a_reset_comes_from_where_the_censor_stands() -> None:
    way = path(SNIFilter(names=("news.*",)))
    way.receive(Side.CLIENT, segment(flags=Flags.SYN, seq=0), 0.0)
    run(way)
    way.receive(Side.CLIENT, segment(client_hello("news.example")), 10.0)
    (one, to_client, reset), (two, to_server, _) = run(way)
    assert (one, to_client) == (10.5, Side.CLIENT)
    assert (two, to_server) == (10.75, Side.SERVER)
    found = decode(reset)
    assert found is not None
    assert Flags.RST in found.flags
    assert [hit.at for hit in way.hits] == [10.25]
    assert (10.25, Point.SWALLOWED, Side.CLIENT) in points(way)
    assert (10.25, Point.INJECTED, Side.SERVER) in points(way)


def test_what_is_swallowed_goes_no_further() -> None:
    way = path(Blackhole())
    way.receive(Side.CLIENT, segment(), 0.0)
    assert run(way) == []
    assert points(way)[-1] == (0.25, Point.SWALLOWED, Side.CLIENT)


def test_rules_may_change_at_any_time() -> None:
    rules: list[Rule] = []
    way = PacketPath(rules=rules)
    way.receive(Side.CLIENT, segment(), 0.0)
    assert len(run(way)) == 1
    rules.append(Blackhole())
    way.receive(Side.CLIENT, segment(), 1.0)
    assert run(way) == []


def test_what_is_no_packet_is_dropped() -> None:
    way = path()
    way.receive(Side.CLIENT, b"\x00\x01", 0.0)
    assert (way.next_timeout(), list(way.captured)) == (None, [])


def test_losses_are_the_seeds() -> None:
    def arrivals(seed: int) -> list[float]:
        way = PacketPath(near=Profile(loss=0.5), far=Profile(delay=0.5), seed=seed)
        for at in range(20):
            way.receive(Side.CLIENT, segment(), float(at))
        return [at for at, _, _ in run(way)]

    assert arrivals(1) == arrivals(1) != arrivals(2)
    assert 0 < len(arrivals(1)) < 20


def test_a_corrupted_packet_is_carried_on_if_it_is_still_one() -> None:
    way = PacketPath(near=Profile(corrupt=1.0), near_hops=0, far_hops=0)
    for at in range(50):
        way.receive(Side.CLIENT, segment(b"data"), float(at))
    assert all(octets != segment(b"data") for _, _, octets in run(way))


def test_a_capture_is_a_file_for_other_programs() -> None:
    way = path()
    way.receive(Side.CLIENT, segment(b"data"), 1.5)
    data = pcap(way.captured)
    assert data[:24].hex() == "a1b2c3d400020004000000000000000000040000" + "00000065"
    assert data[24:40].hex() == "00000001" + "0007a120" + "0000002c" * 2
    assert data[40:] == segment(b"data")
