"""HTTP/1.1 on one connection: heads that are odd, hostile or early, switched protocols, and timeouts by phase."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import httpx
import httpx2
import pytest

from racer.http import Client
from racer.http._http1 import MAX_HEAD
from tests.racer.http.origin import MemoryWay, Origin, Way
from tests.racer.http.web import URL, Web

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.racer.http.origin import Talk

virtual_time = pytest.mark.virtual_time


def says(*pieces: bytes, end: bool = False) -> Any:
    """Return what answers with these very bytes, and then hangs or ends the connection."""

    async def answer(talk: Talk) -> None:
        await talk.body()
        for piece in pieces:
            await talk.wire.stream.send(piece)
        if not end:
            await anyio.sleep_forever()
        await talk.wire.stream.aclose()

    return answer


OK = b"HTTP/1.1 200 OK\r\n"


@virtual_time
@pytest.mark.parametrize(
    ("pieces", "end", "body"),
    [
        ([OK + b"content-length: 2\r\n\r\nok"], False, b"ok"),
        ([bytes([byte]) for byte in OK + b"content-length: 2\r\n\r\nok"], False, b"ok"),
        (
            [OK + b"transfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nx: trailer\r\n\r\n"],
            False,
            b"ok",
        ),
        ([OK + b"\r\nuntil the end"], True, b"until the end"),
        ([b"HTTP/1.0 200 OK\r\n\r\nold"], True, b"old"),
        (
            [b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n", OK, b"\r\n"],
            True,
            b"",
        ),
        ([b"HTTP/1.1 204 No Content\r\n\r\n"], False, b""),
        ([b"HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\n\r\n"], False, b""),
    ],
)
async def test_responses_that_are_good(pieces: list[bytes], end: bool, body: bytes) -> None:
    async with Web({"a": says(*pieces, end=end)}) as web:
        assert (await web.get()).content == body


@virtual_time
@pytest.mark.parametrize(
    "head",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        OK + b"content-length: 1\r\ncontent-length: 2\r\n\r\n",
        OK + b"bad header\r\n\r\n",
        OK + b"x: " + b"y" * MAX_HEAD,
        OK + b"transfer-encoding: chunked\r\n\r\nzz\r\n",
    ],
)
async def test_responses_that_are_none(head: bytes) -> None:
    async with Web({"a": says(head)}) as web:
        with pytest.raises(httpx.RemoteProtocolError, match=r"^a: "):
            await web.get()
        assert anyio.current_time() == 0.0
        assert web.engine.pool.connections == 0


@virtual_time
async def test_a_head_that_never_ends_is_cut_off_by_its_size() -> None:
    async def endless(talk: Talk) -> None:
        await talk.wire.stream.send(OK)
        while True:
            await talk.wire.stream.send(b"x: " + b"y" * 1000 + b"\r\n")

    async with Web({"a": endless}) as web:
        with pytest.raises(httpx.RemoteProtocolError):
            await web.get()


@virtual_time
async def test_an_answer_to_half_a_body_is_still_an_answer() -> None:
    """A server may refuse what it does not want to read, and close (RFC 9112 §9.3)."""

    async def refuse(talk: Talk) -> None:
        await talk.wire.stream.send(b"HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\n\r\nno!")
        await talk.wire.stream.aclose()

    async def body() -> AsyncIterator[bytes]:
        while True:
            yield bytes(10_000)
            await anyio.sleep(0.1)

    async with Web({"a": refuse}) as web:
        response = await web.post(content=body())
        assert (response.status_code, response.text) == (413, "no!")
        assert web.engine.pool.connections == 0


@virtual_time
@pytest.mark.parametrize("phase", ["write", "read"])
async def test_a_timeout_says_in_which_phase_nothing_went_on(phase: str) -> None:
    async def deaf(talk: Talk) -> None:
        await anyio.sleep_forever()

    async with Web({"a": MemoryWay("a", Origin(deaf))}) as web:
        size = 1_000_000 if phase == "write" else 10
        error = httpx.WriteTimeout if phase == "write" else httpx.ReadTimeout
        with pytest.raises(error):
            await web.post(content=bytes(size), timeout=httpx.Timeout(None, read=3.0, write=3.0))
        assert anyio.current_time() == 3.0


async def switch(talk: Talk) -> None:
    wire = talk.wire.stream
    await wire.send(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: echo\r\n\r\nhello ")
    with pytest.raises(anyio.EndOfStream):
        while True:
            await wire.send((await wire.receive()).upper())


@virtual_time
@pytest.mark.parametrize("library", [httpx, httpx2])
async def test_a_switched_protocol_is_the_callers_to_speak(library: Any) -> None:
    headers = {"Connection": "upgrade", "Upgrade": "echo"}
    async with Web({"a": switch}, library=library) as web:
        async with web.client.stream("GET", URL, headers=headers) as response:
            assert response.status_code == 101
            network = response.extensions["network_stream"]
            assert await network.read(100) == b"hello "
            await network.write(b"world")
            assert await network.read(100, timeout=5.0) == b"WORLD"
            assert network.get_extra_info("ssl_object") is None
            with pytest.raises(library.ReadTimeout, match="a: nothing came"):
                await network.read(100, timeout=5.0)
            assert web.engine.pool.in_use == 1
        await web.settle()
        assert web.engine.pool.connections == 0


async def test_and_of_a_thread_too() -> None:
    async with Origin(switch) as origin:
        await origin.listen()

        def talk() -> None:
            with (
                Client([Way("a", origin)]) as client,
                client.stream("GET", URL, headers={"Upgrade": "echo"}) as response,
            ):
                network = response.extensions["network_stream"]
                network.write(b"world")
                assert network.read(6) == b"hello "
                assert network.read(100) == b"WORLD"
                network.close()

        await anyio.to_thread.run_sync(talk)
