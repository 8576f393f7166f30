"""A content delivery network on loopback: nginx with several providers, some of them broken, and an origin behind.

nginx routes by `Host` under whatever name TLS was made for, which is all that domain fronting takes.
"""

from __future__ import annotations

import getpass
import http.server
import json
import random
import shutil
import socket
import subprocess
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
import trustme

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ORIGIN = "api.example.com"
PING = "ping.example.net"
READY_WITHIN = 400  # polls of 50 ms
EDGES = ("127.0.0.1", "127.0.0.2", "127.0.0.3")

HEAD = """
user {user};
worker_processes 1;
daemon off;
master_process off;
pid {folder}/pid;
error_log {folder}/error.log warn;
events {{ worker_connections 256; }}
http {{
    log_format seen '$server_port|$ssl_server_name|$host|$request_method|$server_protocol|$status';
    access_log {folder}/access.log seen;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    keepalive_timeout 60s;
    server {{
        listen 127.0.0.1:{barrier};
        access_log off;
        return 200;
    }}
"""

PROVIDER = """
    server {{
        {listens}
        server_name _;
        ssl_certificate {folder}/{name}.pem;
        ssl_certificate_key {folder}/{name}.key;
        return 421;
    }}
    server {{
        {listens}
        server_name {ping};
        ssl_certificate {folder}/{name}.pem;
        ssl_certificate_key {folder}/{name}.key;
        location / {{ {ping_rule} }}
    }}
    server {{
        {listens}
        server_name {hidden};
        ssl_certificate {folder}/{name}.pem;
        ssl_certificate_key {folder}/{name}.key;
        location / {{ {rule} }}
    }}
"""

FORWARD = """
        proxy_pass http://127.0.0.1:{origin};
        proxy_http_version 1.1;
        proxy_buffering off;
        proxy_request_buffering off;
        proxy_set_header Host {known};
        proxy_set_header Connection "";
"""


@dataclass
class Kind:
    """How one provider behaves."""

    http2: bool = True
    ping: str = "return 202;"
    rule: str = FORWARD
    certificate_for: str = ""
    trusted: bool = True
    port: int = 0

    def __post_init__(self) -> None:
        self.port = free_port()


def kinds() -> dict[str, Kind]:
    return {
        "good": Kind(),
        "plain": Kind(http2=False),
        "refusing": Kind(rule="return 403 'blocked here';"),
        "overloaded": Kind(rule="return 503 'try later';"),
        "dropping": Kind(rule="return 444;", http2=False),
        "vetless": Kind(ping="return 404;"),
        "impostor": Kind(certificate_for="other.example.org"),
        "forger": Kind(trusted=False),
    }


@dataclass
class Seen:
    """One request as an edge logged it."""

    port: int
    sni: str
    host: str
    method: str
    protocol: str
    status: int


@dataclass
class Origin:
    """What the origin was asked: method, path, body and fields."""

    port: int
    asked: list[tuple[str, str, bytes, dict[str, str]]] = field(default_factory=list)


@dataclass
class Network:
    """The network, running."""

    folder: Path
    authority: trustme.CA
    kinds: dict[str, Kind]
    origin: Origin
    barrier: int

    @property
    def pem(self) -> str:
        return self.authority.cert_pem.bytes().decode()

    def seen(self) -> list[Seen]:
        """Return what the edges were asked; nginx logs a request when it is done with it, and it does one at a time."""
        with socket.create_connection(("127.0.0.1", self.barrier)) as sock:
            sock.sendall(b"GET / HTTP/1.0\r\n\r\n")
            while sock.recv(4096):
                pass
        lines = (self.folder / "access.log").read_text().splitlines()
        parts = [line.split("|") for line in lines]
        return [Seen(int(p[0]), p[1], p[2], p[3], p[4], int(p[5])) for p in parts]

    def forget(self) -> None:
        (self.folder / "access.log").write_text("")
        self.origin.asked.clear()

    def provider(self, name: str, *, edges: int = 1, **changes: Any) -> dict[str, Any]:
        """Return a provider as a list of fronts has it."""
        port = self.kinds[name].port
        return {
            "hostaliases": {ORIGIN: hidden(name)},
            "testurl": f"https://{PING}/ping",
            "masquerades": [
                {"domain": front(name), "ipaddress": f"{edge}:{port}"} for edge in EDGES[:edges]
            ],
            **changes,
        }

    def document(self, *names: str, **changes: Any) -> dict[str, Any]:
        return {
            "trustedcas": [{"commonname": "test", "cert": self.pem}],
            "providers": {name: self.provider(name, **changes) for name in names},
        }

    def fronts(self, *names: str, **changes: Any) -> bytes:
        """Return a list of the providers named; JSON is YAML."""
        return json.dumps(self.document(*names, **changes)).encode()


