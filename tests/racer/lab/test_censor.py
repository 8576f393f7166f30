"""Which rules are for whom, and what an inspector says to how a connection begins."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from racer.errors import ConfigError
from racer.lab import (
    AcceptAndHang,
    Allow,
    Blackhole,
    HangOnName,
    Refuse,
    ResetOnName,
    Rule,
    Throttle,
)
from racer.lab._censor import Inspector, Verdict, matching
from tests.racer.lab.hellos import client_hello, in_records

HELLO = client_hello("www.blocked.example")
AT = HELLO.index(b"blocked")
PASS, WAIT, RESET, HANG = Verdict.PASS, Verdict.WAIT, Verdict.RESET, Verdict.HANG
BLOCKED = ("*.blocked.example",)


def cut(*places: int) -> list[bytes]:
    """The hello in pieces, cut at these places."""
    return [HELLO[a:b] for a, b in pairwise([0, *places, len(HELLO)])]


@pytest.mark.parametrize(
    ("rule", "applies"),
    [
        (Blackhole(), True),
        (Blackhole(address="192.0.2.*"), True),
        (Blackhole(address="192.0.2.8"), False),
        (Blackhole(port=443), True),
        (Blackhole(port=80), False),
        (Blackhole(over="tcp"), True),
        (Blackhole(over="udp"), False),
    ],
)
def test_a_rule_is_for_some_destinations(rule: Rule, applies: bool) -> None:
    assert rule.applies("192.0.2.7", 443, "tcp") is applies


def test_what_is_allowed_is_not_for_the_rules_behind() -> None:
    before, behind = Throttle(), Blackhole()
    rules = [before, Allow(port=53), behind]
    assert matching(rules, "192.0.2.7", 443, "tcp") == (before, behind)
    assert matching(rules, "192.0.2.7", 53, "udp") == (before,)


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: Blackhole(port=0), "port"),
        (lambda: Refuse(port=65_536), "port"),
        (lambda: AcceptAndHang(over="sctp"), "over"),  # type: ignore[arg-type]
        (lambda: ResetOnName(names="x.example"), "names"),  # type: ignore[arg-type]
        (lambda: Throttle(rate=0.0), "rate"),
        (lambda: Throttle(rate=math.inf), "rate"),
        (lambda: Throttle(port=-1), "port"),
    ],
)
def test_a_rule_that_cannot_be_is_refused(make: object, word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        make()  # type: ignore[operator]


@pytest.mark.parametrize(
    ("rules", "segments", "verdicts"),
    [
        ([], [HELLO], [PASS]),
        ([Throttle()], [HELLO], [PASS]),
        ([ResetOnName(names=BLOCKED)], [HELLO], [RESET]),
        ([ResetOnName(names=("WWW.Blocked.*",))], [HELLO], [RESET]),
        ([HangOnName(names=BLOCKED)], [HELLO], [HANG]),
        ([ResetOnName(names=("other.example",))], [HELLO, HELLO], [PASS, PASS]),
        ([ResetOnName(names=BLOCKED)], cut(3, AT), [WAIT, WAIT, RESET]),
        ([ResetOnName(names=BLOCKED)], cut(3, AT, AT + 30), [WAIT, WAIT, RESET, PASS]),
        ([ResetOnName()], [b"GET / HTTP/1.1\r\n", HELLO], [PASS, PASS]),
        ([ResetOnName(names=("other.example",))], [*cut(3), b"data"], [WAIT, PASS, PASS]),
        # Who joins no segments sees the one that begins with a ClientHello, and no further.
        ([ResetOnName(names=BLOCKED, joins_segments=False)], cut(AT + 30), [RESET, PASS]),
        ([ResetOnName(names=BLOCKED, joins_segments=False)], cut(AT), [PASS, PASS]),
        ([ResetOnName(names=BLOCKED, joins_segments=False)], cut(3, AT), [PASS, PASS, PASS]),
        # It never stops looking: that takes no memory. So it finds what others let in behind a proxy's words.
        ([ResetOnName(joins_segments=False)], [b"\x05\x01\x00", HELLO], [PASS, RESET]),
        # Who joins no records is blind to what does not fit into the first.
        ([ResetOnName(names=BLOCKED)], [in_records(HELLO, 40)], [RESET]),
        ([ResetOnName(names=BLOCKED, joins_records=False)], [in_records(HELLO, 40)], [PASS]),
        ([ResetOnName(names=BLOCKED, joins_records=False)], cut(3, AT), [WAIT, WAIT, RESET]),
        # The first rule that is hit counts; others go on waiting.
        ([HangOnName(names=BLOCKED), ResetOnName(names=BLOCKED)], [HELLO], [HANG]),
        (
            [ResetOnName(names=BLOCKED, joins_records=False), HangOnName(names=BLOCKED)],
            [in_records(HELLO, 40)],
            [HANG],
        ),
    ],
)
def test_an_inspector_says_what_to_do_with_each_segment(
    rules: list[Rule], segments: list[bytes], verdicts: list[Verdict]
) -> None:
    inspector = Inspector(rules)
    assert [inspector.inspect(segment) for segment in segments] == verdicts


def test_an_inspector_remembers_what_it_found() -> None:
    rule = ResetOnName(names=BLOCKED)
    inspector = Inspector([Throttle(), rule])
    assert (inspector.hit, inspector.name) == (None, None)
    inspector.inspect(HELLO)
    assert (inspector.hit, inspector.name) == (rule, "www.blocked.example")


def test_any_cut_is_the_same_to_who_joins() -> None:
    for place in range(1, len(HELLO)):
        inspector = Inspector([ResetOnName(names=BLOCKED)])
        verdicts = [inspector.inspect(segment) for segment in cut(place)]
        assert RESET in verdicts, place
