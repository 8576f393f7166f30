"""The course of a request over its routes, as a table (H2, H3, H4). The stories are in `test_exchange.py`."""

from __future__ import annotations

from typing import Any

import pytest

from racer.http._messages import Response
from racer.http._policy import PATIENCE, Fallback, Held, Step
from racer.http2 import Fault


def response(status: int) -> Response:
    body: Any = None
    return Response(status=status, headers=[], body=body)


def fault(
    route: str = "a", kind: str = "ReadError", *, reused: bool = False, **facts: Any
) -> Fault:
    return Fault(kind, "told", **facts).of(route, reused=reused)


@pytest.mark.parametrize(
    ("idempotent", "repeatable", "is_last", "status", "step"),
    [
        (True, True, False, 200, Step.GIVE),
        (True, True, False, 499, Step.GIVE),
        (True, True, False, 500, Step.HOLD),
        (True, True, False, 599, Step.HOLD),
        (True, True, False, 600, Step.GIVE),
        (True, True, True, 500, Step.GIVE),
        (True, False, False, 500, Step.GIVE),
        (False, True, False, 500, Step.GIVE),
    ],
)
def test_what_becomes_of_a_response(
    idempotent: bool, repeatable: bool, is_last: bool, status: int, step: Step
) -> None:
    policy = Fallback(idempotent=idempotent)
    assert (
        policy.after_response("a", response(status), repeatable=repeatable, is_last=is_last) is step
    )


@pytest.mark.parametrize(
    ("idempotent", "repeatable", "error", "step"),
    [
        (True, True, fault(), Step.NEXT),
        (True, True, fault(kind="ReadTimeout"), Step.NEXT),
        (True, False, fault(), Step.RAISE),
        (False, True, fault(), Step.RAISE),
        (False, True, fault(kind="ReadTimeout"), Step.RAISE),
        (False, True, fault(sent=False), Step.NEXT),
        (False, False, fault(sent=False), Step.RAISE),
        (False, True, fault(unprocessed=True), Step.AGAIN),
        (True, True, fault(reused=True, silent=True), Step.AGAIN),
        (True, True, fault(reused=True), Step.NEXT),
        (True, True, fault(silent=True), Step.NEXT),
        (False, True, fault(reused=True, silent=True), Step.RAISE),
        (True, True, fault(kind="ReadTimeout", reused=True, silent=True), Step.NEXT),
        (True, True, fault(kind="LocalProtocolError", sent=False), Step.RAISE),
    ],
)
def test_what_becomes_of_a_fault(
    idempotent: bool, repeatable: bool, error: Fault, step: Step
) -> None:
    policy = Fallback(idempotent=idempotent)
    assert policy.after_fault(error, repeatable=repeatable) is step
    assert ("a" in policy.tried) == (step in {Step.NEXT, Step.RAISE} and "Local" not in error.kind)


def test_a_stale_connection_is_forgiven_once() -> None:
    policy = Fallback(idempotent=True)
    stale = fault(reused=True, silent=True)
    assert policy.after_fault(stale, repeatable=True) is Step.AGAIN
    assert policy.is_fresh_only("a")
    assert policy.after_fault(stale, repeatable=True) is Step.NEXT


def test_two_alike_are_the_servers_word_and_others_are_not() -> None:
    policy = Fallback(idempotent=True)
    steps = [
        policy.after_response(route, response(status), repeatable=True, is_last=False)
        for route, status in [("a", 502), ("b", 503), ("c", 504), ("d", 503)]
    ]
    assert steps == [Step.HOLD, Step.HOLD, Step.HOLD, Step.GIVE]


@pytest.mark.parametrize(
    ("last_good", "kind", "step"),
    [
        ("slow", "ReadTimeout", Step.RAISE),
        ("slow", "ReadError", Step.GIVE_HELD),
        ("other", "ReadTimeout", Step.GIVE_HELD),
        (None, "ReadTimeout", Step.GIVE_HELD),
    ],
)
def test_only_a_timeout_of_the_route_that_last_worked_outranks_a_held_5xx(
    last_good: str | None, kind: str, step: Step
) -> None:
    policy = Fallback(idempotent=True, last_good=last_good)
    policy.after_fault(fault("slow", kind), repeatable=True)
    policy.held = Held(response(502), via=None)  # type: ignore[arg-type] # not looked at
    assert policy.after_last() is step
    policy.held = None
    assert policy.after_last() is Step.RAISE


@pytest.mark.parametrize(
    ("idempotent", "read", "is_last", "seconds"),
    [
        (True, None, False, PATIENCE),
        (True, 5.0, False, 5.0),
        (True, 60.0, False, PATIENCE),
        (True, 5.0, True, None),
        (False, 5.0, False, None),
    ],
)
def test_patience(
    idempotent: bool, read: float | None, is_last: bool, seconds: float | None
) -> None:
    assert Fallback(idempotent=idempotent).patience(read, is_last=is_last) == seconds
