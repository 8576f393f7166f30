"""Which questions are lost, and when (SPEC 11)."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transports.soar.core.client.questions import Fate, Question
from transports.soar.core.client.recovery import Recovery
from transports.soar.core.client.rtt import RoundTrips
from transports.soar.core.dns.answers import Form


class Way:
    """A path's recovery with round trips of 100 ms."""

    def __init__(self) -> None:
        self.recovery = Recovery()
        self.lane = RoundTrips()
        for turn in range(200):
            self.lane.observe(0.1, turn / 100)
        assert self.lane.loss_delay == pytest.approx(0.140, abs=1e-6)
        assert self.lane.probe_timeout == pytest.approx(0.140, abs=1e-6)
        self._id = 0

    def ask(
        self, at: float, *, may_park: bool = False, form: Form = Form.DS, long: bool = False
    ) -> Question:
        self._id += 1
        question = Question(
            id=self._id, asked=b"", owner=None, number=self._id, form=form, name_class=3 if long else 1,
            size_class=0, may_park=may_park, sent_at=at, sent_elapsed=at, lane=self.lane,
        )  # fmt: skip
        self.recovery.sent(question)
        return question

    def answer(self, question: Question, *, productive: bool = False) -> None:
        self.recovery.answered(question, is_productive=productive)

    def lost_at(self, question: Question, until: float = 50.0) -> float | None:
        """Go from deadline to deadline until `question` is lost."""
        while (due := self.recovery.deadline()) is not None and due < until:
            if question in self.recovery.detect(due + 1e-6):
                return round(due, 3)
        return None


def test_a_question_is_lost_when_a_later_one_was_answered_and_its_time_has_passed() -> None:
    way = Way()
    first, second = way.ask(10.0), way.ask(10.01)
    way.answer(second)
    assert way.recovery.detect(10.139) == []
    assert way.recovery.detect(10.141) == [first]
    assert first.fate is Fate.LOST
    assert way.recovery.deadline() is None


def test_an_earlier_answer_says_nothing() -> None:
    way = Way()
    first, second = way.ask(10.0), way.ask(10.1)
    way.answer(first)
    assert way.lost_at(second) == 10.24  # by the probe timeout


@pytest.mark.parametrize(
    ("may_park", "productive", "at"),
    [(False, False, 10.14), (True, False, 10.74), (True, True, 10.14)],
    ids=["plain", "may be parked", "may be parked, but there was something to say"],
)
def test_what_may_be_parked_is_waited_for_longer(
    may_park: bool, productive: bool, at: float
) -> None:
    way = Way()
    first = way.ask(10.0, may_park=may_park)
    way.answer(way.ask(10.01), productive=productive)
    assert way.lost_at(first) == at


def test_parked_ones_do_not_hide_others_behind_them() -> None:
    way = Way()
    parked = way.ask(10.0, may_park=True)
    data = way.ask(10.001)
    way.answer(way.ask(10.002))
    assert way.lost_at(data) == 10.141
    assert parked.fate is Fate.IN_FLIGHT


def test_the_probe_timeout_doubles_up_to_five_seconds_and_so_does_what_is_given_up() -> None:
    way = Way()
    questions = [way.ask(10.0) for _ in range(4 * 2 + 4 + 8 + 16 + 1)]
    given_up = []
    while (due := way.recovery.deadline()) is not None:
        given_up.append((round(due, 2), len(way.recovery.detect(due + 1e-9))))
    gaps = [round(b - a, 2) for (a, _), (b, _) in itertools.pairwise(given_up)]
    assert given_up[0] == (10.14, 2)
    assert [count for _, count in given_up] == [2, 2, 2, 2, 4, 8, 16, 1]
    assert gaps == [0.28, 0.56, 1.12, 2.24, 4.48, 5.0, 5.0]
    assert all(question.fate is Fate.LOST for question in questions)


def test_a_probe_timeout_says_nothing_of_what_was_sent_just_now() -> None:
    way = Way()
    first, second = way.ask(10.0), way.ask(10.1)
    assert way.recovery.detect(10.141) == [first]
    assert second.fate is Fate.IN_FLIGHT


def test_only_questions_that_no_server_holds_count_as_evidence_of_loss() -> None:
    way = Way()
    way.ask(10.0, may_park=True)
    way.answer(way.ask(10.01), productive=True)
    assert len(way.recovery.detect(10.2)) == 1
    assert not way.recovery.loss.is_notable
    way.ask(11.0)
    way.answer(way.ask(11.01))
    assert len(way.recovery.detect(11.2)) == 1
    assert way.recovery.loss.is_notable


def test_an_answer_ends_the_doubling() -> None:
    way = Way()
    way.ask(10.0)
    way.lost_at(way.ask(10.0))
    assert way.recovery.probes == 1
    way.answer(way.ask(10.3))
    assert way.recovery.probes == 0
    assert way.lost_at(way.ask(20.0)) == 20.14


def test_a_lost_question_can_be_answered_for_ten_seconds() -> None:
    way = Way()
    first = way.ask(10.0)
    way.answer(way.ask(10.01))
    assert way.recovery.detect(10.2) == [first]
    way.recovery.detect(20.19)
    assert first.id in way.recovery.pending
    way.recovery.detect(20.21)
    assert first.id not in way.recovery.pending


def test_an_id_that_was_given_again_meanwhile_is_left_alone() -> None:
    way = Way()
    first = way.ask(10.0)
    way.recovery.lose(first, 10.2)
    way.answer(first)
    way._id = first.id - 1
    second = way.ask(15.0)
    assert second.id == first.id
    way.answer(way.ask(15.01))
    way.recovery.detect(20.3)
    assert way.recovery.pending[first.id] is second


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.sampled_from("aplxd"), st.integers(0, 30), st.floats(0, 0.3)), max_size=200
    )
)
def test_every_question_has_one_fate_and_nothing_is_kept_forever(
    steps: list[tuple[str, int, float]],
) -> None:
    way = Way()
    asked: list[Question] = []
    lost: list[Question] = []
    now = 100.0
    for what, which, gap in steps:
        now += gap
        if what in "ap":
            asked.append(
                way.ask(now, may_park=what == "p", form=Form(which % 3), long=which % 2 == 0)
            )
        elif what == "l":
            lost += way.recovery.detect(now)
        elif what == "x" and asked:
            question = asked[-1 - which % len(asked)]
            if question.id in way.recovery.pending:
                way.answer(question, productive=which % 2 == 0)
        due = way.recovery.deadline()
        assert due is None or due > 100.0
        in_flight = way.recovery.in_flight()
        assert len({id(q) for q in in_flight}) == len(in_flight)
        assert all(q.fate is Fate.IN_FLIGHT for q in in_flight)
        assert len(in_flight) == sum(q.fate is Fate.IN_FLIGHT for q in asked)
    assert len({id(q) for q in lost}) == len(lost)
    for _ in range(300):
        due = way.recovery.deadline()
        if due is None:
            break
        now = max(now, due) + 1e-6
        way.recovery.detect(now)
    way.recovery.detect(now + 11)
    assert way.recovery.deadline() is None
    assert way.recovery.pending == {}
