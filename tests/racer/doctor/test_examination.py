"""All checks side by side, each within its time: what one of them does wrong costs no other, and nothing is left open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import dns.message
import pytest
from anyio.abc import UnreliableObjectStream

from racer import Dialer, telemetry
from racer.abc import Target
from racer.doctor import Finding, Resolver, Verdict, Ways, examine
from racer.doctor._export import check_export
from racer.errors import ConfigError, InvalidTarget
from racer.testing import ScriptedTransport, cancel_everywhere, fails, hangs, wins

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.virtual_time

TARGET = Target("news.example", 80)


class Checked(ScriptedTransport):
    """Brings a check of its own."""

    def __init__(self, name: str, found: Any, **options: Any) -> None:
        super().__init__(name, wins(0.25), **options)
        self.found = found

    async def diagnose(self) -> Sequence[Finding]:
        await anyio.lowlevel.checkpoint()
        if callable(self.found):
            await self.found()
        if isinstance(self.found, Exception):
            raise self.found
        return self.found  # type: ignore[no-any-return]


async def words_of(*guests: ScriptedTransport, **options: Any) -> dict[str, str]:
    async with Dialer(guests) as dialer:
        diagnosis = await examine(dialer, TARGET, export=False, repeats=1, **options)
    return {one.check: one.words for one in diagnosis.findings}


async def test_a_guest_s_own_checks_come_after_its_own_tries() -> None:
    own = Finding(check="tea of a", verdict=Verdict.WARN, words="It is cold.")
    found = await words_of(Checked("a", [own]), ScriptedTransport("b", wins()))
    assert list(found) == ["transport a", "tea of a", "transport b", "clock"]


@pytest.mark.parametrize("found", [KeyError("x"), None, "words", ["words"]])
async def test_a_guest_whose_checks_have_a_bug_hides_no_other(
    found: Any, caplog: pytest.LogCaptureFixture
) -> None:
    words = await words_of(Checked("a", found), ScriptedTransport("b", wins()))
    assert words["transport b"] == "b connected once of 1, in 0 ms."
    assert words["doctor"].startswith("A check failed by itself, which is a bug in it: ")
    assert "a check failed" in caplog.text


async def test_a_guest_whose_checks_hang_is_not_waited_for() -> None:
    began = anyio.current_time()
    words = await words_of(Checked("a", anyio.sleep_forever))
    assert words["checks of a"] == "a did not get through with its own checks within 10 s."
    assert anyio.current_time() - began == 10.25


async def test_one_that_serves_no_such_host_is_left_out() -> None:
    guest = ScriptedTransport("a", wins(), serves="only other hosts")
    async with Dialer([guest]) as dialer:
        diagnosis = await examine(dialer, TARGET, export=False)
    (first, _) = diagnosis.findings
    assert (first.verdict, first.words) == (
        Verdict.SKIPPED,
        "a does not serve this host: only other hosts.",
    )
    assert guest.attempts == []


async def test_what_a_guest_says_of_itself_goes_into_the_data() -> None:
    async with Dialer([ScriptedTransport("a", wins())]) as dialer:
        diagnosis = await examine(dialer, TARGET, export=False, repeats=1)
    data = diagnosis.findings[0].data
    assert (data["health"], data["sessions"], data["details"]) == ("ok", [], {})
    assert (data["tries"], data["connected"], data["failures"]) == (1, 1, [])


async def test_each_try_has_its_time_and_a_black_hole_is_tried_once() -> None:
    guests = [ScriptedTransport("a", hangs()), ScriptedTransport("b", fails(1.0))]
    async with Dialer(guests) as dialer:
        began = anyio.current_time()
        await examine(dialer, TARGET, export=False, repeats=5, limit=4.0)
        assert (
            anyio.current_time() - began == 5.0
        )  # five failures of a second each, side by side with it
    assert [len(guest.attempts) for guest in guests] == [1, 5]


async def test_a_collector_that_does_not_answer_is_odd_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = (
        telemetry.Answer(
            signal="traces",
            endpoint="http://127.0.0.1:4318/v1/traces",
            protocol="http/protobuf",
            is_taken=False,
            seconds=0.5,
            words="the collector at http://127.0.0.1:4318/v1/traces gave no answer within 0.5 s",
            advice="see that it runs",
        ),
    )
    monkeypatch.setattr(telemetry, "check", lambda limit: answers)
    (found,) = check_export(0.5)
    assert (found.verdict, found.words, found.advice) == (
        Verdict.WARN,
        "The collector at http://127.0.0.1:4318/v1/traces gave no answer within 0.5 s.",
        ("See that it runs.",),
    )
    monkeypatch.setattr(telemetry, "check", lambda limit: ())
    assert check_export(0.5)[0].verdict is Verdict.SKIPPED

    def wrong(limit: float) -> None:
        msg = "OTEL_EXPORTER_OTLP_PROTOCOL: no such protocol"
        raise ConfigError(msg)

    monkeypatch.setattr(telemetry, "check", wrong)
    assert check_export(0.5)[0].words == (
        "Telemetry cannot be exported: OTEL_EXPORTER_OTLP_PROTOCOL: no such protocol."
    )


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"repeats": 0}, ConfigError),
        ({"repeats": 21}, ConfigError),
        ({"repeats": True}, ConfigError),
        ({"limit": 0}, ConfigError),
        ({"resolvers": ["gopher://192.0.2.1"]}, ConfigError),
        ({"host": "https://news.example"}, InvalidTarget),
    ],
)
async def test_arguments_that_cannot_be(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        await examine(None, **{"host": "news.example", **options})


# --- nothing is left ------------------------------------------------------------------------------


class Datagrams(UnreliableObjectStream[bytes]):
    """A resolver's end that answers each question with no address, after a while."""

    def __init__(self, opened: set[Datagrams]) -> None:
        self._opened = opened
        self._send, self._receive = anyio.create_memory_object_stream[bytes](10)
        opened.add(self)

    async def send(self, item: bytes) -> None:
        await anyio.lowlevel.checkpoint()
        response = dns.message.make_response(dns.message.from_wire(item))
        self._send.send_nowait(response.to_wire())

    async def receive(self) -> bytes:
        await anyio.sleep(0.25)
        return await self._receive.receive()

    async def aclose(self) -> None:
        self._opened.discard(self)
        self._send.close()
        self._receive.close()
        await anyio.lowlevel.checkpoint()


async def test_cancelled_anywhere_it_leaves_nothing_open() -> None:
    opened: set[Datagrams] = set()
    guest = ScriptedTransport("a", wins(0.25))

    async def dial_udp(address: str, port: int) -> Datagrams:
        await anyio.lowlevel.checkpoint()
        return Datagrams(opened)

    async def refuse(address: str, port: int) -> Any:
        await anyio.lowlevel.checkpoint()
        raise ConnectionRefusedError

    async with Dialer([guest]) as dialer:

        async def story() -> None:
            await examine(
                dialer,
                TARGET,
                resolvers=[Resolver(scheme="udp", host="192.0.2.53", port=53)],
                ways=Ways(dial_udp=dial_udp, dial_tcp=refuse),
                repeats=1,
                export=False,
            )

        async def verify() -> None:
            while dialer.status().cleanups:
                await anyio.lowlevel.checkpoint()
            assert opened == set()
            assert dialer.status().races == 0

        sweep = await cancel_everywhere(story, verify=verify, passes=3)
        assert sweep.cancelled > 10
    assert guest.ledger.open_streams == ()
