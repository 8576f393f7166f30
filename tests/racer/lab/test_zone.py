"""What a name server says, true and otherwise, to any octets."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import dns.exception
import dns.flags
import dns.message
import dns.opcode
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.update
import pytest
from hypothesis import given
from hypothesis import strategies as st

from racer.errors import ConfigError
from racer.lab import (
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

if TYPE_CHECKING:
    from racer.lab._zone import Carrier

HOSTS = {"news.example": ["192.0.2.7", "192.0.2.8", "2001:db8::7"], "empty.example": []}
MANY = {"many.example": [f"192.0.2.{n}" for n in range(1, 250)]}
LIE = "198.51.100.66"


def query(name: str = "news.example", kind: str = "A", **options: Any) -> dns.message.QueryMessage:
    return dns.message.make_query(name, kind, **options)


def ask(
    zone: Zone, question: dns.message.Message | None = None, *, over: Carrier = "udp"
) -> list[tuple[float, dns.message.Message]]:
    replies = zone.replies((question or query()).to_wire(), over=over)
    return [(reply.after, dns.message.from_wire(reply.data)) for reply in replies]


def addresses(message: dns.message.Message) -> list[str]:
    return [record.to_text() for rrset in message.answer for record in rrset]


class TestTruth:
    @pytest.mark.parametrize(
        ("name", "kind", "expected", "rcode"),
        [
            ("news.example", "A", ["192.0.2.7", "192.0.2.8"], dns.rcode.NOERROR),
            ("news.example", "AAAA", ["2001:db8::7"], dns.rcode.NOERROR),
            ("NEWS.example.", "A", ["192.0.2.7", "192.0.2.8"], dns.rcode.NOERROR),
            ("news.example", "TXT", [], dns.rcode.NOERROR),
            ("empty.example", "A", [], dns.rcode.NOERROR),
            ("nobody.example", "A", [], dns.rcode.NXDOMAIN),
            (".", "A", [], dns.rcode.NXDOMAIN),
        ],
    )
    def test_names_lead_to_addresses_of_the_kind_that_was_asked_for(
        self, name: str, kind: str, expected: list[str], rcode: dns.rcode.Rcode
    ) -> None:
        question = query(name, kind)
        ((after, answer),) = ask(Zone(HOSTS), question)
        assert after == 0
        assert question.is_response(answer)
        assert addresses(answer) == expected
        assert answer.rcode() == rcode
        assert answer.flags & dns.flags.RA

    def test_the_case_of_the_question_is_kept(self) -> None:
        """A resolver that mixes it (0x20) knows its own question by it."""
        ((_, answer),) = ask(Zone(HOSTS), query("NeWs.ExAmPlE"))
        assert answer.question[0].name.to_text() == "NeWs.ExAmPlE."
        assert answer.answer[0].name.to_text() == "NeWs.ExAmPlE."

    def test_hosts_are_read_at_every_question(self) -> None:
        hosts: dict[str, list[str]] = {}
        zone = Zone(hosts, ttl=7)
        hosts["news.example"] = ["192.0.2.1"]
        ((_, answer),) = ask(zone)
        assert addresses(answer) == ["192.0.2.1"]
        assert answer.answer[0].ttl == 7

    def test_what_was_asked_is_noted(self) -> None:
        zone = Zone(HOSTS)
        ask(zone, query("News.example"))
        ask(zone, query("x.example", "AAAA"), over="tls")
        assert zone.asked == [
            Asked("news.example", "A", "udp"),
            Asked("x.example", "AAAA", "tls"),
        ]

    @pytest.mark.parametrize(
        ("options", "truncated"),
        [
            ({}, True),
            ({"use_edns": 0, "payload": 1232}, True),
            ({"use_edns": 0, "payload": 65535}, False),
        ],
    )
    def test_what_does_not_fit_is_truncated(self, options: dict[str, Any], truncated: bool) -> None:
        question = query("many.example", **options)
        ((_, answer),) = ask(Zone(MANY), question)
        assert bool(answer.flags & dns.flags.TC) is truncated
        assert len(addresses(answer)) == (0 if truncated else 249)
        assert len(answer.to_wire()) <= options.get("payload", 512)

    @pytest.mark.parametrize("over", ["tcp", "tls", "https"])
    def test_over_streams_everything_fits(self, over: Carrier) -> None:
        ((_, answer),) = ask(Zone(MANY), query("many.example"), over=over)
        assert len(addresses(answer)) == 249

    def test_questions_of_other_kinds_are_declined(self) -> None:
        notify = query()
        notify.set_opcode(dns.opcode.NOTIFY)
        chaos = query(rdclass=dns.rdataclass.CH)
        two = query()
        two.question += query("x.example").question
        for question, rcode in (
            (notify, dns.rcode.NOTIMP),
            (chaos, dns.rcode.REFUSED),
            (two, dns.rcode.FORMERR),
        ):
            ((_, answer),) = ask(Zone(HOSTS), question)
            assert answer.rcode() == rcode


class TestLies:
    @pytest.mark.parametrize(
        ("rules", "expected"),
        [
            ([Drop()], []),
            ([Drop(name="*.other.example")], ["truth"]),
            ([Drop(name="News.*", kind="a")], []),
            ([Drop(kind="AAAA")], ["truth"]),
            ([Drop(over="tcp")], ["truth"]),
            ([Fail()], [dns.rcode.SERVFAIL]),
            ([Fail(rcode="NXDOMAIN"), Fail(rcode="REFUSED")], [dns.rcode.NXDOMAIN]),
            ([Delay(seconds=1.5)], ["truth at 1.5"]),
            ([Delay(seconds=1.5), Delay(seconds=1), Drop(kind="TXT")], ["truth at 2.5"]),
            ([Truncate()], ["truncated"]),
            ([Truncate(over="tcp")], ["truth"]),
            ([Forge(addresses=(LIE,))], ["lie"]),
            ([Forge(addresses=("2001:db8::66",))], ["empty"]),
            ([Forge(addresses=(LIE,), truth_after=0.5)], ["lie", "truth at 0.5"]),
            ([Forge(addresses=(LIE,), after=0.5, truth_after=0.0)], ["truth", "lie at 0.5"]),
            (
                [Forge(addresses=(LIE,), truth_after=0.5), Delay(seconds=1)],
                ["lie at 1", "truth at 1.5"],
            ),
            (
                [
                    Forge(addresses=(LIE,), after=0.25, truth_after=0.5),
                    Forge(truth_after=1.0),
                ],
                ["empty", "lie at 0.25", "truth at 1"],
            ),
            ([Forge(addresses=(LIE,)), Forge(truth_after=1.0)], ["lie", "empty"]),
            ([Forge(addresses=(LIE,), truth_after=1.0), Drop()], ["lie"]),
            ([Forge(addresses=(LIE,), truth_after=1.0), Fail()], ["lie", "2 at 1"]),
        ],
    )
    def test_rules_say_what_is_answered_and_when(
        self, rules: list[NameRule], expected: list[str | dns.rcode.Rcode]
    ) -> None:
        def described(after: float, answer: dns.message.Message) -> str:
            word = {("192.0.2.7", "192.0.2.8"): "truth", (LIE,): "lie", (): "empty"}[
                tuple(addresses(answer))
            ]
            if answer.rcode():
                word = str(int(answer.rcode()))
            if answer.flags & dns.flags.TC:
                word = "truncated"
            return f"{word} at {after:g}" if after else word

        wanted = [one if isinstance(one, str) else str(int(one)) for one in expected]
        assert [described(*reply) for reply in ask(Zone(HOSTS, rules))] == wanted

    @pytest.mark.parametrize("over", ["udp", "tcp", "tls", "https"])
    def test_a_forger_who_has_not_seen_the_question_gets_something_wrong(
        self, over: Carrier
    ) -> None:
        question = query()
        for flaw in Flaw:
            zone = Zone(HOSTS, [Forge(addresses=(LIE,), flaw=flaw, truth_after=1.0)])
            replies = zone.replies(question.to_wire(), over=over)
            messages = [dns.message.from_wire(reply.data) for reply in replies]
            assert question.is_response(messages[-1])
            if flaw is Flaw.PORT and over != "udp":
                assert len(replies) == 1
                continue
            assert addresses(messages[0]) == [LIE]
            assert replies[0].elsewhere is (flaw is Flaw.PORT)
            assert question.is_response(messages[0]) is (flaw is Flaw.PORT)
            assert (messages[0].id == question.id) is (flaw is not Flaw.ID)
            same_question = messages[0].question == question.question
            assert same_question is (flaw is not Flaw.QUESTION)

    def test_garbage_is_what_it_is(self) -> None:
        zone = Zone(HOSTS, [Garbage(data=b"?!"), Drop()])
        assert zone.replies(query().to_wire(), over="udp") == [Reply(0.0, b"?!")]
        with pytest.raises(dns.exception.DNSException):
            dns.message.from_wire(Garbage().data)

    @pytest.mark.parametrize(
        ("make", "word"),
        [
            (lambda: Drop(over="quic"), "over"),  # type: ignore[arg-type]
            (lambda: Delay(seconds=-1), "seconds"),
            (lambda: Delay(seconds=math.inf), "seconds"),
            (lambda: Fail(rcode="BROKEN"), "BROKEN"),
            (lambda: Forge(addresses="192.0.2.1"), "addresses"),  # type: ignore[arg-type]
            (lambda: Forge(addresses=("nowhere",)), "nowhere"),
            (lambda: Forge(after=-1), "after"),
            (lambda: Forge(truth_after=math.nan), "truth_after"),
            (lambda: Truncate(over="x"), "over"),  # type: ignore[arg-type]
        ],
    )
    def test_a_rule_that_cannot_be_is_refused(self, make: Any, word: str) -> None:
        with pytest.raises(ConfigError, match=word):
            make()


class TestGarbage:
    ZONE = Zone(HOSTS)

    def test_what_is_no_question_gets_no_answer(self) -> None:
        answer = dns.message.make_response(query())
        empty = dns.message.Message()
        for octets in (b"", b"garbage", answer.to_wire(), empty.to_wire(), query().to_wire()[:-1]):
            zone = Zone(HOSTS)
            assert not zone.is_question(octets)
            assert zone.replies(octets, over="tcp") == []
            assert zone.asked == []
        assert self.ZONE.is_question(query().to_wire())

    def test_an_update_is_declined_or_ignored(self) -> None:
        update = dns.update.UpdateMessage("example.")
        update.add("news", 60, "A", "192.0.2.1")
        self.ZONE.replies(update.to_wire(), over="udp")

    @given(st.binary(max_size=80))
    def test_no_octets_are_an_exception(self, octets: bytes) -> None:
        self.ZONE.replies(octets, over="udp")

    @given(
        st.lists(st.tuples(st.integers(0, 40), st.integers(0, 255)), max_size=6),
        st.sampled_from(
            [(), (Forge(addresses=(LIE,), flaw=Flaw.QUESTION),), (Truncate(),), (Fail(),)]
        ),
    )
    def test_no_damage_is_an_exception(
        self, damage: list[tuple[int, int]], rules: tuple[NameRule, ...]
    ) -> None:
        octets = bytearray(query(use_edns=0, payload=1232).to_wire())
        for at, value in damage:
            octets[at % len(octets)] = value
        for reply in Zone(HOSTS, rules).replies(bytes(octets), over="udp"):
            dns.message.from_wire(reply.data)
