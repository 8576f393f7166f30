"""One path: what hints do, and what they don't (SPEC 12)."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

from tests.transports.soar.client.peer import RTT, TARGET, Asked, Rig
from transports.soar.core.client.events import QuestionsLost
from transports.soar.core.client.forms import FormChoice
from transports.soar.core.crypto.headers import Kind
from transports.soar.core.dns.forms import Form
from transports.soar.core.dns.messages import Rcode
from transports.soar.core.dns.zone import Partial, PartialAnswer
from transports.soar.core.streams.frames import Ping, StreamData

if TYPE_CHECKING:
    from collections.abc import Callable

    from transports.soar.core.client.path import Path


def ready(**settings: Any) -> tuple[Rig, Path]:
    """Return a rig with a stream that is open, its path, and twelve questions of 100 ms behind it."""
    rig = Rig(**settings)
    rig.dialed()
    path = rig.client._paths[0]
    for turn in range(12):
        path.polls.observe(0.1, rig.now.awake + turn / 100)
    return rig, path


def upload(rig: Rig, octets: int = 14) -> list[Asked]:
    stream = next(iter(rig.sessions[0].intake.streams.values()))
    stream.write(bytes(octets))
    return [each for each in rig.send() if each.of(StreamData)]


def test_a_failure_may_start_one_new_try_at_once_and_then_one_in_twenty_questions() -> None:
    rig, path = ready()
    path._tries = 1.0
    (first,) = upload(rig, 8)
    rig.time += 0.2
    rig.tell(first, rig.peer.failure(first, Rcode.SERVFAIL))
    again = [each for each in rig.send() if each.of(StreamData)]
    assert [each.of(StreamData) for each in again] == [first.of(StreamData)]
    assert again[0].name != first.name
    rig.tell(again[0], rig.peer.failure(again[0], Rcode.SERVFAIL))
    assert [each for each in rig.send() if each.of(StreamData)] == []
    assert path._tries < 1


def test_the_pending_question_stays_and_its_true_answer_still_counts() -> None:
    rig, path = ready()
    (first,) = upload(rig, 8)
    rig.time += 0.2
    rig.tell(first, rig.peer.failure(first, Rcode.SERVFAIL))
    assert rig.sessions[0].packets.numbers._open >= {first.number}
    rig.tell(first, rig.peer.answer(first))
    assert first.number not in rig.sessions[0].packets.numbers._open
    del path


@pytest.mark.parametrize("rcode", [Rcode.REFUSED, Rcode.SERVFAIL])
def test_a_refusal_faster_than_any_answer_is_the_resolvers_own_limit(rcode: Rcode) -> None:
    rig, path = ready()
    sent = upload(rig, 140)
    in_flight = path.window.in_flight
    rig.time += 0.01
    for each in sent:
        rig.tell(each, rig.peer.failure(each, rcode))
    assert path.window.size == pytest.approx(0.8 * in_flight)
    assert path.window.in_flight == in_flight  # the places come back a round trip later
    assert rig.send() == []
    rig.time += 0.5
    rig.send()
    assert path.window._lost == 0


@pytest.mark.parametrize("is_limited", [True, False])
def test_at_its_resolvers_limit_a_lost_question_is_sent_once_more_as_it_was(
    is_limited: bool,
) -> None:
    rig, path = ready()
    refused, lost, *_, last = upload(rig, 140)
    if is_limited:
        rig.time += 0.01
        rig.tell(refused, rig.peer.failure(refused, Rcode.REFUSED))
    rig.time += 0.09
    rig.tell(last, rig.peer.answer(last))
    rig.run(rig.time + 0.5)
    sent = [each.message for _, each in rig.log]
    assert lost.message in sent
    assert sent.count(lost.message) == 1 + is_limited
    assert sent.count(refused.message) == 1  # it has no place that could be freed
    assert path.window.is_limited(rig.now.awake) == is_limited
    rig.tell(lost, rig.peer.answer(lost))  # whichever copy it is of
    assert lost.number not in rig.sessions[0].packets.numbers._open


def test_where_nothing_is_answered_nothing_is_sent_twice() -> None:
    rig, path = ready()
    sent = upload(rig, 140)
    rig.time += 0.01
    rig.tell(sent[0], rig.peer.failure(sent[0], Rcode.REFUSED))
    rig.run(rig.time + 5.0)
    assert path.recovery.probes
    messages = [each.message for _, each in rig.log]
    assert len(set(messages)) == len(messages)


def test_a_slow_refusal_is_a_failure_like_others() -> None:
    rig, path = ready()
    (first,) = upload(rig, 8)
    size = path.window.size
    rig.time += 0.2
    rig.tell(first, rig.peer.failure(first, Rcode.REFUSED))
    assert path.window.size == size
    assert path.window._failed == 1


def test_each_question_is_held_against_the_path_once() -> None:
    rig, path = ready()
    path._tries = 0.0
    (first,) = upload(rig, 8)
    rig.time += 0.2
    for _ in range(9):
        rig.tell(first, rig.peer.failure(first, Rcode.SERVFAIL))
    assert path.window._failed == 1


@pytest.mark.parametrize(("rcode", "failures"), [(Rcode.NOERROR, 0), (Rcode.SERVFAIL, 1)])
def test_a_fragment_that_waited_in_vain_for_another_is_no_failure(
    rcode: Rcode, failures: int
) -> None:
    """NODATA is what it gets where another was lost; its window, cut for that, would be small for the whole session."""
    rig = Rig()
    rig.client.dial(TARGET, rig.now)
    fragment = next(each for each in rig.send() if each.kind is Kind.FRAGMENT)
    rig.time += 1.0
    wrong = rig.peer.nodata(fragment) if not rcode else rig.peer.failure(fragment, rcode)
    rig.tell(fragment, wrong)
    assert rig.client._paths[0].window._failed == failures


def test_an_unproven_nxdomain_for_a_long_name_makes_partial_names_nodata() -> None:
    rig, path = ready()
    path.sizes.has_begun = True
    sent = upload(rig, 5000)
    long = next(each for each in sent if each.name_class > 1)
    short = next((each for each in sent if each.name_class == 1), None)
    rig.time += 0.2
    if short is not None:
        rig.tell(short, rig.peer.nxdomain(short))
        assert path.partials.answer is PartialAnswer.NXDOMAIN
    rig.tell(long, rig.peer.nxdomain(long))
    assert path.partials.answer is PartialAnswer.NODATA


def test_formerr_before_anything_worked_takes_the_opt_record_away() -> None:
    rig = Rig()
    rig.client.keep_warm(rig.now)
    asked = rig.send()
    assert asked[0].copy.edns_size == 1232
    rig.tell(asked[0], rig.peer.failure(asked[0], Rcode.FORMERR))
    again = rig.send()
    assert again
    assert all(each.copy.edns_size is None for each in again)


def test_formerr_later_is_one_failure_more() -> None:
    rig, path = ready()
    (first,) = upload(rig, 8)
    rig.time += 0.2
    rig.tell(first, rig.peer.failure(first, Rcode.FORMERR))
    assert path.forms.edns


def test_silence_of_three_probe_timeouts_asks_from_a_new_port() -> None:
    rig, path = ready()
    rig.run(rig.time + 10.0)
    fresh = [at for at, each in rig.log if each.fresh_socket]
    assert fresh[0] >= 3 * path.patience
    assert len(fresh) <= 10.0 / (3 * path.patience) + 1


def test_a_silent_path_is_asked_one_question_at_a_time_though_its_losses_make_room() -> None:
    """Probe timeouts give up many at once in the end (SPEC 11.3): two questions a second are all that is asked."""
    rig, path = ready()
    upload(rig, 5_000)
    slow_at = rig.time + 3 * path.patience
    rig.run(rig.time + 60.0)
    assert path.window.size - path.window.in_flight > 2
    late = [at for at, _ in rig.log if at > slow_at]
    assert len(late) > 80
    assert min(b - a for a, b in itertools.pairwise(late)) > 0.49


def test_a_connection_has_no_port_to_change() -> None:
    rig, _ = ready(datagram=False)
    rig.run(rig.time + 10.0)
    assert not any(each.fresh_socket for _, each in rig.log)


def test_names_of_one_label_have_round_trips_of_their_own() -> None:
    rig, path = ready()
    path.sizes.has_begun = True
    sent = upload(rig, 5000)
    long = next(each for each in sent if each.name_class > 1)
    before = path.polls.srtt
    rig.time += 0.5
    rig.tell(long, rig.peer.answer(long))
    assert path.polls.srtt == before
    assert path.lane(path.forms.current, several=True).srtt == pytest.approx(0.5)
    assert not path.has_cheap_long_names


def test_time_at_the_server_is_no_time_on_the_way() -> None:
    rig = Rig()
    rig.dialed()
    path = rig.client._paths[0]
    poll = next(each for _, each in rig.log if each.may_park)
    rig.time += 0.600
    before = path.polls.srtt
    rig.tell(poll, rig.peer.answer(poll, held=0.600))
    assert path.polls.srtt == pytest.approx(before, abs=0.005)


def test_a_loss_is_told_once_for_each_moment() -> None:
    rig, _ = ready()
    sent = upload(rig, 140)
    rig.time += RTT
    rig.tell(sent[-1], rig.peer.answer(sent[-1]))
    rig.run(rig.time + 0.5)
    events = rig.events(QuestionsLost)
    assert events[0].path == 0
    assert events[0].lost >= len(sent) - 1


def test_where_a_clock_sees_no_time_pass_no_path_makes_another_a_spare() -> None:
    """Round trips of nothing: a clock with coarse steps, or a resolver of this machine in a simulation."""
    (_, path), (_, other) = ready(), ready()
    for each in (path, other):
        each.polls.srtt = 0.0
    path.compare([other])
    assert not path.is_spare
    path.polls.srtt = 1.0
    path.window.size, other.window.size = 2.0, 20.0
    path.compare([other])
    assert path.is_spare


@pytest.mark.parametrize(
    ("here", "there", "is_spare"),
    [
        ((12, 0.3), (768, 0.05), True),
        ((12, 0.3), (12, 0.05), False),
        ((12, 0.1), (768, 0.05), False),
        ((12, 0.3), (12, 0.0), True),
        ((12, 0.0), (768, 0.0), False),
    ],
)
def test_a_path_is_a_spare_beside_one_that_bears_much_more_and_answers_much_sooner(
    here: tuple[int, float], there: tuple[int, float], is_spare: bool
) -> None:
    paths = []
    for size, round_trip in (here, there):
        _, path = ready()
        path.window.size = float(size)
        path.polls.srtt = round_trip
        paths.append(path)
    one, other = paths
    one.compare([other])
    assert one.is_spare is is_spare
    other.recovery.probes = 1
    one.compare([other])
    assert not one.is_spare, "the better one may have fallen silent"


# --- partial names --------------------------------------------------------------------------


def through_unbound(rig: Rig, *, until: Callable[[], bool]) -> None:
    """Let an upload go on; what is TXT, or has several labels, takes 50 ms more, and for TXT they are called held."""

    def reply(asked: Asked) -> None:
        is_twice = asked.form is Form.TXT
        delay = 0.05 * (is_twice or asked.name_class > 1)
        rig.post(asked, rig.peer.answer(asked, held=delay * is_twice), RTT + delay)

    rig.run(rig.time + 10.0, reply, stop=until)
    assert until()


def refusing(octets: int = 200_000) -> tuple[Rig, Path]:
    """Return a rig in the midst of an upload whose partial names are refused, and its path."""
    rig, path = ready()
    path.sizes.has_begun = True
    stream = next(iter(rig.sessions[0].intake.streams.values()))
    stream.write(bytes(octets))
    through_unbound(rig, until=lambda: path.partials.answer is PartialAnswer.REFUSED)
    return rig, path


def answers_of(asked: list[Asked]) -> set[PartialAnswer]:
    """Return what the partial names of the long names among `asked` are to be answered."""
    found = set()
    for each in asked:
        if each.name_class > 1:
            cut = each.zone.read(each.name[1 + each.name[0] :])
            assert isinstance(cut, Partial)
            found.add(cut.answer)
    return found


def test_pairs_of_pings_beside_an_upload_show_unbound_and_have_partial_names_refused() -> None:
    rig, path = refusing()
    pings = [each for _, each in rig.log if each.of(Ping)]
    assert [each.form for each in pings] == [Form.TXT, Form.DS] * 8
    assert {(each.name_class, each.may_park) for each in pings} == {(1, False)}
    assert answers_of([each for at, each in rig.log if at < rig.time]) == {PartialAnswer.NXDOMAIN}
    before = len(rig.log)
    through_unbound(rig, until=lambda: len(rig.log) > before + 50)
    assert answers_of([each for _, each in rig.log[before:]]) == {PartialAnswer.REFUSED}
    assert len([each for _, each in rig.log if each.of(Ping)]) == 16
    assert path.forms.current is Form.DS


def test_a_message_that_a_few_long_names_carry_is_no_upload_and_asks_no_pairs() -> None:
    rig, path = ready()
    path.sizes.has_begun = True
    path.lane(Form.DS, several=True).observe(0.15, 1.0)
    assert any(each.name_class > 1 for each in upload(rig, 4000))
    assert not [each for _, each in rig.log if each.of(Ping)]
    assert path.partials.next_at == 0.0


@pytest.mark.parametrize("form", [Form.TXT, Form.SOA, None])
def test_a_path_whose_form_is_not_ds_and_proven_asks_no_pairs(form: Form | None) -> None:
    _, path = ready()
    path.lane(Form.DS, several=True).observe(0.15, 1.0)
    assert len(path.pair(400.0)) == 2
    path.forms = FormChoice()
    if form is not None:
        path.forms.worked(form)
    assert path.pair(401.0) == ()


@pytest.mark.parametrize(
    ("rcode", "after", "counts"),
    [
        (Rcode.SERVFAIL, 0.20, True),
        (Rcode.REFUSED, 0.20, True),
        (Rcode.SERVFAIL, 0.01, True),  # a name server that is held to be lame
        (Rcode.REFUSED, 0.01, False),  # a full table
        (Rcode.FORMERR, 0.20, False),
        (Rcode.NOERROR, 0.20, False),
    ],
)
def test_long_names_that_fail_end_the_refusals(rcode: Rcode, after: float, counts: bool) -> None:
    rig, path = refusing()
    path._tries = 0.0

    def sent_so() -> list[Asked]:
        return [each for _, each in rig.log if answers_of([each]) == {PartialAnswer.REFUSED}]

    through_unbound(rig, until=lambda: len(sent_so()) >= 9)
    sent = sent_so()
    rig.time += after
    for each in sent[-9:]:
        for _ in range(2):  # each is counted once
            rig.tell(each, rig.peer.failure(each, rcode))
    assert (path.partials.answer is PartialAnswer.NXDOMAIN) == counts


def test_long_names_that_only_get_lost_end_the_refusals() -> None:
    rig, path = refusing()

    def reply(asked: Asked) -> bytes | None:
        return None if asked.name_class > 1 else rig.peer.answer(asked)

    rig.run(rig.time + 5.0, reply, stop=lambda: path.partials.answer is PartialAnswer.NXDOMAIN)
    assert path.partials.answer is PartialAnswer.NXDOMAIN
    assert path.partials.next_at > rig.now.awake + 50


def test_a_path_that_wants_a_new_port_has_its_resolver_proven_anew() -> None:
    rig, path = refusing()
    rig.run(rig.time + 5.0)
    assert path.partials.answer is PartialAnswer.NXDOMAIN
    assert path.partials.next_at == 0.0
