"""What several resolvers say, and which of it is believed when: as tables, without a clock."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transports._net.opinions import Opinions

if TYPE_CHECKING:
    from transports._net.opinions import Statement

E, P = True, False  # encrypted, plain

A, B, C = ("192.0.2.1",), ("198.51.100.1",), ("203.0.113.1",)
NEAR_A = ("192.0.2.200",)
NONE: Statement = ()

Saying = tuple[float, int, "Statement | None"]
"""When, which source, and what; `None` for that it has ended."""


def verdicts(encrypted: list[bool], sayings: list[Saying]) -> tuple[float, Statement] | None:
    """Return the first verdict and when it came; `None` if there is none when everybody has ended."""
    opinions = Opinions(encrypted)
    for index, (time, source, statement) in enumerate(sayings):
        now = time
        if statement is None:
            opinions.end(source)
        else:
            opinions.say(source, statement, now)
        until = sayings[index + 1][0] if index + 1 < len(sayings) else math.inf
        while True:
            if (verdict := opinions.verdict(now)) is not None:
                return round(now, 6), verdict
            if (look := opinions.next_look(now)) >= until:
                break
            now = look
    assert opinions.is_over
    return None


@pytest.mark.parametrize(
    ("encrypted", "sayings", "verdict"),
    [
        pytest.param([P, E], [(0, 0, A), (1, 1, A)], (1, A), id="confirmed"),
        pytest.param([P, E], [(0, 0, B), (1, 1, A)], (1, A), id="forged in the open"),
        pytest.param([E, P], [(0, 0, A)], (0, A), id="the only encrypted one waits for nobody"),
        pytest.param([P, E], [(0, 0, A), (1, 1, NEAR_A)], (1, NEAR_A + A), id="the same network"),
        pytest.param([P, E], [(0, 0, B + A), (1, 1, A + C)], (1, A), id="only what is shared"),
        pytest.param([P, E], [(0, 0, A), (1, 1, NONE)], (1, NONE), id="an address for no name"),
        pytest.param([P, E], [(0, 0, NONE), (1, 1, A)], (1, A), id="no name for an address"),
        pytest.param([P, P, E], [(0, 0, B), (0, 1, B), (1, 2, A)], (1, A), id="forged twice"),
        pytest.param(
            [P, P, E], [(0, 0, B), (0, 1, B), (2.1, 2, A)], (2, B), id="encrypted after two seconds"
        ),
        pytest.param(
            [P, P, E], [(0, 0, B), (0, 1, B), (1, 2, None)], (1, B), id="encrypted failed"
        ),
        pytest.param(
            [P, P, E], [(0, 0, B), (0, 1, B), (0.1, 2, None)], (0.25, B), id="failed at once"
        ),
        pytest.param([E, E], [(0, 0, A), (0.1, 1, A)], (0.1, A), id="two agree"),
        pytest.param([E, E], [(0, 0, A), (0.1, 1, B)], (0.1, A + B), id="two differ: in order"),
        pytest.param([E, E], [(0, 1, B), (0.1, 0, A)], (0.1, A + B), id="in the order of the list"),
        pytest.param([E, E], [(0, 0, A), (9, 1, B)], (0.25, A), id="the other one is slow"),
        pytest.param([E, E], [(0, 0, A), (0.1, 1, None)], (0.1, A), id="the other one fails"),
        pytest.param([E, E], [(0, 0, NONE), (0.1, 1, A)], (0.1, A), id="an address before none"),
        pytest.param([E, E], [(0, 0, NONE), (0.1, 1, NONE)], (0.1, NONE), id="both say none"),
        pytest.param([E, E], [(0, 0, NONE), (9, 1, A)], (0.25, NONE), id="none, and slow"),
        pytest.param(
            [E, E, E], [(0, 0, B), (0.1, 1, A), (0.2, 2, A)], (0.2, A), id="two against one"
        ),
        pytest.param(
            [E, E, P], [(0, 0, B), (0.1, 2, A), (0.2, 1, A)], (0.2, A), id="and a third in the open"
        ),
        pytest.param(
            [E, E, P], [(0, 2, A), (0.1, 0, A)], (0.1, A), id="one of each kind is a pair"
        ),
        pytest.param(
            [P, P], [(0, 0, A), (1, 1, A)], (1.25, A), id="in the open, with time to deny"
        ),
        pytest.param(
            [P, P],
            [(0, 0, A), (0.1, 1, A), (0.2, 0, None), (0.2, 1, None)],
            (0.2, A),
            id="or until both have ended",
        ),
        pytest.param(
            [P, P], [(0, 0, A), (0.1, 1, B), (1, 0, None), (1, 1, None)], None, id="no agreement"
        ),
        pytest.param([P, P], [(0, 0, A), (1, 0, None), (8, 1, None)], None, id="nobody agrees"),
        pytest.param([P, P], [(8, 0, None), (8, 1, None)], None, id="nobody speaks"),
        pytest.param([P, P], [(0, 0, NONE), (0, 1, NONE)], (0.25, NONE), id="both say none"),
        pytest.param(
            [P, P], [(0, 0, NONE), (0, 1, A), (1, 0, None), (1, 1, None)], None, id="none or one"
        ),
        pytest.param(
            [P, P],
            [(0, 0, B), (0, 1, B), (0.1, 0, A), (0.2, 1, A)],
            (0.25, A),
            id="both forged alike, and then the truth",
        ),
        pytest.param(
            [P, P],
            [(0, 0, B), (0, 1, C), (0.1, 0, A), (0.2, 1, A)],
            (0.45, A),
            id="both forged, and then the truth",
        ),
        pytest.param(
            [P, P],
            [(0, 0, B), (0.1, 0, A), (0.2, 1, A)],
            (0.45, A),
            id="one forged, and then the truth",
        ),
        pytest.param(
            [P, P],
            [(0, 0, A), (0.1, 0, B), (0.2, 1, A)],
            (0.45, A),
            id="forged after the truth, by one",
        ),
        pytest.param(
            [P, P, P], [(0, 0, B), (0, 1, A), (0.1, 2, A)], (0.35, A), id="two of three agree"
        ),
        pytest.param([P, P], [(0, 0, A), (0, 0, A), (9, 1, None)], None, id="once is not twice"),
    ],
)
def test_what_is_believed_and_when(
    encrypted: list[bool], sayings: list[Saying], verdict: tuple[float, Statement] | None
) -> None:
    ended: list[Saying] = [(99, source, None) for source in range(len(encrypted))]
    assert verdicts(encrypted, [*sayings, *ended]) == verdict


@pytest.mark.parametrize(
    ("one", "other", "agree"),
    [
        ("192.0.2.1", "192.0.2.254", True),
        ("192.0.2.1", "192.0.3.1", False),
        ("2001:db8:1::1", "2001:db8:1:ffff::9", True),
        ("2001:db8:1::1", "2001:db8:2::1", False),
        ("fe80::1%eth0", "fe80::2%eth1", True),
        ("0.0.0.1", "::1", False),
    ],
)
def test_who_is_in_one_network(one: str, other: str, agree: bool) -> None:
    opinions = Opinions([E, E])
    opinions.say(0, (one,), 0)
    opinions.say(1, (other,), 0)
    assert opinions.verdict(0) == (one, other)
    opinions = Opinions([P, P])
    opinions.say(0, (one,), 0)
    opinions.say(1, (other,), 0)
    assert (opinions.verdict(0.25) is not None) is agree


statements = st.lists(st.sampled_from([*A, *NEAR_A, *B, *C]), max_size=3, unique=True).map(tuple)
steps = st.lists(
    st.tuples(st.sampled_from([0.0, 0.1, 0.25, 1.0]), st.integers(0, 3), st.none() | statements),
    max_size=20,
)


@given(st.lists(st.booleans(), min_size=4, max_size=4), steps)
def test_nobody_in_the_open_is_ever_believed_alone(
    encrypted: list[bool], script: list[tuple[float, int, Statement | None]]
) -> None:
    opinions = Opinions(encrypted)
    said: dict[str, set[int]] = {}
    now = 0.0
    for pause, source, statement in script:
        now += pause
        if statement is None:
            opinions.end(source)
        else:
            opinions.say(source, statement, now)
            for address in statement:
                said.setdefault(address.rpartition(".")[0], set()).add(source)
        verdict = opinions.verdict(now)
        assert opinions.next_look(now) > now
        for address in verdict or ():
            sources = said[address.rpartition(".")[0]]
            assert len(sources) > 1 or any(encrypted[each] for each in sources)
        assert len(set(verdict or ())) == len(verdict or ())


@given(st.lists(st.booleans(), min_size=2, max_size=4), statements)
def test_where_all_say_the_same_it_is_believed(encrypted: list[bool], statement: Statement) -> None:
    opinions = Opinions(encrypted)
    for source in range(len(encrypted)):
        opinions.say(source, statement, 0)
    assert opinions.verdict(0.25) == statement
