"""`check_transport`: a transport that keeps every promise passes, and each broken promise is named."""

from __future__ import annotations

import logging
import socket
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import anyio
import anyio.lowlevel
import pytest
from anyio.streams.tls import TLSAttribute

from racer.abc import (
    TLS,
    Host,
    Origin,
    Progress,
    RequestTransport,
    Target,
    Traits,
    Transport,
    TransportStatus,
)
from racer.errors import NetworkError
from racer.testing import (
    EchoServer,
    MemoryStream,
    NonConformance,
    Rule,
    ScriptedTransport,
    StreamLedger,
    check_request_transport,
    check_transport,
    stream_pair,
    wins,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from anyio.abc import ByteStream

    from racer import Attempt
    from racer.testing import ConformanceReport

virtual_time = pytest.mark.virtual_time

WORKS = Target("works.example", 443, tls=False)
FAILS = Target("fails.example", 443, tls=False)
UNSERVED = Target("unserved.example", 443, tls=False)
SECRET = "hunter2-correct-horse"

ledger: StreamLedger


@pytest.fixture(autouse=True)
def fresh_ledger() -> None:
    global ledger  # noqa: PLW0603 - the transports below are made by the kit, without arguments
    ledger = StreamLedger()


def count_open() -> int:
    return len(ledger.open_streams)


class Good(Transport):
    """Keeps every promise; each transport below breaks one."""

    name = "good"
    traits = Traits(attempt_timeout=5.0)
    options: ClassVar[dict[str, Any]] = {}

    def __init__(self) -> None:
        self.host: Host | None = None
        self.is_closed = False
        self.password = SECRET

    def __repr__(self) -> str:
        return "<Good>"

    def serves(self, target: Target) -> str | None:
        return "not this one" if target == UNSERVED else None

    async def start(self, host: Host) -> None:
        self.host = host

    async def connect(self, target: Target, progress: Progress) -> ByteStream:
        if self.is_closed:
            raise NetworkError("closed")
        await anyio.sleep(0.1)
        if target == FAILS:
            raise ConnectionRefusedError("refused")
        near = self.open()
        try:
            await anyio.sleep(0.1)
        except BaseException:
            near.abort()
            raise
        return near

    def open(self) -> MemoryStream:
        near, far = stream_pair(name=self.name, **self.options)
        ledger.add(near)
        assert self.host is not None
        self.host.start_soon(self.serve, far, name="far end")
        return near

    async def serve(self, far: MemoryStream) -> None:
        try:
            async for chunk in far:
                await far.send(chunk)
            await far.send_eof()
        except anyio.BrokenResourceError:
            pass

    async def aclose(self) -> None:
        self.is_closed = True
        await anyio.lowlevel.checkpoint()


async def check(make: Callable[[], Transport], **options: Any) -> ConformanceReport:
    settings: dict[str, Any] = {
        "target": WORKS,
        "failing_target": FAILS,
        "unserved_target": UNSERVED,
        "count_open": count_open,
        "secrets": [SECRET],
        "passes": 3,
    }
    return await check_transport(make, **(settings | options))


# --- good transports --------------------------------------------------------------------------------------


@virtual_time
async def test_a_good_transport_keeps_every_rule() -> None:
    report = await check(Good)
    assert report.transport == "good"
    assert set(report.checked) == set(Rule) - {Rule.HANDLES}
    assert report.skipped == {}
    assert report.sweep is not None
    assert report.sweep.cancelled > 10
    assert report.sweep.jumps == 2


@virtual_time
async def test_what_cannot_be_checked_is_told_with_the_reason() -> None:
    class Single(Good):
        traits = Traits(max_concurrent=1)

    report = await check(
        Single, failing_target=None, echoes=False, secrets=[], count_open=lambda: None
    )
    assert dict(report.skipped) == {
        Rule.CARRIES: "the target does not echo",
        Rule.PARALLEL: "its traits say max_concurrent=1",
        Rule.FAILS: "no failing_target was given",
        Rule.ENDS: "what is open cannot be counted here",
        Rule.DISCREET: "no secrets were given",
    }


@virtual_time
async def test_a_scripted_transport_keeps_the_rules_too() -> None:
    async def echo(far: MemoryStream) -> None:
        async for chunk in far:
            await far.send(chunk)
        await far.send_eof()

    report = await check(
        lambda: ScriptedTransport("scripted", wins(0.1), serve=echo, ledger=ledger),
        failing_target=None,
        unserved_target=None,
    )
    assert set(report.skipped) == {Rule.FAILS}


class OverSockets(Transport):
    name = "sockets"

    def __init__(self) -> None:
        self.is_closed = False

    async def connect(self, target: Target, progress: Progress) -> ByteStream:
        if self.is_closed:
            raise NetworkError("closed")
        return await anyio.connect_tcp(target.host, target.port)

    async def aclose(self) -> None:
        self.is_closed = True


async def check_over_sockets(make: Callable[[], Transport]) -> ConformanceReport:
    async with EchoServer() as server:
        return await check_transport(
            make, target=server.target, failing_target=server.refusing_target, passes=4
        )


async def test_a_transport_over_real_sockets_passes_on_a_real_clock() -> None:
    report = await check_over_sockets(OverSockets)
    assert set(report.skipped) == {Rule.DISCREET}


@virtual_time
async def test_a_transport_over_real_sockets_passes_on_a_virtual_clock() -> None:
    report = await check_over_sockets(OverSockets)
    assert set(report.skipped) == {Rule.DISCREET}


# --- bad transports ---------------------------------------------------------------------------------------


class MadeWithIO(Good):
    def __init__(self) -> None:
        super().__init__()
        socket.socket().close()


class Nameless(Good):
    name = ""


class NamedByNumber(Good):
    name = 7  # type: ignore[assignment]


class NamedOverTwoLines(Good):
    name = "two\nlines"


class WithoutTraits(Good):
    traits = MappingProxyType({"tier": 0})  # type: ignore[assignment]


class ServesNothing(Good):
    def serves(self, target: Target) -> str | None:
        return "closed on Mondays"


class ServesEverything(Good):
    def serves(self, target: Target) -> str | None:
        return None


class SaysYesOrNo(Good):
    def serves(self, target: Target) -> str | None:
        return True if target == UNSERVED else None  # type: ignore[return-value]


class ServesAfterLookup(Good):
    def serves(self, target: Target) -> str | None:
        socket.getaddrinfo("127.0.0.1", 80)
        return super().serves(target)


class ServesAsynchronously(Good):
    async def serves(self, target: Target) -> str | None:  # type: ignore[override]
        return None


class StatusByWords(Good):
    def status(self) -> TransportStatus:
        return "fine"  # type: ignore[return-value]


class StatusByAsking(Good):
    def status(self) -> TransportStatus:
        socket.socket().close()
        return TransportStatus()


class ObservesBadly(Good):
    def observe(self, attempt: Attempt) -> None:
        assert attempt.error is not None


class ObservesAsynchronously(Good):
    async def observe(self, attempt: Attempt) -> None:  # type: ignore[override]
        pass


class ClosesOnce(Good):
    async def aclose(self) -> None:
        if self.is_closed:
            raise RuntimeError("closed already")
        await super().aclose()


class ClosesOnlyWhatStarted(Good):
    async def aclose(self) -> None:
        assert self.host is not None
        await super().aclose()


class ClosesForEver(Good):
    async def aclose(self) -> None:
        await anyio.sleep_forever()


class StartsForEver(Good):
    async def start(self, host: Host) -> None:
        await anyio.sleep_forever()


class CrashesInItsHost(Good):
    async def start(self, host: Host) -> None:
        await super().start(host)
        host.start_soon(self.crash, name="crash")
        await anyio.sleep(0.1)

    async def crash(self) -> None:
        raise KeyError("in the background")


class ReturnsNone(Good):
    async def connect(self, target: Target, progress: Progress) -> ByteStream:
        await anyio.lowlevel.checkpoint()
        return None  # type: ignore[return-value]


class ConnectsForEver(Good):
    async def connect(self, target: Target, progress: Progress) -> ByteStream:
        await anyio.sleep_forever()
        raise AssertionError


class ClaimsTLS(Good):
    traits = Traits(tls=TLS.OWN)


class HidesTLS(Good):
    options: ClassVar[dict[str, Any]] = {"attributes": {TLSAttribute.ssl_object: object()}}


class LosesBytes(Good):
    async def serve(self, far: MemoryStream) -> None:
        async for chunk in far:
            await far.send(chunk[:100])
            await far.send_eof()
            break


class ChangesBytes(Good):
    async def serve(self, far: MemoryStream) -> None:
        async for chunk in far:
            await far.send(chunk[::-1])


class NeverAnswers(Good):
    async def serve(self, far: MemoryStream) -> None:
        await anyio.sleep_forever()


class WrappedStream(MemoryStream):
    """Breaks one method of a good stream."""

    @classmethod
    def around(cls, stream: MemoryStream) -> MemoryStream:
        stream.__class__ = cls
        return stream


class NoHalfClose(WrappedStream):
    async def send_eof(self) -> None:
        raise NotImplementedError


class EofIgnored(WrappedStream):
    async def send_eof(self) -> None:
        await anyio.lowlevel.checkpoint()


class EofAnswered(WrappedStream):
    async def send_eof(self) -> None:
        await self.send(b"more")


class EmptyReads(WrappedStream):
    async def receive(self, max_bytes: int = 65536) -> bytes:
        await super().receive(max_bytes)
        return b""


class ClosesOnceOnly(WrappedStream):
    async def aclose(self) -> None:
        if self.closed:
            raise RuntimeError("closed already")
        await super().aclose()


class ReadsWhenClosed(WrappedStream):
    async def receive(self, max_bytes: int = 65536) -> bytes:
        if self.closed:
            return b"from the grave"
        return await super().receive(max_bytes)


class EndsWhenClosed(WrappedStream):
    async def receive(self, max_bytes: int = 65536) -> bytes:
        if self.closed:
            raise anyio.EndOfStream
        return await super().receive(max_bytes)


class WritesWhenClosed(WrappedStream):
    async def send(self, item: bytes) -> None:
        if not self.closed:
            await super().send(item)


def giving(stream_class: type[WrappedStream]) -> type[Good]:
    class Giving(Good):
        def open(self) -> MemoryStream:
            return stream_class.around(super().open())

    Giving.__name__ = f"Giving{stream_class.__name__}"
    return Giving


class OneAtATime(Good):
    busy = False

    async def connect(self, target: Target, progress: Progress) -> ByteStream:
        if self.busy:
            raise RuntimeError("busy")
        self.busy = True
        try:
            return await super().connect(target, progress)
        finally:
            self.busy = False


class SharesItsStream(Good):
    shared: MemoryStream | None = None

    def open(self) -> MemoryStream:
        if self.shared is None or self.shared.closed:
            self.shared = super().open()
        return self.shared


class CrossesWires(Good):
    """What goes into one of two streams comes out of the other."""

    def __init__(self) -> None:
        super().__init__()
        self.fars: list[MemoryStream] = []

    async def serve(self, far: MemoryStream) -> None:
        self.fars.append(far)
        async for chunk in far:
            others = [one for one in self.fars if one is not far and not one.closed]
            await (others[-1] if others else far).send(chunk)
        await far.send_eof()
        await far.aclose()


class FailsWithKeyError(Good):
    async def connect(self, target: Target, progress: Progress) -> ByteStream:
        if target == FAILS:
            raise KeyError(target.host)
        return await super().connect(target, progress)


class FailsWithAGroup(Good):
    async def connect(self, target: Target, progress: Progress) -> ByteStream:
        if target == FAILS:
            raise ExceptionGroup("all addresses", [ConnectionRefusedError()])
        return await super().connect(target, progress)


class NeverFails(Good):
    async def connect(self, target: Target, progress: Progress) -> ByteStream:
        return await super().connect(WORKS, progress)


class FailsTooLate(Good):
    async def connect(self, target: Target, progress: Progress) -> ByteStream:
        if target == FAILS:
            await anyio.sleep(60)
        return await super().connect(target, progress)


class LeaksWhenItFails(Good):
    async def connect(self, target: Target, progress: Progress) -> ByteStream:
        if target == FAILS:
            self.open()
        return await super().connect(target, progress)


class LeaksWhenCancelled(Good):
    async def connect(self, target: Target, progress: Progress) -> ByteStream:
        near = self.open()
        try:
            await (await super().connect(target, progress)).aclose()
        except Exception:
            near.abort()
            raise
        return near


class CleansUpTooLong(Good):
    async def connect(self, target: Target, progress: Progress) -> ByteStream:
        try:
            return await super().connect(target, progress)
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await anyio.sleep(1.5)
            raise


class SwallowsCancellation(Good):
    async def connect(self, target: Target, progress: Progress) -> ByteStream:
        try:
            return await super().connect(target, progress)
        except anyio.get_cancelled_exc_class():
            raise NetworkError("interrupted") from None


class KeepsAStream(Good):
    kept: MemoryStream | None = None

    async def connect(self, target: Target, progress: Progress) -> ByteStream:
        if self.kept is None and target == WORKS and not self.is_closed:
            self.kept = self.open()
        return await super().connect(target, progress)


class ConnectsForEverAfter(Good):
    async def connect(self, target: Target, progress: Progress) -> ByteStream:
        if self.is_closed:
            await anyio.sleep_forever()
        return await super().connect(target, progress)


class ConnectsAfterClose(Good):
    async def aclose(self) -> None:
        await anyio.lowlevel.checkpoint()


class TellsInItsRepr(Good):
    def __repr__(self) -> str:
        return f"<Good password={self.password}>"


class TellsInItsStatus(Good):
    def status(self) -> TransportStatus:
        return TransportStatus(details={"password": self.password})


class TellsInItsErrors(Good):
    async def connect(self, target: Target, progress: Progress) -> ByteStream:
        if target == FAILS:
            raise NetworkError("refused") from KeyError(self.password)
        return await super().connect(target, progress)


class TellsInItsLog(Good):
    async def connect(self, target: Target, progress: Progress) -> ByteStream:
        logging.getLogger("good").info("using %s", self.password)
        return await super().connect(target, progress)


BAD: list[tuple[type[Good], Rule, str]] = [
    (MadeWithIO, Rule.MAKES, "to make it called socket.__new__"),
    (Nameless, Rule.DECLARES, "its name is ''"),
    (NamedByNumber, Rule.DECLARES, "its name is 7"),
    (NamedOverTwoLines, Rule.DECLARES, "its name is 'two"),
    (WithoutTraits, Rule.DECLARES, "its traits are mappingproxy({'tier': 0})"),
    (ServesNothing, Rule.SERVES, "gave 'closed on Mondays' for the target that works"),
    (ServesEverything, Rule.SERVES, "gave None for unserved.example:443"),
    (SaysYesOrNo, Rule.SERVES, "gave True for unserved.example:443"),
    (ServesAfterLookup, Rule.SERVES, "serves() called socket.getaddrinfo"),
    (ServesAsynchronously, Rule.SERVES, "serves() is a coroutine"),
    (StatusByWords, Rule.REPORTS, "status() gave 'fine'"),
    (StatusByAsking, Rule.REPORTS, "status() called socket.__new__"),
    (ObservesBadly, Rule.REPORTS, "raised AssertionError"),
    (ObservesAsynchronously, Rule.REPORTS, "observe() is a coroutine"),
    (ClosesOnce, Rule.LIVES, "raised RuntimeError('closed already')"),
    (ClosesOnlyWhatStarted, Rule.LIVES, "raised AssertionError"),
    (ClosesForEver, Rule.REPORTS, "aclose() did not end within 3.0 s"),
    (StartsForEver, Rule.REPORTS, "start() did not end within 5.0 s"),
    (CrashesInItsHost, Rule.REPORTS, "a task that it hosted raised KeyError"),
    (ReturnsNone, Rule.CONNECTS, "it gave None, which is no ByteStream"),
    (ConnectsForEver, Rule.CONNECTS, "the attempt did not end within 5.0 s"),
    (HidesTLS, Rule.CONNECTS, "tls=DRIVER, and its stream is under TLS already"),
    (LosesBytes, Rule.CARRIES, "of 256 bytes only 100 came back"),
    (ChangesBytes, Rule.CARRIES, "(256 bytes) came back"),
    (NeverAnswers, Rule.CARRIES, "receive() did not end within 5.0 s"),
    (giving(NoHalfClose), Rule.CARRIES, "raised NotImplementedError"),
    (giving(EofIgnored), Rule.CARRIES, "receive() after send_eof() did not end"),
    (giving(EofAnswered), Rule.CARRIES, "gave b'more' where the stream should have ended"),
    (giving(EmptyReads), Rule.CARRIES, "receive() gave b''"),
    (giving(ClosesOnceOnly), Rule.CLOSES, "raised RuntimeError('closed already')"),
    (giving(ReadsWhenClosed), Rule.CLOSES, "receive() after aclose() worked"),
    (giving(EndsWhenClosed), Rule.CLOSES, "receive() after aclose() raised EndOfStream"),
    (giving(WritesWhenClosed), Rule.CLOSES, "send() after aclose() worked"),
    (OneAtATime, Rule.PARALLEL, "raised RuntimeError('busy')"),
    (SharesItsStream, Rule.PARALLEL, "came back"),
    (CrossesWires, Rule.PARALLEL, "came back"),
    (FailsWithKeyError, Rule.FAILS, "raised KeyError('fails.example')"),
    (FailsWithAGroup, Rule.FAILS, "raised ExceptionGroup"),
    (NeverFails, Rule.FAILS, "for fails.example:443, which does not work"),
    (FailsTooLate, Rule.FAILS, "the attempt did not end within 5.0 s"),
    (LeaksWhenItFails, Rule.FAILS, "1 more sockets or files stay open"),
    (LeaksWhenCancelled, Rule.CANCELS, "1 more sockets or files stay open"),
    (CleansUpTooLong, Rule.CANCELS, "did not end within 1.0 s of the cancellation"),
    (SwallowsCancellation, Rule.CANCELS, "NetworkError('interrupted') after the cancellation"),
    (KeepsAStream, Rule.ENDS, "1 more sockets or files stay open"),
    (ConnectsForEverAfter, Rule.REFUSES, "connect after aclose() did not end within 5.0 s"),
    (ConnectsAfterClose, Rule.REFUSES, "after aclose()"),
    (TellsInItsRepr, Rule.DISCREET, "secret 0 is in its repr"),
    (TellsInItsStatus, Rule.DISCREET, "secret 0 is in its status"),
    (TellsInItsErrors, Rule.DISCREET, "secret 0 is in its error"),
    (TellsInItsLog, Rule.DISCREET, "secret 0 is in the log of 'good'"),
]


@pytest.mark.parametrize(("bad", "rule", "words"), BAD, ids=[bad.__name__ for bad, _, _ in BAD])
@virtual_time
async def test_a_broken_promise_is_named(bad: type[Good], rule: Rule, words: str) -> None:
    with pytest.raises(NonConformance) as caught:
        await check(bad)
    assert (caught.value.rule, words in str(caught.value)) == (rule, True), str(caught.value)
    assert SECRET not in str(caught.value)


@virtual_time
async def test_every_rule_has_a_transport_that_breaks_it() -> None:
    assert {rule for _, rule, _ in BAD} == set(Rule) - {Rule.HANDLES}


@virtual_time
async def test_tls_that_is_promised_has_to_be_shown() -> None:
    with pytest.raises(NonConformance, match="its traits say tls=OWN") as caught:
        await check(ClaimsTLS, target=Target("works.example", 443, tls=True))
    assert caught.value.rule is Rule.CONNECTS
    await check(ClaimsTLS)  # this target wants none


@virtual_time
async def test_tls_streams_need_not_end_one_way_alone() -> None:
    class OwnTLS(giving(NoHalfClose)):  # type: ignore[misc]
        traits = Traits(tls=TLS.OWN)
        options: ClassVar[dict[str, Any]] = {"attributes": {TLSAttribute.ssl_object: object()}}

    report = await check(OwnTLS, target=Target("works.example", 443, tls=True))
    assert Rule.CARRIES in report.checked


@virtual_time
async def test_what_is_not_a_transport_is_refused() -> None:
    with pytest.raises(NonConformance, match=r"which is no racer\.abc\.Guest") as caught:
        await check(object)  # type: ignore[arg-type]
    assert caught.value.rule is Rule.MAKES
    with pytest.raises(NonConformance, match=r"which is no racer\.abc\.Transport"):
        await check(GoodForRequests)  # type: ignore[arg-type]


@virtual_time
async def test_the_kit_leaves_the_logs_as_they_were() -> None:
    root = logging.getLogger()
    before = (root.level, list(root.handlers))
    await check(Good)
    with pytest.raises(NonConformance):
        await check(ReturnsNone)
    assert (root.level, list(root.handlers)) == before


# --- over real sockets ------------------------------------------------------------------------------------


class ForgetsItsSocket(OverSockets):
    """Keeps a socket that it has made for each attempt, and closes it only when the attempt wins."""

    kept: ClassVar[list[socket.socket]] = []

    async def connect(self, target: Target, progress: Progress) -> ByteStream:
        one = socket.socket()
        self.kept.append(one)
        stream = await super().connect(target, progress)
        one.close()
        return stream


@pytest.mark.parametrize(
    ("failing", "rule"), [(True, Rule.FAILS), (False, Rule.CANCELS)], ids=["fails", "cancels"]
)
async def test_a_socket_left_open_is_found(failing: bool, rule: Rule) -> None:
    try:
        async with EchoServer() as server:
            with pytest.raises(NonConformance, match="1 more sockets or files stay open") as caught:
                await check_transport(
                    ForgetsItsSocket,
                    target=server.target,
                    failing_target=server.refusing_target if failing else None,
                )
        assert caught.value.rule is rule
    finally:
        for one in ForgetsItsSocket.kept:
            one.close()


class DropsItsSocket(OverSockets):
    """Lets a socket fall when it is cancelled, for the garbage collector to close."""

    async def connect(self, target: Target, progress: Progress) -> ByteStream:
        one = socket.socket()
        stream = await super().connect(target, progress)
        one.close()
        return stream


async def test_a_socket_left_to_the_garbage_collector_is_found() -> None:
    async with EchoServer() as server:
        with pytest.raises(NonConformance, match="garbage collector: unclosed <socket") as caught:
            await check_transport(DropsItsSocket, target=server.target)
    assert caught.value.rule is Rule.CANCELS


async def test_an_echo_server_counts_its_connections_and_ends_them() -> None:
    async with EchoServer() as server:
        first = await anyio.connect_tcp(server.target.host, server.target.port)
        await first.send(b"hello")
        assert await first.receive() == b"hello"
        assert server.connections == 1
        await first.send_eof()
        with pytest.raises(anyio.EndOfStream):
            await first.receive()
        await first.aclose()
        second = await anyio.connect_tcp(server.target.host, server.target.port)
        await second.send(b"hello")
        assert await second.receive() == b"hello"
        with pytest.raises(OSError):
            await anyio.connect_tcp(server.refusing_target.host, server.refusing_target.port)
    assert server.connections == 0
    await second.aclose()
    with pytest.raises(OSError):
        await anyio.connect_tcp(server.target.host, server.target.port)


async def test_an_error_leaves_an_echo_server_as_it_was_raised() -> None:
    async def fail_inside() -> None:
        async with (
            EchoServer() as server,
            await anyio.connect_tcp(server.target.host, server.target.port),
        ):
            raise KeyError

    with pytest.raises(KeyError):
        await fail_inside()


# --- request transports -----------------------------------------------------------------------------------


class Route:
    name = "route"

    def __init__(self) -> None:
        self.made_at = anyio.current_time()
        self.closed = False

    async def handle(self, request: str) -> str:
        await anyio.sleep(0.1)
        return request.upper()

    async def aclose(self) -> None:
        self.closed = True
        await anyio.lowlevel.checkpoint()


class GoodForRequests(RequestTransport):
    name = "requests"
    traits = Traits(attempt_timeout=5.0)
    route = Route

    def __init__(self) -> None:
        self.is_closed = False

    def serves(self, target: Target) -> str | None:
        return "not this one" if target == UNSERVED else None

    async def prepare(self, origin: Origin) -> Route:
        if self.is_closed:
            raise NetworkError("closed")
        await anyio.sleep(0.1)
        if origin.host == FAILS.host:
            raise NetworkError("refused")
        assert origin == Origin("http", WORKS.host, WORKS.port)
        route = self.route()
        ledger.add(route)
        return route

    async def aclose(self) -> None:
        self.is_closed = True
        await anyio.lowlevel.checkpoint()


async def ask(route: Any) -> None:
    assert await route.handle("get") == "GET"


async def check_requests(make: Callable[[], RequestTransport]) -> ConformanceReport:
    return await check_request_transport(
        make,
        ask=ask,
        target=WORKS,
        failing_target=FAILS,
        unserved_target=UNSERVED,
        count_open=count_open,
        secrets=[SECRET],
        passes=3,
    )


@virtual_time
async def test_a_good_request_transport_keeps_every_rule() -> None:
    report = await check_requests(GoodForRequests)
    assert set(report.checked) == set(Rule) - {Rule.CARRIES}
    assert report.sweep is not None
    assert report.sweep.cancelled > 0


class Mumbles(Route):
    async def handle(self, request: str) -> str:
        return request


class StaysOpen(Route):
    async def aclose(self) -> None:
        await anyio.lowlevel.checkpoint()


class CannotHandle:
    async def aclose(self) -> None:
        await anyio.lowlevel.checkpoint()

    name, made_at, closed = "route", 0.0, True


class LeaksRoutes(GoodForRequests):
    async def prepare(self, origin: Origin) -> Route:
        route = await super().prepare(origin)
        await anyio.sleep(0.1)
        return route


@pytest.mark.parametrize(
    ("bad", "rule", "words"),
    [
        (type("Mumbling", (GoodForRequests,), {"route": Mumbles}), Rule.HANDLES, "AssertionError"),
        (type("Open", (GoodForRequests,), {"route": StaysOpen}), Rule.CANCELS, "stay open"),
        (
            type("Unable", (GoodForRequests,), {"route": CannotHandle}),
            Rule.CONNECTS,
            "cannot handle requests",
        ),
        (LeaksRoutes, Rule.CANCELS, "stay open"),
    ],
    ids=["Mumbles", "StaysOpen", "CannotHandle", "LeaksRoutes"],
)
@virtual_time
async def test_a_promise_broken_by_a_request_transport_is_named(
    bad: type[GoodForRequests], rule: Rule, words: str
) -> None:
    with pytest.raises(NonConformance) as caught:
        await check_requests(bad)
    assert (caught.value.rule, words in str(caught.value)) == (rule, True), str(caught.value)
