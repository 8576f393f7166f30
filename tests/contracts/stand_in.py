"""A small internet on loopback, so that the pages' examples run as they are printed.

Inside `internet()` the names and addresses set apart for documentation (RFC 2606 §3, RFC 5737,
RFC 3849) lead to servers of our own. It works below every library: names are answered in
`socket.getaddrinfo`, connections are turned in `socket.socket.connect`, and the throw-away
authority is trusted through OpenSSL's own environment variables. The servers run in threads and
so serve either event loop, and blocks without one.
"""

from __future__ import annotations

import contextlib
import errno
import http.server
import ipaddress
import json
import socket
import socketserver
import ssl
import threading
from typing import TYPE_CHECKING, Any

import trustme

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pytest

__all__ = ("BANNER", "BODY", "internet")

BODY = b"A stand-in on loopback answers for this name.\n"
BANNER = b"SSH-2.0-stand-in\r\n"

DOMAINS = ("example.com", "example.net", "example.org")
NETWORKS = tuple(
    ipaddress.ip_network(network)
    for network in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32")
)
ADDRESS = "192.0.2.83"  # where every name leads before the connection is turned; public, as far as anybody can tell
TLS_NAMES = (
    *DOMAINS,
    *(f"*.{domain}" for domain in DOMAINS),
    *(str(network[1]) for network in NETWORKS),
)
HTTP_PORTS = frozenset({80, 8080})
BANNER_PORTS = frozenset({22})


class _Server(socketserver.ThreadingTCPServer):
    """Serves in threads until `stop`, which ends open connections too."""

    allow_reuse_address = True

    def __init__(
        self, host: str, handler: type[socketserver.BaseRequestHandler], tls: ssl.SSLContext | None
    ) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._tls = tls
        self._connections: set[socket.socket] = set()
        super().__init__((host, 0), handler)
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def finish_request(self, request: Any, client_address: Any) -> None:
        self._connections.add(request)
        try:
            if self._tls is not None:
                request.settimeout(10)
                # In the connection's own thread: a client that says nothing keeps nobody waiting.
                with self._tls.wrap_socket(request, server_side=True) as tls:
                    self._connections.add(tls)
                    super().finish_request(tls, client_address)
            else:
                super().finish_request(request, client_address)
        except OSError:
            pass  # the client left; what it makes of it is the page's business

    def stop(self) -> None:
        self.shutdown()
        self._thread.join()
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.server_close()


class _Web(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(BODY)

    do_HEAD = do_GET  # noqa: N815 - http.server looks methods up by the word on the wire

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path.endswith("/chat/completions"):
            self._complete()
        else:
            self.do_GET()

    def _complete(self) -> None:
        """Answer as a language model's API does, for pages that show an SDK."""
        message = {"role": "assistant", "content": "Loud and clear."}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        told = {"id": "1", "object": "chat.completion", "created": 0, "model": "any"}
        body = json.dumps({**told, "choices": [choice]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_PUT = do_POST  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base class has it
        pass


class _Echo(socketserver.StreamRequestHandler):
    """Speaks first, as SSH does, then says back what it hears."""

    def handle(self) -> None:
        self.wfile.write(BANNER)
        while data := self.request.recv(65536):
            self.wfile.write(data)


class _Servers:
    """The servers on one loopback address, and which of them a port leads to."""

    def __init__(self, host: str, tls: ssl.SSLContext) -> None:
        self._host = host
        self._secure = _Server(host, _Web, tls)
        self._plain = _Server(host, _Web, None)
        self._banner = _Server(host, _Echo, None)

    def address(self, port: int) -> tuple[str, int]:
        if port in BANNER_PORTS:
            server = self._banner
        elif port in HTTP_PORTS:
            server = self._plain
        else:
            server = self._secure
        return self._host, server.server_address[1]

    def stop(self) -> None:
        for server in (self._secure, self._plain, self._banner):
            server.stop()


def _documented(host: str) -> bool:
    """Return whether `host` is a name or address set apart for documentation."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        name = host.lower().rstrip(".")
        return any(name == domain or name.endswith(f".{domain}") for domain in DOMAINS)
    return any(address in network for network in NETWORKS)


@contextlib.contextmanager
def internet(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[None]:
    """Let the documentation's names lead to loopback servers; `folder` holds the authority."""
    authority = trustme.CA()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.set_alpn_protocols(["http/1.1"])
    authority.issue_cert(*TLS_NAMES).configure_cert(tls)
    authority.cert_pem.write_to_path(folder / "authority.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(folder / "authority.pem"))
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)

    servers = {socket.AF_INET: _Servers("127.0.0.1", tls)}
    if socket.has_ipv6:
        with contextlib.suppress(OSError):  # a kernel may be built with it and have no ::1
            servers[socket.AF_INET6] = _Servers("::1", tls)

    getaddrinfo = socket.getaddrinfo
    connect, connect_ex = socket.socket.connect, socket.socket.connect_ex

    def answer(host: Any, port: Any, family: int = 0, kind: int = 0, *args: Any, **kw: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if not isinstance(name, str) or not _documented(name) or _is_address(name):
            return getaddrinfo(host, port, family, kind, *args, **kw)
        if family == socket.AF_INET6:
            raise socket.gaierror(socket.EAI_NONAME, "the stand-in has no IPv6 names")
        return getaddrinfo(ADDRESS, port, family, kind or socket.SOCK_STREAM)

    def turn(sock: socket.socket, address: Any) -> Any:
        if sock.family in servers and sock.type == socket.SOCK_STREAM:
            host, port = address[:2]
            if host == ADDRESS or _documented(host):
                return servers[socket.AddressFamily(sock.family)].address(port)
            if _is_address(host) and not ipaddress.ip_address(host).is_loopback:
                # The resolvers of a default route, which begins when a busy machine makes the first route slow.
                raise ConnectionRefusedError(errno.ECONNREFUSED, "this internet is small")
        return address

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    monkeypatch.setattr(socket.socket, "connect", lambda s, a: connect(s, turn(s, a)))
    monkeypatch.setattr(socket.socket, "connect_ex", lambda s, a: connect_ex(s, turn(s, a)))
    try:
        yield
    finally:
        for family in servers.values():
            family.stop()


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
