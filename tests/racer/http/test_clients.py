"""The ready clients: whose they are, what they refuse, and that httpx's own features go through untouched (H9)."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import httpx
import httpx2
import pytest

import racer
from racer import Dialer
from racer.errors import ConfigError
from racer.http import AsyncClient, Client, classes_for
from racer.testing import ScriptedTransport
from tests.racer.http.origin import MemoryWay, Origin
from tests.racer.http.web import URL, answers

LIBRARIES = pytest.mark.parametrize("library", [httpx, httpx2])


@LIBRARIES
@pytest.mark.virtual_time
async def test_it_is_the_librarys_own_client(library: Any) -> None:
    client_class = classes_for(library).AsyncClient
    assert issubclass(client_class, library.AsyncClient)
    assert issubclass(classes_for(library).Client, library.Client)
    assert classes_for(library).AsyncClient is client_class
    async with Origin(answers(200, b"hello")) as origin:
        way = MemoryWay("direct", origin)
        async with Dialer([way]) as dialer, client_class(dialer, base_url=URL) as client:
            assert (await client.get("/")).text == "hello"
        assert way.ledger.open_streams == ()


@pytest.mark.virtual_time
async def test_a_dialer_that_it_made_ends_with_it_and_one_it_was_given_does_not() -> None:
    async with Origin(answers(200)) as origin:
        guest = MemoryWay("direct", origin)
        async with AsyncClient([guest]) as client:
            await client.get(URL)
            made = client._transport._dialer  # type: ignore[attr-defined]
        assert made.status().closed
        async with Dialer([MemoryWay("direct", origin)]) as dialer:
            async with AsyncClient(dialer) as client:
                await client.get(URL)
            assert not dialer.status().closed


@pytest.mark.virtual_time
async def test_without_a_dialer_the_loops_default_one_races() -> None:
    async with Origin(answers(200)) as origin, Dialer([MemoryWay("mine", origin)]) as dialer:
        racer.set_default_dialer(dialer)
        async with AsyncClient() as client:
            response = await client.get(URL)
            assert response.extensions["racer"].transport_name == "mine"
        racer.set_default_dialer(None)


@LIBRARIES
@pytest.mark.parametrize("kind", ["AsyncClient", "Client"])
@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("proxy", "http://localhost:3128", "an entrant of the race"),
        ("mounts", {"all://": None}, "round the race"),
        ("verify", False, "ssl_context="),
        ("cert", "client.pem", "ssl_context="),
        ("transport", object(), "RacerTransport"),
    ],
)
def test_what_would_go_round_the_race_is_refused(
    library: Any, kind: str, option: str, value: Any, told: str
) -> None:
    client_class = getattr(classes_for(library), kind)
    with pytest.raises(ConfigError, match=f"{option}= does not fit here: .*{told}"):
        client_class(Dialer([ScriptedTransport("a")]), **{option: value})


def test_an_option_nobody_knows_is_the_librarys_business() -> None:
    with pytest.raises(TypeError, match="follow_redirect"):
        AsyncClient([ScriptedTransport("a")], follow_redirect=True)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="httpx or httpx2"):
        classes_for(sys)


def test_connecting_has_the_dialers_time_and_the_rest_half_a_minute() -> None:
    assert Client().timeout == httpx.Timeout(30.0, connect=None, pool=None)
    assert AsyncClient(timeout=5.0).timeout == httpx.Timeout(5.0)


def test_a_proxy_in_the_environment_goes_by_no_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://localhost:1")
    monkeypatch.setenv("ALL_PROXY", "http://localhost:1")
    assert Client()._mounts == {}
    assert AsyncClient()._mounts == {}


def test_who_needs_http2_alone_loads_no_http_library() -> None:
    program = (
        "import sys, racer, racer.http2; "
        "print(sorted(name for name in ('httpx', 'httpx2', 'httpcore') if name in sys.modules))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "[]"
