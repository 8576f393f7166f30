"""The model resolvers behave as the real ones did when they were measured."""

from __future__ import annotations

import itertools
import struct
from dataclasses import replace

import pytest

from tests.transports.soar.sim.dns import DS, NS, SOA, TXT, A, Message, Query, name_labels
from tests.transports.soar.sim.link import Weather
from tests.transports.soar.sim.quirks import (
    ALL,
    BIND,
    DNSMASQ,
    KNOT,
    KNOT_FORWARDER,
    PLAIN,
    POWERDNS,
    UNBOUND,
    Quirks,
)  # fmt: skip
from tests.transports.soar.sim.route import Route
from tests.transports.soar.sim.world import World

ZONE = b"\1t\7example\3com\0"
NEAR = Weather(delay=0.010)
FAR = Weather(delay=0.0255)


class Bench:
    """A client and an authority that tests script, with one resolver between them."""

    def __init__(self, quirks: Quirks) -> None:
        self.world = World(1)
        self.answers: list[tuple[float, bytes]] = []
        self.copies: list[tuple[float, Query, bool]] = []
        self.rcodes: dict[tuple[int, int], int] = {}  # (labels, type) -> rcode
        self.silent = False
        self.size = 100
        self.route = Route(
            self.world, "r", quirks, near=NEAR, far=FAR, zone_labels=3,
            to_client=lambda _, message: self.answers.append((self.world.time, message)),
            to_server=self.authority,
        )  # fmt: skip
        self.asked = 0

    def ask(self, labels: int, qtype: int, *, edns: int | None = 1232) -> bytes:
        self.asked += 1
        name = b"".join(b"\x14" + b"%020d" % (self.asked * 10 + n) for n in range(labels)) + ZONE
        self.route.send("client", Query(self.asked, name, qtype, edns).to_wire())
        return name

    def authority(self, route: Route, message: bytes, tcp: bool) -> None:
        query = Query.from_wire(message)
        assert query is not None
        self.copies.append((self.world.time, query, tcp))
        if self.silent:
            return
        labels = len(name_labels(query.name)) - 3
        rcode = self.rcodes.get((labels, query.qtype), 0)
        self.tell(query, rcode, tcp=tcp)

    def tell(self, query: Query, rcode: int = 0, *, tcp: bool = False) -> None:
        if rcode or query.qtype in (A, NS):
            rdata = b"\2NS\xc0\x0c\1X\0" + bytes(20)
            record = b"\xc0\x0c" + struct.pack("!HHIH", SOA, 1, 0, len(rdata)) + rdata
            counts = (1, 0, 1, 0)
        else:
            rdata = bytes(self.size)
            record = b"\xc0\x0c" + struct.pack("!HHIH", query.qtype, 1, 0, len(rdata)) + rdata
            counts = (1, 1, 0, 0)
        whole = (
            struct.pack("!HH4H", query.id, 0x8400 | rcode, *counts)
            + query.name + struct.pack("!HH", query.qtype, 1) + record
        )  # fmt: skip
        if len(whole) > (query.edns or 512) and not tcp:
            whole = struct.pack("!HH4H", query.id, 0x8600, 1, 0, 0, 0) + query.name
            whole += struct.pack("!HH", query.qtype, 1)
        self.route.answer(whole, tcp=tcp)

    def took(self, labels: int, qtype: int) -> int:
        """Milliseconds from question to answer, on a resolver that is otherwise idle."""
        start = self.world.time
        self.answers.clear()
        self.ask(labels, qtype)
        assert self.world.run(start + 30, stop=lambda: bool(self.answers))
        return round((self.world.time - start) * 1000)


# resolvers.md 1: milliseconds with a server 51 ms behind a resolver 20 ms away
@pytest.mark.parametrize(
    ("quirks", "labels", "qtype", "expected"),
    [(quirks, 1, qtype, 71) for quirks in ALL for qtype in (A, DS)]
    + [(UNBOUND, 1, TXT, 122), (BIND, 1, TXT, 71), (KNOT, 1, TXT, 71), (POWERDNS, 1, TXT, 71)]
    + [(UNBOUND, 4, TXT, 275), (BIND, 4, TXT, 224), (KNOT, 4, TXT, 122), (POWERDNS, 4, TXT, 224)]
    + [(DNSMASQ, 4, TXT, 71)],
    ids=str,
)
def test_a_question_takes_as_long_as_it_did(
    quirks: Quirks, labels: int, qtype: int, expected: int
) -> None:
    assert Bench(quirks).took(labels, qtype) == expected


