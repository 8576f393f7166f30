"""The conformance checks, one for each rule; each returns why it could not be made, or None."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio
from anyio.streams.tls import TLSAttribute

from racer._report import Attempt, Outcome
from racer.abc import TLS, Stage, Traits, TransportStatus
from racer.errors import ErrorType, TransportError
from racer.testing._bench import CLOSE_WITHIN, END_WITHIN, Bench, NonConformance, Rule
from racer.testing._cancel import cancel_everywhere
from racer.testing._outside import watch_io
from racer.testing._points import CancellationMishandled

if TYPE_CHECKING:
    from collections.abc import Mapping

    from racer.abc import Guest

__all__ = ("REQUEST_CHECKS", "STREAM_CHECKS", "Check")

Check: TypeAlias = Callable[[Bench], Awaitable[str | None]]
"""Checks one rule; returns why that was not possible, or None."""

_EVERY_BYTE = bytes(range(256))
_ANSWER_WITHIN = 5.0
_GONE = (anyio.ClosedResourceError, anyio.BrokenResourceError)


async def _makes(bench: Bench) -> str | None:
    bench.make()
    return None


async def _declares(bench: Bench) -> str | None:
    guest = bench.make()
    if not isinstance(guest, bench.setting.kind):
        bench.fail(f"make() gave {guest!r}, which is no racer.abc.{bench.setting.kind.__name__}")
    name: object = getattr(guest, "name", None)
    if not isinstance(name, str) or not 1 <= len(name) <= 100 or not name.isprintable():
        bench.fail(f"its name is {name!r}")
    if not isinstance(guest.traits, Traits):
        bench.fail(f"its traits are {guest.traits!r}, not racer.abc.Traits")
    return None


async def _serves(bench: Bench) -> str | None:
    guest = bench.make()
    reason = _quietly(bench, "serves()", lambda: guest.serves(bench.setting.target))
    if reason is not None:
        bench.fail(f"serves() gave {reason!r} for the target that works")
    unserved = bench.setting.unserved_target
    if unserved is None:
        return None
    reason = _quietly(bench, "serves()", lambda: guest.serves(unserved))
    if not isinstance(reason, str) or not reason:
        bench.fail(f"serves() gave {reason!r} for {unserved}, where a reason in words was expected")
    return None


async def _reports(bench: Bench) -> str | None:
    async with bench.guest() as guest:
        status = _quietly(bench, "status()", guest.status)
        if not isinstance(status, TransportStatus):
            bench.fail(f"status() gave {status!r}, not a racer.abc.TransportStatus")
        bench.texts.append(("its status", repr(status)))
        for verdict in _verdicts(guest.name):
            answer: object = _quietly(bench, "observe()", lambda told=verdict: guest.observe(told))  # type: ignore[misc]
            if answer is not None:
                bench.fail(f"observe() gave {answer!r}")
    return None


async def _lives(bench: Bench) -> str | None:
    async with bench.guest() as guest:
        pass
    await bench.within(END_WITHIN, guest.aclose(), "the second aclose()")
    never_started = bench.make()
    for which in ("aclose() without start()", "a second aclose() without start()"):
        await bench.within(END_WITHIN, never_started.aclose(), which)
    return None


async def _connects(bench: Bench) -> str | None:
    async with bench.guest() as guest:
        given = await bench.connect(guest)
        try:
            if bench.setting.gives is not None:
                _demand_tls(bench, guest, given)
        finally:
            await bench.close(given)
    return None


def _demand_tls(bench: Bench, guest: Guest, stream: Any) -> None:  # noqa: ANN401 - a ByteStream
    shown = stream.extra(TLSAttribute.ssl_object, None)
    wanted = guest.traits.tls is TLS.OWN and bench.setting.target.tls is not False
    if wanted and shown is None:
        bench.fail("its traits say tls=OWN, and its stream has no TLSAttribute")
    if shown is not None and guest.traits.tls is TLS.DRIVER:
        bench.fail("its traits say tls=DRIVER, and its stream is under TLS already")


async def _carries(bench: Bench) -> str | None:
    if not bench.setting.echoes:
        return "the target does not echo"
    async with bench.guest() as guest:
        stream = await bench.connect(guest)
        try:
            await _expect_echo(bench, stream, _EVERY_BYTE)
            try:
                await bench.within(_ANSWER_WITHIN, stream.send_eof(), "send_eof()")
            except NotImplementedError:
                if stream.extra(TLSAttribute.ssl_object, None) is None:
                    raise
                return None  # anyio's TLS streams cannot end one way alone
            await _expect_end(bench, stream)
        finally:
            await bench.close(stream)
    return None


async def _expect_echo(bench: Bench, stream: Any, data: bytes) -> None:  # noqa: ANN401
    await bench.within(_ANSWER_WITHIN, stream.send(data), "send()")
    await _expect(bench, stream, data)


async def _expect(bench: Bench, stream: Any, data: bytes) -> None:  # noqa: ANN401
    got = b""
    while len(got) < len(data):
        try:
            chunk = await bench.within(_ANSWER_WITHIN, stream.receive(), "receive()")
        except anyio.EndOfStream as exc:
            bench.fail(f"of {len(data)} bytes only {len(got)} came back before the end", exc)
        if not isinstance(chunk, bytes) or not chunk:
            bench.fail(f"receive() gave {chunk!r}")
        got += chunk
    if got != data:
        bench.fail(f"sent {_brief(data)}, and {_brief(got)} came back")


def _brief(data: bytes) -> str:
    return repr(data) if len(data) <= 20 else f"{data[:20]!r}... ({len(data)} bytes)"


async def _expect_end(bench: Bench, stream: Any) -> None:  # noqa: ANN401
    try:
        extra = await bench.within(_ANSWER_WITHIN, stream.receive(), "receive() after send_eof()")
    except anyio.EndOfStream:
        return
    bench.fail(f"receive() gave {_brief(extra)} where the stream should have ended")


async def _handles(bench: Bench) -> str | None:
    ask = bench.setting.ask
    assert ask is not None
    async with bench.guest() as guest:
        route = await bench.connect(guest)
        try:
            await bench.within(guest.traits.attempt_timeout, ask(route), "the request")
        finally:
            await bench.close(route)
    return None


async def _closes(bench: Bench) -> str | None:
    async with bench.guest() as guest:
        given = await bench.connect(guest)
        await bench.close(given)
        await bench.close(given)
        if bench.setting.gives is None:
            return None
        uses: dict[str, Callable[[], Awaitable[object]]] = {
            "send()": lambda: given.send(b"late"),
            "receive()": given.receive,
        }
        for what, use in uses.items():
            try:
                await bench.within(END_WITHIN, use(), f"{what} after aclose()")
            except _GONE:
                continue
            except anyio.EndOfStream as exc:
                bench.fail(f"{what} after aclose() raised EndOfStream", exc)
            bench.fail(f"{what} after aclose() worked")
    return None


async def _parallel(bench: Bench) -> str | None:
    async with bench.guest() as guest:
        limit = guest.traits.max_concurrent
        if limit is not None and limit < 2:
            return f"its traits say max_concurrent={limit}"
        given: list[Any] = []

        async def connect() -> None:
            given.append(await bench.connect(guest))

        try:
            await _together(connect, connect)
            if bench.setting.gives is not None and bench.setting.echoes:
                first, second = given
                await bench.within(_ANSWER_WITHIN, first.send(b"one"), "send()")
                await _expect_echo(bench, second, b"two")
                await _expect(bench, first, b"one")
                await bench.close(given.pop())
                await _expect_echo(bench, given[0], b"still here")
        finally:
            for one in given:
                await bench.close(one)
    return None


async def _together(*calls: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run them at once; if some fail, raise the first failure bare."""
    try:
        async with anyio.create_task_group() as group:
            for call in calls:
                group.start_soon(call)
    except ExceptionGroup as failures:
        first: BaseException = failures
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from None


