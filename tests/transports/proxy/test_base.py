"""What belongs to the base of a proxy: its life, its place in the race, its status, and what it learns."""

from __future__ import annotations

from dataclasses import replace

import pytest

from racer.abc import TLS, Progress, SessionStatus, Stage, Target, Traits, TransportStatus
from racer.errors import ProxyRefused, TransportError
from racer.testing import LocalHost, ScriptedTransport
from tests.transports.proxy.worlds import PROTOCOLS, TARGET, Make, both, verdict

pytestmark = pytest.mark.virtual_time


class Base(ScriptedTransport):
    """A base with something to say about itself."""

    def status(self) -> TransportStatus:
        return TransportStatus(
            health="searching", sessions=(SessionStatus(id="s1", state="open"),), details={"x": 1}
        )


@both
async def test_start_and_end_are_the_bases_too(make: Make) -> None:
    base = Base("base")
    transport = make("p.example:1080", base=base)
    async with LocalHost() as host:
        await transport.start(host)
        assert base.started_at == [0.0]
        await transport.aclose()
        assert base.closed_at == [0.0]
        with pytest.raises(TransportError, match="was closed"):
            await transport.connect(TARGET, Progress())
        assert base.attempts == []
        assert base.misuses == []


@both
async def test_the_status_is_the_bases_with_the_proxy_in_it(make: Make) -> None:
    near = make("p.example:1080", base=Base("base"), username="u", password="s3cret")
    far = make("q.example:1080", base=near, name="far")
    status = far.status()
    assert status.health == "searching"
    assert [session.id for session in status.sessions] == ["s1"]
    assert status.details == {
        "protocol": PROTOCOLS[make],
        "proxy": "q.example:1080",
        "base": near.name,
        "base.protocol": PROTOCOLS[make],
        "base.proxy": "p.example:1080",
        "base.base": "base",
        "base.base.x": 1,
    }


@both
async def test_the_place_in_the_race_is_the_bases(make: Make) -> None:
    traits = Traits(
        start_delay=8.0,
        tier=1,
        attempt_timeout=60.0,
        tls=TLS.OWN,
        max_concurrent=3,
        streaming=False,
    )
    transport = make("p.example:1080", base=Base("base", traits=traits))
    assert transport.traits == replace(traits, tls=TLS.DRIVER, streaming=True)


@both
async def test_what_the_base_does_not_serve_is_not_served(make: Make) -> None:
    def serves(target: Target) -> str | None:
        return "no port below 1000" if target.port < 1000 else None

    transport = make("p.example:999", base=Base("base", serves=serves))
    reason = transport.serves(TARGET)
    assert reason is not None
    assert "'base' cannot reach the" in reason
    assert "p.example:999: no port below 1000" in reason
    assert make("p.example:1000", base=Base("base", serves=serves)).serves(TARGET) is None


@both
async def test_an_interface_of_this_machine_is_not_served(make: Make) -> None:
    transport = make("[fe80::1%eth0]:1080", base=Base("base"))  # the proxy itself may be there
    assert "interface" in (transport.serves(Target("fe80::2%eth0", 80)) or "")
    assert transport.serves(Target("fe80::2", 80)) is None


@both
async def test_a_failure_that_is_not_the_proxys_is_told_as_it_is(make: Make) -> None:
    base = Base("base")
    transport = make("p.example:1080", base=base)
    failed = verdict(ConnectionResetError(), Stage.TLS)
    transport.observe(failed)
    assert base.observed == [replace(failed, transport="base")]
    alien = verdict(ProxyRefused("some other proxy's"))
    transport.observe(alien)
    assert base.observed[1:] == [replace(alien, transport="base")]
