"""Direct: its options, its two ways of making connections, what it tells, and its promises as a guest."""

from __future__ import annotations

import errno
import math
import socket
from contextlib import closing
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest

import racer
from racer.abc import MakeContext, Progress, Stage, Target, Traits, TransportStatus
from racer.errors import ConfigError, ErrorType, NetworkError, TransportError, error_type_of
from racer.testing import (
    EchoServer,
    LocalHost,
    StreamLedger,
    cancel_everywhere,
    check_transport,
    stream_pair,
)
from tests.transports.net.world import V4, V6, Diary, Oracle, answers
from transports._net import resolve
from transports._net.lookups import LookupThreads
from transports.direct import Direct, SystemResolver, make

if TYPE_CHECKING:
    from anyio.abc import ByteStream

NAME = Target("name.example", 443, tls=False)


def local_port(sock: socket.socket) -> int:
    port: int = sock.getsockname()[1]
    return port


def refusing_port() -> int:
    """Return a port at which nobody listens, as far as one can know."""
    with closing(socket.socket()) as sock:
        sock.bind(("127.0.0.1", 0))
        return local_port(sock)


# --- options --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"attempt_delay": 0}, "attempt_delay=0: must be at least 0.01 s"),
        ({"attempt_delay": 0.0099}, "attempt_delay=0.0099: a delay is 0 or at least 0.01 s"),
        ({"attempt_delay": -1}, "attempt_delay=-1: a delay is 0 or at least"),
        ({"attempt_delay": math.inf}, "attempt_delay must be a finite number of seconds, not inf"),
        ({"attempt_delay": math.nan}, "attempt_delay must be a finite number of seconds, not nan"),
        ({"attempt_delay": True}, "attempt_delay must be a finite number of seconds, not True"),
        ({"attempt_delay": "0.25"}, "attempt_delay must be a finite number of seconds"),
        ({"attempt_delay": None}, "attempt_delay must be a finite number of seconds"),
        ({"resolution_delay": -0.001}, "resolution_delay=-0.001: a delay is 0 or at least 0.01 s"),
        ({"resolution_delay": math.inf}, "resolution_delay must be a finite number"),
        (
            {"resolver": "sytem"},
            "resolver='sytem': not 'system', nor a URL such as udp://192.0.2.53",
        ),
        (
            {"resolver": None},
            "resolver must be 'system', a URL such as udp://192.0.2.53, an object with",
        ),
        ({"local_address": "localhost"}, "local_address must be an IP address of this machine"),
        ({"local_address": 7}, "local_address must be an IP address of this machine, not 7"),
        ({"dial_tcp": "tcp"}, "dial_tcp must be an async function, not str"),
    ],
)
def test_an_option_that_cannot_be_is_named_before_anything_starts(
    options: dict[str, Any], text: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        Direct(**options)
    assert text in str(caught.value)


async def no_dial(address: str, port: int) -> ByteStream:
    raise AssertionError(address)


def test_a_hook_chooses_the_local_address_itself() -> None:
    with pytest.raises(ConfigError, match="local_address together with dial_tcp"):
        Direct(dial_tcp=no_dial, local_address="127.0.0.1")


def test_bounds_are_options_too() -> None:
    shown = repr(Direct(attempt_delay=0.010, resolution_delay=0, local_address="::1"))
    assert shown == (
        "Direct(resolver=SystemResolver(), attempt_delay=0.01, resolution_delay=0.0, local_address='::1')"
    )


def test_a_configuration_gives_the_same_options() -> None:
    options = {
        "resolver": "system",
        "attempt_delay": 0.1,
        "resolution_delay": 0.02,
        "local_address": "127.0.0.1",
    }
    made = make(MakeContext(name="mine", options=options))
    assert repr(made) == repr(Direct(**options))  # type: ignore[arg-type]
    assert made.name == "direct"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"attempt_dealy": 0.1}, "unknown key 'attempt_dealy'; did you mean 'attempt_delay'?"),
        ({"dial_tcp": "x"}, "unknown key 'dial_tcp'"),
        ({"attempt_delay": 0}, "attempt_delay=0: must be at least"),
    ],
)
def test_a_configuration_is_read_strictly(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make(MakeContext(name="direct", options=options))
    assert text in str(caught.value)


def test_it_is_found_by_its_entry_point() -> None:
    (found,) = entry_points(group="racer.transports", name="direct")
    assert found.load() is make


def test_it_declares_nothing_special() -> None:
    assert Direct.name == "direct"
    assert Direct().traits == Traits()
    assert Direct().serves(NAME) is None


# --- real connections -----------------------------------------------------------------------


@pytest.mark.every_loop
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_it_connects_by_address_and_by_name(host: str) -> None:
    async with EchoServer() as server:
        target = Target(host, server.target.port, tls=False)
        diary = Diary()
        async with await Direct().connect(target, diary) as stream:
            await stream.send(b"ping")
            assert await stream.receive() == b"ping"
    by_name = [Stage.RESOLVE] if host == "localhost" else []
    assert diary.stages == [*by_name, Stage.CONNECT]
    assert diary.peers[-1] == ("127.0.0.1", target.port)


@pytest.mark.every_loop
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_refusal_says_who_refused(host: str) -> None:
    port = refusing_port()
    with pytest.raises(ConnectionRefusedError, match=f"127.0.0.1:{port}") as caught:
        await Direct().connect(Target(host, port, tls=False), Progress())
    assert caught.value.errno == errno.ECONNREFUSED


@pytest.mark.every_loop
async def test_a_name_with_a_dead_address_reaches_the_living_one() -> None:
    oracle = Oracle([(0, answers("127.0.0.2", "127.0.0.1"))])
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        target = Target("name.example", local_port(listener), tls=False)
        diary = Diary()
        stream = await Direct(resolver=oracle, attempt_delay=5).connect(target, diary)
        await stream.aclose()
    assert [address for address, _ in diary.peers] == ["127.0.0.2", "127.0.0.1", "127.0.0.1"]


@pytest.mark.every_loop
async def test_a_race_over_real_sockets_cancelled_anywhere_leaves_none() -> None:
    oracle = Oracle([(0, answers("127.0.0.2", "127.0.0.1", "127.0.0.3"))])
    with closing(socket.create_server(("0.0.0.0", 0), backlog=256)) as listener:
        listener.setblocking(False)
        target = Target("name.example", local_port(listener), tls=False)

        async def story() -> None:
            direct = Direct(resolver=oracle, attempt_delay=0.01)
            stream = await direct.connect(target, Progress())
            await anyio.aclose_forcefully(stream)

        async def verify() -> None:
            """Every connection that the server has seen is closed: none is kept by anybody."""
            for _ in range(3):
                await anyio.lowlevel.checkpoint()
            while True:
                try:
                    theirs, _ = listener.accept()
                except BlockingIOError:
                    return
                with theirs:
                    theirs.setblocking(True)
                    theirs.settimeout(20)
                    assert theirs.recv(1) == b""

        sweep = await cancel_everywhere(story, verify=verify, passes=4)
        assert sweep.cancelled > 5


@pytest.mark.every_loop
async def test_it_connects_from_the_local_address() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        target = Target("localhost", local_port(listener), tls=False)
        async with await Direct(local_address="127.0.0.1").connect(target, Progress()):
            theirs, address = listener.accept()
            theirs.close()
            assert address[0] == "127.0.0.1"


async def test_from_a_local_address_only_its_family_is_asked_for_and_reached() -> None:
    oracle = Oracle([])
    with pytest.raises(NetworkError):
        await Direct(resolver=oracle, local_address="127.0.0.1").connect(NAME, Progress())
    with pytest.raises(NetworkError):
        await Direct(resolver=oracle, local_address="::1").connect(NAME, Progress())
    assert oracle.asked == [("name.example", (V4,)), ("name.example", (V6,))]

    direct = Direct(local_address="127.0.0.1")
    with pytest.raises(OSError, match=r"\[::1\]:9 from 127\.0\.0\.1: not of one family") as caught:
        await direct.connect(Target("::1", 9, tls=False), Progress())
    assert caught.value.errno == errno.EAFNOSUPPORT
    assert error_type_of(caught.value) is ErrorType.HOST_UNREACHABLE


async def test_without_ipv6_nobody_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "has_ipv6", False)
    oracle = Oracle([])
    with pytest.raises(NetworkError):
        await Direct(resolver=oracle).connect(NAME, Progress())
    assert oracle.asked == [("name.example", (V4,))]


