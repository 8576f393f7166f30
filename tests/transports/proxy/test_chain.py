"""Chains of three: each proxy is asked for the next, and what goes wrong says where."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

from racer.abc import Progress, Target, Transport
from racer.errors import (
    AttemptTimeout,
    ErrorType,
    NetworkError,
    ProxyRefused,
    TransportError,
    error_type_of,
)
from racer.testing import Script, cancel_everywhere, fails, wins
from tests.transports.proxy.servers import ConnectProxy, Socks5Server
from tests.transports.proxy.servers import hangs as mute
from tests.transports.proxy.worlds import TARGET, Diary, World, settled, talk, verdict, world
from transports.proxy import HttpConnect, Socks5

if TYPE_CHECKING:
    from racer import Attempt

pytestmark = pytest.mark.virtual_time


AT_ONCE = wins()
NO = {"a": {"reply": 2}, "b": {"refusal": b"HTTP/1.1 403 Forbidden\r\n\r\n"}, "c": {"reply": 4}}


class Chain:
    """Socks5 "c" through HttpConnect "b" through Socks5 "a" through a scripted base."""

    def __init__(
        self,
        at: World,
        script: Script = AT_ONCE,
        *,
        refuses: str | None = None,
    ) -> None:
        options: dict[str, Any] = {refuses: NO[refuses]} if refuses else {}
        self.servers = (
            Socks5Server(at.dial, **options.get("a", {})),
            ConnectProxy(at.dial, **options.get("b", {})),
            Socks5Server(at.dial, **options.get("c", {})),
        )
        first, second, third = self.servers
        at.servers.update({"a.example": first, "b.example": second, "c.example": third})
        self.base = at.base(self.servers[0], script)
        self.a = Socks5("a.example:1080", base=self.base, name="a")
        self.b = HttpConnect("b.example:8080", base=self.a, name="b")
        self.c = Socks5("c.example:1081", base=self.b, name="c")


async def test_a_chain_of_three_asks_each_for_the_next() -> None:
    async with world() as at:
        chain = Chain(at)
        await chain.c.start(at.host)
        diary = Diary()
        await talk(await chain.c.connect(TARGET, diary))
        await settled()
        at.ledger.assert_all_closed()
        assert chain.base.attempts[0].target == Target("a.example", 1080, tls=False)
        assert chain.servers[0].requests == [("name", "b.example", 8080)]
        assert [authority for authority, _ in chain.servers[1].requests] == ["c.example:1081"]
        assert chain.servers[2].requests == [("name", "target.example", 7)]
        addresses = [attributes["racer.proxy.address"] for _, attributes in diary.events]
        assert addresses == ["a.example", "b.example", "c.example"]


WORDS = {
    "a": "SOCKS5 proxy a.example:1080 did not connect to b.example:8080: not allowed by its rules (reply 0x02)",
    "b": "HTTP proxy b.example:8080 did not connect to c.example:1081: HTTP 403 Forbidden",
    "c": "SOCKS5 proxy c.example:1081 did not connect to target.example:7: host unreachable (reply 0x04)",
}


@pytest.mark.parametrize("hop", NO)
async def test_a_chain_says_which_hop_refused(hop: str) -> None:
    async with world() as at:
        chain = Chain(at, refuses=hop)
        await chain.c.start(at.host)
        with pytest.raises(ProxyRefused) as caught:
            await chain.c.connect(TARGET, Progress())
        assert str(caught.value) == WORDS[hop]
        await settled()
        at.ledger.assert_all_closed()


@pytest.mark.parametrize("hop", ["a", "b", "c"])
async def test_a_chain_says_which_hop_is_silent(hop: str) -> None:
    async with world() as at:
        chain = Chain(at)
        at.servers[f"{hop}.example"] = mute
        if hop == "a":
            chain.a._base = await at.started(at.base(mute))
        else:
            await chain.c.start(at.host)
        with pytest.raises(AttemptTimeout, match=rf"proxy {hop}\.example:\d+ was silent"):
            await chain.c.connect(TARGET, Progress())
        assert anyio.current_time() == 20.0


async def test_a_chain_says_that_its_first_hop_cannot_be_reached() -> None:
    async with world() as at:
        chain = Chain(at, fails(0.0, OSError(113, "No route to host")))
        await chain.c.start(at.host)
        with pytest.raises(NetworkError) as caught:
            await chain.c.connect(TARGET, Progress())
        assert str(caught.value) == (
            "SOCKS5 proxy a.example:1080 could not be reached: No route to host"
        )
        assert error_type_of(caught.value) is ErrorType.HOST_UNREACHABLE


async def test_a_cancelled_chain_leaves_nothing_open() -> None:
    async with world() as at:
        chain = Chain(at)
        await chain.c.start(at.host)

        async def story() -> None:
            stream = await chain.c.connect(TARGET, Progress())
            await stream.aclose()

        async def verify() -> None:
            await settled()
            at.ledger.assert_all_closed()

        assert (await cancel_everywhere(story, verify=verify, passes=6)).cancelled > 50


def overheard(transport: Transport) -> list[Attempt]:
    """Return a list of whatever the transport will be told."""
    heard: list[Attempt] = []
    observe = transport.observe

    def overhear(attempt: Attempt) -> None:
        heard.append(attempt)
        observe(attempt)

    transport.observe = overhear  # type: ignore[method-assign]
    return heard


@pytest.mark.parametrize("hop", [None, "a", "b", "c"])
async def test_each_base_learns_whether_it_reached_the_next(hop: str | None) -> None:
    async with world() as at:
        chain = Chain(at, refuses=hop)
        await chain.c.start(at.host)
        told: dict[str, list[Attempt]] = {}
        for hop_name, hop_transport in (("a", chain.a), ("b", chain.b), ("c", chain.c)):
            told[hop_name] = overheard(hop_transport)
        error: BaseException | None = None
        try:
            await (await chain.c.connect(TARGET, Progress())).aclose()
        except TransportError as exc:
            error = exc
        chain.c.observe(verdict(error))
        heard = {**told, "base": chain.base.observed}
        outcomes = {name: attempt.outcome.value for name, (attempt,) in heard.items()}
        # From the hop that refused inwards everything worked; outwards it is a failure.
        order = ["c", "b", "a", "base"]
        first_that_worked = order.index(hop) + 1 if hop else 0
        assert outcomes == {
            name: "connected" if index >= first_that_worked else "connect_failed"
            for index, name in enumerate(order)
        }
        assert [heard[name][0].transport for name in order] == ["entrant", "b", "a", "base"]
        for name in order[first_that_worked:]:
            assert heard[name][0].error is None
            assert heard[name][0].error_type is None
