"""What the standard OTEL_* variables ask for, as far as it has to be known before the SDK reads them itself.

Names, defaults and meanings are those of OpenTelemetry's "Environment Variable Specification" and "OTLP Exporter
Configuration". What cannot be is an error here that says which variable and why: the SDK would fall back in silence, or fail
in a background thread when the program is long at work.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from racer.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ("Carrier", "Exporter", "Protocol", "Settings", "Signal", "is_asked", "read")

_OTLP: Final = "OTEL_EXPORTER_OTLP"
_MAX_NUMBER: Final = 2**31 - 1


class Signal(Enum):
    """What is exported, by the name it has in variables."""

    TRACES = "traces"
    METRICS = "metrics"


class Exporter(Enum):
    """Where a signal goes to."""

    OTLP = "otlp"
    CONSOLE = "console"
    NONE = "none"


class Protocol(Enum):
    """How OTLP is carried."""

    GRPC = "grpc"
    HTTP = "http/protobuf"


@dataclass(frozen=True, slots=True, kw_only=True)
class Carrier:
    """How one signal reaches a collector.

    Attributes:
        protocol: gRPC or HTTP.
        endpoint: where to, to be shown: without user, password and query.
        compression: `none`, `gzip` or `deflate`.
        secrets: values of headers, and what else no log may hold.
    """

    protocol: Protocol
    endpoint: str
    compression: str = "none"
    secrets: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Leave the secrets out."""
        return f"<{self.protocol.value} to {self.endpoint}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What is asked for.

    Attributes:
        is_disabled: `OTEL_SDK_DISABLED`.
        exporters: where each signal goes to.
        carriers: how, for signals that go out over OTLP.
        queue: spans that wait at most, `OTEL_BSP_MAX_QUEUE_SIZE`.
        batch: spans in one export at most, `OTEL_BSP_MAX_EXPORT_BATCH_SIZE`.
        delay: seconds that spans wait at most, `OTEL_BSP_SCHEDULE_DELAY`.
        interval: seconds between exports of metrics, `OTEL_METRIC_EXPORT_INTERVAL`.
    """

    is_disabled: bool
    exporters: Mapping[Signal, Exporter]
    carriers: Mapping[Signal, Carrier]
    queue: int
    batch: int
    delay: float
    interval: float


def is_asked(environ: Mapping[str, str]) -> bool:
    """Return whether anything in the environment asks for telemetry to leave."""
    if _is_true(environ.get("OTEL_SDK_DISABLED")):
        return False
    endpoints = [f"{_OTLP}_ENDPOINT", *(f"{_OTLP}_{s.name}_ENDPOINT" for s in Signal)]
    wanted = [environ.get(f"OTEL_{signal.name}_EXPORTER", "").strip() for signal in Signal]
    return any(environ.get(name, "").strip() for name in endpoints) or any(
        one and one != Exporter.NONE.value for one in wanted
    )


def read(environ: Mapping[str, str]) -> Settings:
    """Return what the environment asks for.

    Raises:
        ConfigError: a variable has a value that cannot be; names it, and never shows a header's value.
    """
    if _is_true(environ.get("OTEL_SDK_DISABLED")):
        environ = {"OTEL_SDK_DISABLED": "true"}  # nothing else counts then
    exporters = {signal: _exporter(environ, signal) for signal in Signal}
    carriers = {
        signal: _carrier(environ, signal)
        for signal, exporter in exporters.items()
        if exporter is Exporter.OTLP
    }
    queue = _number(environ, "OTEL_BSP_MAX_QUEUE_SIZE", 2048)
    batch_name = "OTEL_BSP_MAX_EXPORT_BATCH_SIZE"
    batch = _number(environ, batch_name, min(512, queue))
    if batch > queue:
        msg = f"{batch_name}: {batch} is more than the {queue} of OTEL_BSP_MAX_QUEUE_SIZE"
        raise ConfigError(msg)
    return Settings(
        is_disabled=_is_true(environ.get("OTEL_SDK_DISABLED")),
        exporters=exporters,
        carriers=carriers,
        queue=queue,
        batch=batch,
        delay=_number(environ, "OTEL_BSP_SCHEDULE_DELAY", 5000) / 1000,
        interval=_number(environ, "OTEL_METRIC_EXPORT_INTERVAL", 60_000) / 1000,
    )


def _exporter(environ: Mapping[str, str], signal: Signal) -> Exporter:
    name = f"OTEL_{signal.name}_EXPORTER"
    wanted = environ.get(name, "").strip().lower() or Exporter.OTLP.value
    try:
        return Exporter(wanted)
    except ValueError:
        msg = f"{name}: {wanted!r} is not known here; one of {_listed(Exporter)}"
        raise ConfigError(msg) from None


def _carrier(environ: Mapping[str, str], signal: Signal) -> Carrier:
    name, endpoint = _first(environ, signal, "ENDPOINT")
    wanted_by, wanted = _first(environ, signal, "PROTOCOL")
    if wanted:
        protocol = _protocol(wanted_by, wanted)
    else:
        # OpenTelemetry's default is HTTP, that of its Python SDK gRPC: the port says which one is meant.
        is_grpc = endpoint.rstrip("/").endswith(":4317")
        protocol = Protocol.GRPC if is_grpc else Protocol.HTTP
    if not endpoint:
        endpoint = f"http://localhost:{4317 if protocol is Protocol.GRPC else 4318}"
    shown, password = _endpoint(name, endpoint, protocol)
    if protocol is Protocol.HTTP and name == f"{_OTLP}_ENDPOINT":
        shown = f"{shown.rstrip('/')}/v1/{signal.value}"
    headers_name, headers = _first(environ, signal, "HEADERS")
    for kind in ("CERTIFICATE", "CLIENT_KEY", "CLIENT_CERTIFICATE"):
        _readable(*_first(environ, signal, kind))
    _seconds(*_first(environ, signal, "TIMEOUT"))
    return Carrier(
        protocol=protocol,
        endpoint=shown,
        compression=_compression(*_first(environ, signal, "COMPRESSION"), protocol),
        secrets=(*_header_values(headers_name, headers), *password),
    )


def _first(environ: Mapping[str, str], signal: Signal, kind: str) -> tuple[str, str]:
    """Return the variable that decides, that of the signal before that of all, and its value."""
    own, common = f"{_OTLP}_{signal.name}_{kind}", f"{_OTLP}_{kind}"
    if value := environ.get(own, "").strip():
        return own, value
    return common, environ.get(common, "").strip()


def _protocol(name: str, value: str) -> Protocol:
    try:
        return Protocol(value.lower())
    except ValueError:
        msg = f"{name}: {value!r} is not a protocol that can be spoken; one of {_listed(Protocol)}"
        raise ConfigError(msg) from None


def _endpoint(name: str, value: str, protocol: Protocol) -> tuple[str, tuple[str, ...]]:
    """Return an endpoint as it may be shown, and what of it may not."""
    is_bare = "://" not in value
    example = "http://localhost:4317" if protocol is Protocol.GRPC else "http://localhost:4318"
    if is_bare and protocol is Protocol.HTTP:
        msg = f"{name}: no scheme; write it as in {example}"
        raise ConfigError(msg)
    try:
        parts = urlsplit(f"//{value}" if is_bare else value)
        host, port = parts.hostname, parts.port
    except ValueError as exc:
        msg = f"{name}: not an address: {exc}; write it as in {example}"
        raise ConfigError(msg) from None
    if not host or (parts.scheme not in {"http", "https"} and not is_bare):
        what = "no host" if not host else f"{parts.scheme}:// is neither http:// nor https://"
        msg = f"{name}: {what}; write it as in {example}"
        raise ConfigError(msg)
    if name == f"{_OTLP}_ENDPOINT" and parts.path.rstrip("/").endswith("/v1/traces"):
        msg = (
            f"{name}: leave the /v1/traces out, it is added for each signal;"
            f" an address in full goes into {_OTLP}_TRACES_ENDPOINT"
        )
        raise ConfigError(msg)
    where = f"[{host}]" if ":" in host else host
    shown = where if port is None else f"{where}:{port}"
    if not is_bare:
        shown = f"{parts.scheme}://{shown}{parts.path if protocol is Protocol.HTTP else ''}"
    return shown, tuple(part for part in (parts.password, parts.query) if part)


def _header_values(name: str, value: str) -> list[str]:
    """Return the values of headers; each must be `name=value`, between commas.

    Said here because the SDK, where it does not understand a header, logs it with its value.
    """
    values = []
    for number, header in enumerate(filter(str.strip, value.split(",")), start=1):
        key, equals, secret = header.partition("=")
        is_plain = header.isascii() and header.isprintable()
        if not equals or not key.strip() or not secret.strip() or not is_plain:
            msg = f"{name}: header {number} is not of the form name=value; between headers stands a comma"
            raise ConfigError(msg)
        values.append(secret.strip())
    return values


def _readable(name: str, value: str) -> None:
    if not value:
        return
    try:
        with Path(value).open("rb"):
            pass
    except (OSError, ValueError) as exc:
        msg = f"{name}: {value!r}: cannot be read: {getattr(exc, 'strerror', None) or exc}"
        raise ConfigError(msg) from exc


def _compression(name: str, value: str, protocol: Protocol) -> str:
    known = ("none", "gzip") if protocol is Protocol.GRPC else ("none", "gzip", "deflate")
    wanted = value.lower() or "none"
    if wanted not in known:
        msg = f"{name}: {value!r} is not known over {protocol.value}; one of {', '.join(known)}"
        raise ConfigError(msg)
    return wanted


def _seconds(name: str, value: str) -> None:
    """Hold a timeout to what exporters take: the Python SDK reads seconds, not the milliseconds of other languages."""
    try:
        is_right = not value or 0 < float(value) < _MAX_NUMBER
    except ValueError:
        is_right = False
    if not is_right:
        msg = f"{name}: {value!r} is not a number of seconds above 0"
        raise ConfigError(msg)


def _number(environ: Mapping[str, str], name: str, default: int) -> int:
    value = environ.get(name, "").strip()
    if not value:
        return default
    if value.isascii() and value.isdigit() and len(value) <= 10 and 0 < int(value) <= _MAX_NUMBER:
        return int(value)
    msg = f"{name}: {value!r} is not a whole number above 0"
    raise ConfigError(msg)


def _is_true(value: str | None) -> bool:
    return value is not None and value.strip().lower() == "true"


def _listed(kinds: Sequence[Enum] | type[Enum]) -> str:
    return ", ".join(str(kind.value) for kind in kinds)