async def test_a_dialer_races_it_like_any_guest() -> None:
    async with EchoServer() as server, racer.Dialer([racer.Entrant(Direct())]) as dialer:
        host, port = server.target.host, server.target.port
        async with await dialer.dial(host, port, tls=False) as conn:
            await conn.send(b"ping")
            assert await conn.receive() == b"ping"
            assert conn.transport_name == "direct"
        with pytest.raises(racer.errors.AllAttemptsFailed) as caught:
            await dialer.dial("localhost", refusing_port(), tls=False)
        assert caught.value.errno == errno.ECONNREFUSED


@pytest.mark.parametrize("by", ["address", "name"])
async def test_it_keeps_the_promises_of_a_guest(by: str) -> None:
    oracle = Oracle([(0, answers("127.0.0.1"))])
    async with EchoServer() as server:
        target, failing = server.target, server.refusing_target
        if by == "name":
            target = Target("name.example", target.port, tls=False)
            failing = Target("name.example", failing.port, tls=False)
        report = await check_transport(
            lambda: Direct(resolver=oracle), target=target, failing_target=failing, passes=6
        )
    assert report.sweep is not None
    assert report.sweep.cancelled > 0


@pytest.mark.virtual_time
async def test_it_is_closed_when_every_one_of_its_users_has_closed_it() -> None:
    tunnel = Tunnel({"192.0.2.1": 0})
    direct = Direct(dial_tcp=tunnel.dial)

    async def reach() -> None:
        await (await direct.connect(Target("192.0.2.1", 443), Progress())).aclose()

    async with LocalHost() as host:
        await direct.start(host)
        await direct.start(host)
        await direct.aclose()
        await reach()
        await direct.aclose()
        with pytest.raises(TransportError, match="transport 'direct' was closed"):
            await reach()
        await direct.start(host)
        await reach()
        await direct.aclose()


