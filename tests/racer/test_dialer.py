"""The dialer: every bad argument is named before anything starts; guests start once, and may be exchanged in flight."""

from __future__ import annotations

import math
import traceback
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from opentelemetry import trace

import racer
from racer.abc import Target, Traits, Transport
from racer.errors import (
    AllAttemptsFailed,
    ConfigError,
    CredentialRejected,
    InvalidTarget,
    NoTransports,
)
from racer.testing import (
    ScriptedRequestTransport,
    ScriptedTransport,
    fails,
    hangs,
    wins,
)

pytestmark = pytest.mark.virtual_time

HOST = "192.0.2.1:80"


async def settle() -> None:
    """Let every task that is ready run to its next wait."""
    for _ in range(10):
        await anyio.lowlevel.checkpoint()


def untouched(guest: ScriptedTransport) -> bool:
    return not (guest.started_at or guest.attempts or guest.closed_at or guest.misuses)


# --- arguments ------------------------------------------------------------------------------

BAD_SECONDS = [0, -1, math.nan, math.inf, 10**400, "5", True, [1]]


class Nameless(Transport):
    async def connect(self, target: Any, progress: Any) -> Any: ...


class Numbered(Nameless):
    name: Any = 7


class Traitless(Nameless):
    name = "traitless"
    traits: Any = None