@pytest.mark.parametrize("quirks", [UNBOUND, BIND, KNOT, POWERDNS], ids=str)
@pytest.mark.parametrize("labels", [2, 4])
def test_nxdomain_for_a_partial_name_ends_the_probes(quirks: Quirks, labels: int) -> None:
    bench = Bench(quirks)
    bench.rcodes = {(1, A): 3, (1, NS): 3}
    assert bench.took(labels, TXT) == 122


@pytest.mark.parametrize("rcode", [2, 5], ids=["SERVFAIL", "REFUSED"])
@pytest.mark.parametrize("quirks", [UNBOUND, BIND, KNOT, POWERDNS], ids=str)
def test_a_failure_of_a_partial_name_ends_the_probes_too(quirks: Quirks, rcode: int) -> None:
    bench = Bench(quirks)
    bench.rcodes = {(1, A): rcode, (1, NS): rcode}
    assert bench.took(4, DS) == 122
    assert len(bench.copies) == 2


@pytest.mark.parametrize("quirks", [UNBOUND, BIND, KNOT, POWERDNS], ids=str)
def test_unbound_alone_asks_a_partial_name_that_is_nxdomain_once_more(quirks: Quirks) -> None:
    """Counted at a real server: 87,773 partial names beside 45,551 packets, and 42,069 beside 45,312 with REFUSED."""
    bench = Bench(quirks)
    bench.rcodes = {(1, A): 3, (1, NS): 3}
    bench.took(4, DS)
    bench.world.run(bench.world.time + 1)
    labels = [len(name_labels(query.name)) - 3 for _, query, _ in bench.copies]
    assert sorted(labels) == ([1, 1, 4] if quirks is UNBOUND else [1, 4])
    assert len(bench.answers) == 1


def test_a_resolver_may_fail_a_name_whose_partial_name_is_refused() -> None:
    bench = Bench(replace(UNBOUND, punishes=True))
    bench.rcodes = {(1, A): 5}
    assert bench.took(4, DS) == 71
    told = Message.from_wire(bench.answers[0][1])
    assert told is not None
    assert told.rcode == 2
    bench.rcodes = {(1, A): 3}
    assert bench.took(4, DS) == 122


def copies_of_one_silent_question(quirks: Quirks, seconds: float) -> tuple[list[int], Bench]:
    bench = Bench(quirks)
    for _ in range(8):
        bench.took(1, DS)
    bench.copies.clear()
    bench.answers.clear()
    bench.silent = True
    start = bench.world.time
    bench.ask(1, DS)
    bench.world.run(start + seconds)
    return [round((at - start - 0.0355) * 1000) for at, _, _ in bench.copies], bench


def test_unbound_repeats_at_a_doubling_pace() -> None:
    times, bench = copies_of_one_silent_question(UNBOUND, 3)
    assert times[0] == 0
    first = times[1]
    assert 60 <= first <= 120
    gaps = [after - before for before, after in itertools.pairwise(times)]
    assert [round(gap / first) for gap in gaps[:5]] == [1, 1, 2, 2, 4]
    assert not bench.answers


def test_bind_repeats_late_and_with_a_smaller_size() -> None:
    times, bench = copies_of_one_silent_question(BIND, 12)
    assert times == [0, 800, 1600, 2400, 4000, 7200]
    assert [query.edns for _, query, _ in bench.copies[:3]] == [1232, 512, 1232]
    assert round(bench.answers[0][0] - bench.copies[0][0] + 0.0255, 1) == 10.0


def test_knot_repeats_soon_and_then_by_tcp_in_other_case() -> None:
    times, bench = copies_of_one_silent_question(KNOT, 2)
    assert times == [0, 71, 260]
    assert [tcp for _, _, tcp in bench.copies] == [False, False, True]
    assert len({query.name for _, query, _ in bench.copies}) == 3


@pytest.mark.parametrize("quirks", [POWERDNS, DNSMASQ], ids=str)
def test_powerdns_and_dnsmasq_never_repeat(quirks: Quirks) -> None:
    times, _ = copies_of_one_silent_question(quirks, 9)
    assert times == [0]


