"""What partial names are to be answered, and which resolver is taken for Unbound (SPEC 4.5, 12.8)."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from transports.soar.core.client.partials import Partials, Timed
from transports.soar.core.client.questions import Question
from transports.soar.core.client.rtt import RoundTrips
from transports.soar.core.dns.forms import Form
from transports.soar.core.dns.zone import PartialAnswer

if TYPE_CHECKING:
    from collections.abc import Callable

NXDOMAIN, NODATA, REFUSED = PartialAnswer

NEAR, FAR = 0.020, 0.051


def lane(*trips: float) -> RoundTrips:
    found = RoundTrips()
    for at, trip in enumerate(trips):
        found.observe(trip, at / 100)
    return found


class Bench:
    """A path's knowledge, whose pairs a test answers; `txt` and `usual` say how long each takes, `None` for never."""

    def __init__(
        self,
        txt: Callable[[], float | None],
        usual: Callable[[], float | None],
        *,
        short: float = NEAR + FAR,
        long: float = NEAR + 2 * FAR,
    ) -> None:
        self.partials = Partials()
        self.short, self.long = lane(short), lane(long)
        self.now = 100.0
        self.asked = 0
        self.sequence = 0
        self._takes = txt, usual

    def turn(self) -> None:
        """Let an upload come to the moment where pairs may be asked, and answer what is asked."""
        self.now = max(self.now, self.partials.next_at)
        lanes = self.partials.pair(short=self.short, long=self.long, now=self.now)
        self.asked += len(lanes)
        for one, takes in zip(lanes, self._takes, strict=len(lanes) > 0):
            seconds = takes()
            if seconds is not None:
                one.observe(seconds, self.now + seconds)

    def judged(self) -> PartialAnswer:
        for _ in range(17):
            if not self.partials.next_at < self.now + 10:
                break
            self.turn()
        return self.partials.answer

    def fail(self, *, long: bool, after: int = 1) -> None:
        """Have the last of so many more questions fail."""
        self.now += 0.01
        self.sequence += after
        question = Question(
            id=1, asked=b"", owner=None, number=1, form=Form.DS, name_class=4 if long else 1,
            size_class=0, may_park=False, sent_at=self.now, sent_elapsed=self.now, lane=self.short,
        )  # fmt: skip
        question.sequence = self.sequence
        self.partials.failed(question, self.now)


def exactly(seconds: float | None) -> Callable[[], float | None]:
    return lambda: seconds


def unbound(**given: float) -> Bench:
    return Bench(exactly(NEAR + 2 * FAR), exactly(NEAR + FAR), **given)


def test_it_begins_with_nxdomain_and_asks_at_once() -> None:
    partials = Partials()
    assert partials.answer is NXDOMAIN
    assert partials.next_at == 0.0


def test_a_resolver_that_takes_a_round_trip_more_for_txt_x() -> None:
    bench = unbound()
    assert bench.judged() is REFUSED
    assert bench.asked == 16
    assert bench.partials.next_at == float("inf")


def test_pairs_go_out_within_a_round_trip_and_are_read_when_they_are_back() -> None:
    bench = unbound()
    times = []
    while bench.partials.answer is NXDOMAIN:
        bench.turn()
        times.append(bench.now - 100.0)
    spread = (NEAR + FAR) / 8
    assert times == pytest.approx(
        [*(turn * spread for turn in range(8)), 7 * spread + 1.25 * (NEAR + 2 * FAR)]
    )


def test_pairs_are_of_both_forms_and_begin_with_what_is_known_of_the_path() -> None:
    bench = unbound()
    txt, usual = bench.partials.pair(short=bench.short, long=bench.long, now=100.0)
    assert (txt.form, usual.form) == (Form.TXT, Form.DS)
    assert (txt.srtt, usual.srtt) == (bench.long.srtt, bench.short.srtt)
    assert txt.took is usual.took is None


def test_what_the_server_held_a_question_for_counts() -> None:
    """It has heard the name before, in the question for an address, and says that it held that."""
    one = Timed(Form.TXT, 5.0, like=lane(0.1))
    one.observe(0.075, 5.123)
    assert one.took == pytest.approx(0.123)
    one.observe(0.1, 9.0)
    assert one.took == pytest.approx(0.123)


@pytest.mark.parametrize("unknown", ["short", "long"])
def test_nothing_is_asked_while_nothing_is_known_of_long_names(unknown: str) -> None:
    bench = unbound()
    setattr(bench, unknown, RoundTrips())
    bench.turn()
    assert not bench.asked
    assert bench.partials.next_at == 0.0


NOT_UNBOUND = {
    "every name takes as long": (0.071, 0.071, 0.071, 0.122),
    "nothing is minimised": (0.071, 0.071, 0.071, 0.071),
    "no delay in which to see it": (0.0045, 0.001, 0.001, 0.004),
    "TXT takes a little longer": (0.090, 0.071, 0.071, 0.122),
    "TXT takes far longer than long names": (0.300, 0.071, 0.071, 0.122),
    "all have become as slow as long names": (0.122, 0.122, 0.071, 0.122),
}


@pytest.mark.parametrize("what", NOT_UNBOUND)
def test_other_resolvers_keep_nxdomain(what: str) -> None:
    txt, usual, short, long = NOT_UNBOUND[what]
    bench = Bench(exactly(txt), exactly(usual), short=short, long=long)
    assert bench.judged() is NXDOMAIN


def test_one_quick_answer_to_txt_shows_that_not_all_behind_the_address_are_unbound() -> None:
    times = iter([NEAR + 2 * FAR] * 3 + [NEAR + FAR] + [NEAR + 2 * FAR] * 12)
    assert Bench(lambda: next(times), exactly(NEAR + FAR)).judged() is NXDOMAIN