@pytest.mark.parametrize(
    ("entrants", "words"),
    [
        (None, "takes a list of transports and Entrants, not NoneType"),
        (7, "takes a list of transports and Entrants, not int"),
        ("direct", "takes a list of transports and Entrants, not str"),
        (ScriptedTransport("a"), "takes a list .*, not ScriptedTransport"),
        (racer.Entrant(ScriptedTransport("a")), "takes a list .*, not Entrant"),
        ([], "at least one entrant"),
        (iter(()), "at least one entrant"),
        (["direct"], "str is no transport: it has to subclass racer.abc.Transport"),
        ([None], "NoneType is no transport"),
        ([ScriptedTransport], "ScriptedTransport is the class; the race needs an instance"),
        ([Nameless()], "Nameless has no name: set the attribute 'name'"),
        ([Numbered()], "Numbered has no name"),
        ([Traitless()], "'traitless': traits must be a racer.abc.Traits, not NoneType"),
        ([ScriptedTransport("")], "name is a text of 1 to 100 characters, not ''"),
        ([ScriptedTransport("x" * 101)], "name is a text of 1 to 100 characters"),
        (
            [ScriptedTransport("b"), ScriptedTransport("a"), ScriptedTransport("b")],
            r"share a name: 'b'; give each its own with Entrant\(\.\.\., name=",
        ),
    ],
)
def test_entrants_that_cannot_be(entrants: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        racer.Dialer(entrants)


def test_one_transport_cannot_race_itself() -> None:
    guest = ScriptedTransport("a")
    with pytest.raises(ConfigError, match="one transport is listed twice"):
        racer.Dialer([guest, racer.Entrant(guest, name="b")])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        *[({"timeout": bad}, "timeout must be a finite, positive number") for bad in BAD_SECONDS],
        *[
            ({"redact": bad}, r"redact must be True, False or a function of \(key, value\)")
            for bad in (None, 1, "yes", object())
        ],
        *[
            ({"max_cleanups": bad}, "max_cleanups must be a whole number of at least 1")
            for bad in (0, -1, 1.5, True, None, "256")
        ],
        *[
            ({"tracer_provider": bad}, "tracer_provider must be an OpenTelemetry provider or None")
            for bad in ("otlp", object(), trace.get_tracer("a tracer is no provider"))
        ],
        *[
            ({"meter_provider": bad}, "meter_provider must be an OpenTelemetry provider or None")
            for bad in ("otlp", trace.NoOpTracerProvider())
        ],
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        racer.Dialer([ScriptedTransport("a")], **options)


BAD_DIALS: list[tuple[tuple[Any, ...], dict[str, Any], type[ConfigError], str]] = [
    (("",), {}, InvalidTarget, "host is empty"),
    ((None,), {}, InvalidTarget, "host must be a str, not NoneType"),
    (("https://example.com/",), {}, InvalidTarget, "is a URL; dial takes a host"),
    (("exa mple.com",), {}, InvalidTarget, "cannot be in a host name"),
    (("example.com:70000",), {}, InvalidTarget, "port 70000 is not in 1 to 65535"),
    (("example.com:80", 81), {}, InvalidTarget, "has port 80 in it, and port=81 was given"),
    (("example.com", "443"), {}, InvalidTarget, "port must be an int, not str"),
    (("example.com",), {"tls": "yes"}, InvalidTarget, "tls must be True, False, None or"),
    (("example.com",), {"alpn": "h2"}, InvalidTarget, "alpn must be a sequence"),
    ((racer.abc.Target("a"), 443), {}, ConfigError, "a Target says port, tls and alpn itself"),
    ((racer.abc.Target("a"),), {"tls": True}, ConfigError, "a Target says port, tls"),
    ((racer.abc.Target("a"),), {"alpn": ["h2"]}, ConfigError, "a Target says port, tls"),
    *[
        ((HOST,), {"timeout": bad}, ConfigError, "timeout must be a finite, positive number")
        for bad in BAD_SECONDS
    ],
    ((HOST,), {"check": True}, ConfigError, "check must be a coroutine function"),
    ((HOST,), {"only": "c"}, ConfigError, "no entrant is called 'c'; there are 'a', 'b'"),
    ((HOST,), {"only": ["a", "c"]}, ConfigError, "no entrant is called 'c'"),
    ((HOST,), {"only": [["a"]]}, ConfigError, r"no entrant is called \['a'\]"),
    ((HOST,), {"only": 7}, ConfigError, "only takes an entrant's name or several, not int"),
    ((HOST,), {"only": b"a"}, ConfigError, "only takes an entrant's name or several, not bytes"),
    ((HOST,), {"only": ()}, ConfigError, "only and exclude leave none of 'a', 'b'"),
    ((HOST,), {"exclude": "c"}, ConfigError, "no entrant is called 'c'"),
    ((HOST,), {"exclude": [["a"]]}, ConfigError, r"no entrant is called \['a'\]"),
    ((HOST,), {"exclude": None}, ConfigError, "exclude takes an entrant's name or several"),
    ((HOST,), {"exclude": ["b", "a"]}, ConfigError, "leave none of 'a', 'b'"),
    ((HOST,), {"only": "a", "exclude": "a"}, ConfigError, "leave none of"),
]


@pytest.mark.parametrize(("args", "options", "kind", "words"), BAD_DIALS)
async def test_dials_that_cannot_be(
    args: tuple[Any, ...], options: dict[str, Any], kind: type[ConfigError], words: str
) -> None:
    guests = [ScriptedTransport("a"), ScriptedTransport("b")]
    dialer = racer.Dialer(guests)
    with pytest.raises(kind, match=words):
        await dialer.dial(*args, **options)
    with pytest.raises(kind, match=words):
        dialer.race(*args, **options)
    assert all(map(untouched, guests))


@pytest.mark.parametrize("kind", ["streams", None, "", ["stream"]])
def test_kinds_that_cannot_be(kind: Any) -> None:
    with pytest.raises(ConfigError, match="kind must be one of 'stream', 'request', 'any', not"):
        racer.Dialer([ScriptedTransport("a")]).race(HOST, kind=kind)


@pytest.mark.parametrize(
    ("name", "other", "words"),
    [
        ("c", ScriptedTransport("new"), "no entrant is called 'c'; there are 'a'"),
        (None, ScriptedTransport("new"), "no entrant is called None"),
        ("a", None, "NoneType is no transport"),
        ("a", racer.Entrant(ScriptedTransport("new")), "Entrant is no transport"),
        ("a", ScriptedTransport, "is the class"),
        ("a", Nameless(), "has no name"),
        ("a", Traitless(), "traits must be"),
    ],
)
def test_exchanges_that_cannot_be(name: Any, other: Any, words: str) -> None:
    guest = ScriptedTransport("a")
    dialer = racer.Dialer([guest])
    with pytest.raises(ConfigError, match=words):
        dialer.replace(name, other)
    assert untouched(guest)


async def _answer(request: object) -> object:
    return request


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (
            lambda: ScriptedRequestTransport("other", answer=_answer),
            "gives responses to requests, not a byte stream",
        ),
        (lambda: ScriptedTransport("other", serves="only TLS"), "only TLS"),
    ],
)
async def test_a_guest_put_into_a_race_under_way_has_a_part_only_if_it_serves(
    other: Any, why: str
) -> None:
    guests = [ScriptedTransport("a", fails(1)), ScriptedTransport("late")]
    late = other()
    async with racer.Dialer(
        [
            guests[0],
            racer.Entrant(guests[1], start_delay=5),
            racer.Entrant(last := ScriptedTransport("c"), start_delay=8),
        ]
    ) as dialer:
        async with anyio.create_task_group() as group:

            async def dial() -> None:
                async with await dialer.dial(HOST) as conn:
                    assert conn.transport_name == "c"
                    failed = conn.report["late"]
                    assert (failed.outcome, failed.error_type) == ("connect_failed", "not_usable")
                    assert failed.cause == (
                        f"NotUsable: the transport that took its place does not serve this: {why}"
                    )

            group.start_soon(dial)
            await anyio.sleep(0.5)
            dialer.replace("late", late)
        assert anyio.current_time() == 1.0
        assert [*late.attempts, *guests[1].attempts] == []
        last.ledger.assert_all_closed()


