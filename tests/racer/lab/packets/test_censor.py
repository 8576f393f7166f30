"""What the censor does with packets, rule by rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dns.message
import pytest

from racer.errors import ConfigError
from racer.lab import Allow, Blackhole, Refuse, Throttle
from racer.lab.packets import (
    Action,
    Censor,
    Flags,
    InjectDNS,
    Judgement,
    Packet,
    Reassembly,
    Side,
    SNIFilter,
    decode,
    make_tcp,
    make_udp,
)
from racer.lab.packets._censor import MAX_FLOWS
from tests.racer.lab.hellos import client_hello

if TYPE_CHECKING:
    from collections.abc import Callable

    from racer.lab._censor import Rule

CLIENT = ("198.18.0.1", 40_000)
SERVER = ("192.0.2.7", 443)
HELLO = client_hello("news.example")
NEWS = SNIFilter(names=("news.*",))


def packet(octets: bytes) -> Packet:
    found = decode(octets)
    assert found is not None
    return found


def up(
    data: bytes = b"",
    *,
    seq: int = 101,
    flags: Flags = Flags.ACK,
    ttl: int = 64,
    port: int = 40_000,
) -> Packet:
    source = (CLIENT[0], port)
    return packet(make_tcp(source, SERVER, seq=seq, ack=900, flags=flags, ttl=ttl, data=data))


def down(data: bytes = b"") -> Packet:
    return packet(make_tcp(SERVER, CLIENT, seq=900, ack=101, flags=Flags.ACK, data=data))


class Town:
    """A censor, and a connection through it."""

    def __init__(self, *rules: Rule) -> None:
        self.censor = Censor(list(rules))
        self.now = 10.0

    def judge(self, found: Packet, side: Side = Side.CLIENT, hops_left: int = 6) -> Judgement:
        return self.censor.judge(found, side, self.now, hops_left=hops_left)

    def connected(self) -> Town:
        assert self.judge(up(seq=100, flags=Flags.SYN)).passes
        assert self.judge(down(), Side.SERVER).passes
        return self


def test_without_rules_everything_passes() -> None:
    town = Town().connected()
    assert town.judge(up(HELLO)).passes
    assert town.censor.hits == []


def test_a_name_resets_both_ways_at_the_numbers_that_are_expected() -> None:
    town = Town(NEWS).connected()
    verdict = town.judge(up(HELLO))
    assert not verdict.passes
    (to_client, back), (to_server, on) = verdict.injected
    assert (to_client, to_server) == (Side.CLIENT, Side.SERVER)
    reset, other = packet(back), packet(on)
    assert (reset.source, reset.destination_port) == (SERVER[0], CLIENT[1])
    assert (reset.seq, reset.flags) == (900, Flags.RST | Flags.ACK)
    assert (other.source, other.destination_port) == (CLIENT[0], SERVER[1])
    assert (other.seq, other.flags) == (101, Flags.RST | Flags.ACK)
    (hit,) = town.censor.hits
    assert (hit.at, hit.rule, hit.address, hit.port, hit.name) == (
        10.0,
        NEWS,
        "192.0.2.7",
        443,
        "news.example",
    )


def test_a_condemned_connection_stays_so() -> None:
    town = Town(NEWS).connected()
    town.judge(up(HELLO))
    assert len(town.judge(up(b"again", seq=101)).injected) == 2
    assert not town.judge(down(b"late"), Side.SERVER).passes
    assert len(town.censor.hits) == 1
    assert town.judge(up(HELLO, port=40_001, seq=100, flags=Flags.SYN)).passes  # another one


def test_one_that_drops_says_nothing() -> None:
    town = Town(SNIFilter(names=("news.*",), action=Action.DROP)).connected()
    verdict = town.judge(up(HELLO))
    assert (verdict.passes, verdict.injected) == (False, ())


def test_a_connection_that_began_unseen_is_let_alone() -> None:
    town = Town(NEWS)
    assert town.judge(up(HELLO)).passes


@pytest.mark.parametrize(
    ("ttl", "heeds", "passes"), [(5, False, False), (5, True, True), (7, True, False)]
)
def test_one_that_heeds_ttls_ignores_what_will_not_arrive(
    ttl: int, heeds: bool, passes: bool
) -> None:
    town = Town(SNIFilter(names=("news.*",), heeds_ttl=heeds)).connected()
    assert town.judge(up(HELLO, ttl=ttl), hops_left=6).passes is passes


def test_a_lie_is_told_in_the_name_servers_place() -> None:
    lie = InjectDNS(names=("news.*",), addresses=("198.51.100.66",))
    question = dns.message.make_query("news.example", "A")
    asked = packet(make_udp(CLIENT, ("192.0.2.53", 53), question.to_wire()))
    verdict = Town(lie).judge(asked)
    assert verdict.passes  # the truth comes as well
    ((side, octets),) = verdict.injected
    answer = packet(octets)
    assert side is Side.CLIENT
    assert (answer.source, answer.source_port) == ("192.0.2.53", 53)
    assert (answer.destination, answer.destination_port) == CLIENT
    told = dns.message.from_wire(answer.data)
    assert question.is_response(told)
    assert told.answer[0][0].to_text() == "198.51.100.66"


def test_a_lie_may_be_all_that_comes() -> None:
    lie = InjectDNS(names=("news.*",), addresses=("198.51.100.66",), drops=True)
    question = dns.message.make_query("news.example", "A").to_wire()
    assert not Town(lie).judge(packet(make_udp(CLIENT, ("192.0.2.53", 53), question))).passes


@pytest.mark.parametrize(
    ("name", "port"), [("other.example", 53), ("news.example", 5353)], ids=["name", "port"]
)
def test_other_questions_pass(name: str, port: int) -> None:
    lie = InjectDNS(names=("news.*",), addresses=("198.51.100.66",))
    question = dns.message.make_query(name, "A").to_wire()
    verdict = Town(lie).judge(packet(make_udp(CLIENT, ("192.0.2.53", port), question)))
    assert (verdict.passes, verdict.injected) == (True, ())


def test_what_is_no_question_passes() -> None:
    verdict = Town(InjectDNS(addresses=("192.0.2.1",))).judge(
        packet(make_udp(CLIENT, ("192.0.2.53", 53), b"\xff" * 30))
    )
    assert (verdict.passes, verdict.injected) == (True, ())


def test_a_blackhole_swallows_both_ways() -> None:
    town = Town(Blackhole(address="192.0.2.*"))
    assert not town.judge(up(seq=100, flags=Flags.SYN)).passes
    assert not town.judge(down(), Side.SERVER).passes
    assert len(town.censor.hits) == 1


def test_a_refusal_answers_a_syn() -> None:
    verdict = Town(Refuse()).judge(up(seq=100, flags=Flags.SYN))
    ((side, octets),) = verdict.injected
    reset = packet(octets)
    assert (verdict.passes, side) == (False, Side.CLIENT)
    assert (reset.flags, reset.ack) == (Flags.RST | Flags.ACK, 101)


def test_who_is_allowed_passes() -> None:
    town = Town(Allow(address="192.0.2.7"), Blackhole(), NEWS).connected()
    assert town.judge(up(HELLO)).passes


def test_a_slowed_connection_waits_its_turn_and_loses_what_finds_no_room() -> None:
    town = Town(Throttle(rate=1000.0))
    found = up(b"x" * 960)  # 1000 octets with its headers
    assert [town.judge(found).leaves_at for _ in range(3)] == [11.0, 12.0, 13.0]
    assert town.judge(up(b"x" * 460, port=40_001)).leaves_at == 10.5
    assert town.judge(down(b"x" * 960), Side.SERVER).leaves_at == 11.0
    assert [town.judge(found).passes for _ in range(70)].count(True) == 62


def test_what_has_no_ports_passes() -> None:
    octets = bytearray(up(HELLO).octets)
    octets[9] = 47  # GRE
    assert Town(NEWS, Blackhole()).judge(packet(bytes(octets))).passes


def test_connections_are_forgotten_in_the_end() -> None:
    town = Town(NEWS)
    for number in range(MAX_FLOWS + 1):
        town.judge(up(seq=100, flags=Flags.SYN, port=1 + number))
    assert town.judge(up(HELLO, port=1)).passes
    assert not town.judge(up(HELLO, port=2)).passes


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: SNIFilter(names="news.*"), "names must be several"),  # type: ignore[arg-type]
        (lambda: SNIFilter(names=("*.example",), scans=True), "looks for octets"),
        (lambda: InjectDNS(addresses="192.0.2.1"), "addresses must be several"),  # type: ignore[arg-type]
        (lambda: InjectDNS(addresses=("nowhere",)), "'nowhere' is not an IP address"),
        (lambda: SNIFilter(port=0), "port must be"),
    ],
)
def test_a_rule_that_cannot_be(make: Callable[[], object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        make()


@pytest.mark.parametrize("reassembly", Reassembly)
def test_a_syn_that_is_sent_again_starts_nothing_anew(reassembly: Reassembly) -> None:
    town = Town(SNIFilter(names=("news.*",), reassembly=reassembly)).connected()
    town.judge(up(HELLO))
    town.judge(up(seq=100, flags=Flags.SYN))
    assert not town.judge(up(b"more", seq=400)).passes