@pytest.mark.parametrize("quirks", [UNBOUND, BIND, KNOT], ids=str)
def test_only_the_newest_copy_may_be_answered(quirks: Quirks) -> None:
    bench = Bench(quirks)
    bench.took(1, DS)
    bench.copies.clear()
    bench.answers.clear()
    bench.silent = True
    bench.ask(1, DS)
    bench.world.run(bench.world.time + 5, stop=lambda: len(bench.copies) == 2)
    (_, first, _), (_, second, _) = bench.copies
    bench.tell(first)
    bench.world.run(bench.world.time + 0.04)
    assert not bench.answers
    bench.tell(second)
    bench.world.run(bench.world.time + 0.04)
    assert len(bench.answers) == 1


def outcome_of(quirks: Quirks, silent: int) -> tuple[int, int, int]:
    """Return (refused, failed, copies) when so many questions are asked and none is answered."""
    bench = Bench(quirks)
    bench.silent = True
    for _ in range(silent):
        bench.ask(1, DS)
    bench.world.run(bench.world.time + 0.060)
    resolver = bench.route.resolver
    return resolver.refused, resolver.failed, len({q.name for _, q, _ in bench.copies})


def test_limits_of_questions_under_way() -> None:
    assert outcome_of(DNSMASQ, 200) == (50, 0, 150)
    assert outcome_of(BIND, 1000) == (0, 100, 1000)
    assert outcome_of(UNBOUND, 1100) == (0, 0, 1024)


def test_powerdns_fails_everything_for_a_minute_after_64_silent_questions() -> None:
    bench = Bench(POWERDNS)
    bench.silent = True
    for _ in range(64):
        bench.ask(1, DS)
    bench.world.run(5)
    bench.silent = False
    bench.answers.clear()
    bench.ask(1, DS)
    bench.world.run(6)
    told = Message.from_wire(bench.answers[0][1])
    assert told is not None
    assert told.rcode == 2
    bench.world.run(63)
    assert bench.took(1, DS) == 71


def test_one_silent_question_blacklists_a_forwarding_knot() -> None:
    bench = Bench(KNOT_FORWARDER)
    bench.silent = True
    bench.ask(1, DS)
    bench.world.run(8.5)
    bench.silent = False
    assert bench.took(1, DS) == 20
    bench.world.run(15)
    assert bench.took(1, DS) == 71


def test_knot_lowers_the_names_of_a_soa_and_keeps_an_answer_for_five_seconds() -> None:
    bench = Bench(KNOT)
    bench.rcodes[1, DS] = 3
    name = bench.ask(1, DS)
    bench.world.run(1)
    told = Message.from_wire(bench.answers[0][1])
    assert told is not None
    assert b"\2ns\xc0\x0c\1x\0" in told.records
    before = len(bench.copies)
    bench.route.send("client", Query(77, name, DS, 1232).to_wire())
    bench.world.run(1.015)
    assert len(bench.answers) == 1
    bench.world.run(1.025)
    assert len(bench.answers) == 2  # from the cache, in one hop
    bench.world.run(2)
    assert len(bench.copies) == before + 1  # and asked again behind the client's back


def test_an_answer_above_the_size_comes_by_tcp_and_is_cut_for_the_client() -> None:
    bench = Bench(UNBOUND)
    bench.size = 1400
    bench.ask(1, DS)
    bench.world.run(1)
    told = Message.from_wire(bench.answers[0][1])
    assert told is not None
    assert told.truncated
    assert [tcp for _, _, tcp in bench.copies] == [False, True]


def test_a_plain_question_is_answered_within_512() -> None:
    for quirks, truncated in ((PLAIN, True), (DNSMASQ, False)):
        bench = Bench(quirks)
        bench.size = 600
        bench.ask(1, DS, edns=None if quirks is PLAIN else 1232)
        bench.world.run(1)
        told = Message.from_wire(bench.answers[0][1])
        assert told is not None
        assert told.truncated is truncated


def test_the_same_name_twice_is_asked_once_and_told_twice() -> None:
    bench = Bench(UNBOUND)
    name = bench.ask(1, DS)
    bench.route.send("client", Query(999, name, DS, 1232).to_wire())
    bench.world.run(1)
    assert len(bench.copies) == 1
    assert len(bench.answers) == 2
