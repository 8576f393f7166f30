"""Resolvers that vouch for each other, with a forger on the way: who is asked, what is dropped, what is said of doubt."""

from __future__ import annotations

import gc
import socket
import weakref
from typing import TYPE_CHECKING

import anyio
import pytest

from racer import lab
from racer.errors import NetworkError, TransportBusy
from racer.testing import cancel_everywhere
from tests.transports.net.dns_world import (
    HOSTS,
    SERVER,
    DNSWorld,
    Said,
    authority,
    dns_world,
    look_up,
    says,
)
from tests.transports.net.world import BOTH, V4, V6, Oracle, answer4, answers
from transports._net.opinions import CONTRADICTION_DELAY
from transports._net.resolve import Answer, Resolver
from transports._net.second_opinion import SecondOpinion, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from transports._net.addresses import Family

pytestmark = pytest.mark.virtual_time

NO_NAME = socket.gaierror(socket.EAI_NONAME, "no such name")
SECOND = "192.0.2.54"
TRUE6, TRUE4 = ("2001:db8::1",), ("192.0.2.1",)
FALSE = ("198.51.100.66", "2001:db8:bad::66")


def opinion(*resolvers: Resolver, encrypted: Sequence[int] = ()) -> SecondOpinion:
    return SecondOpinion(
        [Source(each, f"r{n}", n in encrypted) for n, each in enumerate(resolvers)]
    )


def asked(world: DNSWorld, *urls: str) -> SecondOpinion:
    made = [world.resolver(url, hold_on=CONTRADICTION_DELAY) for url in urls]
    return SecondOpinion([Source(each, str(each), each.is_encrypted) for each in made])


# --- with a forger on the way ---------------------------------------------------------------

UDP, TLS, HTTPS = f"udp://{SERVER}", f"tls://{SECOND}", f"https://{SECOND}/dns-query"


async def second_server(world: DNSWorld, *rules: lab.NameRule) -> lab.Zone:
    return await world.network.add_name_server(
        "second.example", SECOND, zone=lab.Zone(HOSTS, rules), authority=authority()
    )


@pytest.mark.parametrize("other", [TLS, HTTPS])
@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(lab.Forge(addresses=FALSE), id="forged, and the truth held back"),
        pytest.param(lab.Forge(addresses=FALSE, truth_after=0.02), id="forged before the truth"),
        pytest.param(lab.Forge(addresses=("127.0.0.1", "::1")), id="sent home"),
        pytest.param(lab.Forge(addresses=("0.0.0.0",)), id="sent nowhere"),
        pytest.param(lab.Fail(rcode="NXDOMAIN"), id="denied"),
        pytest.param(lab.Fail(rcode="SERVFAIL"), id="failed"),
        pytest.param(lab.Drop(), id="dropped"),
        pytest.param(lab.Garbage(), id="garbled"),
        pytest.param(lab.Delay(seconds=0), id="honest"),
    ],
)
async def test_with_an_encrypted_resolver_the_truth_is_found(
    other: str, rule: lab.NameRule
) -> None:
    async with dns_world(rule) as world:
        await second_server(world)
        said, errors = await look_up(asked(world, UDP, other))
        assert (said, errors) == ([(0.06, V6, TRUE6), (0.06, V4, TRUE4)], [])


async def test_two_in_the_open_find_the_truth_that_comes_behind_the_forgery() -> None:
    """The forger has a pool of addresses, and cannot hold the truth back."""
    async with dns_world(lab.Forge(addresses=FALSE, truth_after=0.02)) as world:
        forged = lab.Forge(addresses=("203.0.113.9", "2001:db8:bad2::9"), truth_after=0.05)
        await second_server(world, forged)
        said, errors = await look_up(asked(world, UDP, f"udp://{SECOND}"))
        at = 0.02 + CONTRADICTION_DELAY
        assert (said, errors) == ([(at, V6, TRUE6), (at, V4, TRUE4)], [])


