"""How fast a path is asked that does not answer (SPEC 12.5, 12.7)."""

from __future__ import annotations

from transports.soar.core.client.silence import Silence

TIMEOUT = 0.5


def asked(silence: Silence, *times: float) -> None:
    for at in times:
        silence.sent(at)


def test_an_answering_path_has_no_limit() -> None:
    silence = Silence()
    for turn in range(100):
        asked(silence, turn / 100)
        silence.answered(turn / 100, 0)
        assert silence.next_question(turn / 100, TIMEOUT) == turn / 100


def test_three_probe_timeouts_of_silence_slow_it_to_two_a_second() -> None:
    silence = Silence()
    asked(silence, 10.0, 10.5, 11.0, 11.4)
    assert silence.next_question(11.49, TIMEOUT) == 11.49
    assert silence.next_question(11.51, TIMEOUT) == 11.9
    silence.answered(11.55, 0)
    assert silence.next_question(11.6, TIMEOUT) == 11.6


def test_two_questions_are_no_evidence() -> None:
    silence = Silence()
    asked(silence, 10.0, 11.9)
    assert silence.next_question(12.0, TIMEOUT) == 12.0


def test_what_an_answer_leaves_unanswered_is_evidence_from_then_on() -> None:
    """A full window that falls silent at one blow is asked nothing more: only what is under way can tell."""
    silence = Silence()
    asked(silence, *(10.0,) * 20)
    silence.answered(10.1, 2)
    assert silence.next_question(12.0, TIMEOUT) == 12.0
    silence.answered(12.0, 19)
    assert silence.slow_at(12.0, TIMEOUT) == 13.5
    assert not silence.is_slow(13.4, TIMEOUT)
    assert silence.is_slow(13.6, TIMEOUT)
    assert silence.wants_fresh_socket(13.6, TIMEOUT)


def test_the_longest_probe_timeout_begins_nothing_anew() -> None:
    silence = Silence()
    asked(silence, 10.0, 10.0, 15.0, 15.0)
    assert silence.is_slow(15.1, TIMEOUT)


def test_a_path_that_was_left_alone_begins_anew() -> None:
    silence = Silence()
    asked(silence, 10.0, 10.1, 10.2)
    assert silence.next_question(13.0, TIMEOUT) == 10.7
    assert silence.next_question(60.0, TIMEOUT) == 60.0
    asked(silence, 60.0)
    assert silence.next_question(60.1, TIMEOUT) == 60.1


def test_six_kill_it_while_others_answer_and_then_it_is_probed_ever_more_seldom() -> None:
    silence = Silence()
    asked(silence, 10.0, 11.0, 12.0, 12.9)
    assert not silence.judge(12.9, TIMEOUT, others_answer=True)
    assert not silence.judge(13.1, TIMEOUT, others_answer=False)
    assert silence.judge(13.1, TIMEOUT, others_answer=True)
    assert not silence.judge(13.2, TIMEOUT, others_answer=True)
    probes = []
    now = 13.1
    for _ in range(7):
        at = silence.next_question(now, TIMEOUT)
        probes.append(round(at - silence._last, 3))
        now = max(now, at)
        asked(silence, now)
    assert probes == [2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    silence.answered(now, 0)
    assert not silence.is_dead
    assert silence.next_question(now, TIMEOUT) == now


def test_the_last_path_is_never_dead() -> None:
    silence = Silence()
    asked(silence, 10.0, 11.0, 12.0, 13.0)
    assert silence.judge(13.1, TIMEOUT, others_answer=True)
    silence.judge(14.0, TIMEOUT, others_answer=False)
    assert not silence.is_dead


def test_a_new_source_port_once_in_three_probe_timeouts_of_silence() -> None:
    silence = Silence()
    fresh = []
    now = 10.0
    while now < 16.0:
        fresh += [round(now, 2)] if silence.wants_fresh_socket(now, TIMEOUT) else []
        asked(silence, now)
        now += 0.25
    assert fresh == [11.5, 13.0, 14.5]
