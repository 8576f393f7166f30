from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import pytest

from racer import Dialer
from racer.proxy import Proxy
from racer.testing import (
    ScriptedTransport,
    cancel_everywhere,
    fails,
    stream_pair,
    wins,
)
from tests.racer.proxy.scene import ACCEPTED, SOCKS, echo, read, rest, scene, silent

if TYPE_CHECKING:
    from racer.testing import Script

pytestmark = pytest.mark.virtual_time


async def test_draining_waits_for_tunnels_and_races_and_nobody_else() -> None:
    async with scene(wins(4)) as it:
        idle = it.client()
        racing = it.client()
        await racing.send(SOCKS)
        await anyio.sleep(1)
        async with anyio.create_task_group() as group:

            async def leave() -> None:
                assert await read(racing, len(ACCEPTED)) == ACCEPTED
                await anyio.sleep(6)
                await racing.aclose()

            group.start_soon(leave)
            assert await it.proxy.drain(30) == 0
            assert anyio.current_time() == 10
        with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
            await idle.receive()
        await idle.aclose()
        assert not it.proxy.status().is_accepting
        assert not it.proxy.status().is_ready


async def test_draining_ends_with_its_grace_and_says_how_many_are_left() -> None:
    async with scene() as it:
        clients = [await it.tunnel() for _ in range(3)]
        assert await it.proxy.drain(5) == 3
        assert anyio.current_time() == 5
        await clients[0].send(b"still carried")
        assert await read(clients[0], 13) == b"still carried"
        for client in clients:
            await client.aclose()


async def test_leaving_cuts_everything_at_once() -> None:
    transport = ScriptedTransport("tunnel", wins(), serve=silent)
    async with Dialer([transport]) as dialer:
        async with Proxy(dialer, port=0) as proxy, anyio.create_task_group() as group:
            near, far = stream_pair()
            group.start_soon(proxy.serve_stream, far)
            await near.send(SOCKS)
            assert await read(near, len(ACCEPTED)) == ACCEPTED
            group.cancel_scope.cancel()
        with pytest.raises(anyio.BrokenResourceError):
            await near.receive()
        await near.aclose()
    assert transport.ledger.open_streams == ()


@pytest.mark.parametrize(
    "script", [wins(0.1), pytest.param(fails(0.1), marks=pytest.mark.soak)], ids=["wins", "fails"]
)
async def test_a_cancellation_at_any_point_leaves_nothing_open(script: Script) -> None:
    async def story() -> None:
        transport = ScriptedTransport("tunnel", script, serve=echo)
        near, far = stream_pair(ledger=transport.ledger)
        dialer = Dialer([transport])
        is_served = False

        async def serve(proxy: Proxy) -> None:
            nonlocal is_served
            is_served = True
            await proxy.serve_stream(far)

        try:
            async with Proxy(dialer, port=0) as proxy, anyio.create_task_group() as group:
                group.start_soon(serve, proxy)
                await near.send(SOCKS + b"early")
                await near.send_eof()
                await rest(near)
        finally:
            near.abort()
            if not is_served:
                far.abort()
            await dialer.aclose()
            transport.ledger.assert_all_closed()

    await cancel_everywhere(story)


async def test_what_goes_wrong_in_telling_of_failures_hurts_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def stumbles(failure: object) -> None:
        raise RuntimeError("no log left")

    async with scene(fails(), on_failure=stumbles) as it:
        client = it.client()
        await client.send(SOCKS)
        assert (await rest(client))[2:4] == b"\x05\x05"
        await client.aclose()
    assert "on_failure failed" in caplog.text