async def test_two_in_the_open_find_it_also_where_the_forgery_is_always_the_same() -> None:
    forged = lab.Forge(addresses=FALSE, truth_after=0.05)
    async with dns_world(forged) as world:
        await second_server(world, forged)
        said, errors = await look_up(asked(world, UDP, f"udp://{SECOND}"))
        at = 0.02 + CONTRADICTION_DELAY
        assert (said, errors) == ([(at, V6, TRUE6), (at, V4, TRUE4)], [])


async def test_one_in_the_open_is_never_believed_alone() -> None:
    async with dns_world(lab.Forge(addresses=FALSE)) as world:
        world.network.rules.append(lab.Refuse(address=SECOND, over="tcp"))
        said, errors = await look_up(asked(world, UDP, TLS))
        assert said == []
        assert says(errors)[0] == f"no two resolvers agree about IPv6: {UDP} says 2001:db8:bad::66"
        assert says(errors)[2] == f"no two resolvers agree about IPv4: {UDP} says 198.51.100.66"
        assert says(errors)[1].startswith(f"{TLS}: Connection refused")
        assert anyio.current_time() < 1


# --- on tables ------------------------------------------------------------------------------


async def test_all_are_asked_at_once_and_each_family_is_reported_by_itself() -> None:
    first = Oracle([(0.1, answer4("1.1.1.1")), (3, answers("::1"))])
    second = Oracle([(0.2, answers("1.1.1.1", "2::2")), (5, answers("::1"))])
    said, errors = await look_up(opinion(first, second, encrypted=[0, 1]))
    assert (said, errors) == ([(0.2, V4, ("1.1.1.1",)), (0.45, V6, ("2::2",))], [])
    assert first.asked == second.asked == [("both.example", BOTH)]


@pytest.mark.parametrize(
    ("name", "given", "believed"),
    [
        ("both.example", ["10.0.0.1", "fd00::1"], None),
        (
            "both.example",
            ["10.0.0.1", "9.9.9.9", "fd00::1", "2620:fe::9"],
            ["2620:fe::9", "9.9.9.9"],
        ),
        ("both.example", ["0.0.0.0", "::", "224.0.0.1"], None),
        ("printer", ["10.0.0.1", "fd00::1"], ["fd00::1", "10.0.0.1"]),
        ("printer.local", ["10.0.0.1", "fd00::1"], ["fd00::1", "10.0.0.1"]),
        ("printer", ["0.0.0.0", "::"], None),
    ],
)
async def test_addresses_that_cannot_be_right_are_dropped(
    name: str, given: list[str], believed: list[str] | None
) -> None:
    oracles = [Oracle([(0, answers(*given))]) for _ in range(2)]
    said, errors = await look_up(opinion(*oracles, encrypted=[0, 1]), name)
    if believed is None:
        assert said == []
        assert says(errors)[0].startswith("no two resolvers agree about IPv6: r0 says ")
    else:
        assert [address for _, _, found in said for address in found] == believed


async def test_localhost_is_this_machine_and_asked_of_nobody() -> None:
    oracle = Oracle([])
    said, errors = await look_up(opinion(oracle, oracle), "localhost")
    assert (said, errors) == ([(0, V6, ("::1",)), (0, V4, ("127.0.0.1",))], [])
    assert oracle.asked == []


async def test_what_is_said_after_the_verdict_is_not_news() -> None:
    first = Oracle([(0, answer4("1.1.1.1")), (0.1, answers("2.2.2.2", "2620:fe::1"))])
    said, errors = await look_up(opinion(first, Oracle([(9, answers())]), encrypted=[0]))
    assert (said, errors) == ([(0, V4, ("1.1.1.1",)), (0.1, V6, ("2620:fe::1",))], [])


@pytest.mark.parametrize("encrypted", [[], [0], [0, 1]])
async def test_that_there_is_no_such_name_is_believed_like_anything_else(
    encrypted: list[int],
) -> None:
    oracles = [Oracle([(0, Answer(families=BOTH, error=NO_NAME))]) for _ in range(2)]
    said, errors = await look_up(opinion(*oracles, encrypted=encrypted))
    assert said == []
    assert errors == [NO_NAME, NO_NAME]


