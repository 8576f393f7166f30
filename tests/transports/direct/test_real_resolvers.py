"""Lookups over real sockets on loopback: the lab's name servers and their lies, and unbound, as Debian ships it."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest
import trustme

from racer import lab
from racer.abc import Progress, Target
from racer.errors import NetworkError
from racer.testing import EchoServer, cancel_everywhere, check_transport
from tests.transports.net.world import BOTH, V4, V6
from transports._net import dns_carriers
from transports._net.connector import Connector
from transports._net.dns_resolver import DNSResolver, ResolverTLS
from transports._net.resolve import SystemResolver
from transports._net.resolver_urls import ResolverURL
from transports._net.udp import connect_datagrams
from transports.direct import Direct

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from transports._net.addresses import Family
    from transports._net.resolve import Answer

HOSTS = {"echo.example": ["127.0.0.1"], "both.example": ["127.0.0.1", "::1"]}
FALSE = "127.0.0.2"  # nobody listens there
WAYS = ["udp", "tcp", "tls", "https"]


@cache
def authority() -> lab.Authority:
    return lab.Authority()


@cache
def trust() -> ssl.SSLContext:
    return authority().client_context(alpn=("h2", "http/1.1"))


def resolver_for(url: str, context: ssl.SSLContext) -> DNSResolver:
    connector = Connector(SystemResolver())
    return DNSResolver(ResolverURL.parse(url), connector, tls=ResolverTLS(context))


async def addresses(resolver: DNSResolver, name: str) -> dict[Family, tuple[str, ...] | str]:
    """Return what is known of each family: addresses, or the words of an error."""
    found: dict[Family, tuple[str, ...] | str] = {}

    def report(answer: Answer) -> None:
        for family in answer.families:
            error = answer.error
            words = getattr(error, "strerror", None) or str(error)
            found[family] = words if error else answer.addresses

    await resolver.resolve(name, BOTH, report)
    return found


async def talk(transport: Direct, target: Target) -> None:
    async with await transport.connect(target, Progress()) as stream:
        await stream.send(b"ping")
        assert await stream.receive() == b"ping"


# --- the lab's name servers -----------------------------------------------------------------


@dataclass
class Servers:
    """A zone on loopback, by every way there is, and an echo."""

    zone: lab.Zone
    urls: dict[str, str]
    echo: Target


@asynccontextmanager
async def servers(*rules: lab.NameRule) -> AsyncIterator[Servers]:
    zone = lab.Zone(HOSTS, rules)
    context = await authority().make_server_context("127.0.0.1", alpn=("h2", "http/1.1"))
    async with (
        lab.NameServer(zone) as plain,
        lab.DoTServer(zone, context=context) as dot,
        lab.DoHServer(zone, context=context) as doh,
        EchoServer() as echo,
    ):
        tcp = plain.url.replace("udp", "tcp")
        urls = {"udp": plain.url, "tcp": tcp, "tls": dot.url, "https": doh.url}
        yield Servers(zone, urls, Target("echo.example", echo.target.port, tls=False))


@pytest.mark.every_loop
@pytest.mark.parametrize("way", WAYS)
async def test_a_connection_by_each_way_of_asking(way: str) -> None:
    async with servers() as lies:
        await talk(Direct(resolver=lies.urls[way], resolver_tls=trust()), lies.echo)
        assert {each.over for each in lies.zone.asked} == {way}


@pytest.mark.every_loop
@pytest.mark.parametrize("flaw", [lab.Flaw.ID, lab.Flaw.PORT, lab.Flaw.QUESTION])
async def test_the_truth_wins_against_who_has_not_seen_the_question(flaw: lab.Flaw) -> None:
    async with servers(lab.Forge(addresses=(FALSE,), flaw=flaw, truth_after=0.02)) as lies:
        await talk(Direct(resolver=lies.urls["udp"]), lies.echo)


@pytest.mark.every_loop
@pytest.mark.parametrize("other", ["tls", "https"])
async def test_a_second_opinion_sees_through_a_perfect_forgery(other: str) -> None:
    """Addresses of this machine are dropped for public names, so the target's is under a local one."""
    local = {"echo.internal": HOSTS["echo.example"]}
    async with servers(lab.Forge(addresses=(FALSE,), truth_after=0.02, over="udp")) as lies:
        lies.zone.hosts = local
        target = Target("echo.internal", lies.echo.port, tls=False)
        both = [lies.urls["udp"], lies.urls[other]]
        with pytest.raises(ConnectionRefusedError):
            await talk(Direct(resolver=both), target)
        await talk(Direct(resolver=both, second_opinion=True, resolver_tls=trust()), target)


