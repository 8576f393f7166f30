"""Winners that outlast a restart, over real sockets: found once, used at once by the next process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

from racer import lab
from racer.abc import Target
from racer.testing import LocalHost
from tests.transports.proxyless.worlds import Told
from transports._net.tls import wrap_tls
from transports.proxyless import Proxyless

if TYPE_CHECKING:
    from pathlib import Path

AUTHORITY = lab.Authority()
CONTEXT = AUTHORITY.client_context()


async def dial(memory: Path, target: Target, **options: Any) -> tuple[str, str, bool]:
    """Make a new transport, connect, and end it."""
    transport = Proxyless(
        memory=memory,
        hosts={"news.example": ["127.0.0.1"]},
        **({"resolvers": ["system"], "strategies": ["split:1", "tlsfrag:1"]} | options),
    )
    told = Told()
    async with LocalHost() as host:
        await transport.start(host)
        async with await transport.connect(target, told) as stream:
            await wrap_tls(stream, CONTEXT, server_hostname="news.example")
        while not await anyio.Path(memory).exists():
            await anyio.lowlevel.checkpoint()
        await transport.aclose()
    return told.chosen


@pytest.mark.every_loop
async def test_the_next_process_begins_with_what_worked(tmp_path: Path) -> None:
    file = tmp_path / "winners.json"
    context = await AUTHORITY.make_server_context("news.example")
    async with lab.Server(lab.hello, context=context) as server:
        target = Target("news.example", server.address[1], tls=CONTEXT)
        assert await dial(file, target) == ("system", "split:1", False)
        assert await dial(file, target) == ("system", "split:1", True)
        # Another configuration knows nothing of that strategy, and searches.
        found = await dial(file, target, strategies=["tlsfrag:1"])
        assert found == ("system", "tlsfrag:1", False)
