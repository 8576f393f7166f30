"""The same from programs without an event loop: threads, forks, interrupts, and exits that nobody prepared (H10)."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import httpx
import httpx2
import pytest
from anyio.from_thread import start_blocking_portal

from racer import Dialer
from racer.errors import WrongLoop
from racer.http import Client, SyncRacerTransport, classes_for
from racer.http._loop_thread import loop_thread
from tests.racer.http.origin import Origin, Way

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.racer.http.origin import Talk

URL = "http://origin.example/"
ROOT = Path(__file__).parents[3]


async def behave(talk: Talk) -> None:
    """Answer as the path says."""
    match talk.target.strip("/").split("/"):
        case ["echo"]:
            await talk.respond(200, await talk.body())
        case ["status", status]:
            await talk.respond(int(status))
        case ["hang"]:
            await anyio.sleep_forever()
        case ["big"]:
            await talk.respond(200, b"x" * 3_000_000)
        case ["cut"]:
            await talk.begin(200, {"content-length": "100"}, False)
            await talk.send(b"half")
            await anyio.aclose_forcefully(talk.wire.stream)
        case ["ticks"]:
            await talk.begin(200, {}, False)
            for n in range(3):
                await talk.send(b"%d" % n)
            await talk.end()
        case _:
            await talk.respond(200, b"hello")


@pytest.fixture(scope="module")
def origin() -> Iterator[Origin]:
    """An origin on a loop of its own."""
    made = Origin(behave)
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(made):
        portal.call(made.listen)
        yield made


@pytest.fixture
def client(origin: Origin) -> Iterator[httpx.Client]:
    with Client([Way("direct", origin)]) as made:
        yield made


def engine_of(client: Any) -> Any:
    return client._transport._engine


@pytest.mark.parametrize("library", [httpx, httpx2])
def test_requests_bodies_and_streams(library: Any, origin: Origin) -> None:
    with classes_for(library).Client([Way("direct", origin)]) as client:
        response = client.get(URL)
        assert type(response) is library.Response
        assert (response.text, response.extensions["racer"].transport_name) == ("hello", "direct")
        assert client.post(URL + "echo", content=b"body").content == b"body"
        assert client.post(URL + "echo", content=iter([b"a", b"b"])).content == b"ab"
        assert len(client.get(URL + "big").content) == 3_000_000
        with client.stream("GET", URL + "ticks") as streamed:
            assert b"".join(streamed.iter_raw()) == b"012"
        with client.stream("GET", URL + "big") as streamed:
            assert next(streamed.iter_raw())
        assert client.get(URL).extensions["racer"].reused is False  # the last was closed half-way
        assert client.get(URL).extensions["racer"].reused is True


def test_errors_are_the_librarys(client: httpx.Client, origin: Origin) -> None:
    assert client.get(URL + "status/404").status_code == 404
    with pytest.raises(httpx.ReadTimeout, match="direct"):
        client.get(URL + "hang", timeout=0.05)
    with pytest.raises(httpx.TransportError, match="direct"):
        client.get(URL + "cut")
    with (
        Client([Way("nowhere", None)]) as other,
        pytest.raises(httpx.ConnectError, match="nowhere"),
    ):
        other.get(URL)


def test_a_body_is_read_in_the_callers_own_thread(client: httpx.Client) -> None:
    where: list[int] = []

    def body() -> Iterator[bytes]:
        for n in range(3):
            where.append(threading.get_ident())
            yield b"%d" % n

    assert client.post(URL + "echo", content=body()).content == b"012"
    assert set(where) == {threading.get_ident()}


def test_an_error_of_the_callers_body_is_the_callers_and_nothing_passes_for_its_end(
    client: httpx.Client, origin: Origin
) -> None:
    def body() -> Iterator[bytes]:
        yield b"half"
        raise KeyError

    with pytest.raises(KeyError):
        client.post(URL + "echo", content=body())
    assert client.get(URL).text == "hello"
    assert engine_of(client).pool.in_use == 0


def test_many_threads_share_it(client: httpx.Client) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = pool.map(
            lambda n: client.post(URL + "echo", content=b"%d" % n).content, range(80)
        )
    assert list(answers) == [b"%d" % n for n in range(80)]
    assert engine_of(client).pool.in_use == 0


def test_several_clients_share_one_thread_and_may_share_a_dialer(origin: Origin) -> None:
    dialer = Dialer([Way("direct", origin)])
    transports = [SyncRacerTransport(dialer) for _ in range(2)]
    for transport in transports:
        with httpx.Client(transport=transport) as client:
            assert client.get(URL).text == "hello"
    transports[0].close_dialer()
    assert [t.name for t in threading.enumerate()].count("racer http") == 1


def test_an_interrupt_cancels_the_request_and_leaves_nothing(
    client: httpx.Client, origin: Origin
) -> None:
    hung = threading.Event()

    def interrupt() -> None:
        while not any(talk.target == "/hang" for talk in origin.seen[before:]):
            hung.wait(0.001)
        os.kill(os.getpid(), signal.SIGINT)

    before = len(origin.seen)
    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        client.get(URL + "hang", timeout=None)
    thread.join()
    assert client.get(URL).text == "hello"
    assert engine_of(client).pool.in_use == 0


def test_a_response_that_is_dropped_is_closed_with_a_warning(client: httpx.Client) -> None:
    response = client.send(client.build_request("GET", URL + "big"), stream=True)
    with pytest.warns(ResourceWarning, match="without being read"):  # noqa: PT031 - both are it
        del response
        gc.collect()


def test_on_its_own_loop_it_would_wait_for_itself(client: httpx.Client) -> None:
    client.get(URL)

    async def call() -> None:
        with pytest.raises(WrongLoop, match="wait for itself"):
            client.get(URL)  # noqa: ASYNC212 - it must not block: that is what is tested

    loop_thread().call(call)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_is_told_and_can_make_its_own(origin: Origin) -> None:
    program = f"""
        import os, sys, warnings
        sys.path.insert(0, {str(ROOT)!r})
        warnings.simplefilter("ignore", DeprecationWarning)
        import anyio, httpx
        from racer.abc import Transport
        from racer.errors import WrongLoop
        from racer.http import Client

        class Way(Transport):
            name = "direct"
            async def connect(self, target, progress):
                return await anyio.connect_tcp("127.0.0.1", {origin.port})

        client = Client([Way()])
        print(client.get("{URL}").text, flush=True)
        if (child := os.fork()) == 0:
            try:
                client.get("{URL}")
            except WrongLoop as exc:
                print("after a fork" in str(exc), flush=True)
            print(Client([Way()]).get("{URL}").text, flush=True)
            sys.exit(0)
        os.waitpid(child, 0)
        print(client.get("{URL}").text, flush=True)
    """
    assert run(program) == ["hello", "True", "hello", "hello"]


def test_a_program_that_closes_nothing_ends_at_once_and_says_goodbye(origin: Origin) -> None:
    program = f"""
        import sys
        sys.path.insert(0, {str(ROOT)!r})
        import anyio
        from racer.abc import Transport
        from racer.http import Client

        class Way(Transport):
            name = "direct"
            async def connect(self, target, progress):
                return await anyio.connect_tcp("127.0.0.1", {origin.port})
            async def aclose(self):
                print("goodbye", flush=True)

        client = Client([Way()])
        print(client.get("{URL}").text)
        streamed = client.send(client.build_request("GET", "{URL}big"), stream=True)
    """
    assert run(program) == ["hello", "goodbye"]


def run(program: str) -> list[str]:
    ended = subprocess.run(
        [sys.executable, "-W", "ignore::ResourceWarning", "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout.split()