@pytest.mark.every_loop
async def test_an_answer_that_was_cut_is_fetched_over_tcp() -> None:
    async with servers(lab.Truncate()) as lies:
        await talk(Direct(resolver=lies.urls["udp"]), lies.echo)
        assert {each.over for each in lies.zone.asked} == {"udp", "tcp"}


async def test_what_was_lost_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dns_carriers, "SEND_AGAIN_AT", (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64))
    async with servers(lab.Drop()) as lies:
        handled = lies.zone.matching

        def matching(asked: lab.Asked) -> Any:
            return handled(asked) if len(lies.zone.asked) <= 3 else ()

        lies.zone.matching = matching  # type: ignore[method-assign]
        await talk(Direct(resolver=lies.urls["udp"]), lies.echo)
        assert len(lies.zone.asked) > 3


async def test_who_swallows_aaaa_delays_nobody() -> None:
    async with servers(lab.Drop(kind="AAAA")) as lies:
        with anyio.fail_after(4):  # half of what a silent resolver may take
            await talk(Direct(resolver=lies.urls["udp"]), lies.echo)


async def test_the_next_resolver_steps_in() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as gone:
        gone.bind(("127.0.0.1", 0))
        port = gone.getsockname()[1]
    async with servers() as lies:
        await talk(Direct(resolver=[f"udp://127.0.0.1:{port}", lies.urls["udp"]]), lies.echo)


@pytest.mark.parametrize("way", WAYS)
async def test_it_keeps_the_promises_of_a_guest(way: str) -> None:
    async with servers() as lies, EchoServer() as echo:
        target = Target("echo.example", echo.target.port, tls=False)
        failing = Target("echo.example", echo.refusing_target.port, tls=False)
        await check_transport(
            lambda: Direct(resolver=lies.urls[way], resolver_tls=trust()),
            target=target,
            failing_target=failing,
            passes=1,
        )


def asking(port: int) -> list[str]:
    """Return the UDP sockets of this machine that are connected to a port."""
    table = Path("/proc/self/net/udp").read_text(encoding="ascii")
    return [line for line in table.splitlines() if f":{port:04X} " in line[20:35]]


async def test_cancelled_anywhere_no_socket_is_left() -> None:
    async with servers() as lies:
        direct = Direct(resolver=lies.urls["udp"])
        port = int(lies.urls["udp"].rpartition(":")[2])
        async with await connect_datagrams("127.0.0.1", port):
            assert len(asking(port)) == 1

        async def story() -> None:
            await anyio.aclose_forcefully(await direct.connect(lies.echo, Progress()))

        async def verify() -> None:
            for _ in range(3):
                await anyio.lowlevel.checkpoint()
            assert asking(port) == []

        assert (await cancel_everywhere(story, verify=verify, passes=2)).cancelled > 5


# --- unbound --------------------------------------------------------------------------------

READY_WITHIN = 400  # polls of 50 ms

UNBOUND = """
server:
  interface: 127.0.0.1@{plain}
  interface: 127.0.0.1@{dot}
  interface: 127.0.0.1@{doh}
  tls-port: {dot}
  https-port: {doh}
  tls-service-key: "{folder}/key.pem"
  tls-service-pem: "{folder}/cert.pem"
  access-control: 127.0.0.0/8 allow
  chroot: ""
  username: ""
  directory: "{folder}"
  pidfile: ""
  use-syslog: no
  do-daemonize: no
  num-threads: 1
  incoming-num-tcp: 200
  module-config: "iterator"
  minimal-responses: no
  local-zone: "example." static
  local-data: "echo.example. A 127.0.0.1"
  local-data: "both.example. A 192.0.2.1"
  local-data: "both.example. AAAA 2001:db8::1"
  local-data: "six.example. AAAA 2001:db8::6"
  local-zone: "refused.test." refuse
  local-zone: "silent.test." deny
{many}
remote-control:
  control-enable: no
"""
MANY = 119  # A records: more than fit into 1232 octets


@dataclass(frozen=True)
class Unbound:
    """One that listens."""

    urls: dict[str, str]
    context: ssl.SSLContext


def free_port() -> int:
    """Return a port that is free for TCP and UDP alike."""
    while True:
        with socket.socket() as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
            tcp.bind(("127.0.0.1", 0))
            port: int = tcp.getsockname()[1]
            with suppress(OSError):
                udp.bind(("127.0.0.1", port))
                return port


