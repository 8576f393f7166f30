"""Collectors of the tests' own, on loopback: OTLP over HTTP and over gRPC, that take, refuse or hang as they are told."""

from __future__ import annotations

import gzip
import socket
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import grpc  # type: ignore[import-untyped]  # it has no stubs
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics_pb
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2_grpc as metrics_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as trace_pb
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as trace_grpc

from tests.racer.collector import values

if TYPE_CHECKING:
    from collections.abc import Iterator

    import trustme
    from opentelemetry.proto.trace.v1.trace_pb2 import Span

__all__ = ("GrpcReceiver", "HttpReceiver", "Received", "Receiver", "closed_port", "counting_relay")

PATIENCE_S = 30.0


@dataclass(frozen=True, kw_only=True)
class Received:
    """An export that came.

    Attributes:
        signal: `traces` or `metrics`.
        message: it.
        headers: those that came with it, by their names in small letters.
    """

    signal: str
    message: Any
    headers: dict[str, str]


@dataclass(kw_only=True)
class Receiver:
    """What a collector was sent, and how it is to answer.

    Attributes:
        protocol: as `OTEL_EXPORTER_OTLP_PROTOCOL` names it.
        url: where it listens.
        received: what came, also what was refused.
        refusal: an HTTP or gRPC status to answer with; `None` to take everything.
        gate: closed, it hangs: nothing is answered until it opens.
        arrived: set whenever something comes.
    """

    protocol: str
    url: str = ""
    received: list[Received] = field(default_factory=list)
    refusal: Any = None
    gate: threading.Event = field(default_factory=threading.Event)
    arrived: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.gate.set()

    def close(self) -> None:
        raise NotImplementedError

    def take(self, received: Received) -> None:
        self.received.append(received)
        self.arrived.set()
        self.gate.wait(PATIENCE_S)

    def environ(self, **more: str) -> dict[str, str]:
        """Return the environment that exports to it."""
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.url,
            "OTEL_EXPORTER_OTLP_PROTOCOL": self.protocol,
            "OTEL_SERVICE_NAME": "an app",
            **more,
        }

    def spans(self) -> list[Span]:
        """Return every span that came, in order of start, and hold each to its resource."""
        found: list[Span] = []
        for one in self.received:
            if one.signal == "traces":
                for resource in one.message.resource_spans:
                    assert values(resource.resource.attributes)["service.name"] == "an app"
                    for scope in resource.scope_spans:
                        found += scope.spans
        return sorted(found, key=lambda span: (span.start_time_unix_nano, span.kind))

    def metrics(self) -> dict[str, Any]:
        """Return the last of every metric that came, by name."""
        return {
            metric.name: metric
            for one in self.received
            if one.signal == "metrics"
            for resource in one.message.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


class HttpReceiver(Receiver):
    """OTLP over HTTP, as protobuf."""

    def __init__(self, *, authority: trustme.CA | None = None) -> None:
        super().__init__(protocol="http/protobuf")
        receiver = self
        kinds: dict[str, tuple[str, Any, Any]] = {
            "/v1/traces": (
                "traces",
                trace_pb.ExportTraceServiceRequest,
                trace_pb.ExportTraceServiceResponse,
            ),
            "/v1/metrics": (
                "metrics",
                metrics_pb.ExportMetricsServiceRequest,
                metrics_pb.ExportMetricsServiceResponse,
            ),
        }

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers["Content-Encoding"] == "gzip":
                    body = gzip.decompress(body)
                signal, request, response = kinds[self.path]
                headers = {name.lower(): value for name, value in self.headers.items()}
                receiver.take(
                    Received(signal=signal, message=request.FromString(body), headers=headers)
                )
                answer = response().SerializeToString()
                self.send_response(receiver.refusal or 200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *args: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: Any, client_address: Any) -> None:
                pass  # who exports may have gone, or trusted nobody

        self._server = Server(("127.0.0.1", 0), Handler)
        if authority is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            authority.issue_cert("localhost").configure_cert(context)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}
        )
        self._thread.start()
        host = "http://127.0.0.1" if authority is None else "https://localhost"
        self.url = f"{host}:{self._server.server_port}"

    def close(self) -> None:
        self.gate.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class GrpcReceiver(Receiver):
    """OTLP over gRPC."""

    def __init__(self, *, authority: trustme.CA | None = None) -> None:
        super().__init__(protocol="grpc")
        receiver = self

        def taken(signal: str, request: Any, context: Any, response: Any) -> Any:
            headers = {key: str(value) for key, value in context.invocation_metadata()}
            receiver.take(Received(signal=signal, message=request, headers=headers))
            if receiver.refusal is not None:
                context.abort(receiver.refusal, "not today")
            return response

        class Traces(trace_grpc.TraceServiceServicer):
            def Export(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's name
                return taken("traces", request, context, trace_pb.ExportTraceServiceResponse())

        class Metrics(metrics_grpc.MetricsServiceServicer):
            def Export(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's name
                return taken("metrics", request, context, metrics_pb.ExportMetricsServiceResponse())

        self._pool = ThreadPoolExecutor(4)
        self._server = grpc.server(self._pool)
        add: Any = trace_grpc.add_TraceServiceServicer_to_server
        add(Traces(), self._server)
        add = metrics_grpc.add_MetricsServiceServicer_to_server
        add(Metrics(), self._server)
        if authority is None:
            port = self._server.add_insecure_port("127.0.0.1:0")
            self.url = f"http://127.0.0.1:{port}"
        else:
            leaf = authority.issue_cert("localhost")
            chain = b"".join(pem.bytes() for pem in leaf.cert_chain_pems)
            credentials = grpc.ssl_server_credentials([(leaf.private_key_pem.bytes(), chain)])
            port = self._server.add_secure_port("127.0.0.1:0", credentials)
            self.url = f"https://localhost:{port}"
        self._server.start()

    def close(self) -> None:
        self.gate.set()
        self._server.stop(None).wait()
        self._pool.shutdown()


def closed_port() -> int:
    """Return a port of loopback on which nobody listens."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
    return port


@contextmanager
def counting_relay(port: int) -> Iterator[tuple[int, list[int]]]:
    """Yield a port that leads to another, and how many octets each read from the client gave."""
    counts: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def pump(source: socket.socket, sink: socket.socket, log: list[int] | None) -> None:
            with source, sink:
                while piece := source.recv(65536):
                    if log is not None:
                        log.append(len(piece))
                    sink.sendall(piece)
                with suppress(OSError):  # the other end may have gone first
                    sink.shutdown(socket.SHUT_WR)

        def serve() -> None:
            client, _ = listener.accept()
            server = socket.create_connection(("127.0.0.1", port))
            back = threading.Thread(target=pump, args=(server.dup(), client.dup(), None))
            back.start()
            pump(client, server, counts)
            back.join()

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1], counts
        thread.join()
