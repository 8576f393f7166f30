"""The guest: its options, its promises, what it is made from, and what it shows."""

from __future__ import annotations

import random
import re
import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import pytest

import racer
import racer.config
from racer.abc import MakeContext, Progress, Target
from racer.errors import AllAttemptsFailed, ConfigError, ErrorType, NetworkError, TransportError
from racer.testing import EchoServer, LocalHost, check_transport
from tests.transports.soar.memory_world import ADDRESS, ZONE, MemoryWorld, connect, exactly
from transports.soar import ServerKey, Soar, SoarServer, _transport, generate_key, make
from transports.soar.core.crypto.grants import Grant

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

virtual = pytest.mark.virtual_time

KEY = ServerKey.generate(random.Random("key").randbytes).public.to_text()
GRANT = Grant.generate(random.Random("grant").randbytes)
SECRET = GRANT.to_text()


# --- its promises -----------------------------------------------------------------------------


@asynccontextmanager
async def serving(**options: Any) -> AsyncIterator[SoarServer]:
    """Yield a server on loopback; leaving ends it without a farewell."""

    async def serve(*, task_status: anyio.abc.TaskStatus[SoarServer]) -> None:
        settings: dict[str, Any] = {"key": generate_key(), "allow": ["127.0.0.1:*"], "uptime": 1e3}
        async with SoarServer(domain=ZONE, **{**settings, **options}) as server:
            task_status.started(server)
            await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks:
        yield await tasks.start(serve)
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("scheme", ["udp", "tcp"])
async def test_conformance_on_loopback(scheme: str) -> None:
    async with EchoServer() as echo, serving() as server:
        report = await check_transport(
            lambda: Soar(
                domain=ZONE,
                server_key=server.public_key,
                resolvers=[f"{scheme}://127.0.0.1:{server.address[1]}"],
                credential=SECRET,
            ),
            target=echo.target,
            failing_target=echo.refusing_target,
            unserved_target=Target("fe80::1%lo", 80),
            secrets=[SECRET],
            passes=3,
        )
    assert report.skipped == {}
    assert report.sweep is not None
    assert report.sweep.cancelled > 5  # it waits twice


@virtual
async def test_conformance_at_every_turn() -> None:
    async with MemoryWorld(rtt=0.02) as world:
        report = await check_transport(
            lambda: world.soar(credential=SECRET),
            target=Target("echo.example", 80, tls=False),
            failing_target=Target("refused.example", 80, tls=False),
            unserved_target=Target("fe80::1%lo", 80),
            secrets=[SECRET],
            count_open=lambda: len(world.sockets),
            passes=3,
        )
    assert report.skipped == {}
    assert report.sweep is not None
    assert report.sweep.cancelled > 10


@pytest.mark.parametrize("scheme", ["udp", "tcp"])
async def test_a_close_is_told_to_the_server(scheme: str) -> None:
    async with EchoServer() as echo, serving() as server, LocalHost() as host:
        soar = Soar(
            domain=ZONE,
            server_key=server.public_key,
            resolvers=[f"{scheme}://127.0.0.1:{server.address[1]}"],
        )
        await soar.start(host)
        async with await soar.connect(echo.target, Progress()) as stream:
            await stream.send(b"ping")
            assert await exactly(stream, 4) == b"ping"
        assert len(server.status().sessions) == 1
        await soar.aclose()
        with anyio.fail_after(30):
            while server.status().sessions:  # noqa: ASYNC110 - nobody tells
                await anyio.sleep(0.001)
        assert server.status().ends["closed"] == 1


# --- its life ---------------------------------------------------------------------------------


async def test_what_was_not_started_says_so() -> None:
    soar = Soar(domain=ZONE, server_key=KEY, resolvers=["udp://127.0.0.1"])
    assert soar.status().health == "not started"
    with pytest.raises(TransportError, match="transport 'soar' was not started"):
        await soar.connect(Target("192.0.2.1", 80, tls=False), Progress())
    await soar.aclose()
    assert soar.status().health == "closed"
    async with LocalHost() as host:
        with pytest.raises(TransportError, match="transport 'soar' was closed"):
            await soar.start(host)
        assert host.running == []


@virtual
async def test_a_second_host_gets_sessions_of_its_own() -> None:
    async with MemoryWorld() as world:
        soar = world.soar()
        for count in (1, 2):
            async with LocalHost() as host:
                await soar.start(host)
                async with await connect(soar, "echo.example") as stream:
                    await stream.send(b"ping")
                    assert await exactly(stream, 4) == b"ping"
            assert world.handshakes == count


async def test_a_machine_without_resolvers_fails_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def none() -> None:
        raise NetworkError("this machine has no resolver", error_type=ErrorType.DNS_FAILURE)

    monkeypatch.setattr(_transport, "system_resolvers", none)
    soar = Soar(domain=ZONE, server_key=KEY)
    async with racer.Dialer([racer.Entrant(soar, start_delay=0.0)]) as dialer:
        with pytest.raises(AllAttemptsFailed, match="this machine has no resolver") as caught:
            await dialer.dial("192.0.2.1", 80)
    assert caught.value.report.attempts[0].error_type is ErrorType.DNS_FAILURE