@pytest.fixture(scope="module")
def unbound(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Unbound]:
    """Run unbound until the module's tests are through."""
    binary = shutil.which("unbound", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
    if binary is None:
        pytest.skip("unbound is not installed (Debian: apt-get install unbound)")
    folder: Path = tmp_path_factory.mktemp("unbound")
    made = trustme.CA()
    certificate = made.issue_cert("127.0.0.1")
    certificate.private_key_pem.write_to_path(folder / "key.pem")
    certificate.cert_chain_pems[0].write_to_path(folder / "cert.pem")
    ports = {way: free_port() for way in ("plain", "dot", "doh")}
    many = "\n".join(f'  local-data: "many.example. A 192.0.2.{n}"' for n in range(1, MANY + 1))
    config = folder / "unbound.conf"
    config.write_text(UNBOUND.format(folder=folder, many=many, **ports))
    process = subprocess.Popen([binary, "-d", "-c", str(config)], stderr=subprocess.PIPE)
    try:
        for _ in range(READY_WITHIN):
            with (
                suppress(OSError),
                socket.create_connection(("127.0.0.1", ports["doh"]), timeout=1),
            ):
                break
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.05)
                assert process.stderr is not None
                pytest.fail(f"unbound ended: {process.stderr.read().decode()}")
        else:
            pytest.fail("unbound does not listen")
        context = ssl.create_default_context(cadata=made.cert_pem.bytes().decode("ascii"))
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        context.set_alpn_protocols(["h2", "http/1.1"])
        where = f"127.0.0.1:{ports['plain']}"
        urls = {
            "udp": f"udp://{where}",
            "tcp": f"tcp://{where}",
            "tls": f"tls://127.0.0.1:{ports['dot']}",
            "https": f"https://127.0.0.1:{ports['doh']}/dns-query",
        }
        yield Unbound(urls, context)
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(5)
        if process.poll() is None:
            process.kill()
        assert process.stderr is not None
        process.stderr.close()


@pytest.mark.every_loop
@pytest.mark.parametrize("way", WAYS)
async def test_unbound_is_understood(unbound: Unbound, way: str) -> None:
    """Its DoH is HTTP/2 and nothing else."""
    resolver = resolver_for(unbound.urls[way], unbound.context)
    assert await addresses(resolver, "both.example") == {V6: ("2001:db8::1",), V4: ("192.0.2.1",)}
    assert await addresses(resolver, "BOTH.example.") == {V6: ("2001:db8::1",), V4: ("192.0.2.1",)}
    assert await addresses(resolver, "six.example") == {V6: ("2001:db8::6",), V4: ()}
    nothing = f"there is no such name, says {resolver} (NXDOMAIN)"
    assert await addresses(resolver, "nowhere.example") == {V6: nothing, V4: nothing}
    refused = f"{resolver} answered REFUSED"
    assert await addresses(resolver, "refused.test") == {V6: refused, V4: refused}
    many = await addresses(resolver, "many.example")
    assert set(many[V4]) == {f"192.0.2.{n}" for n in range(1, MANY + 1)}


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("tls", "it closed the connection before it had answered"),
        ("https", "it closed the connection before it had answered"),
    ],
)
async def test_unbound_may_hang_up(unbound: Unbound, way: str, words: str) -> None:
    resolver = resolver_for(unbound.urls[way], unbound.context)
    with pytest.raises(NetworkError) as caught:
        await addresses(resolver, "silent.test")
    assert str(caught.value) == f"{resolver}: {words}"


@pytest.mark.parametrize("way", ["tls", "https"])
async def test_unbound_has_to_prove_who_it_is(unbound: Unbound, way: str) -> None:
    resolver = resolver_for(unbound.urls[way], trust())
    with pytest.raises(NetworkError, match="its certificate could not be verified"):
        await addresses(resolver, "both.example")


@pytest.mark.parametrize("way", WAYS)
async def test_a_connection_by_way_of_unbound(unbound: Unbound, way: str) -> None:
    async with EchoServer() as echo:
        direct = Direct(resolver=unbound.urls[way], resolver_tls=unbound.context)
        await talk(direct, Target("echo.example", echo.target.port, tls=False))


async def test_many_lookups_at_once(unbound: Unbound) -> None:
    resolvers = [resolver_for(unbound.urls[way], unbound.context) for way in WAYS]
    found: list[Any] = []

    async def ask(resolver: DNSResolver) -> None:
        found.append(await addresses(resolver, "both.example"))

    async with anyio.create_task_group() as tasks:
        for _ in range(10):
            for resolver in resolvers:
                tasks.start_soon(ask, resolver)
    assert found == [{V6: ("2001:db8::1",), V4: ("192.0.2.1",)}] * 40