async def _fails(bench: Bench) -> str | None:
    target = bench.setting.failing_target
    if target is None:
        return "no failing_target was given"
    async with bench.guest() as guest:
        await bench.close(await bench.connect(guest))  # what it keeps for later is made now
        async with bench.nothing_left():
            seconds = guest.traits.attempt_timeout
            try:
                given = await bench.within(
                    seconds, bench.setting.reach(guest, target), "the attempt"
                )
            except (OSError, TransportError) as exc:
                bench.texts.append(("its error", "".join(traceback.format_exception(exc))))
            else:
                await _close_unexpected(bench, given)
                bench.fail(f"it gave {given!r} for {target}, which does not work")
    return None


async def _cancels(bench: Bench) -> str | None:
    async with bench.guest() as guest:
        await bench.close(await bench.connect(guest))  # what it keeps for later is made now

        async def story() -> None:
            given = await bench.setting.reach(guest, bench.setting.target)
            await given.aclose()

        async with bench.nothing_left() as verify:
            try:
                bench.sweep = await cancel_everywhere(
                    story,
                    verify=verify,
                    passes=bench.setting.passes,
                    grace=END_WITHIN,
                    timeout=guest.traits.attempt_timeout,
                )
            except CancellationMishandled as exc:
                bench.fail(str(exc), exc)
    return None