def test_it_asks_three_times_a_minute_apart_and_then_never() -> None:
    bench = Bench(exactly(0.071), exactly(0.071))
    began = bench.now
    times = []
    for _ in range(3):
        times.append(bench.now - began)
        assert bench.judged() is NXDOMAIN
        bench.now = min(bench.partials.next_at, bench.now + 1000)
    assert [round(at / 60) for at in times] == [0, 1, 2]
    assert bench.partials.next_at == float("inf")


def test_what_is_never_answered_is_asked_sixteen_times_and_proves_nothing() -> None:
    bench = Bench(exactly(None), exactly(0.071))
    assert bench.judged() is NXDOMAIN
    assert bench.asked == 32
    assert bench.partials.next_at > bench.now + 50


def test_what_an_earlier_upload_saw_is_not_counted() -> None:
    bench = Bench(exactly(NEAR + 2 * FAR), exactly(NEAR + FAR))
    for _ in range(7):
        bench.turn()
    bench.now += 60
    for _ in range(7):
        bench.turn()
    assert bench.partials.answer is NXDOMAIN
    assert bench.judged() is REFUSED


def found(seed: int, *, is_unbound: bool, jitter: float, loss: float) -> PartialAnswer:
    """Return what is made of a resolver behind links that vary and lose; Unbound repeats what is lost after 80 ms."""
    dice = random.Random(seed)

    def leg() -> float:
        again = 0
        while dice.random() < 2 * loss:
            again += 1
        return FAR + dice.expovariate(1 / jitter) + 0.08 * again

    def question(legs: int) -> float | None:
        return None if dice.random() < 2 * loss else NEAR + sum(leg() for _ in range(legs))

    bench = Bench(lambda: question(1 + is_unbound), lambda: question(1))
    return bench.judged()


@pytest.mark.parametrize("loss", [0.0, 0.025, 0.1], ids=lambda loss: f"{100 * loss:g} %")
def test_noise_and_loss_hide_unbound_now_and_then_and_make_none_of_another(loss: float) -> None:
    seen = [found(seed, is_unbound=True, jitter=0.005, loss=loss) for seed in range(100)]
    assert seen.count(REFUSED) > 70
    others = [found(seed, is_unbound=False, jitter=0.03, loss=loss) for seed in range(600)]
    assert others.count(REFUSED) <= 1


# --- the way back ---------------------------------------------------------------------------


def refusing() -> Bench:
    bench = unbound()
    assert bench.judged() is REFUSED
    return bench


def test_long_names_that_all_fail_end_it_after_nine_and_for_good() -> None:
    bench = refusing()
    for _ in range(8):
        bench.fail(long=True)
    assert bench.partials.answer is REFUSED
    bench.fail(long=True)
    assert bench.partials.answer is NXDOMAIN
    assert bench.partials.next_at == pytest.approx(bench.now + 600)
    bench.turn()
    assert bench.partials.next_at == float("inf")


def test_one_failure_in_twenty_questions_is_nothing() -> None:
    bench = refusing()
    for _ in range(1000):
        bench.fail(long=True, after=20)
    assert bench.partials.answer is REFUSED


def test_one_failure_in_ten_questions_ends_it() -> None:
    bench = refusing()
    for _ in range(20):
        bench.fail(long=True, after=10)
    assert bench.partials.answer is NXDOMAIN


def test_failures_of_one_label_alone_change_nothing() -> None:
    bench = refusing()
    for _ in range(100):
        bench.fail(long=False)
    assert bench.partials.answer is REFUSED


@pytest.mark.parametrize("is_first", [True, False])
def test_where_short_names_fail_beside_long_ones_it_may_be_proven_again(is_first: bool) -> None:
    """Whatever it was, it was not for the partial names: the server was away, perhaps."""
    bench = refusing()
    if is_first:
        bench.fail(long=False)
    for _ in range(9):
        bench.fail(long=True)
    if not is_first:
        bench.fail(long=False)
    assert bench.partials.answer is NXDOMAIN
    bench.now += 60.0
    bench.fail(long=False)
    bench.turn()
    assert bench.judged() is REFUSED


def test_even_so_it_ends_three_times_at_most() -> None:
    bench = refusing()
    for _ in range(3):
        assert bench.judged() is REFUSED
        for long in (False, *(True,) * 9):
            bench.fail(long=long)
        bench.now = min(bench.partials.next_at, bench.now + 1000)
    assert bench.judged() is NXDOMAIN
    assert bench.partials.next_at == float("inf")


def test_failures_of_what_was_asked_before_do_not_count() -> None:
    bench = refusing()
    bench.now -= 1.0
    for _ in range(50):
        bench.fail(long=True)
    assert bench.partials.answer is REFUSED


def test_long_names_that_are_lost_end_it_for_a_minute() -> None:
    bench = refusing()
    bench.partials.shrank(bench.now)
    assert bench.partials.answer is NXDOMAIN
    assert bench.partials.next_at == pytest.approx(bench.now + 60)
    bench.turn()
    assert bench.judged() is REFUSED
    other = Partials()
    other.shrank(5.0)  # lost for something else
    assert other.next_at == 0.0


def test_after_a_silence_it_has_to_be_proven_anew() -> None:
    bench = refusing()
    bench.partials.doubt()
    assert bench.partials.answer is NXDOMAIN
    assert bench.judged() is REFUSED


def test_nodata_is_for_good() -> None:
    bench = refusing()
    bench.partials.was_taken_for_missing()
    bench.partials.doubt()
    bench.partials.shrank(bench.now)
    assert bench.partials.answer is NODATA
    assert bench.partials.next_at == float("inf")
