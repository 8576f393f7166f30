"""Resolvers of other people's as child processes on loopback, each with a zone that it asks of one server.

Their settings are those they come with, and besides: where they listen, that the zone is at our server, that it is not
signed, and that nothing leaves loopback.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import dns.exception
import dns.message
import dns.query
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ZONE = "t.example.com"
HOST = "127.0.0.1"
# Where our server listens: nothing else binds there, so its port is free whenever a test comes.
UPSTREAM_HOST = "127.0.53.1"

_FOLDERS = "/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin"
_POLLS, _POLL = 400, 0.05  # 20 s until a resolver answers
_FAREWELL = 5  # seconds that it may take to end


@dataclass(frozen=True)
class Upstream:
    """Where the zone is."""

    host: str
    port: int


@dataclass
class Resolver:
    """One that answers.

    Attributes:
        name: which it is.
        port: for UDP and TCP.
        tls_port: for DoT, or 0.
        https_port: for DoH, or 0.
        processes: those that it consists of.
    """

    name: str
    port: int
    tls_port: int = 0
    https_port: int = 0
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def url(self, way: str = "udp") -> str:
        """Return its URL for `udp`, `tcp`, `tls` or `https`."""
        match way:
            case "tls":
                return f"tls://{HOST}:{self.tls_port}"
            case "https":
                return f"https://{HOST}:{self.https_port}/dns-query"
            case _:
                return f"{way}://{HOST}:{self.port}"

    def stop(self) -> None:
        """End it for sure."""
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_FAREWELL)
            process.kill()
            process.wait()

    def kill(self) -> None:
        """End it without a word to anybody."""
        for process in self.processes:
            process.kill()
            process.wait()


def free_port(host: str = HOST) -> int:
    """Return a port that is free for TCP and UDP alike."""
    while True:
        with socket.socket() as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
            tcp.bind((host, 0))
            port: int = tcp.getsockname()[1]
            with contextlib.suppress(OSError):
                udp.bind((host, port))
                return port


@contextlib.contextmanager
def running(name: str, folder: Path, upstream: Upstream, **settings: str) -> Iterator[Resolver]:
    """Yield a resolver that answers; leaving ends it.

    Args:
        name: one of `RESOLVERS`.
        folder: for its files.
        upstream: where the zone is.
        settings: besides, as its maker takes them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    resolver = RESOLVERS[name](folder, upstream, **settings)
    try:
        _wait_for(resolver, folder)
        yield resolver
    finally:
        resolver.stop()


def _wait_for(resolver: Resolver, folder: Path) -> None:
    # Without RD it is answered, or refused, out of what the resolver knows itself.
    question = dns.message.make_query(ZONE, "SOA")
    question.flags = 0
    for _ in range(_POLLS):
        with contextlib.suppress(dns.exception.Timeout, OSError):
            dns.query.udp(question, HOST, port=resolver.port, timeout=_POLL)
            return
        for process in resolver.processes:
            if process.poll() is not None:
                pytest.fail(f"{resolver.name} ended:\n{_log(folder)}")
    resolver.stop()
    pytest.fail(f"{resolver.name} does not answer:\n{_log(folder)}")


def _log(folder: Path) -> str:
    texts = [log.read_text(errors="replace") for log in sorted(folder.glob("*.log"))]
    return "\n".join(texts)[-4000:]


def _binary(program: str, package: str) -> str:
    binary = shutil.which(program, path=_FOLDERS)
    if binary is None:
        pytest.skip(f"{program} is not installed (Debian: apt-get install {package})")
    return binary


def _start(folder: Path, binary: str, *options: str) -> subprocess.Popen[bytes]:
    with (folder / f"{Path(binary).name}.log").open("wb") as log:
        return subprocess.Popen(
            [binary, *options], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder
        )


# --- unbound ---------------------------------------------------------------------------------

_UNBOUND = """
server:
  interface: {host}@{port}
  outgoing-interface: {host}
  access-control: 127.0.0.0/8 allow
  do-not-query-localhost: no
  do-daemonize: no
  use-syslog: no
  chroot: ""
  username: ""
  pidfile: ""
  directory: "{folder}"
  domain-insecure: "{zone}"
{more}
stub-zone:
  name: "{zone}"
  stub-addr: {upstream.host}@{upstream.port}
remote-control:
  control-enable: no
"""
_TLS = """
  interface: {host}@{tls_port}
  interface: {host}@{https_port}
  tls-port: {tls_port}
  https-port: {https_port}
  tls-service-key: "{key}"
  tls-service-pem: "{pem}"
"""


