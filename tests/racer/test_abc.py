from __future__ import annotations

import dataclasses
import inspect
import math
from typing import TYPE_CHECKING, Any

import pytest

from racer import abc
from racer._report import Attempt, Outcome
from racer.abc import (
    TLS,
    Guest,
    Host,
    MakeContext,
    Origin,
    Progress,
    RequestTransport,
    SessionStatus,
    Stage,
    Target,
    Traits,
    Transport,
    TransportStatus,
    check_delay,
    check_seconds,
    check_tier,
    unknown_key,
)
from racer.errors import ConfigError

HUGE = 10**5000  # no float can hold it, and Python refuses to print it


if TYPE_CHECKING:
    from anyio.abc import ByteStream


class Repressed:
    def __repr__(self) -> str:
        raise RuntimeError("no words")


class Smallest(Transport):
    name = "smallest"

    async def connect(self, target: Target, progress: Progress) -> ByteStream:
        raise ConnectionRefusedError


# --- traits ---------------------------------------------------------------------------------


def test_traits_have_the_defaults_of_the_race() -> None:
    traits = Traits()
    assert dataclasses.asdict(traits) == {
        "start_delay": 0.0,
        "tier": 0,
        "attempt_timeout": 30.0,
        "tls": TLS.DRIVER,
        "max_request_bytes": None,
        "streaming": True,
        "max_concurrent": None,
    }
    assert Traits() == traits
    assert hash(Traits()) == hash(traits)
    with pytest.raises(dataclasses.FrozenInstanceError):
        traits.tier = 1  # type: ignore[misc]
    with pytest.raises(TypeError):
        Traits(0.5)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "options",
    [
        {"start_delay": 0},
        {"start_delay": -0.0},
        {"start_delay": 0.010},
        {"start_delay": 1},
        {"start_delay": 1e300},
        {"tier": 10**6},
        {"attempt_timeout": 1e-9},
        {"attempt_timeout": 60},
        {"tls": TLS.OWN},
        {"max_request_bytes": 1},
        {"max_concurrent": 1},
        {"streaming": False},
    ],
    ids=str,
)
def test_traits_take_what_a_race_can_obey(options: dict[str, Any]) -> None:
    (name, value), *_ = options.items()
    assert getattr(Traits(**options), name) == value


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"start_delay": 0.009}, r"start_delay=0\.009: a delay is 0 or at least 0\.01 s"),
        ({"start_delay": -1}, "start_delay=-1: a delay is 0 or at least"),
        ({"start_delay": math.nan}, "start_delay must be a finite number of seconds, not nan"),
        ({"start_delay": math.inf}, "start_delay must be a finite number of seconds, not inf"),
        ({"start_delay": True}, "start_delay must be a finite number of seconds, not True"),
        ({"start_delay": "1"}, "start_delay must be a finite number of seconds, not '1'"),
        ({"start_delay": None}, "start_delay must be a finite number of seconds, not None"),
        ({"start_delay": HUGE}, "start_delay must be a finite number of seconds, not int"),
        ({"start_delay": 1j}, "start_delay must be a finite number of seconds, not 1j"),
        ({"start_delay": Repressed()}, "start_delay must be .*, not Repressed"),
        ({"start_delay": "x" * 10**6}, "start_delay must be .*, not 'xxx"),
        ({"tier": -1}, "tier must be a whole number of at least 0, not -1"),
        ({"tier": 1.0}, r"tier must be a whole number of at least 0, not 1\.0"),
        ({"tier": True}, "tier must be a whole number of at least 0, not True"),
        ({"tier": None}, "tier must be a whole number of at least 0, not None"),
        ({"tier": -HUGE}, "tier must be a whole number of at least 0, not int"),
        ({"attempt_timeout": 0}, "attempt_timeout must be a finite, positive number"),
        ({"attempt_timeout": -1.0}, "attempt_timeout must be a finite, positive number"),
        ({"attempt_timeout": math.inf}, "attempt_timeout must be a finite, positive number"),
        ({"attempt_timeout": math.nan}, "attempt_timeout must be a finite, positive number"),
        ({"attempt_timeout": True}, "attempt_timeout must be a finite, positive number"),
        ({"attempt_timeout": None}, "attempt_timeout must be a finite, positive number"),
        ({"attempt_timeout": HUGE}, "attempt_timeout must be a finite, positive number"),
        ({"tls": "own"}, r"tls must be a racer\.abc\.TLS, not 'own'"),
        ({"tls": True}, r"tls must be a racer\.abc\.TLS, not True"),
        ({"streaming": "no"}, "streaming must be True or False, not 'no'"),
        ({"streaming": 1}, "streaming must be True or False, not 1"),
        ({"max_request_bytes": 0}, "max_request_bytes must be None or a whole number"),
        ({"max_request_bytes": 1.5}, "max_request_bytes must be None or a whole number"),
        ({"max_request_bytes": -HUGE}, "max_request_bytes must be None or a whole number"),
        ({"max_concurrent": 0}, "max_concurrent must be None or a whole number"),
        ({"max_concurrent": True}, "max_concurrent must be None or a whole number"),
        ({"max_concurrent": "3"}, "max_concurrent must be None or a whole number"),
    ],
    ids=lambda value: "" if isinstance(value, dict) else value[:60],
)
def test_traits_refuse_what_no_race_could_obey(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        Traits(**options)
    assert len(str(caught.value)) < 200
    with pytest.raises(ConfigError, match=words):
        dataclasses.replace(Traits(), **options)


def test_the_checks_serve_others_under_their_own_names() -> None:
    check_delay(0.25, "stagger")
    check_seconds(5, "timeout")
    check_tier(0)
    with pytest.raises(ConfigError, match=r"^stagger="):
        check_delay(0.001, "stagger")
    with pytest.raises(ConfigError, match=r"^timeout must"):
        check_seconds(0, "timeout")


# --- guests ---------------------------------------------------------------------------------


async def test_a_guest_needs_only_a_name_and_connect() -> None:
    guest = Smallest()
    target = Target("example.com")
    assert guest.traits == Traits()
    assert guest.serves(target) is None
    assert guest.status() == TransportStatus(health="ok", sessions=(), details={})
    guest.observe(Attempt(transport="smallest", outcome=Outcome.CONNECTED))
    await guest.start(None)  # type: ignore[arg-type]
    await guest.aclose()
    await guest.aclose()
    with pytest.raises(ConfigError, match="transport 'smallest' takes no credential"):
        guest.update_credential("hunter2")
    with pytest.raises(ConnectionRefusedError):
        await guest.connect(target, Progress())


def test_what_a_guest_must_write_is_demanded() -> None:
    for kind in (Transport, RequestTransport, Host):
        with pytest.raises(TypeError, match="abstract"):
            kind()  # type: ignore[abstract]
    assert issubclass(Transport, Guest)
    assert issubclass(RequestTransport, Guest)
    assert not issubclass(RequestTransport, Transport)


def test_progress_without_a_race_listens_to_nothing() -> None:
    progress = Progress()
    progress.stage(Stage.HANDSHAKE)
    progress.peer("192.0.2.1", 443)
    progress.peer("192.0.2.1", network="udp")
    progress.session(reused=True)
    progress.session(reused=False, link=None)
    progress.event("retransmitted", {"count": 2})
    with pytest.raises(AttributeError):
        progress.extra = 1  # type: ignore[attr-defined]


def test_status_is_frozen_data() -> None:
    session = SessionStatus(id="a1", state="live", streams=2, idle=1.5)
    status = TransportStatus(health="ok", sessions=(session,))
    with pytest.raises(dataclasses.FrozenInstanceError):
        status.health = "bad"  # type: ignore[misc]
    assert TransportStatus().details is not TransportStatus().details
    assert Origin("https", "example.com", 443) == Origin(
        scheme="https", host="example.com", port=443
    )


# --- made from a configuration --------------------------------------------------------------


def test_an_unknown_option_is_refused_with_the_nearest() -> None:
    context = MakeContext(name="soar", options={"domain": "t.example.com", "resolver": []})
    with pytest.raises(ConfigError, match="unknown key 'resolver'; did you mean 'resolvers'"):
        context.refuse_unknown("domain", "resolvers")
    context.refuse_unknown("domain", "resolver", "more")
    MakeContext(name="direct").refuse_unknown()


@pytest.mark.parametrize(
    ("key", "known", "words"),
    [
        ("timout", ("timeout", "tier"), "unknown key 'timout'; did you mean 'timeout'?"),
        ("start-delay", ("start_delay",), "unknown key 'start-delay'; did you mean 'start_delay'?"),
        ("TIMEOUT", ("timeout",), "unknown key 'TIMEOUT'; did you mean 'timeout'?"),
        ("timeout", ("TimeOut",), "unknown key 'timeout'; did you mean 'TimeOut'?"),
        ("zebra", ("tier", "name"), "unknown key 'zebra'; known: name, tier"),
        ("zebra", (), "unknown key 'zebra'; none is known"),
        ("", ("tier",), "unknown key ''; known: tier"),
        ("x\n\x1b", ("tier",), r"unknown key 'x\n\x1b'; known: tier"),
    ],
)
def test_the_words_for_a_key_nobody_knows(key: str, known: tuple[str, ...], words: str) -> None:
    assert unknown_key(key, known) == words


def test_options_stay_out_of_the_repr() -> None:
    context = MakeContext(name="soar", options={"credential": "hunter2"})
    assert repr(context) == "MakeContext(name='soar')"
    assert context.options["credential"] == "hunter2"


def test_everything_exported_is_there_and_documented() -> None:
    assert list(abc.__all__) == sorted(set(abc.__all__), key=lambda n: (not n.isupper(), n))
    for name in abc.__all__:
        value = getattr(abc, name)
        if inspect.isclass(value):
            assert inspect.getdoc(value), name
