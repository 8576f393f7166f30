"""What the OTEL_* variables ask for, and what is said of those that ask for what cannot be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from racer.errors import ConfigError
from racer.telemetry._settings import Exporter, Protocol, Settings, Signal, is_asked, read

if TYPE_CHECKING:
    from pathlib import Path

OTLP = "OTEL_EXPORTER_OTLP"
GRPC, HTTP = Protocol.GRPC, Protocol.HTTP


def where(settings: Settings) -> list[tuple[Protocol, str]]:
    return [(carrier.protocol, carrier.endpoint) for carrier in settings.carriers.values()]


def both(protocol: Protocol, base: str) -> list[tuple[Protocol, str]]:
    return [(protocol, f"{base}/v1/{signal.value}") for signal in Signal]


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, both(HTTP, "http://localhost:4318")),
        ({"PROTOCOL": "grpc"}, [(GRPC, "http://localhost:4317")] * 2),
        ({"ENDPOINT": "http://127.0.0.1:4317"}, [(GRPC, "http://127.0.0.1:4317")] * 2),
        ({"ENDPOINT": "http://127.0.0.1:4317/"}, [(GRPC, "http://127.0.0.1:4317")] * 2),
        ({"ENDPOINT": "http://127.0.0.1:9"}, both(HTTP, "http://127.0.0.1:9")),
        ({"ENDPOINT": "https://[::1]:9/otlp/"}, both(HTTP, "https://[::1]:9/otlp")),
        (
            {"ENDPOINT": "http://a.example:4317", "PROTOCOL": "http/protobuf"},
            both(HTTP, "http://a.example:4317"),
        ),
        ({"ENDPOINT": "a.example:1", "PROTOCOL": "grpc"}, [(GRPC, "a.example:1")] * 2),
        (
            {"ENDPOINT": "http://a.example:1", "TRACES_ENDPOINT": "https://b.example/x/v1/traces"},
            [(HTTP, "https://b.example/x/v1/traces"), (HTTP, "http://a.example:1/v1/metrics")],
        ),
        (
            {"METRICS_PROTOCOL": "grpc", "METRICS_ENDPOINT": "https://b.example:1"},
            [(HTTP, "http://localhost:4318/v1/traces"), (GRPC, "https://b.example:1")],
        ),
    ],
)
def test_where_signals_go(environ: dict[str, str], expected: list[tuple[Protocol, str]]) -> None:
    assert where(read({f"{OTLP}_{key}": value for key, value in environ.items()})) == expected


def test_numbers_are_the_specifications_unless_others_are_given() -> None:
    plain = read({})
    assert (plain.queue, plain.batch, plain.delay, plain.interval) == (2048, 512, 5.0, 60.0)
    given_ones = read(
        {
            "OTEL_BSP_MAX_QUEUE_SIZE": "7",
            "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "7",
            "OTEL_BSP_SCHEDULE_DELAY": " 250 ",
            "OTEL_METRIC_EXPORT_INTERVAL": "500",
        }
    )
    assert (given_ones.queue, given_ones.batch) == (7, 7)
    assert (given_ones.delay, given_ones.interval) == (0.25, 0.5)
    assert read({"OTEL_BSP_MAX_QUEUE_SIZE": "7"}).batch == 7  # never more than there is room for


def test_a_signal_may_stay_here_or_go_to_the_console() -> None:
    settings = read({"OTEL_TRACES_EXPORTER": "console", "OTEL_METRICS_EXPORTER": "none"})
    assert settings.exporters == {
        Signal.TRACES: Exporter.CONSOLE,
        Signal.METRICS: Exporter.NONE,
    }
    assert settings.carriers == {}


@pytest.mark.parametrize(
    ("environ", "asked"),
    [
        ({}, False),
        ({f"{OTLP}_ENDPOINT": "http://a"}, True),
        ({f"{OTLP}_ENDPOINT": " "}, False),
        ({f"{OTLP}_TRACES_ENDPOINT": "http://a"}, True),
        ({f"{OTLP}_METRICS_ENDPOINT": "http://a"}, True),
        ({"OTEL_TRACES_EXPORTER": "console"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none"}, False),
        ({f"{OTLP}_ENDPOINT": "http://a", "OTEL_SDK_DISABLED": "TRUE"}, False),
        ({f"{OTLP}_ENDPOINT": "http://a", "OTEL_SDK_DISABLED": "1"}, True),  # only "true" is true
        ({"OTEL_SERVICE_NAME": "a"}, False),
    ],
)
def test_who_asks(environ: dict[str, str], asked: bool) -> None:
    assert is_asked(environ) == asked


def test_disabled_nothing_else_counts() -> None:
    assert read({"OTEL_SDK_DISABLED": "true", f"{OTLP}_PROTOCOL": "pigeon"}).is_disabled


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        (
            {f"{OTLP}_PROTOCOL": "http/json"},
            "'http/json' is not a protocol that can be spoken; one of grpc, http/protobuf",
        ),
        ({f"{OTLP}_METRICS_PROTOCOL": "x"}, "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL: 'x' is not"),
        (
            {f"{OTLP}_ENDPOINT": "localhost:4318"},
            "OTEL_EXPORTER_OTLP_ENDPOINT: no scheme; write it as in http://localhost:4318",
        ),
        ({f"{OTLP}_ENDPOINT": "ftp://a"}, "ftp:// is neither http:// nor https://"),
        ({f"{OTLP}_ENDPOINT": "http://"}, "OTEL_EXPORTER_OTLP_ENDPOINT: no host"),
        ({f"{OTLP}_ENDPOINT": "http://a:x"}, "OTEL_EXPORTER_OTLP_ENDPOINT: not an address"),
        ({f"{OTLP}_ENDPOINT": "http://a:70000"}, "OTEL_EXPORTER_OTLP_ENDPOINT: not an address"),
        (
            {f"{OTLP}_ENDPOINT": "http://a:4318/v1/traces"},
            "OTEL_EXPORTER_OTLP_ENDPOINT: leave the /v1/traces out",
        ),
        ({f"{OTLP}_TIMEOUT": "soon"}, "OTEL_EXPORTER_OTLP_TIMEOUT: 'soon' is not a number"),
        ({f"{OTLP}_TIMEOUT": "nan"}, "OTEL_EXPORTER_OTLP_TIMEOUT: 'nan' is not a number"),
        ({f"{OTLP}_TRACES_TIMEOUT": "0"}, "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT: '0' is not"),
        (
            {f"{OTLP}_COMPRESSION": "deflate", f"{OTLP}_PROTOCOL": "grpc"},
            "OTEL_EXPORTER_OTLP_COMPRESSION: 'deflate' is not known over grpc; one of none, gzip",
        ),
        (
            {f"{OTLP}_CERTIFICATE": "not-there.pem"},
            "OTEL_EXPORTER_OTLP_CERTIFICATE: 'not-there.pem': cannot be read: No such file",
        ),
        (
            {f"{OTLP}_CLIENT_KEY": "a\0b"},
            "OTEL_EXPORTER_OTLP_CLIENT_KEY: 'a\\x00b': cannot be read",
        ),
        (
            {"OTEL_TRACES_EXPORTER": "zipkin"},
            "OTEL_TRACES_EXPORTER: 'zipkin' is not known here; one of otlp, console, none",
        ),
        (
            {"OTEL_BSP_MAX_QUEUE_SIZE": "many"},
            "OTEL_BSP_MAX_QUEUE_SIZE: 'many' is not a whole number above 0",
        ),
        ({"OTEL_BSP_SCHEDULE_DELAY": "0"}, "OTEL_BSP_SCHEDULE_DELAY: '0' is not"),
        ({"OTEL_METRIC_EXPORT_INTERVAL": "9" * 5000}, "OTEL_METRIC_EXPORT_INTERVAL: '999"),
        (
            {"OTEL_BSP_MAX_QUEUE_SIZE": "5", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "6"},
            "OTEL_BSP_MAX_EXPORT_BATCH_SIZE: 6 is more than the 5 of OTEL_BSP_MAX_QUEUE_SIZE",
        ),
    ],
)
def test_what_cannot_be_is_named(environ: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(environ)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "header", ["secret", "=secret", "secret=", "a=b,secret", "a=secret\0b", "a=é,b=secret"]
)
def test_a_header_that_is_none_is_named_and_not_shown(header: str) -> None:
    name = f"{OTLP}_TRACES_HEADERS"
    with pytest.raises(ConfigError) as caught:
        read({name: header + " "})
    assert name in str(caught.value)
    assert "secret" not in str(caught.value)


def test_no_secret_is_shown(tmp_path: Path) -> None:
    settings = read(
        {
            f"{OTLP}_ENDPOINT": "https://user:hidden1@a.example:1/?key=hidden2",
            f"{OTLP}_HEADERS": "authorization=hidden3,x=hidden4=",
        }
    )
    assert set(settings.carriers[Signal.TRACES].secrets) == {
        "hidden1",
        "key=hidden2",
        "hidden3",
        "hidden4=",
    }
    assert "hidden" not in repr(settings)


KEYS = [
    "OTEL_SDK_DISABLED",
    "OTEL_TRACES_EXPORTER",
    "OTEL_BSP_MAX_QUEUE_SIZE",
    *(f"{OTLP}_{kind}" for kind in ("ENDPOINT", "PROTOCOL", "HEADERS", "TIMEOUT", "COMPRESSION")),
    f"{OTLP}_TRACES_ENDPOINT",
    f"{OTLP}_CERTIFICATE",
]


@given(st.dictionaries(st.sampled_from(KEYS), st.text(max_size=30) | st.text("htp:/[]@.19a,= ")))
def test_whatever_stands_there_it_is_understood_or_one_error(environ: dict[str, str]) -> None:
    try:
        read(environ)
    except ConfigError as exc:
        words = str(exc)
    else:
        return
    assert words.startswith("OTEL_")
