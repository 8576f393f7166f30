"""With `redact`, neither the target nor a peer leaves by any span, event, status, metric or log line (T5)."""

from __future__ import annotations

import logging
import ssl
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest
import trustme
from anyio.streams.tls import TLSStream
from opentelemetry.trace import StatusCode

import racer
from racer.errors import DialError, NoTransports, Stage, TransportError
from racer.testing import (
    Lifecycle,
    MemoryStream,
    ScriptedTransport,
    fails,
    hangs,
    returns,
    stream_pair,
    wins,
)
from tests.racer.guests import Hosted
from tests.racer.tracing import Recorder

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from racer._spans import Redact
    from racer.abc import Progress

pytestmark = pytest.mark.virtual_time

SECRET = "secret.example"
PEER = "203.0.113.77"
HIDDEN = ("secret", "203.0.113")  # lower case, as the names of constants in lines of code are not


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture(autouse=True)
def every_log_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)


async def settle() -> None:
    """Let every task that is ready run to its next wait."""
    for _ in range(10):
        await anyio.lowlevel.checkpoint()


def dialer_of(recorder: Recorder, *entrants: Any, redact: Redact = True) -> racer.Dialer:
    return racer.Dialer(
        entrants,
        tracer_provider=recorder.tracers,
        meter_provider=recorder.meters,
        redact=redact,
    )


def leaks(recorder: Recorder, caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the lines, of all that has left, that hold what must not."""
    text = recorder.text() + "\n" + caplog.text
    return [line for line in text.splitlines() if any(word in line for word in HIDDEN)]


def tell(progress: Progress) -> None:
    progress.peer(PEER, 4433, network="udp")
    progress.stage(Stage.HANDSHAKE)
    progress.session(reused=False)
    progress.event("lookup", {"dns.question.name": SECRET, "answer": PEER, "count": 2, "hit": True})
    progress.event("reason", {"racer.reason": "idle", "racer.session.state": "live"})


def caused() -> BaseException:
    exc = RuntimeError(SECRET)
    exc.__cause__ = OSError(PEER)
    exc.add_note(SECRET)
    return exc


ERRORS: dict[str, Callable[[], BaseException]] = {
    "refused": lambda: ConnectionRefusedError(111, f"{SECRET} refused"),
    "guest's": lambda: TransportError(f"{PEER} said no to {SECRET}", stage=Stage.RESOLVE),
    "bug": lambda: KeyError(SECRET),
    "group": lambda: ExceptionGroup(SECRET, [OSError(PEER), ValueError(SECRET)]),
    "caused": caused,
}


# --- redact=True ----------------------------------------------------------------------------


async def test_a_win_tells_everything_but_where(
    recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    async with dialer_of(
        recorder,
        ScriptedTransport("winner", wins(0.5).tells(tell)),
        ScriptedTransport("loser", hangs().tells(tell)),
        ScriptedTransport("unfit", serves=f"not {SECRET}"),
    ) as dialer:
        await (await dialer.dial(SECRET, 80)).aclose()
    assert leaks(recorder, caplog) == []
    node = recorder.tree()
    assert node.attributes == {
        "server.port": 80,
        "racer.config.generation": 1,
        "racer.outcome": "connected",
        "racer.winner": "winner",
        "racer.ineligible": ["unfit"],
    }
    assert node.below[0].attributes == {
        "server.port": 80,
        "racer.transport": "winner",
        "racer.attempt.index": 0,
        "racer.attempt.start_delay": 0.0,
        "racer.attempt.stage": "handshake",
        "racer.outcome": "connected",
        "racer.session.reused": False,
        "network.peer.port": 4433,
        "network.transport": "udp",
    }
    assert node.below[0].events == [
        ("lookup", 0.0, {"count": 2, "hit": True}),
        ("reason", 0.0, {"racer.reason": "idle", "racer.session.state": "live"}),
    ]


@pytest.mark.parametrize("kind", ERRORS)
async def test_a_failure_tells_its_kind_and_not_its_words(
    kind: str, recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    async with dialer_of(recorder, ScriptedTransport("a", fails(0.5, ERRORS[kind]))) as dialer:
        with pytest.raises(DialError) as caught:
            await dialer.dial(SECRET, 80)
    assert leaks(recorder, caplog) == []
    assert SECRET in str(caught.value)  # the caller, who knows it, is told all
    error_type = caught.value.report["a"].error_type
    node = recorder.tree()
    assert node.below[0].status is StatusCode.ERROR
    assert node.below[0].words == f"{type(ERRORS[kind]()).__name__}: {error_type}"
    assert node.words == f"a: {node.below[0].words}"
    assert ("crashed" in caplog.text) == (error_type == "crashed")


async def test_a_start_that_fails_tells_its_kind_and_not_its_words(
    recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    lifecycle = Lifecycle(start_errors=[OSError(f"no route to {PEER}"), ValueError(SECRET)])
    async with dialer_of(recorder, ScriptedTransport("a", lifecycle=lifecycle)) as dialer:
        for _ in range(2):
            with pytest.raises(DialError):
                await dialer.dial(SECRET, 80)
    assert leaks(recorder, caplog) == []
    assert [tree.words for tree in recorder.trees()] == [
        "a: TransportError: other",
        "a: TransportCrashed: crashed",
    ]


async def test_a_deadline_and_a_cancellation_tell_no_target(
    recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    async with dialer_of(recorder, ScriptedTransport("a", hangs().tells(tell))) as dialer:
        with pytest.raises(DialError):
            await dialer.dial(SECRET, 80, timeout=1.5)
        with anyio.move_on_after(1):
            await dialer.dial(SECRET, 80)
    assert leaks(recorder, caplog) == []
    assert [tree.words for tree in recorder.trees()] == [
        "a: AttemptTimeout: timeout",
        "a: cancelled",
    ]


def tls_server(name: str) -> tuple[ssl.SSLContext, Callable[[MemoryStream], Awaitable[None]]]:
    """Return the client's context, and what the far end of a stream does with a certificate for `name`."""
    authority = trustme.CA()
    server, client = (
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER),
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
    )
    authority.issue_cert(name).configure_cert(server)
    authority.configure_trust(client)

    async def serve(far: MemoryStream) -> None:
        try:
            await TLSStream.wrap(
                far, server_side=True, ssl_context=server, standard_compatible=False
            )
            await anyio.sleep_forever()
        except (OSError, anyio.BrokenResourceError, anyio.EndOfStream):
            pass
        finally:
            far.abort()

    return client, serve