def test_a_guest_cannot_take_a_second_place() -> None:
    first, second = ScriptedTransport("first"), ScriptedTransport("second")
    dialer = racer.Dialer([racer.Entrant(first, name="a"), ScriptedTransport("b")])
    dialer.replace("a", second)
    for there in (first, second):  # the first waits for the end, to be closed
        for place in ("a", "b"):
            with pytest.raises(ConfigError, match="in the race already; replace takes a new"):
                dialer.replace(place, there)


def test_a_credential_nobody_takes() -> None:
    dialer = racer.Dialer([ScriptedTransport("a")])
    with pytest.raises(ConfigError, match="no entrant is called 'b'"):
        dialer.update_credential("b", "secret")
    with pytest.raises(ConfigError, match="'a' takes no credential") as caught:
        dialer.update_credential("a", "secret")
    assert "secret" not in str(caught.value)


# --- who takes part -------------------------------------------------------------------------


async def test_who_is_left_out_may_be_given_a_reason_which_the_report_shows() -> None:
    guests = [ScriptedTransport(name) for name in "ab"]
    async with racer.Dialer(guests) as dialer:
        async with await dialer.dial(HOST, exclude={"a": "too small"}) as connection:
            assert connection.report["a"].reason == "too small"
        with pytest.raises(NoTransports, match="a: too small; b: too slow"):
            await dialer.dial(HOST, exclude={"a": "too small", "b": "too slow"})
        picky = ScriptedTransport("a", serves="not this")
        dialer.replace("a", picky)
        assert list(dialer.eligible(Target("192.0.2.1", 80))) == ["b"]


async def test_only_and_exclude_say_who_may_take_part() -> None:
    guests = [ScriptedTransport(name, wins(0.5)) for name in "abc"]
    told: list[tuple[dict[str, Any], str]] = [
        ({}, "abc"),
        ({"only": "b"}, "b"),
        ({"only": {"c", "b"}}, "bc"),
        ({"exclude": "a"}, "bc"),
        ({"exclude": iter("ab")}, "c"),
        ({"only": ["a", "b"], "exclude": ["b", "c"]}, "a"),
    ]
    async with racer.Dialer(guests) as dialer:
        for chosen, names in told:
            for guest in guests:
                guest.attempts.clear()
            async with await dialer.dial(HOST, **chosen) as conn:
                assert "".join(guest.name for guest in guests if guest.attempts) == names
                for attempt in conn.report.attempts:
                    if attempt.transport not in names:
                        assert attempt.outcome == "ineligible"
                        assert attempt.reason == "left out by the caller"


class Truthful(ScriptedTransport):
    def serves(self, target: Any) -> Any:
        return True


class Waiting(ScriptedTransport):
    async def serves(self, target: Any) -> Any:  # type: ignore[override]
        return None