def _unbound(
    folder: Path, upstream: Upstream, *, more: str = "", key: str = "", pem: str = ""
) -> Resolver:
    """Start it; with `key` and `pem` it is a DoT and DoH front as well, and `more` goes into its `server:` clause."""
    binary = _binary("unbound", "unbound")
    resolver = Resolver("unbound", free_port())
    if key:
        resolver.tls_port, resolver.https_port = free_port(), free_port()
        more += _TLS.format(
            host=HOST, tls_port=resolver.tls_port, https_port=resolver.https_port, key=key, pem=pem
        )
    config = folder / "unbound.conf"
    config.write_text(
        _UNBOUND.format(
            host=HOST, port=resolver.port, folder=folder, zone=ZONE, upstream=upstream, more=more
        )
    )
    resolver.processes.append(_start(folder, binary, "-d", "-c", str(config)))
    return resolver


# --- BIND ------------------------------------------------------------------------------------

_BIND = """
options {{
  directory "{folder}";
  port {upstream.port};
  listen-on port {port} {{ {host}; }};
  listen-on-v6 {{ none; }};
  query-source address {host};
  validate-except {{ "{zone}"; }};
  pid-file none;
  session-keyfile none;
  lock-file none;
}};
controls {{ }};
zone "{zone}" {{ type static-stub; server-addresses {{ {upstream.host}; }}; }};
"""


def _bind(folder: Path, upstream: Upstream) -> Resolver:
    """Start it; `port` is the one it asks others at, as no stub of its names another."""
    binary = _binary("named", "bind9")
    resolver = Resolver("bind", free_port())
    config = folder / "named.conf"
    config.write_text(
        _BIND.format(folder=folder, port=resolver.port, host=HOST, zone=ZONE, upstream=upstream)
    )
    resolver.processes.append(_start(folder, binary, "-g", "-c", str(config)))
    return resolver


# --- PowerDNS Recursor -----------------------------------------------------------------------

_POWERDNS = """
local-address={host}
local-port={port}
query-local-address={host}
dont-query=
forward-zones={zone}={upstream.host}:{upstream.port}
security-poll-suffix=
socket-dir={folder}
daemon=no
write-pid=no
quiet=yes
"""


def _powerdns(folder: Path, upstream: Upstream) -> Resolver:
    binary = _binary("pdns_recursor", "pdns-recursor")
    resolver = Resolver("powerdns", free_port())
    (folder / "recursor.conf").write_text(
        _POWERDNS.format(host=HOST, port=resolver.port, folder=folder, zone=ZONE, upstream=upstream)
    )
    options = [f"--config-dir={folder}"]
    resolver.processes.append(_start(folder, binary, *options))
    return resolver


# --- Knot Resolver ---------------------------------------------------------------------------

_KNOT = """
net.listen('{host}', {port}, {{ kind = 'dns' }})
net.outgoing_v4('{host}')
net.ipv6 = false
modules = {{ 'hints > iterate', 'stats', 'predict' }}
cache.size = 20 * MB
trust_anchors.set_insecure({{ '{zone}' }})
policy.add(policy.suffix(policy.STUB('{upstream.host}@{upstream.port}'), {{ todname('{zone}') }}))
"""


def _knot(folder: Path, upstream: Upstream) -> Resolver:
    binary = _binary("kresd", "knot-resolver")
    resolver = Resolver("knot", free_port())
    config = folder / "kresd.conf"
    config.write_text(_KNOT.format(host=HOST, port=resolver.port, zone=ZONE, upstream=upstream))
    options = ["-n", "-c", str(config), str(folder)]
    resolver.processes.append(_start(folder, binary, *options))
    return resolver


# --- dnsmasq before unbound ------------------------------------------------------------------


def _dnsmasq(folder: Path, upstream: Upstream) -> Resolver:
    binary = _binary("dnsmasq", "dnsmasq-base")
    behind = _unbound(folder, upstream)
    resolver = Resolver("dnsmasq", free_port(), processes=behind.processes)
    resolver.processes.append(
        _start(
            folder,
            binary,
            "--keep-in-foreground",
            "--conf-file=/dev/null",
            "--log-facility=-",
            "--no-resolv",
            "--no-hosts",
            "--pid-file=",
            "--user=",
            "--group=",
            "--bind-interfaces",
            f"--listen-address={HOST}",
            f"--port={resolver.port}",
            f"--server={HOST}#{behind.port}@{HOST}",
        )
    )
    return resolver


RESOLVERS: dict[str, Callable[..., Resolver]] = {
    "unbound": _unbound,
    "bind": _bind,
    "powerdns": _powerdns,
    "knot": _knot,
    "dnsmasq": _dnsmasq,
}