async def test_a_certificate_for_another_name_tells_neither(
    recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    client, serve = tls_server("secret-other.example")
    async with dialer_of(recorder, ScriptedTransport("a", serve=serve)) as dialer:
        with pytest.raises(DialError) as caught:
            await dialer.dial(SECRET, tls=client)
    assert SECRET in str(caught.value)
    assert caught.value.find(ssl.SSLCertVerificationError)
    assert leaks(recorder, caplog) == []
    attempt = recorder.tree().below[0]
    assert attempt.words == "SSLCertVerificationError: certificate_invalid"
    assert attempt.attributes["racer.attempt.stage"] == "tls"


async def test_tls_that_works_tells_no_name_either(
    recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    client, serve = tls_server(SECRET)
    async with dialer_of(recorder, ScriptedTransport("a", serve=serve)) as dialer:
        await (await dialer.dial(SECRET, tls=client)).aclose()
    assert leaks(recorder, caplog) == []
    assert recorder.tree().below[0].status is StatusCode.UNSET


# --- bugs of guests, in places that only a log hears of -------------------------------------


class Faulty(Hosted):
    """Breaks wherever nobody waits for it, and says too much each time."""

    def serves(self, target: Any) -> str | None:
        raise ValueError(f"cannot judge {target.host}")

    def status(self) -> racer.abc.TransportStatus:
        raise ValueError(f"lost {PEER}")


async def test_bugs_outside_of_attempts_are_logged_without_their_words(
    recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    async def drive(guest: Hosted) -> None:
        raise OSError(f"{PEER} is gone")

    async def leave(guest: Hosted) -> None:
        raise ValueError(f"goodbye, {PEER}")

    faulty = Faulty("faulty", goodbye=leave)
    driving = Hosted("driving", driver=drive, goodbye=leave)
    async with dialer_of(recorder, faulty, driving) as dialer:
        await (await dialer.dial(SECRET, 80)).aclose()
        dialer.status()
        with pytest.raises(NoTransports):
            await dialer.dial(SECRET, 80, only="faulty")
        dialer.replace("driving", ScriptedTransport("new"))
        await settle()
    assert leaks(recorder, caplog) == []
    told = [record.getMessage().splitlines()[0] for record in caplog.records if record.levelno > 30]
    assert sorted(set(told)) == [
        "closing transport 'faulty' failed: ValueError",
        "hosted task 'driving close' failed: ValueError",
        "hosted task 'driving driver' failed: OSError",
        "transport 'faulty' failed to say whether it serves a target: ValueError",
        "transport 'faulty' failed to tell its status: ValueError",
    ]
    assert "in drive" in caplog.text  # where, without what


async def test_a_guest_that_fails_to_observe_is_logged_without_its_words(
    recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    class Blind(ScriptedTransport):
        def observe(self, attempt: racer.Attempt) -> None:
            raise ValueError(f"lost sight of {SECRET}")

    async with dialer_of(recorder, Blind("blind")) as dialer:
        await (await dialer.dial(SECRET, 80)).aclose()
    assert leaks(recorder, caplog) == []
    assert "transport 'blind' failed to observe an attempt" in caplog.text


async def test_a_stream_that_fails_to_close_is_logged_without_its_words(
    recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    class Sticky(MemoryStream):
        async def aclose(self) -> None:
            self.abort()
            raise OSError(f"{PEER} does not let go of {SECRET}")

    stream, _ = stream_pair()
    stream.__class__ = Sticky
    guests = ScriptedTransport("a", wins(0.5)), ScriptedTransport("b", returns(stream, 0.5))
    async with dialer_of(recorder, *guests) as dialer:
        await (await dialer.dial(SECRET, 80)).aclose()
    assert leaks(recorder, caplog) == []
    assert stream.closed
    assert "closing a stream failed" in caplog.text


# --- a function of one's own ----------------------------------------------------------------


async def test_a_function_is_given_every_attribute_and_decides(
    recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    asked: set[str] = set()

    def hide(key: str, value: racer.abc.AttributeValue) -> racer.abc.AttributeValue | None:
        asked.add(key)
        if key == "error.message":
            return str(value).replace(SECRET, "[host]").replace(PEER, "[peer]")
        if key == "racer.transport" and value == "private":
            return "a route"
        return None if key in {"server.address", "network.peer.address"} else value

    refused = fails(0.25, lambda: OSError(f"{SECRET} refused"))
    quiet = wins(0.5).tells(lambda progress: progress.peer(PEER, 80))
    async with dialer_of(
        recorder,
        ScriptedTransport("a", refused),
        ScriptedTransport("private", quiet),
        ScriptedTransport("c", serves="no"),
        redact=hide,
    ) as dialer:
        await (await dialer.dial(SECRET, 80)).aclose()
    assert leaks(recorder, caplog) == []
    node = recorder.tree()
    assert node.attributes["racer.ineligible"] == ["c"]
    assert node.below[0].words == "OSError: [host] refused"
    assert node.below[1].attributes["racer.transport"] == "a route"
    assert node.below[1].attributes["network.peer.port"] == 80
    assert asked == {
        "error.message",
        "error.type",
        "network.peer.address",
        "network.peer.port",
        "network.transport",
        "racer.attempt.index",
        "racer.attempt.stage",
        "racer.attempt.start_delay",
        "racer.config.generation",
        "racer.outcome",
        "racer.transport",
        "racer.winner",
        "server.address",
        "server.port",
    }


async def test_a_function_that_hides_all_leaves_the_bare_tree(recorder: Recorder) -> None:
    async with dialer_of(
        recorder,
        ScriptedTransport("a", fails(0, lambda: OSError(SECRET)).tells(tell)),
        redact=lambda key, value: None,
    ) as dialer:
        with pytest.raises(DialError):
            await dialer.dial(SECRET, 80)
    (attempt,) = recorder.tree().below
    assert (attempt.attributes, attempt.words) == ({}, "other")
    assert recorder.metrics()["racer.attempts.active"].keys() == {()}


async def test_a_function_that_fails_neither_fails_the_dial_nor_lets_anything_through(
    recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(key: str, value: racer.abc.AttributeValue) -> racer.abc.AttributeValue | None:
        raise KeyError(value)

    guests = (
        ScriptedTransport("a", fails(0, lambda: OSError(SECRET))),
        ScriptedTransport("b", wins(1)),
    )
    async with dialer_of(recorder, *guests, redact=broken) as dialer:
        conn = await dialer.dial(SECRET, 80)
        await conn.aclose()
    assert conn.transport_name == "b"
    assert leaks(recorder, caplog) == []
    assert all(node.attributes == {} for node in (recorder.tree(),))
    assert recorder.open == 0
    assert "the redact function failed for 'server.address', which is left out" in caplog.text


async def test_without_redact_nothing_is_hidden(
    recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    """What the tests above look for is there to be found."""
    bug = fails(0.25, lambda: ValueError(f"{SECRET} at {PEER}")).tells(tell)
    async with dialer_of(
        recorder, ScriptedTransport("a", bug), ScriptedTransport("b", wins(1)), redact=False
    ) as dialer:
        await (await dialer.dial(SECRET, 80)).aclose()
    assert "ValueError: secret.example at 203.0.113.77" in caplog.text
    node = recorder.tree()
    assert node.attributes["server.address"] == SECRET
    assert node.below[0].attributes["network.peer.address"] == PEER
    assert node.below[0].words == f"ValueError: {SECRET} at {PEER}"
    assert node.below[0].events[0][2]["dns.question.name"] == SECRET
