"""The server as a whole: its sockets, its clock, its tasks, and how it ends (S25, S27)."""

from __future__ import annotations

import errno
import os
import socket
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest

from racer.abc import Progress, Target
from racer.errors import ConfigError
from racer.testing import LocalHost, cancel_everywhere, stream_pair
from tests.transports.soar.server.scripted import KEY, ZONE, Script
from transports.soar import Soar, SoarServer, _server
from transports.soar._clocks import SystemClocks
from transports.soar.core.crypto import EndCode, Grant
from transports.soar.core.dns.messages import QType
from transports.soar.core.dns.questions import build_question
from transports.soar.core.server.credentials import IssuedGrant
from transports.soar.core.server.source import Source
from transports.soar.core.streams.frames import (
    Challenge,
    End,
    Opened,
    RefusalReason,
    Refused,
    Reset,
    ResetCode,
    Response,
    StreamData,
)
from transports.soar.core.streams.targets import Target as WireTarget

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from racer.testing import MemoryStream
    from transports.soar.core.instants import Instant

LOOPBACK = ip_address("127.0.0.1")
ADDRESS = "93.184.216.34"


@pytest.fixture(autouse=True)
def in_haste(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Say goodbye for a moment only where waiting costs something."""
    if request.node.get_closest_marker("virtual_time") is None:
        monkeypatch.setattr(_server, "_FAREWELL", 0.002)


def make(**options: Any) -> SoarServer:
    return SoarServer(**{"domain": ZONE.text, "key": KEY, "uptime": 1000.0, **options})


class Desk:
    """What a script asks: a server by its front door, whose answers come by a real socket."""

    def __init__(self, server: SoarServer) -> None:
        self.server = server
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.bind(("127.0.0.1", 0))
        self.sock.setblocking(False)
        peer = self.sock.getsockname()
        self.source = Source(LOOPBACK.packed, peer[1], False, peer)

    @property
    def now(self) -> Instant:
        return SystemClocks().now()

    def ask(self, message: bytes, source: Source | None = None) -> list[bytes]:
        self.server.receive([(message, source or self.source)])
        return self.answers()

    def answers(self) -> list[bytes]:
        found = []
        try:
            while True:
                found.append(self.sock.recv(4096))
        except BlockingIOError:
            return found


class Network:
    """Targets in memory."""

    def __init__(self) -> None:
        self.far: list[MemoryStream] = []
        self.reached = anyio.Event()

    async def __call__(self, address: str, port: int) -> MemoryStream:
        await anyio.lowlevel.checkpoint()
        if port == 80:
            raise ZeroDivisionError
        near, far = stream_pair()
        self.far.append(far)
        self.reached.set()
        return near


@asynccontextmanager
async def session(server: SoarServer, **options: Any) -> AsyncIterator[Script]:
    """Yield a client that has been welcomed and has proven where it is."""
    desk = Desk(server)
    with desk.sock:
        script = Script(desk, **options)  # type: ignore[arg-type]
        script.shake(desk.source)
        frames = exchange(script)
        (challenge,) = (frame for frame in frames if isinstance(frame, Challenge))
        exchange(script, Response(challenge.token))
        yield script


def exchange(script: Script, *frames: Any) -> list[Any]:
    return script.exchange(*frames, name_class=4).frames


async def until(script: Script, found: Callable[[Any], bool]) -> Any:
    """Ask until a frame is there."""
    for _ in range(200):
        for frame in exchange(script):
            if found(frame):
                return frame
        await anyio.lowlevel.checkpoint()
    raise AssertionError


def opening(number: int, port: int = 443, data: bytes = b"") -> StreamData:
    return StreamData(number, 0, WireTarget(ip_address(ADDRESS), port).to_wire() + data, False)


def files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


# --- its options ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"host": "localhost"}, "host must be an IP address of this machine, not 'localhost'"),
        ({"port": 65_536}, "port is 65536; it must be from 0, for any that is free, to 65535"),
        ({"own": ["here"]}, "own: 'here' is no IP address"),
        ({"name_servers": {"ns.example": ["here"]}}, "name_servers: 'here' is no IP address"),
        ({"idle_timeout": 601.0}, "idle_timeout is 601.0 s; it must be from 0.1 to 600"),
        ({"idle_timeout": float("nan")}, "idle_timeout is nan s; it must be from 0.1 to 600"),
        ({"max_sessions": 0}, "max_sessions is 0; it must be from 1 to 1048576"),
        ({"allow": ["example.org:0"]}, "allow[0]: 0 is no port; 1 to 65535 are"),
        ({"ports": [0]}, "ports: 0 is no port; 1 to 65535 are"),
    ],
)
def test_what_can_not_be_is_said(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make(**options)
    assert str(caught.value) == words


@pytest.mark.parametrize("domain", ["", "a..b", "x" * 64 + ".example", "t.example.com/"])
def test_a_zone_that_can_not_be_is_said(domain: str) -> None:
    with pytest.raises(ConfigError):
        make(domain=domain)


async def test_what_does_not_run_has_no_address_and_no_status() -> None:
    server = make()
    for ask in (lambda: server.address, server.status, lambda: server.revoke(bytes(6))):
        with pytest.raises(RuntimeError, match="the server does not run"):
            ask()
    async with server:
        assert server.status().sessions == ()
        with pytest.raises(RuntimeError, match="the server runs already"):
            await server.__aenter__()
    with pytest.raises(RuntimeError, match="the server does not run"):
        server.status()
    async with server:  # and again
        assert server.address[1] > 0


# --- its sockets ----------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_it_is_asked_by_udp_and_tcp_on_one_port(host: str) -> None:
    question = build_question(7, ZONE.wire, QType.SOA, edns=True)
    async with make(host=host) as server:
        assert server.address[0] == host
        async with await anyio.create_connected_udp_socket(*server.address) as udp:
            await udp.send(question)
            by_udp = await udp.receive()
        async with await anyio.connect_tcp(*server.address) as tcp:
            await tcp.send(len(question).to_bytes(2) + question)
            by_tcp = await tcp.receive()
        assert by_tcp == len(by_udp).to_bytes(2) + by_udp
        assert by_udp[:2] == b"\0\7"
        assert server.status().questions["other"] == 2


async def test_a_port_that_is_taken_is_said_bare_and_leaves_nothing() -> None:
    async with make() as server:
        before = files()
        other = make(port=server.address[1])
        with pytest.raises(OSError, match=r"cannot listen on 127\.0\.0\.1:") as caught:
            await other.__aenter__()
        assert caught.value.errno == errno.EADDRINUSE
        assert files() == before


async def test_what_goes_wrong_inside_its_block_leaves_it_bare_and_closed() -> None:
    with pytest.raises(ZeroDivisionError):
        async with make() as server:
            port = server.address[1]
            raise ZeroDivisionError
    async with make(port=port):
        pass


async def test_cancelled_anywhere_it_leaves_nothing() -> None:
    network = Network()
    before: list[int] = []

    async def setup() -> None:
        network.far.clear()
        before[:] = [files()]

    async def story() -> None:
        async with make(dial_tcp=network) as server, session(server) as script:
            exchange(script, opening(0, data=b"hello"))
            await until(script, lambda frame: isinstance(frame, Opened))
            await network.far[0].receive()

    async def verify() -> None:
        for far in network.far:
            with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                while True:
                    await far.receive()
            await far.aclose()
        assert files() == before[0]

    sweep = await cancel_everywhere(story, setup=setup, verify=verify, passes=2)
    assert sweep.cancelled > 10


# --- its clock, and its end -----------------------------------------------------------------


@pytest.mark.virtual_time
async def test_a_parked_question_is_answered_after_six_tenths_of_a_second() -> None:
    async with make() as server, session(server) as script:
        asked = script.packet(may_park=True)
        desk: Any = script.desk
        assert desk.ask(asked.message) == []
        await anyio.sleep(0.599)
        assert desk.answers() == []
        await anyio.sleep(0.001)
        await anyio.lowlevel.checkpoint()
        (message,) = desk.answers()
        assert script.open(asked, message) is not None
    assert anyio.current_time() == pytest.approx(1.6)


@pytest.mark.virtual_time
async def test_ending_tells_parked_questions_at_once_and_later_ones_for_a_second() -> None:
    server, ends = make(), anyio.Event()

    async def run(*, task_status: anyio.abc.TaskStatus[None]) -> None:
        async with server:
            task_status.started()
            await ends.wait()

    async with anyio.create_task_group() as tasks:
        await tasks.start(run)
        async with session(server) as script:
            desk: Any = script.desk
            asked = script.packet(may_park=True)
            assert desk.ask(asked.message) == []
            ends.set()
            await anyio.sleep(0.1)
            (message,) = desk.answers()
            said = script.open(asked, message)
            assert said is not None
            assert [f.code for f in said.frames if isinstance(f, End)] == [EndCode.SHUTDOWN]
            await anyio.sleep(0.8)
            late = script.packet()
            (message,) = desk.ask(late.message)
            notice = script.notice(late, message)
            assert notice is not None
            assert notice.code is EndCode.SHUTDOWN
    assert anyio.current_time() == pytest.approx(1.0)


@pytest.mark.virtual_time
async def test_without_sessions_it_ends_at_once() -> None:
    async with make():
        pass
    assert anyio.current_time() == 0


@pytest.mark.virtual_time
async def test_a_cancelled_server_tells_in_passing() -> None:
    with anyio.CancelScope() as scope:
        async with make() as server, session(server) as script:
            desk: Any = script.desk
            asked = script.packet(may_park=True)
            desk.ask(asked.message)
            scope.cancel()
            try:
                await anyio.sleep(1)
            finally:
                sock = desk.sock.dup()
    with sock:
        said = script.open(asked, sock.recv(4096))
    assert said is not None
    assert any(isinstance(frame, End) for frame in said.frames)
    assert anyio.current_time() == 0


# --- what one does to others ----------------------------------------------------------------


async def test_a_bug_in_one_stream_is_logged_and_ends_that_stream(
    caplog: pytest.LogCaptureFixture,
) -> None:
    network = Network()
    async with make(dial_tcp=network) as server, session(server) as script:
        exchange(script, opening(0), opening(1, port=80))
        frame = await until(script, lambda frame: isinstance(frame, Reset))
        assert frame == Reset(1, ResetCode.INTERNAL, 0)
        (record,) = caplog.records
        assert record.getMessage() == "a stream failed"
        assert record.exc_info is not None
        assert record.exc_info[0] is ZeroDivisionError
        exchange(script, StreamData(0, len(opening(0).data), b"hello", False))
        await network.reached.wait()
        assert await network.far[0].receive() == b"hello"
        await network.far[0].aclose()


async def test_a_bug_that_a_question_finds_is_logged_and_drops_that_question(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with make() as server, session(server) as script:
        core, desk = server._running(), script.desk
        real = type(core).receive_message

        def receive(self: Any, message: bytes, *args: Any) -> None:
            if message == b"poison":
                raise ZeroDivisionError
            real(self, message, *args)

        monkeypatch.setattr(type(core), "receive_message", receive)
        asked = script.packet()
        source = desk.source  # type: ignore[attr-defined]
        server.receive([(b"poison", source), (asked.message, source)])
        (message,) = desk.answers()  # type: ignore[attr-defined]
        assert script.open(asked, message) is not None
        assert caplog.messages == ["a question was dropped"]


async def test_a_bug_in_a_timeout_is_logged_and_time_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with make() as server:
        core = server._running()
        rung = anyio.Event()
        now = anyio.current_time()

        def fail(now: Any) -> None:
            raise ZeroDivisionError

        core._deadlines.set(now, fail)
        core._deadlines.set(now, lambda now: rung.set())
        server.flush()
        with anyio.fail_after(20):
            await rung.wait()
        assert caplog.messages == ["a timeout was dropped"]


async def test_what_is_taken_back_and_what_is_reconfigured() -> None:
    grant = Grant.generate(os.urandom)
    issued = IssuedGrant(grant=grant)
    server = make(grants=[issued], needs_grant=True, dial_tcp=Network())
    async with server, session(server, grant=grant) as script:
        exchange(script, opening(0, port=8443))
        refused = await until(script, lambda frame: isinstance(frame, Refused))
        assert refused == Refused(0, RefusalReason.POLICY)
        with pytest.raises(ConfigError, match="ports: 0 is no port"):
            server.reconfigure(grants=[], ports=[0])
        assert len(server.status().sessions) == 1  # nothing has changed
        server.reconfigure(grants=[issued], ports=[8443])
        exchange(script, opening(1, port=8443))
        await until(script, lambda frame: isinstance(frame, Opened))
        server.revoke(grant.id)
        assert server.status().sessions == ()
        assert server.status().ends["revoked"] == 1


# --- a client of ours -----------------------------------------------------------------------


@pytest.mark.parametrize("carrier", ["udp", "tcp"])
async def test_octets_go_to_a_real_target_and_back(carrier: str) -> None:
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)

    async def serve(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            async for chunk in stream:
                await stream.send(chunk)

    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        async with make(allow=["127.0.0.1:*"]) as server:
            url = f"{carrier}://127.0.0.1:{server.address[1]}"
            soar = Soar(domain=ZONE.text, server_key=server.public_key, resolvers=[url])
            async with LocalHost() as host:
                await soar.start(host)
                stream = await soar.connect(Target("127.0.0.1", port, tls=False), Progress())
                async with stream:
                    await stream.send(b"hello")
                    assert await stream.receive() == b"hello"
                    await stream.send_eof()
                    with pytest.raises(anyio.EndOfStream):
                        await stream.receive()
                await soar.aclose()
            (status,) = server.status().sessions or (None,)
            assert status is None or status.is_confirmed
            tasks.cancel_scope.cancel()