async def _ends(bench: Bench) -> str | None:
    async with bench.nothing_left(), bench.guest() as guest:
        await bench.close(await bench.connect(guest))
    return None if bench.setting.count_open() is not None else "what is open cannot be counted here"


async def _refuses(bench: Bench) -> str | None:
    async with bench.guest() as guest:
        await bench.within(CLOSE_WITHIN, guest.aclose(), "aclose()")
        seconds = guest.traits.attempt_timeout
        attempt = bench.setting.reach(guest, bench.setting.target)
        try:
            given = await bench.within(seconds, attempt, "connect after aclose()")
        except NonConformance:
            raise
        except Exception:  # noqa: BLE001 - which one is the guest's choice
            return None
        await _close_unexpected(bench, given)
        bench.fail(f"it gave {given!r} after aclose()")


async def _close_unexpected(bench: Bench, given: Any) -> None:  # noqa: ANN401 - a broken guest's
    if hasattr(given, "aclose"):
        await bench.close(given)


async def _discreet(bench: Bench) -> str | None:
    if not bench.setting.secrets:
        return "no secrets were given"
    guest = bench.make()
    bench.texts += [("its repr", repr(guest)), ("its text", str(guest))]
    bench.texts += [("its name", guest.name), ("its traits", repr(guest.traits))]
    for where, text in bench.texts:
        for index, secret in enumerate(bench.setting.secrets):
            if secret in text:
                bench.fail(f"secret {index} is in {where}")  # and not in this error
    return None


def _quietly(bench: Bench, what: str, call: Callable[[], Any]) -> Any:  # noqa: ANN401
    """Return what a synchronous call gives; a failure of the rule if it does IO or gives a coroutine."""
    with watch_io() as seen:
        given = call()
    if inspect.iscoroutine(given):
        given.close()
        bench.fail(f"{what} is a coroutine, and has to be a plain function")
    if seen:
        bench.fail(f"{what} called {seen[0]}")
    return given


def _verdicts(name: str) -> tuple[Attempt, ...]:
    won = Attempt(transport=name, outcome=Outcome.CONNECTED, started_at=0.0, finished_at=0.1)
    failed = Attempt(
        transport=name,
        outcome=Outcome.CONNECT_FAILED,
        stage=Stage.CONNECT,
        error=ConnectionRefusedError("refused"),
        error_type=ErrorType.CONNECTION_REFUSED,
        started_at=0.0,
        finished_at=0.1,
    )
    return won, failed


_GUEST_CHECKS: Mapping[Rule, Check] = {
    Rule.MAKES: _makes,
    Rule.DECLARES: _declares,
    Rule.SERVES: _serves,
    Rule.REPORTS: _reports,
    Rule.LIVES: _lives,
    Rule.CONNECTS: _connects,
}
_ATTEMPT_CHECKS: Mapping[Rule, Check] = {
    Rule.CLOSES: _closes,
    Rule.PARALLEL: _parallel,
    Rule.FAILS: _fails,
    Rule.CANCELS: _cancels,
    Rule.ENDS: _ends,
    Rule.REFUSES: _refuses,
    Rule.DISCREET: _discreet,  # last: it reads what the others have seen
}

STREAM_CHECKS: Mapping[Rule, Check] = {**_GUEST_CHECKS, Rule.CARRIES: _carries, **_ATTEMPT_CHECKS}
"""The checks for a `racer.abc.Transport`, in order."""

REQUEST_CHECKS: Mapping[Rule, Check] = {**_GUEST_CHECKS, Rule.HANDLES: _handles, **_ATTEMPT_CHECKS}
"""The checks for a `racer.abc.RequestTransport`, in order."""
