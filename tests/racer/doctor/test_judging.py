"""What resolvers said, judged: each kind of answer has its words, and what is seen beside goes into the data."""

from __future__ import annotations

import pytest

from racer.doctor import Resolver, Verdict
from racer.doctor._asking import Heard
from racer.doctor._judging import judge
from racer.doctor._messages import Answer
from racer.doctor._resolvers import Hearsay

PLAIN = Resolver(scheme="udp", host="192.0.2.53", port=53)
HOST = "news.example"


def heard(*addresses: str, rcode: str = "NOERROR", **more: object) -> Heard:
    answer = Answer(rcode=rcode, addresses=addresses, has_edns=True, size=60)
    for key, value in more.items():
        object.__setattr__(answer, key, value)
    return Heard(answers=(answer,), seconds=0.02)


def said(name: Heard, *, resolver: Resolver = PLAIN, **more: Heard) -> Hearsay:
    facts = {"stream": name, "name_v6": heard(), "missing": heard(rcode="NXDOMAIN")} | more
    return Hearsay(resolver=resolver, name=name, **facts)


@pytest.mark.parametrize(
    ("hearsay", "verdict", "words"),
    [
        (said(heard("192.0.2.7")), Verdict.OK, "udp://192.0.2.53 answers in 20 ms."),
        (
            said(heard("192.0.2.7", has_edns=False)),
            Verdict.OK,
            "udp://192.0.2.53 answers in 20 ms; it knows no EDNS, so answers stay short.",
        ),
        (
            said(heard("192.0.2.7", keeps_case=False)),
            Verdict.OK,
            "udp://192.0.2.53 answers in 20 ms; it changes the case of names.",
        ),
        (
            said(heard("192.0.2.7"), long=heard(size=1139)),
            Verdict.OK,
            "udp://192.0.2.53 answers in 20 ms; answers of 1139 bytes get through.",
        ),
        (
            said(heard("192.0.2.7"), minimal=heard(texts=("NO - it is not enabled",))),
            Verdict.OK,
            "udp://192.0.2.53 answers in 20 ms; it tells every name server the whole name.",
        ),
        (
            said(heard("127.0.0.1")),
            Verdict.WARN,
            "udp://192.0.2.53 says that news.example is at 127.0.0.1, which is this machine or nowhere: so filters say no.",
        ),
        (
            said(heard(rcode="SERVFAIL")),
            Verdict.WARN,
            "udp://192.0.2.53 cannot say where news.example is: it answers SERVFAIL.",
        ),
    ],
)
def test_what_one_resolver_comes_to(hearsay: Hearsay, verdict: Verdict, words: str) -> None:
    found = judge([hearsay], HOST)[0]
    assert (found.verdict, found.words) == (verdict, words)


def test_what_is_seen_goes_into_the_data() -> None:
    hearsay = said(
        heard("192.0.2.7", keeps_case=False),
        long=heard(size=1139),
        minimal=heard(texts=("HOORAY - it is enabled",)),
    )
    (found,) = judge([hearsay], HOST)
    assert found.data == {
        "system": False,
        "rcode": "NOERROR",
        "addresses": ["192.0.2.7"],
        "seconds": 0.02,
        "error": None,
        "answers_to_one_question": 1,
        "answers_missing_names": False,
        "edns": True,
        "keeps_case": False,
        "largest_datagram": 1139,
        "tcp": True,
        "minimises_names": True,
    }


def test_sites_with_many_addresses_do_not_lie() -> None:
    encrypted = Resolver(scheme="https", host="dns.example", port=443)
    one = said(heard("192.0.2.7"))
    other = said(heard("192.0.2.200", "203.0.113.1"), resolver=encrypted)  # the same /24
    assert [found.verdict for found in judge([one, other], HOST)] == [Verdict.OK] * 2


def test_no_such_name_is_a_lie_where_there_is_one() -> None:
    encrypted = Resolver(scheme="https", host="dns.example", port=443)
    found = judge(
        [said(heard(rcode="NXDOMAIN")), said(heard("192.0.2.7"), resolver=encrypted)], HOST
    )
    assert found[0].words == (
        "udp://192.0.2.53 lies, or somebody does in its place: it says NXDOMAIN about news.example, and "
        "https://dns.example, in whose place nobody can answer, says 192.0.2.7."
    )
