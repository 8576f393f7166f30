"""Answers have to be sane whoever gives them, and one family that is swallowed costs little."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import anyio
import pytest

from racer.errors import NetworkError
from transports._net.addresses import Family
from transports._net.resolve import Answer
from transports.proxyless._hearsay import LATE_ANSWER, Known, SaneResolver, look_up

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

pytestmark = pytest.mark.virtual_time

BOTH = (Family.IPV6, Family.IPV4)


class Says:
    """A resolver that gives answers at times."""

    def __init__(self, *answers: tuple[float, Answer], error: Exception | None = None) -> None:
        self._answers = answers
        self._error = error

    async def resolve(
        self, name: str, families: Sequence[Family], report: Callable[[Answer], None]
    ) -> None:
        began = anyio.current_time()
        for at, answer in self._answers:
            await anyio.sleep_until(began + at)
            report(answer)
        if self._error is not None:
            raise self._error


def both(*addresses: str) -> Answer:
    return Answer(families=BOTH, addresses=addresses)


def one(family: Family, *addresses: str) -> Answer:
    return Answer(families=(family,), addresses=addresses)


async def ask(resolver: Says, name: str = "news.example") -> tuple[str, ...]:
    return await look_up(SaneResolver(resolver), name, BOTH, timeout=5.0)


@pytest.mark.parametrize(
    ("given", "left"),
    [
        (("192.0.2.7", "2001:db8::7"), ("192.0.2.7", "2001:db8::7")),
        (("10.10.34.36", "192.0.2.7"), ("192.0.2.7",)),
        (("0.0.0.0", "127.0.0.1", "::1", "192.0.2.7"), ("192.0.2.7",)),
        (("192.0.2.7", "192.0.2.7"), ("192.0.2.7",)),
    ],
)
async def test_addresses_that_cannot_be_right_are_dropped(
    given: tuple[str, ...], left: tuple[str, ...]
) -> None:
    assert await ask(Says((0.0, both(*given)))) == left


@pytest.mark.parametrize("address", ["127.0.0.1", "10.1.2.3", "0.0.0.0", "100.64.0.1", "fe80::1"])
async def test_an_answer_of_these_alone_is_an_error(address: str) -> None:
    with pytest.raises(NetworkError, match=f"cannot be right: {address}"):
        await ask(Says((0.0, both(address))))


async def test_a_name_of_this_network_may_have_any_address() -> None:
    assert await ask(Says((0.0, both("10.1.2.3"))), "printer.local") == ("10.1.2.3",)
    with pytest.raises(NetworkError, match="cannot be right"):
        await ask(Says((0.0, both("0.0.0.0"))), "printer.local")


async def test_what_is_no_address_is_an_error() -> None:
    with pytest.raises(NetworkError, match="no IPv6 or IPv4 address"):
        await ask(Says((0.0, both("nonsense"))))


async def test_without_addresses_there_is_an_error() -> None:
    with pytest.raises(NetworkError, match="has no IP address"):
        await ask(Says((0.0, both())))
    with pytest.raises(NetworkError, match="has no IP address"):
        await ask(Says())


async def test_the_resolvers_own_error_is_told() -> None:
    gone = socket.gaierror(socket.EAI_NONAME, "no such name")
    with pytest.raises(socket.gaierror):
        await ask(Says(error=gone))
    with pytest.raises(socket.gaierror):
        await ask(Says((0.0, Answer(families=BOTH, error=gone))))


async def test_a_bug_is_told_bare() -> None:
    with pytest.raises(ZeroDivisionError):
        await ask(Says(error=ZeroDivisionError()))


async def test_the_other_family_is_waited_for_but_not_for_long() -> None:
    answers = ((1.0, one(Family.IPV4, "192.0.2.7")), (1.2, one(Family.IPV6, "2001:db8::7")))
    assert await ask(Says(*answers)) == ("192.0.2.7", "2001:db8::7")
    assert anyio.current_time() == 1.2
    late = ((1.0, one(Family.IPV4, "192.0.2.7")), (4.0, one(Family.IPV6, "2001:db8::7")))
    assert await ask(Says(*late)) == ("192.0.2.7",)
    assert anyio.current_time() == 1.2 + 1.0 + LATE_ANSWER


async def test_one_that_is_silent_is_given_up() -> None:
    with pytest.raises(NetworkError, match="no answer within 5 s"):
        await ask(Says((100.0, both("192.0.2.7"))))
    assert anyio.current_time() == 5.0


async def test_what_is_known_is_said_at_once() -> None:
    found: list[Answer] = []
    await Known(("192.0.2.7", "2001:db8::7")).resolve("a.example", (Family.IPV4,), found.append)
    assert found == [one(Family.IPV4, "192.0.2.7")]
