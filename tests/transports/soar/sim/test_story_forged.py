"""Somebody on the way answers every question first, with whatever there is (scenario 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.transports.soar.sim import quirks as kinds
from tests.transports.soar.sim.invariants import check_pace
from tests.transports.soar.sim.link import Weather
from tests.transports.soar.sim.simulation import ZONES, Simulation
from tests.transports.soar.sim.story import FAR, Story, Way
from transports.soar.core.client.reasons import Failure
from transports.soar.core.crypto.headers import Kind, read_header
from transports.soar.core.crypto.retries import Retry, RetryCode, build_retry
from transports.soar.core.dns.answers import Form, build_answer
from transports.soar.core.dns.questions import read_copy
from transports.soar.core.dns.zone import Whole

if TYPE_CHECKING:
    from collections.abc import Hashable

KINDS = (
    "nxdomain",
    "notice",
    "servfail",
    "refused",
    "nodata",
    "data",
    "noise",
    "truncated",
    "formerr",
)
OCTETS = 60_000


def download(ways: tuple[Way, ...], *, seed: int = 1) -> tuple[float, float, Simulation]:
    """Return seconds until a first stream was open, and a download's octets a second."""
    simulation = Simulation(Story(seed=seed, ways=ways))
    client = simulation.client
    first = simulation.finish(client.dial("echo-1.test", 5))
    assert first.opened is not None
    flow = simulation.finish(client.dial(f"get-{OCTETS}-2.test", OCTETS), 60.0)
    assert flow.succeeded
    assert flow.ended is not None
    assert len(client.handshakes) == 1
    check_pace(client)
    simulation.check(may=frozenset())
    simulation.check_quiet()
    return first.opened, OCTETS / (flow.ended - flow.began), simulation


@pytest.mark.parametrize("kind", KINDS)
def test_forged_answers_end_nothing_and_leave_a_quarter_of_the_speed(kind: str) -> None:
    """No session changes by one of them (`ClientHost.inject` looks), and none starts a flood."""
    _, clean, undisturbed = download((Way(resolver=kinds.PLAIN),), seed=2)
    opened, rate, simulation = download((Way(resolver=kinds.PLAIN, forged=(kind,)),))
    assert opened < 3.0
    assert rate >= clean / 4
    assert simulation.client.asked <= 3 * undisturbed.client.asked
    forger = simulation.routes[0].forger
    assert forger is not None
    assert forger.forged == simulation.client.asked


@pytest.mark.parametrize("quirks", kinds.ALL, ids=str)
def test_all_kinds_at_once_through_every_resolver(quirks: kinds.Quirks) -> None:
    opened, _, _ = download((Way(resolver=quirks, forged=KINDS),))
    assert opened < 3.0


def test_a_resolver_that_only_lies_beside_an_honest_one_costs_little() -> None:
    liar = Way(resolver=kinds.PLAIN, forged=KINDS)
    opened, _, simulation = download((liar, Way(resolver=kinds.UNBOUND)))
    assert opened < 1.0
    assert simulation.server.starts == 1


class Retrier:
    """Somebody who knows the public key, and answers every piece of a first message with a RETRY of his own."""

    def __init__(self, simulation: Simulation, *, hides: bool) -> None:
        self.told = 0
        self._hides = hides
        self._simulation = simulation
        self._route = simulation.routes[0]

    def see(self, client: Hashable, message: bytes) -> None:
        simulation = self._simulation
        copy = read_copy(message)
        assert copy is not None
        found = ZONES[0].read(copy.name)
        assert isinstance(found, Whole)
        header_key = simulation.key.public.header_key
        header = read_header(header_key, found.packet)
        assert header is not None
        if header.kind != Kind.FRAGMENT:
            return
        self.told += 1
        if self._hides:  # what the server says of the first message is lost
            self._route.far_down.weather = Weather(down=True)
            simulation.world.after(0.075, lambda: setattr(self._route.far_down, "weather", FAR))
            self._hides = False
        retry = build_retry(header_key, header.sid, Retry(RetryCode.BUSY, b"a cookie", 0))
        forged = build_answer(copy, Form(header.form), retry, ZONES[0])
        simulation.world.after(0.001, lambda: simulation._inject(client, forged))


@pytest.mark.parametrize("safe", [True, False])
def test_a_forged_retry_costs_nothing_where_the_server_is_heard(safe: bool) -> None:
    simulation = Simulation(Story(ways=(Way(resolver=kinds.PLAIN),)))
    retrier = simulation.routes[0].forger = Retrier(simulation, hides=False)  # type: ignore[assignment]
    flow = simulation.finish(
        simulation.client.dial("echo-1.test", 50, replay_safe=safe, eager=True)
    )
    assert retrier.told > 3
    assert flow.succeeded
    assert not flow.repairs
    assert flow.opened == pytest.approx(flow.began + 0.072)
    simulation.check(may=frozenset())
    simulation.check_quiet()


@pytest.mark.parametrize("safe", [True, False])
def test_a_forged_retry_has_no_target_met_twice_but_in_a_repair(safe: bool) -> None:
    """The first message was executed, and nobody heard of it; the cookie of the second proves nothing."""
    simulation = Simulation(Story(ways=(Way(resolver=kinds.PLAIN),)))
    simulation.routes[0].forger = Retrier(simulation, hides=True)  # type: ignore[assignment]
    flow = simulation.finish(
        simulation.client.dial("echo-1.test", 50, replay_safe=safe, eager=True)
    )
    assert flow.succeeded is safe
    assert [repair.proven for repair in flow.repairs] == [False] * safe
    assert safe or flow.error.may_have_reached
    assert len(simulation.server.origin.visits) == 1 + safe
    simulation.check(may=frozenset({Failure.LOST}))