def front(name: str) -> str:
    return f"{name}.front.example.org"


def hidden(name: str) -> str:
    return f"api.{name}.example.net"


def free_port() -> int:
    """Return a port that is free, below those that the system hands out to anybody meanwhile."""
    while True:
        port = random.SystemRandom().randrange(10_000, 32_000)
        with suppress(OSError), socket.socket() as probe:
            probe.bind(("", port))
            return port


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Any

    def log_message(self, *args: Any) -> None:
        pass

    def answer(self, status: int, body: bytes, **fields: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in fields.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def handle_any(self) -> None:
        body = self.body()
        self.server.origin.asked.append((self.command, self.path, body, dict(self.headers)))
        match self.path.split("?")[0].split("/")[1:]:
            case ["status", code]:
                self.answer(int(code), b"as asked")
            case ["marked", code]:
                self.answer(int(code), b"my own word", X_Lantern_Origin="api")
            case ["redirect"]:
                self.answer(302, b"", Location=f"https://{self.headers['Host']}/next")
            case ["endless"]:
                self.send_response(500)
                self.end_headers()
                with suppress(OSError):
                    while True:
                        self.wfile.write(b"x" * 65536)
                self.close_connection = True
            case ["large"]:
                self.answer(200, bytes(range(256)) * 4096)
            case _:
                self.answer(200, self.command.encode() + b" " + body[:100])

    def body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            data = b""
            while size := int(self.rfile.readline() or b"0", 16):  # torn is ended
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return data
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def __getattr__(self, name: str) -> Any:
        """Answer every method alike: the server looks for `do_GET` and its like."""
        if name.startswith("do_"):
            return self.handle_any
        raise AttributeError(name)


@contextmanager
def origin_server() -> Iterator[Origin]:
    server: Any = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.block_on_close = False
    server.origin = Origin(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server.origin
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def binary() -> str:
    found = shutil.which(
        "nginx", path="/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin"
    )
    if found is None:
        pytest.skip("nginx is not installed (Debian: apt-get install nginx)")
    return found


@contextmanager
def network(folder: Path) -> Iterator[Network]:
    """Run nginx with every kind of provider until the block ends."""
    program = binary()
    folder.chmod(0o755)
    authority, stranger = trustme.CA(), trustme.CA()
    providers = kinds()
    with origin_server() as origin:
        barrier = free_port()
        text = HEAD.format(user=getpass.getuser(), folder=folder, barrier=barrier)
        for name, kind in providers.items():
            issuer = authority if kind.trusted else stranger
            leaf = issuer.issue_cert(kind.certificate_for or front(name))
            (folder / f"{name}.pem").write_bytes(b"".join(b.bytes() for b in leaf.cert_chain_pems))
            (folder / f"{name}.key").write_bytes(leaf.private_key_pem.bytes())
            version = " http2" if kind.http2 else ""
            listens = " ".join(f"listen {edge}:{kind.port} ssl{version};" for edge in EDGES)
            text += PROVIDER.format(
                listens=listens,
                folder=folder,
                name=name,
                ping=PING,
                ping_rule=kind.ping,
                hidden=hidden(name),
                rule=kind.rule.format(origin=origin.port, known=hidden(name)),
            )
        (folder / "nginx.conf").write_text(text + "}\n")
        command = [
            program,
            "-c",
            str(folder / "nginx.conf"),
            "-p",
            str(folder),
            "-e",
            str(folder / "start.log"),
        ]
        with running(command, providers["good"].port):
            yield Network(folder, authority, providers, origin, barrier)


@contextmanager
def running(command: list[str], port: int) -> Iterator[None]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        for _ in range(READY_WITHIN):
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.05)
                assert process.stderr is not None
                pytest.fail(f"{command[0]} ended: {process.stderr.read().decode()}")
        else:
            pytest.fail(f"{command[0]} does not listen")
        yield
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(5)
        process.kill()
        process.communicate()