# --- the hook -------------------------------------------------------------------------------


class Tunnel:
    """Makes connections in memory; each address connects after its seconds."""

    def __init__(self, table: dict[str, float], *, close_hangs: bool = False) -> None:
        self.table = table
        self.close_hangs = close_hangs
        self.ledger = StreamLedger()
        self.dialed: list[tuple[str, int, float]] = []
        self.streams: dict[str, ByteStream] = {}

    async def dial(self, address: str, port: int) -> ByteStream:
        self.dialed.append((address, port, anyio.current_time()))
        await anyio.sleep(self.table[address])
        near, far = stream_pair(name=address, ledger=self.ledger, close_hangs=self.close_hangs)
        far.abort()
        self.streams[address] = near
        return near


@pytest.mark.virtual_time
@pytest.mark.parametrize("host", ["192.0.2.1", "2001:db8::1"])
async def test_the_hook_makes_the_connection_and_its_stream_is_used_as_it_is(host: str) -> None:
    tunnel = Tunnel({host: 1})
    diary = Diary()
    stream = await Direct(dial_tcp=tunnel.dial).connect(Target(host, 443), diary)
    assert stream is tunnel.streams[host]
    assert tunnel.dialed == [(host, 443, 0)]
    assert (diary.stages, diary.peers) == ([Stage.CONNECT], [(host, 443)])
    await stream.aclose()


