"""What a program's log is told of a collector that fails."""

from __future__ import annotations

from racer.telemetry._complaints import QUIET_S, Complaints


def test_one_line_a_kind_and_minute_whoever_fails() -> None:
    complaints = Complaints()
    said = [
        (now, kind)
        for now in range(0, 121, 5)
        for who, kind in (("spans", "unreachable"), ("metrics", "unreachable"), ("spans", "slow"))
        if complaints.failed(who, kind, float(now))
    ]
    assert said == [(at, kind) for at in (0, 60, 120) for kind in ("unreachable", "slow")]
    assert QUIET_S == 60.0


def test_the_end_of_a_failure_is_said_once_when_nothing_fails_any_more() -> None:
    complaints = Complaints()
    assert complaints.failed("spans", "slow", 0.0)
    assert not complaints.failed("metrics", "slow", 1.0)
    assert not complaints.worked("spans")  # the metrics still fail
    assert complaints.worked("metrics")
    assert not complaints.worked("spans")
    assert not complaints.worked("metrics")


def test_a_failure_that_was_not_said_has_no_end_to_be_said() -> None:
    complaints = Complaints()
    assert not complaints.worked("spans")
    assert complaints.failed("spans", "slow", 0.0)
    assert complaints.worked("spans")
    assert not complaints.failed("spans", "slow", 30.0)
    assert not complaints.worked("spans")
    assert complaints.failed("spans", "slow", 60.0)
    assert complaints.worked("spans")


def test_what_happens_once_is_said_once_a_minute_and_needs_no_end() -> None:
    complaints = Complaints()
    assert [complaints.happened("overflowed", at) for at in (0.0, 59.0, 60.0)] == [
        True,
        False,
        True,
    ]
    assert not complaints.worked("spans")