async def test_an_answer_that_is_no_reason_is_the_guests_mistake(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """`True` for "yes, it serves" is the likeliest of them."""
    async with racer.Dialer([Truthful("a"), Waiting("b")]) as dialer:
        with pytest.raises(NoTransports) as caught:
            await dialer.dial(HOST)
    assert caught.value.report is not None
    assert [attempt.reason for attempt in caught.value.report.attempts] == [
        "its serves() returned bool, not None or a text",
        "its serves() returned coroutine, not None or a text",
    ]
    assert [record.getMessage() for record in caplog.records] == [
        "transport 'a': its serves() returned bool, not None or a text",
        "transport 'b': its serves() returned coroutine, not None or a text",
    ]


def _yes(stream: Any) -> Any:
    return True


async def _bug(stream: Any) -> bool:
    raise KeyError("banner")


async def _reset(stream: Any) -> bool:
    raise ConnectionResetError


async def _rejects(stream: Any) -> bool:
    msg = "not this token"
    raise CredentialRejected(msg)


@pytest.mark.parametrize(
    ("check", "reason", "words"),
    [
        (_yes, "not_usable", "check returned bool; it has to be a coroutine function"),
        (_bug, "not_usable", "NotUsable: check failed (KeyError: 'banner')"),
        (_reset, "not_usable", "NotUsable: check failed (ConnectionResetError)"),
        (_rejects, "credential_rejected", "CredentialRejected: not this token"),
    ],
)
async def test_an_error_of_a_check_is_its_verdict_and_no_crash_of_the_transport(
    check: Any, reason: str, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    guest = ScriptedTransport("a")
    async with racer.Dialer([guest]) as dialer:
        with pytest.raises(AllAttemptsFailed) as caught:
            await dialer.dial(HOST, check=check)
    attempt = caught.value.report["a"]
    assert (attempt.stage, attempt.error_type) == ("verify", reason)
    assert words in attempt.cause
    assert caplog.records == []
    files = [
        frame.filename
        for error in (attempt.error, attempt.error.__cause__ if attempt.error else None)
        for frame in traceback.extract_tb(error.__traceback__ if error else None)
    ]
    assert set(files) <= {__file__}  # no frame of the race's own is kept (R13)
    guest.ledger.assert_all_closed()


class Broken(ScriptedTransport):
    def serves(self, target: Any) -> str | None:
        raise ValueError("a bug")


async def test_where_nothing_serves_the_target_each_says_why(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def answer(request: object) -> object:
        return request

    guests = [
        ScriptedTransport("raw", serves=lambda target: "only TLS" if not target.tls else None),
        ScriptedTransport("never", serves="not today"),
        ScriptedTransport("left out"),
        Broken("broken"),
    ]
    requests = ScriptedRequestTransport("requests", answer=answer)
    async with racer.Dialer([*guests, requests]) as dialer:
        with pytest.raises(NoTransports) as caught:
            await dialer.dial(HOST, exclude="left out")
        report = caught.value.report
        assert report is not None
        assert report.outcome == "ineligible"
        assert {attempt.transport: attempt.reason for attempt in report.attempts} == {
            "raw": "only TLS",
            "never": "not today",
            "left out": "left out by the caller",
            "broken": "its serves() failed: ValueError",
            "requests": "gives responses to requests, not a byte stream",
        }
        assert str(caught.value) == (
            "no transport serves 192.0.2.1:80: raw: only TLS; never: not today; left out: left out by the caller; "
            "broken: its serves() failed: ValueError; requests: gives responses to requests, not a byte stream"
        )
        assert all(not guest.started_at and not guest.attempts for guest in [*guests, requests])
        async with dialer.race(HOST, kind="request") as race:
            async with await race.__anext__() as route:
                assert route.transport_name == "requests"
            reasons = {attempt.transport: attempt.reason for attempt in race.report.attempts}
            assert reasons["raw"] == "gives a byte stream, not responses to requests"
    assert "failed to say whether it serves a target" in caplog.text


# --- the deadline (R4) ----------------------------------------------------------------------

SLOW = Traits(attempt_timeout=120.0)


@pytest.mark.parametrize(
    ("own", "given", "target", "seconds"),
    [
        (None, None, "192.0.2.1:80", 120.0),  # stretched to the longest that takes part
        (None, None, "192.0.2.1:81", 80.0),  # which serves not this one
        (None, 7.5, "192.0.2.1:80", 7.5),
        (50.0, None, "192.0.2.1:80", 50.0),
        (50.0, 100.0, "192.0.2.1:80", 100.0),
        (1, 2, "192.0.2.1:81", 2.0),
    ],
)
async def test_an_explicit_deadline_is_kept_and_the_default_stretches(
    own: float | None, given: float | None, target: str, seconds: float
) -> None:
    long = Traits(attempt_timeout=1000.0)
    guests = [
        ScriptedTransport(
            "slow", hangs(), traits=SLOW, serves=lambda t: (t.port != 80 and "no") or None
        ),
        ScriptedTransport("plain", hangs().slow_cleanup(0.1), traits=Traits(attempt_timeout=79.0)),
        ScriptedTransport("left out", traits=long),
    ]
    async with racer.Dialer(guests, timeout=own) as dialer:
        with pytest.raises(racer.errors.DialError) as caught:
            await dialer.dial(target, timeout=given, exclude="left out")
        assert caught.value.report.timeout == seconds
        assert anyio.current_time() == (79.0 if (seconds, target[-2:]) == (80.0, "81") else seconds)
