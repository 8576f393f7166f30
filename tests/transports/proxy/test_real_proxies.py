"""Proxies that others wrote, as Debian ships them; on loopback, as processes of the test's own."""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

import racer
from racer.abc import Progress, Target
from racer.errors import AllAttemptsFailed
from racer.testing import EchoServer
from tests.transports.proxy.servers import echo, listening
from transports.proxy import HttpConnect, Socks5

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from anyio.abc import ByteStream

    from tests.transports.proxy.worlds import Make

READY_WITHIN = 400  # polls of 50 ms

TINYPROXY = """
Port {port}
Listen 127.0.0.1
Allow 127.0.0.1
Timeout 60
MaxClients 50
DisableViaHeader Yes
BasicAuth alice s3cret
LogLevel Critical
"""

TINYPROXY_443 = TINYPROXY.replace("BasicAuth alice s3cret", "ConnectPort 443")

DANTE = """
logoutput: {folder}/log
internal: 127.0.0.1 port = {port}
external: 127.0.0.1
clientmethod: none
socksmethod: none
user.privileged: {user}
user.unprivileged: {lesser}
client pass {{ from: 127.0.0.0/8 to: 0.0.0.0/0 }}
socks block {{ from: 0.0.0.0/0 to: 0.0.0.0/0 port = 443 }}
socks pass {{ from: 0.0.0.0/0 to: 0.0.0.0/0 protocol: tcp }}
"""

SQUID = """
http_port 127.0.0.1:{port}
pid_filename none
access_log none
cache_log {folder}/log
cache deny all
cache_mem 8 MB
netdb_filename none
dns_nameservers 127.0.0.1
dns_timeout 1 second
dns_retransmit_interval 1 second
hosts_file /etc/hosts
shutdown_lifetime 0 seconds
acl forbidden port 443
http_access deny forbidden
http_access allow all
"""


@dataclass(frozen=True)
class Running:
    """A proxy that listens, and what makes a transport through it."""

    address: Target
    make: Make
    options: dict[str, Any]

    def transport(self, **options: Any) -> racer.abc.Transport:
        return self.make(self.address, **{**self.options, **options})


def binary(name: str, package: str) -> str:
    found = shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin")
    if found is None:
        pytest.skip(f"{name} is not installed (Debian: apt-get install {package})")
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def running(command: list[str], port: int) -> Iterator[Target]:
    """Run a server until the block ends; yields when it listens."""
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    )
    try:
        for _ in range(READY_WITHIN):
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.05)
                assert process.stderr is not None
                pytest.fail(f"{command[0]} ended: {process.stderr.read().decode()}")
        else:
            pytest.fail(f"{command[0]} does not listen")
        yield Target("127.0.0.1", port, tls=False)
    finally:
        # All of it, children too; asked in good order some wait seconds for connections that nobody has left open.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@contextmanager
def configured(text: str, folder: Path, command: Callable[[str], list[str]]) -> Iterator[Target]:
    port = free_port()
    folder.chmod(0o777)  # some of them give up their rights, and write there all the same
    for parent in folder.parents[:2]:
        parent.chmod(0o755)
    file = folder / "proxy.conf"
    user = getpass.getuser()
    lesser = "nobody" if user == "root" else user
    file.write_text(text.format(port=port, folder=folder, user=user, lesser=lesser))
    with running(command(str(file)), port) as address:
        yield address


def tinyproxy(folder: Path, text: str) -> Any:
    program = binary("tinyproxy", "tinyproxy")
    return configured(text, folder, lambda file: [program, "-d", "-c", file])


@pytest.fixture(scope="module")
def tinyproxy_with_accounts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with tinyproxy(tmp_path_factory.mktemp("proxy"), TINYPROXY) as address:
        yield Running(address, HttpConnect, {"username": "alice", "password": "s3cret"})


