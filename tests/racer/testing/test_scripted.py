"""Scripted transports: they do what is written, when it is written, and object to misuse."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from racer import Attempt, Outcome
from racer.abc import Origin, Progress, Stage, Target, Traits
from racer.errors import ConfigError, DialerClosed
from racer.testing import (
    ContractBroken,
    Lifecycle,
    LocalHost,
    MemoryStream,
    RecordedEnd,
    Script,
    ScriptedRequestTransport,
    ScriptedTransport,
    StreamLeak,
    StreamLedger,
    cancel_everywhere,
    fails,
    hangs,
    returns,
    returns_none,
    wins,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

pytestmark = pytest.mark.virtual_time

TARGET = Target("example.org")
PROGRESS = Progress()


@pytest.fixture
async def host() -> AsyncIterator[LocalHost]:
    async with LocalHost() as host:
        yield host


async def started(host: LocalHost, script: Script, **options: Any) -> ScriptedTransport:
    transport = ScriptedTransport("direct", script, **options)
    await transport.start(host)
    return transport


def on_asyncio() -> bool:
    return anyio.get_cancelled_exc_class() is asyncio.CancelledError


# --- scripts --------------------------------------------------------------------------------------------


async def test_a_win_gives_a_stream_in_time_and_both_its_ends(host: LocalHost) -> None:
    transport = await started(host, wins(1.25))
    stream = await transport.connect(TARGET, PROGRESS)
    assert anyio.current_time() == 1.25
    (record,) = transport.attempts
    assert (record.began_at, record.ended_at, record.cancelled_at) == (0.0, 1.25, None)
    assert (record.target, record.end, record.stream) == (TARGET, RecordedEnd.CONNECTED, stream)
    assert record.peer is not None
    await stream.send(b"hello")
    assert await record.peer.receive() == b"hello"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError(5, "instance"), OSError),
        (ConnectionResetError, ConnectionResetError),
        (lambda: KeyError("made"), KeyError),
        (SystemExit(3), SystemExit),
    ],
    ids=["instance", "class", "function", "exit"],
)
async def test_a_failure_raises_its_error_in_time(
    error: Any, expected: type[BaseException], host: LocalHost
) -> None:
    transport = await started(host, fails(0.25, error))
    with pytest.raises(expected):
        await transport.connect(TARGET, PROGRESS)
    (record,) = transport.attempts
    assert (record.ended_at, record.end) == (0.25, RecordedEnd.FAILED)


async def test_a_hang_ends_by_cancellation_only(host: LocalHost) -> None:
    transport = await started(host, hangs())
    with anyio.move_on_after(1e6):
        await transport.connect(TARGET, PROGRESS)
    (record,) = transport.attempts
    assert (record.cancelled_at, record.ended_at) == (1e6, 1e6)
    assert record.end is RecordedEnd.CANCELLED


async def test_a_transport_may_return_anything(host: LocalHost) -> None:
    transport = await started(host, returns_none(0.5).then(returns("no stream")))
    assert await transport.connect(TARGET, PROGRESS) is None
    assert anyio.current_time() == 0.5
    assert str(await transport.connect(TARGET, PROGRESS)) == "no stream"
    assert transport.ledger.streams == ()


async def test_successive_calls_follow_the_script_and_repeat_its_end(host: LocalHost) -> None:
    transport = await started(host, fails().then(returns_none()).then(wins()))
    with pytest.raises(ConnectionRefusedError):
        await transport.connect(TARGET, PROGRESS)
    assert await transport.connect(TARGET, PROGRESS) is None
    for _ in range(2):
        assert isinstance(await transport.connect(TARGET, PROGRESS), MemoryStream)


async def test_calls_side_by_side_take_successive_steps(host: LocalHost) -> None:
    transport = await started(host, wins(2).then(wins(1)))
    async with anyio.create_task_group() as tg:
        for _ in range(2):
            tg.start_soon(transport.connect, TARGET, PROGRESS)
        await anyio.sleep(0.5)
        assert len(transport.running) == 2
        await anyio.sleep(1)
        assert list(transport.running) == transport.attempts[:1]
    assert [record.ended_at for record in transport.attempts] == [2.0, 1.0]


@pytest.mark.parametrize(
    ("script", "ended_at"),
    [
        (hangs().slow_cleanup(1.5), 2.5),
        (wins(3).slow_cleanup(1.5), 2.5),
        (fails(0.5).slow_cleanup(1.5), 2.0),
        (wins(0.5).slow_cleanup(1.5), 0.5),  # who wins has nothing to clean up
    ],
)
async def test_a_slow_cleanup_is_shielded(script: Script, ended_at: float, host: LocalHost) -> None:
    transport = await started(host, script)
    with anyio.move_on_after(1):
        with contextlib.suppress(ConnectionRefusedError):
            await transport.connect(TARGET, PROGRESS)
    assert transport.attempts[0].ended_at == ended_at


@pytest.mark.parametrize(
    ("script", "end", "ended_at"),
    [
        (hangs().ignores_cancel(5), RecordedEnd.CANCELLED, 6.0),
        (wins(3).ignores_cancel(5), RecordedEnd.CONNECTED, 3.0),
        (wins(3).ignores_cancel(1), RecordedEnd.CANCELLED, 2.0),
        (wins(3).ignores_cancel(), RecordedEnd.CONNECTED, 3.0),
        (fails(3).ignores_cancel(5), RecordedEnd.FAILED, 3.0),
        (hangs().ignores_cancel(1).slow_cleanup(2), RecordedEnd.CANCELLED, 4.0),
    ],
)
async def test_a_cancellation_can_be_ignored_for_a_while(
    script: Script, end: RecordedEnd, ended_at: float, host: LocalHost
) -> None:
    transport = await started(host, script)
    with anyio.move_on_after(1):
        with contextlib.suppress(ConnectionRefusedError):
            await transport.connect(TARGET, PROGRESS)
    (record,) = transport.attempts
    assert (record.end, record.cancelled_at, record.ended_at) == (end, 1.0, ended_at)


async def test_a_step_tells_of_its_progress(host: LocalHost) -> None:
    class Told(Progress):
        def stage(self, stage: Stage) -> None:
            told.append(stage)

    told: list[Stage] = []
    transport = await started(
        host, wins(1).tells(lambda progress: progress.stage(Stage.HANDSHAKE)).then(wins())
    )
    await transport.connect(TARGET, Told())
    await transport.connect(TARGET, Told())
    assert told == [Stage.HANDSHAKE]


async def test_a_win_takes_the_options_of_its_stream(host: LocalHost) -> None:
    script = wins(capacity=3, chunk_sizes=[2], close_delay=0.5).then(wins(close_hangs=True))
    transport = await started(host, script)
    stream = await transport.connect(TARGET, PROGRESS)
    peer = transport.attempts[0].peer
    assert peer is not None
    await stream.send(b"abc")
    assert [await peer.receive(), await peer.receive()] == [b"ab", b"c"]
    await stream.aclose()
    assert transport.attempts[0].stream is not None
    assert transport.attempts[0].stream.closed_at == 0.5
    hanging = await transport.connect(TARGET, PROGRESS)
    with anyio.move_on_after(9):
        await hanging.aclose()
    assert anyio.current_time() == 9.5


@pytest.mark.parametrize(
    "make",
    [
        lambda: wins(-1),
        lambda: hangs().slow_cleanup(-1),
        lambda: hangs().ignores_cancel(float("nan")),
    ],
)
async def test_times_that_cannot_be_are_refused(make: Callable[[], Script]) -> None:
    with pytest.raises(ValueError, match="0 or more seconds"):
        make()


# --- records --------------------------------------------------------------------------------------------


async def test_streams_are_in_the_ledger(host: LocalHost) -> None:
    shared = StreamLedger()
    transport = await started(host, wins(), ledger=shared)
    stream = await transport.connect(TARGET, PROGRESS)
    assert transport.ledger is shared
    with pytest.raises(StreamLeak, match="'direct'"):
        shared.assert_all_closed()
    await stream.aclose()
    shared.assert_all_closed()


async def test_the_far_end_can_be_served_in_the_host(host: LocalHost) -> None:
    async def echo(stream: MemoryStream) -> None:
        async for chunk in stream:
            await stream.send(chunk)
        await stream.send_eof()

    transport = await started(host, wins(), serve=echo)
    stream = await transport.connect(TARGET, PROGRESS)
    await stream.send(b"ping")
    assert await stream.receive() == b"ping"
    await stream.send_eof()
    with pytest.raises(anyio.EndOfStream):
        await stream.receive()


async def test_it_says_what_it_serves() -> None:
    assert ScriptedTransport("a").serves(TARGET) is None
    assert ScriptedTransport("a", serves="not today").serves(TARGET) == "not today"
    picky = ScriptedTransport("a", serves=lambda target: "IPv6" if ":" in target.host else None)
    assert picky.serves(TARGET) is None
    assert picky.serves(Target("2001:db8::1")) == "IPv6"


async def test_it_declares_its_traits() -> None:
    traits = Traits(start_delay=8.0, tier=1)
    assert ScriptedTransport("a", traits=traits).traits is traits
    assert ScriptedTransport("a").traits == Traits()


async def test_it_remembers_verdicts() -> None:
    transport = ScriptedTransport("a")
    verdict = Attempt(transport="a", outcome=Outcome.CONNECTED)
    transport.observe(verdict)
    assert transport.observed == [verdict]


async def test_each_attempt_remembers_its_credential(host: LocalHost) -> None:
    transport = await started(host, wins(), credential="old")
    await transport.connect(TARGET, PROGRESS)
    transport.update_credential("new")
    await transport.connect(TARGET, PROGRESS)
    assert [record.credential for record in transport.attempts] == ["old", "new"]
    assert "old" not in repr((transport, transport.attempts))
    with pytest.raises(ConfigError, match="takes no credential"):
        ScriptedTransport("a").update_credential("x")


async def test_start_and_aclose_can_be_slow_and_fail(host: LocalHost) -> None:
    lifecycle = Lifecycle(
        start_takes=0.5,
        start_errors=[OSError("first"), OSError("second")],
        aclose_takes=0.25,
        aclose_error=KeyError("in aclose"),
    )
    transport = ScriptedTransport("a", lifecycle=lifecycle)
    for words in ("first", "second"):
        with pytest.raises(OSError, match=words):
            await transport.start(host)
    await transport.start(host)
    assert transport.started_at == [0.0, 0.5, 1.0]
    with pytest.raises(KeyError, match="in aclose"):
        await transport.aclose()
    assert transport.closed_at == [1.5]
    assert anyio.current_time() == 1.75
    assert transport.misuses == []


# --- misuse ---------------------------------------------------------------------------------------------


async def test_connect_before_start_is_misuse() -> None:
    transport = ScriptedTransport("a")
    with pytest.raises(ContractBroken, match="'a': connect before start"):
        await transport.connect(TARGET, PROGRESS)
    assert transport.misuses == ["connect before start"]
    assert transport.attempts == []


async def test_connect_after_a_failed_start_is_misuse(host: LocalHost) -> None:
    transport = ScriptedTransport("a", lifecycle=Lifecycle(start_errors=[OSError()]))
    with pytest.raises(OSError):
        await transport.start(host)
    with pytest.raises(ContractBroken, match="before start"):
        await transport.connect(TARGET, PROGRESS)


async def test_a_second_start_is_misuse(host: LocalHost) -> None:
    transport = await started(host, wins())
    with pytest.raises(ContractBroken, match="started twice"):
        await transport.start(host)


async def test_two_starts_at_once_are_misuse(host: LocalHost) -> None:
    transport = ScriptedTransport("a", lifecycle=Lifecycle(start_takes=1))
    async with anyio.create_task_group() as tg:
        tg.start_soon(transport.start, host)
        await anyio.sleep(0.5)
        with pytest.raises(ContractBroken, match="started twice"):
            await transport.start(host)


async def test_use_after_aclose_is_misuse(host: LocalHost) -> None:
    transport = await started(host, wins())
    await transport.aclose()
    await transport.aclose()  # this one is allowed
    with pytest.raises(ContractBroken, match="connect after aclose"):
        await transport.connect(TARGET, PROGRESS)
    with pytest.raises(ContractBroken, match="start after aclose"):
        await transport.start(host)
    assert transport.misuses == ["connect after aclose", "start after aclose"]


# --- requests -------------------------------------------------------------------------------------------


async def answer(request: str) -> str:
    await anyio.sleep(0.1)
    return request.upper()


async def test_a_request_transport_follows_its_script(host: LocalHost) -> None:
    transport = ScriptedRequestTransport("amp", fails(0.1).then(wins(0.2)), answer=answer)
    await transport.start(host)
    origin = Origin("https", "example.org", 443)
    with pytest.raises(ConnectionRefusedError):
        await transport.prepare(origin)
    route = await transport.prepare(origin)
    assert await route.handle("get") == "GET"
    assert (route.requests, route.closed) == (["get"], False)
    with pytest.raises(StreamLeak, match="'amp'"):
        transport.ledger.assert_all_closed()
    await route.aclose()
    await anyio.sleep(1)
    await route.aclose()
    transport.ledger.assert_all_closed()
    assert (route.made_at, route.closed_at) == (0.1 + 0.2, 0.1 + 0.2 + 0.1)
    assert [record.target for record in transport.attempts] == [origin, origin]
    assert transport.attempts[1].route is route
    with pytest.raises(ContractBroken, match="handle after aclose"):
        await route.handle("again")


async def test_a_request_transport_may_return_none(host: LocalHost) -> None:
    transport = ScriptedRequestTransport("amp", returns_none(), answer=answer)
    with pytest.raises(ContractBroken, match="before start"):
        await transport.prepare(Origin("https", "example.org", 443))
    await transport.start(host)
    assert await transport.prepare(Origin("https", "example.org", 443)) is None


# --- the host that they are given -----------------------------------------------------------------------


async def test_a_local_host_runs_tasks_until_its_block_ends() -> None:
    ended: list[float] = []

    async def serve() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(anyio.current_time())

    async with LocalHost() as host:
        host.start_soon(serve, name="a session")
        await anyio.sleep(1)
        assert host.running == ["a session"]
    assert ended == [1.0]
    assert host.running == []
    with pytest.raises(DialerClosed):
        host.start_soon(serve, name="late")


async def test_what_a_hosted_task_raises_ends_nothing_else() -> None:
    async def crash() -> None:
        raise KeyError("a bug")

    async with LocalHost() as host:
        host.start_soon(crash, name="crash")
        await anyio.sleep(1)
    assert [str(error) for error in host.errors] == ["'a bug'"]


async def test_an_error_leaves_a_local_host_as_it_was_raised() -> None:
    with pytest.raises(KeyError):
        async with LocalHost() as host:
            host.start_soon(anyio.sleep_forever, name="a session")
            raise KeyError


async def test_a_local_host_can_be_cancelled_everywhere() -> None:
    alive: list[LocalHost] = []

    async def story() -> None:
        async with LocalHost() as host:
            alive.append(host)
            host.start_soon(anyio.sleep_forever, name="a session")
            await anyio.sleep(1)

    async def verify() -> None:
        assert alive.pop().running == []

    await cancel_everywhere(story, verify=verify)


async def test_a_local_host_gives_instruments_that_do_nothing() -> None:
    async with LocalHost() as host:
        with host.tracer.start_as_current_span("a span") as span:
            assert not span.is_recording()
        host.meter.create_counter("a counter").add(1)


# --- and all of it together -------------------------------------------------------------------------------


@pytest.mark.parametrize("script", [wins(0.1), wins(0.1).slow_cleanup(0.5)])
async def test_a_scripted_transport_can_be_cancelled_everywhere(
    script: Script, host: LocalHost
) -> None:
    transport = await started(host, script)

    async def story() -> None:
        stream = await transport.connect(TARGET, PROGRESS)
        await stream.aclose()

    async def verify() -> None:
        assert transport.running == ()
        transport.ledger.assert_all_closed()

    sweep = await cancel_everywhere(story, verify=verify)
    assert sweep.cancelled > 10


async def test_a_stream_given_after_the_cancellation_is_found_as_a_leak(host: LocalHost) -> None:
    """A transport that ignores cancellation, under a caller who does not expect that."""
    transport = await started(host, wins(0.2).ignores_cancel())

    async def careless() -> None:
        with anyio.move_on_after(0.1):
            await transport.connect(TARGET, PROGRESS)

    async def verify() -> None:
        transport.ledger.assert_all_closed()

    with pytest.raises(AssertionError, match="streams left open"):
        await cancel_everywhere(careless, verify=verify)


def test_scripts_are_values() -> None:
    assert wins(1).then(hangs()) == wins(1).then(hangs())
    one: Callable[[], Coroutine[Any, Any, None]] | Script = fails(1)
    assert one != fails(2)
    assert returns(3).step(0) is not None