@virtual
async def test_what_is_known_of_sessions_and_ways_shows() -> None:
    async with MemoryWorld() as world, world.started() as soar:
        way = f"udp://{ADDRESS}"
        assert soar.status().details == {way: "DS, no answer yet, 0 of 12 questions under way"}
        async with await connect(soar, "echo.example") as stream:
            status = soar.status()
            (session,) = status.sessions
            assert (status.health, session.id, session.state) == ("ok", "1", "live")
            assert session.streams == 1
            assert "DS, 100 ms" in str(status.details[way])
            await stream.send(b"x")
            await exactly(stream, 1)
        await anyio.sleep(30)
        (session,) = soar.status().sessions
        assert (session.state, session.streams) == ("idle", 0)
        assert session.idle is not None
        assert 25 < session.idle < 31


@virtual
async def test_a_way_that_fails_shows() -> None:
    async def no_way(address: str, port: int) -> Any:
        raise OSError("no way there")

    async with MemoryWorld() as world, world.started(dial_udp=no_way) as soar:
        with anyio.move_on_after(5):
            await connect(soar, "echo.example")
        status = soar.status()
        assert status.health == f"no answer from udp://{ADDRESS}"
        said = str(status.details[f"udp://{ADDRESS}"])
        assert re.search(r", failed \d+ times, OSError: no way there$", said)


@virtual
async def test_status_can_be_asked_for_anywhere() -> None:
    async with MemoryWorld() as world, world.started() as soar:
        await (await connect(soar, "echo.example")).aclose()
        told = await anyio.to_thread.run_sync(soar.status)
        assert told.sessions[0].id == "1"


# --- its options ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"domain": 5}, "domain must be the name of a zone, or a list of 1 to 8"),
        ({"domain": []}, "domain must be the name of a zone, or a list of 1 to 8"),
        ({"domain": [f"t{n}.example" for n in range(9)]}, "a list of 1 to 8"),
        ({"domain": ["t.example", "T.example."]}, "domain names a zone twice"),
        ({"domain": "t..example"}, "t..example"),
        ({"server_key": 5}, "server_key must be a text that begins with soar1, not int"),
        ({"server_key": "nonsense"}, "soar1"),
        ({"server_key": KEY[:-1] + ("b" if KEY[-1] == "a" else "a")}, "public key"),
        ({"resolvers": "system"}, "resolvers must be a list"),
        ({"resolvers": ["ftp://192.0.2.1"]}, r"resolvers\[0\]: scheme 'ftp' is not known"),
        ({"credential": 5}, "credential must be a text that begins with soargrant1, not int"),
        ({"credential": SECRET[:-3] + "aaa"}, "grant"),
        ({"session_idle": 0}, "session_idle must be a finite, positive number of seconds"),
        ({"session_idle": "90"}, "session_idle must be a finite, positive number of seconds"),
        ({"max_stale": -1.0}, "max_stale must be a finite, positive number of seconds"),
        ({"warm": 1}, "warm must be True or False, not int"),
        ({"name": 5}, "name must be a text, not int"),
        ({"resolver_tls": True}, "resolver_tls must be an ssl.SSLContext, not bool"),
        ({"dial_udp": "socket"}, "dial_udp must be a coroutine function, not str"),
        ({"dial_tcp": 5}, "dial_tcp must be a coroutine function, not int"),
    ],
    ids=str,
)
def test_a_wrong_option_is_told(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        Soar(**{"domain": ZONE, "server_key": KEY, **options})
    assert SECRET not in str(caught.value)


def test_right_options_are_taken() -> None:
    soar = Soar(
        domain=["a.example", "b.example"],
        server_key=KEY,
        resolvers=("system", "https://dns.example/secret"),
        credential=GRANT,
        session_idle=30,
        warm=True,
        resolver_tls=ssl.create_default_context(),
    )
    assert repr(soar) == "Soar(domain=['a.example', 'b.example'], name='soar')"
    assert soar.traits.start_delay == 8.0


@pytest.mark.parametrize("credential", ["nonsense", 5, b"soargrant1"])
def test_a_wrong_credential_changes_nothing(credential: object) -> None:
    soar = Soar(domain=ZONE, server_key=KEY, credential=SECRET)
    with pytest.raises(ConfigError):
        soar.update_credential(credential)
    assert soar._settings.grant == GRANT
    soar.update_credential(None)
    assert soar._settings.grant is None


# --- what it is made from -----------------------------------------------------------------------


def test_a_file_makes_one(tmp_path: Path) -> None:
    file = tmp_path / "racer.toml"
    file.write_text(
        f"""
        [[entrant]]
        transport = "soar"
        [entrant.options]
        domain = "{ZONE}"
        server_key = "{KEY}"
        resolvers = ["udp://127.0.0.1:5353"]
        credential = "{SECRET}"
        session_idle = 60
        """
    )
    (entrant,) = racer.config.load(file).status().entrants
    assert (entrant.name, entrant.start_delay, entrant.tier) == ("soar", 8.0, 0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"server_key": KEY}, "domain: missing"),
        ({"domain": ZONE}, "server_key: missing"),
        ({"domain": ZONE, "server_key": KEY, "domian": ZONE}, "did you mean 'domain'"),
        ({"domain": ZONE, "server_key": KEY, "dial_udp": "x"}, "dial_udp"),
        ({"domain": ZONE, "server_key": KEY, "name": "x"}, "name"),
    ],
)
def test_a_wrong_configuration_is_told(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        make(MakeContext(name="soar", options=options))


def test_a_configuration_names_its_guest() -> None:
    options = {"domain": ZONE, "server_key": KEY, "warm": False}
    assert make(MakeContext(name="tunnel", options=options)).name == "tunnel"