@pytest.fixture(scope="module")
def tinyproxy_for_443(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with tinyproxy(tmp_path_factory.mktemp("proxy"), TINYPROXY_443) as address:
        yield Running(address, HttpConnect, {})


@pytest.fixture(scope="module")
def squid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    program = binary("squid", "squid")
    folder = tmp_path_factory.mktemp("proxy")
    with configured(SQUID, folder, lambda file: [program, "-N", "-f", file]) as address:
        yield Running(address, HttpConnect, {})


@pytest.fixture(scope="module")
def microsocks() -> Iterator[Running]:
    program, port = binary("microsocks", "microsocks"), free_port()
    account = ["-u", "alice", "-P", "s3cret"]
    with running([program, "-i", "127.0.0.1", "-p", str(port), *account], port) as address:
        yield Running(address, Socks5, {"username": "alice", "password": "s3cret"})


@pytest.fixture(scope="module")
def dante(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    program = binary("danted", "dante-server")
    folder = tmp_path_factory.mktemp("proxy")
    with configured(DANTE, folder, lambda file: [program, "-f", file]) as address:
        yield Running(address, Socks5, {})


@pytest.fixture
def proxy(request: pytest.FixtureRequest) -> Running:
    found: Running = request.getfixturevalue(request.param)
    return found


def through(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("proxy", names, indirect=True)


every = through("tinyproxy_with_accounts", "squid", "microsocks", "dante")


async def failed(transport: racer.abc.Transport, target: Target) -> racer.Attempt:
    async with racer.Dialer([transport]) as dialer:
        with pytest.raises(AllAttemptsFailed) as caught:
            await dialer.dial(target)
    (attempt,) = caught.value.report.attempts
    return attempt


async def exchange(stream: ByteStream) -> None:
    """Prove that an echo is behind the stream, and close it; most of these end both ways when one ends."""
    async with stream:
        for data in (b"ping", bytes(range(256)) * 64):
            await stream.send(data)
            got = b""
            while len(got) < len(data):
                got += await stream.receive()
            assert got == data


@every
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_bytes_go_through(proxy: Running, host: str) -> None:
    # Some try but the first address of a name, so this listens on all that localhost has.
    async with listening(echo, host="localhost") as target:
        wanted = Target(host, target.port, tls=False)
        for _ in range(3):
            await exchange(await proxy.transport().connect(wanted, Progress()))


@through("tinyproxy_with_accounts", "microsocks")
@pytest.mark.parametrize("given", [{"password": "wrong"}, {"username": None, "password": None}])
async def test_a_wrong_or_missing_credential_is_rejected(
    proxy: Running, given: dict[str, str | None]
) -> None:
    async with EchoServer() as server:
        attempt = await failed(proxy.transport(**given), server.target)
    assert (attempt.error_type, attempt.stage) == ("credential_rejected", "handshake")


@pytest.mark.parametrize(
    ("proxy", "kind"),
    [
        ("tinyproxy_with_accounts", "host_unreachable"),  # it says 500 and no more
        ("squid", "connection_refused"),
        ("microsocks", "connection_refused"),
        ("dante", "connection_refused"),
    ],
    indirect=["proxy"],
)
async def test_a_closed_port_has_its_reason(proxy: Running, kind: str) -> None:
    async with EchoServer() as server:
        attempt = await failed(proxy.transport(), server.refusing_target)
    assert (attempt.error_type, attempt.stage) == (kind, "handshake")


@pytest.mark.parametrize(
    ("proxy", "port"),
    [("tinyproxy_for_443", 7), ("squid", 443), ("dante", 443)],
    indirect=["proxy"],
)
async def test_a_forbidden_port_is_a_refusal(proxy: Running, port: int) -> None:
    attempt = await failed(proxy.transport(), Target("127.0.0.1", port, tls=False))
    assert (attempt.error_type, attempt.stage) == ("proxy_refused", "handshake")


@through("squid")
async def test_a_name_that_is_none_cannot_be_reached(proxy: Running) -> None:
    attempt = await failed(proxy.transport(), Target("nowhere.invalid", 7, tls=False))
    assert (attempt.error_type, attempt.stage) == ("host_unreachable", "handshake")
    assert "ERR_CANNOT_FORWARD" in attempt.cause


async def test_a_chain_of_three(
    microsocks: Running, tinyproxy_with_accounts: Running, dante: Running
) -> None:
    async with EchoServer() as server:
        chain = dante.transport(base=tinyproxy_with_accounts.transport(base=microsocks.transport()))
        await exchange(await chain.connect(server.target, Progress()))
        attempt = await failed(
            dante.transport(base=tinyproxy_with_accounts.transport(password="wrong")),
            server.target,
        )
    assert f"HTTP proxy {tinyproxy_with_accounts.address} rejected" in attempt.cause