@pytest.mark.virtual_time
async def test_the_hook_is_given_addresses_with_happy_eyeballs_and_never_names() -> None:
    tunnel = Tunnel({"::1": 100, "1.1.1.1": 100, "::2": 1})
    direct = Direct(
        resolver=Oracle([(0, answers("::1", "1.1.1.1", "::2"))]),
        dial_tcp=tunnel.dial,
        attempt_delay=0.5,
    )
    stream = await direct.connect(NAME, Progress())
    assert tunnel.dialed == [("::1", 443, 0), ("1.1.1.1", 443, 0.5), ("::2", 443, 1)]
    assert anyio.current_time() == 2
    assert stream is tunnel.streams["::2"]
    await stream.aclose()
    tunnel.ledger.assert_all_closed()


@pytest.mark.virtual_time
@pytest.mark.parametrize("count", [2, 5])
async def test_of_streams_that_arrive_together_one_leaves_and_no_close_holds_it_up(
    count: int,
) -> None:
    addresses = [f"10.0.0.{n}" for n in range(count)]
    tunnel = Tunnel({a: 0.25 * (count - n) for n, a in enumerate(addresses)}, close_hangs=True)
    direct = Direct(resolver=Oracle([(0, answers(*addresses))]), dial_tcp=tunnel.dial)
    stream = await direct.connect(NAME, Progress())
    assert anyio.current_time() == 0.25 * count
    assert len(tunnel.streams) >= 2
    assert stream is tunnel.streams[addresses[0]]
    tunnel.ledger.assert_all_closed(but=[addresses[0]])
    await anyio.aclose_forcefully(stream)


@pytest.mark.virtual_time
async def test_with_a_hook_a_race_cancelled_anywhere_leaves_no_stream() -> None:
    tunnels: list[Tunnel] = []

    async def story() -> None:
        tunnel = Tunnel({"::1": 0.5, "1.1.1.1": 0.25, "::2": 100}, close_hangs=True)
        tunnels[:] = [tunnel]
        oracle = Oracle([(0, answers("::1", "1.1.1.1", "::2"))])
        stream = await Direct(resolver=oracle, dial_tcp=tunnel.dial).connect(NAME, Progress())
        await anyio.aclose_forcefully(stream)

    async def verify() -> None:
        tunnels[0].ledger.assert_all_closed()

    sweep = await cancel_everywhere(story, verify=verify, passes=8)
    assert sweep.cancelled > 10


@pytest.mark.virtual_time
async def test_a_loser_that_fails_to_close_harms_nobody() -> None:
    tunnel = Tunnel({"::1": 0.5, "1.1.1.1": 0.25})

    async def dial(address: str, port: int) -> ByteStream:
        stream = await tunnel.dial(address, port)
        if address == "1.1.1.1":
            proper = stream.aclose

            async def aclose() -> None:
                try:
                    await proper()
                finally:
                    raise RuntimeError("cannot close")

            stream.aclose = aclose  # type: ignore[method-assign]
        return stream

    direct = Direct(resolver=Oracle([(0, answers("::1", "1.1.1.1"))]), dial_tcp=dial)
    stream = await direct.connect(NAME, Progress())
    assert stream is tunnel.streams["::1"]
    await stream.aclose()
    tunnel.ledger.assert_all_closed()


# --- status ---------------------------------------------------------------------------------


async def test_status_tells_of_stuck_lookups(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = LookupThreads(name="test-lookup", max_stuck=6)
    monkeypatch.setattr(resolve, "_main", threads)
    assert Direct().status() == TransportStatus(health="ok", details={"lookups.stuck": 0})
    monkeypatch.setattr(threads, "_stuck", 3)
    status = Direct(resolver=SystemResolver()).status()
    assert status.health == "3 name lookups are stuck in the system's resolver"
    assert status.details == {"lookups.stuck": 3}
    assert Direct(resolver=Oracle([])).status() == TransportStatus()
