"""Thousands of requests over a small pool, cancelled at random: nobody loses an answer, nothing is left behind."""

from __future__ import annotations

import gc
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import httpx
import pytest

from racer import Dialer
from racer.http import Limits, RacerTransport
from tests.racer.http.origin import HOST, Origin, Way, client_tls
from tests.racer.http.web import Web

if TYPE_CHECKING:
    from tests.racer.http.origin import Talk

PROTOCOLS = pytest.mark.parametrize("protocol", ["HTTP/1.1", "HTTP/2"])
AT_ONCE = 20


async def answer(talk: Talk) -> None:
    """Take as long, and answer with as much, as the path says."""
    body = await talk.body()
    _, delay, size = talk.target.split("/")
    await anyio.sleep(int(delay) / 1000)
    await talk.begin(200, {"x-sent": str(len(body))}, False)
    for _ in range(int(size)):
        await talk.send(b"x" * 5000)
    await talk.end()


class Storm:
    """Requests whose patience is drawn; every one that was not cancelled has to be answered."""

    def __init__(self, client: Any, url: str, *, requests: int, seed: int, slow: int) -> None:
        self.client = client
        self.url = url
        self.dice = random.Random(seed)
        self.left = requests
        self.slow = slow
        self.answered = 0
        self.cancelled = 0
        self.lost: list[Exception] = []

    async def run(self) -> None:
        async with anyio.create_task_group() as group:
            for _ in range(AT_ONCE):
                group.start_soon(self._work)

    async def _work(self) -> None:
        while self.left > 0:
            self.left -= 1
            patience = self.dice.choice(
                [self.dice.uniform(0, 0.003), self.dice.uniform(0, 0.2), 60]
            )
            path = f"{self.url}{self.dice.randint(0, self.slow)}/{self.dice.choice([0, 1, 1, 30])}"
            body = bytes(self.dice.choice([0, 0, 100, 200_000]))
            with anyio.move_on_after(patience) as scope:
                try:
                    response = await self.client.request(
                        "POST" if body else "GET", path, content=body
                    )
                    assert response.headers["x-sent"] == str(len(body))
                    assert not response.content.strip(b"x")
                except httpx.HTTPError as exc:
                    self.lost.append(exc)
                    continue
            if scope.cancelled_caught:
                self.cancelled += 1
            else:
                self.answered += 1


@pytest.mark.virtual_time
@PROTOCOLS
async def test_on_a_virtual_clock(protocol: str) -> None:
    limits = Limits(max_connections=4)
    async with Web({"direct": answer}, protocol=protocol, limits=limits) as web:
        storm = Storm(web.client, "http://origin.example/", requests=120, seed=1, slow=100)
        await storm.run()
        assert storm.lost == []
        assert storm.answered + storm.cancelled == 120
        assert min(storm.answered, storm.cancelled) > 20
        assert web.engine.pool.connections <= 4
        if protocol == "HTTP/2":
            assert web.connects() == {"direct": 1}


async def rage(protocol: str, requests: int) -> None:
    """Run a storm over TLS on loopback, and look for what is left of it."""
    alpn = ("h2", "http/1.1") if protocol == "HTTP/2" else ("http/1.1",)
    async with Origin(answer, tls=True, alpn=alpn) as origin:
        await origin.listen()
        before = None
        for part in range(2):
            async with Dialer([Way("direct", origin)]) as dialer:
                transport = RacerTransport(
                    dialer, ssl_context=client_tls(), limits=Limits(max_connections=4)
                )
                async with httpx.AsyncClient(transport=transport, timeout=None) as client:
                    url = f"https://{HOST}/"
                    storm = Storm(client, url, requests=requests // 2, seed=part, slow=5)
                    await storm.run()
                    assert storm.lost == []
                    assert min(storm.answered, storm.cancelled) > requests // 20
                    pool = transport._engine.pool
                    assert (pool.in_use, pool.waiting) == (0, 0)
                    assert pool.connections <= 4
                    assert (await client.get(url + "0/1")).status_code == 200
            with anyio.fail_after(5):
                while origin.open:
                    await anyio.lowlevel.checkpoint()
            gc.collect()
            left = open_descriptors()
            assert before is None or left <= before
            before = left


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


linux = pytest.mark.skipif(sys.platform != "linux", reason="counts what /proc says is open")


@linux
@PROTOCOLS
async def test_over_tls(protocol: str) -> None:
    await rage(protocol, 60)


@linux
@pytest.mark.soak
@pytest.mark.timeout(900)
@PROTOCOLS
async def test_ten_thousand(protocol: str) -> None:
    await rage(protocol, 10_000)
