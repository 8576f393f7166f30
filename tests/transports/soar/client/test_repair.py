"""When a dial may be tried anew (SPEC 16)."""

from __future__ import annotations

import itertools

import pytest

from transports.soar.core.client.reasons import Failure
from transports.soar.core.client.repair import is_proven, judge
from transports.soar.core.crypto.notices import EndCode, Notice


@pytest.mark.parametrize(
    ("known_for", "first_sent", "received", "proven"),
    [
        (120.0, 950.0, 1000.0, True),
        (50.0, 950.0, 1000.0, True),
        (49.9, 950.0, 1000.0, False),
        (0.0, 1000.0, 1000.0, True),
        (0.0, 999.9, 1000.0, False),
        (5.0, None, 1000.0, True),
        (0.0, None, 1000.0, True),
    ],
    ids=[
        "long memory",
        "just enough",
        "too short",
        "same moment",
        "no memory",
        "unsent",
        "unsent, no memory",
    ],
)
def test_unknown_proves_by_how_long_the_server_remembers(
    known_for: float, first_sent: float | None, received: float, proven: bool
) -> None:
    notice = Notice(EndCode.UNKNOWN, known_for, None)
    assert is_proven(notice, stream=0, first_sent=first_sent, received=received) is proven


@pytest.mark.parametrize("code", [code for code in EndCode if code is not EndCode.UNKNOWN])
@pytest.mark.parametrize(
    ("last", "stream", "proven"), [(None, 0, True), (0, 0, False), (0, 1, True), (7, 3, False)]
)
def test_an_end_proves_by_the_last_stream_it_names(
    code: EndCode, last: int | None, stream: int, proven: bool
) -> None:
    # However long the server remembers: it is the stream that counts.
    notice = Notice(code, 120.0, last)
    assert is_proven(notice, stream=stream, first_sent=999.0, received=1000.0) is proven


REFUSES_MORE = {EndCode.OPERATOR, EndCode.REVOKED, EndCode.EXPIRED}


@pytest.mark.parametrize("failure", list(Failure))
def test_every_case(failure: Failure) -> None:
    for code, proven, replay_safe, left in itertools.product(
        [None, *EndCode], (False, True), (False, True), (0, 1)
    ):
        verdict = judge(failure, code, proven=proven, replay_safe=replay_safe, repairs_left=left)
        may = failure is Failure.LOST or (failure is Failure.ENDED and code not in REFUSES_MORE)
        assert verdict.repair is (may and (proven or replay_safe) and left == 1)
        assert verdict.proven is proven


@pytest.mark.parametrize(("first_sent", "proven"), [(99.9, False), (100.0, True), (None, True)])
def test_what_was_sent_before_a_welcome_that_executed_nothing_may_have_reached_an_earlier_process(
    first_sent: float | None, proven: bool
) -> None:
    notice = Notice(EndCode.SHUTDOWN, 0.0, None)
    assert (
        is_proven(notice, stream=0, first_sent=first_sent, received=200.0, executed_from=100.0)
        is proven
    )