async def test_that_there_is_no_address_is_no_error() -> None:
    oracles = [Oracle([(0, answers("1.1.1.1"))]) for _ in range(2)]
    said, errors = await look_up(opinion(*oracles, encrypted=[0]))
    expected: list[Said] = [(0, V6, ()), (0, V4, ("1.1.1.1",))]
    assert (said, errors) == (expected, [])


async def test_doubt_says_who_said_what_and_who_failed() -> None:
    many = tuple(f"1.1.{n}.1" for n in range(5))
    shown = "1.1.0.1, 1.1.1.1, 1.1.2.1, ..."
    resolver = opinion(
        Oracle([(0, answer4(*many))]),
        Oracle([(0, answer4("2.2.2.2"))]),
        Oracle([(0, answer4())]),
        Oracle([(0, answer4("::1"))]),
        Oracle([], error=TransportBusy("8 are stuck")),
        Oracle([(0, answer4("10.0.0.1"))]),
        Oracle([(0, answer4(error=OSError(5, "broken")))]),
    )
    said, errors = await look_up(resolver, families=(V4,))
    assert said == []
    assert says(errors) == [
        f"no two resolvers agree about IPv4: r0 says {shown}; r1 says 2.2.2.2; r2 says there is none; r5 says 10.0.0.1",
        "the answer for both.example has '::1' in it, which is no IPv4 address",
        "8 are stuck",
        "broken",
    ]
    assert isinstance(errors[0], NetworkError)


async def test_when_nobody_says_anything_only_failures_are_told() -> None:
    resolver = opinion(Oracle([], error=OSError(5, "one")), Oracle([], error=OSError(5, "two")))
    said, errors = await look_up(resolver)
    assert (said, says(errors)) == ([], ["one", "two"])


async def test_a_resolver_that_had_spoken_before_it_failed_is_believed() -> None:
    first = Oracle([(0, answer4("1.1.1.1"))], error=OSError(5, "broken"))
    said, errors = await look_up(opinion(first, first, encrypted=[0]))
    assert said == [(0, V4, ("1.1.1.1",))]
    assert says(errors) == ["broken"]


async def test_a_bug_in_a_resolver_is_raised_bare() -> None:
    bug = RuntimeError("bug")
    with pytest.raises(RuntimeError) as caught:
        await opinion(Oracle([(9, answers())]), Oracle([], error=bug)).resolve(
            "a.example", BOTH, lambda answer: None
        )
    assert caught.value is bug
    assert anyio.current_time() == 0


async def test_cancelled_anywhere_nothing_is_left_open() -> None:
    async with dns_world(lab.Forge(addresses=FALSE, truth_after=0.02)) as world:
        await second_server(world)

        async def story() -> None:
            resolver = asked(world, UDP, f"udp://{SECOND}", TLS)
            assert (await look_up(resolver, families=(V4,)))[1] == []

        async def verify() -> None:
            world.assert_all_closed()
            world.ends.clear()

        assert (await cancel_everywhere(story, verify=verify, passes=2)).cancelled > 10


class Failure(OSError):
    """One that can be referred to weakly."""


async def test_nothing_of_a_failed_hearing_waits_for_the_garbage_collector() -> None:
    found: list[weakref.ref[Failure]] = []

    class Failing(Oracle):
        async def resolve(
            self, name: str, families: Sequence[Family], report: Callable[[Answer], None]
        ) -> None:
            failure = Failure("no")
            found.append(weakref.ref(failure))
            try:
                raise failure
            finally:
                del failure

    gc.collect()
    gc.disable()
    try:
        await opinion(Failing([]), Failing([])).resolve("a.example", BOTH, lambda answer: None)
        await anyio.sleep(0.1)
        assert [each() for each in found] == [None, None]
    finally:
        gc.enable()


def test_it_shows_whom_it_asks() -> None:
    assert repr(opinion(Oracle([]))).startswith("SecondOpinion([Oracle(")
