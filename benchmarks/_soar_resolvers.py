"""Resolvers of other people's, each with a zone that it asks of one server; their settings are those they come with.

Besides those, they are told where to listen, that the zone is at our server and not signed, and whom to answer. Nothing is
raised for a tunnel's sake: no limits, no buffers, no QNAME minimisation turned off.
"""

from __future__ import annotations

import shutil
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import anyio

from benchmarks._results import Unusable
from benchmarks._soar_lab import Address, Host, Lab, free_ports, running, said

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

__all__ = ("PROGRAMS", "installed_resolvers", "resolver_of")

PROGRAMS: Final = {
    "unbound": ("unbound", "unbound"),
    "bind": ("named", "bind9"),
    "powerdns": ("pdns_recursor", "pdns-recursor"),
    "knot": ("kresd", "knot-resolver"),
    "dnsmasq": ("dnsmasq", "dnsmasq-base"),
}
"""The program of each, and Debian's package."""

_FOLDERS: Final = "/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin"
_BEHIND: Final = 5353  # where unbound listens behind dnsmasq, in a namespace

_UNBOUND: Final = """
server:
  interface: {here.host}@{here.port}
  outgoing-interface: {here.host}
  access-control: 0.0.0.0/0 allow
  do-not-query-localhost: no
  do-daemonize: no
  do-ip6: no
  use-syslog: no
  chroot: ""
  username: ""
  pidfile: ""
  directory: "{folder}"
  domain-insecure: "{zone}"
stub-zone:
  name: "{zone}"
  stub-addr: {there.host}@{there.port}
auth-zone:
  name: "."
  zonefile: "{folder}/root.zone"
  for-downstream: no
remote-control:
  control-enable: no
"""
# The root, where names lead that nobody has: it says so at once, as on the internet. iodine's server answers some questions
# with such names; where they vanish, the resolver waits.
_ROOT: Final = """\
. 3600 IN SOA ns.invalid. nobody.invalid. 1 1800 900 604800 3600
. 3600 IN NS ns.invalid.
"""
# BIND's static-stub zones name no port: `port` is the one that it asks others at.
_BIND: Final = """
options {{
  directory "{folder}";
  port {there.port};
  listen-on port {here.port} {{ {here.host}; }};
  listen-on-v6 {{ none; }};
  query-source address {here.host};
  allow-query {{ any; }};
  allow-recursion {{ any; }};
  validate-except {{ "{zone}"; }};
  pid-file none;
  session-keyfile none;
  lock-file none;
}};
controls {{ }};
zone "{zone}" {{ type static-stub; server-addresses {{ {there.host}; }}; }};
"""
_POWERDNS: Final = """
local-address={here.host}
local-port={here.port}
query-local-address={here.host}
allow-from=0.0.0.0/0
dont-query=
forward-zones={zone}={there.host}:{there.port}
security-poll-suffix=
socket-dir={folder}
daemon=no
write-pid=no
quiet=yes
"""
_KNOT: Final = """
net.listen('{here.host}', {here.port}, {{ kind = 'dns' }})
net.outgoing_v4('{here.host}')
net.ipv6 = false
modules = {{ 'hints > iterate', 'stats', 'predict' }}
cache.size = 20 * MB
trust_anchors.set_insecure({{ '{zone}' }})
policy.add(policy.suffix(policy.STUB('{there.host}@{there.port}'), {{ todname('{zone}') }}))
"""
_FILES: Final = {
    "unbound": ("unbound.conf", _UNBOUND),
    "bind": ("named.conf", _BIND),
    "powerdns": ("recursor.conf", _POWERDNS),
    "knot": ("kresd.conf", _KNOT),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Command:
    program: str
    options: tuple[str, ...]


def installed_resolvers() -> list[str]:
    """Return those that can be run here; dnsmasq forwards to unbound, so it needs both."""
    there = [name for name, (program, _) in PROGRAMS.items() if _which(program) is not None]
    return [name for name in there if name != "dnsmasq" or "unbound" in there]


def _which(program: str) -> str | None:
    return shutil.which(program, path=_FOLDERS)


@asynccontextmanager
async def resolver_of(name: str, lab: Lab, zone: str, folder: Path) -> AsyncIterator[list[int]]:
    """Run a resolver while the context lasts, and yield its processes, once it has found the server.

    Args:
        name: one of `PROGRAMS`.
        lab: where it listens, and whom it asks.
        zone: of which it asks the server.
        folder: for its files, new.

    Raises:
        Unusable: it does not answer; with its own words.
    """
    if name == "dnsmasq":
        behind = Address(lab.answers.host, _behind(lab))
        commands = [
            _written("unbound", behind, lab.upstream, zone, folder),
            _dnsmasq(lab.answers, behind),
        ]
    else:
        commands = [_written(name, lab.answers, lab.upstream, zone, folder)]
    log = folder / "log"
    async with AsyncExitStack() as stack:
        processes = [
            await stack.enter_async_context(
                running(lab.command(Host.RESOLVER, *_words(command)), log=log)
            )
            for command in commands
        ]
        asks = [sys.executable, "-m", "benchmarks._soar_far", "ask", *map(str, lab.asks), zone]
        async with running(lab.command(Host.CLIENT, *asks)) as asking:
            answered = await said(asking)
        if answered != "answered":
            words = (await anyio.Path(log).read_text(errors="replace")).strip().splitlines()
            msg = f"{name} does not answer ({words[-1] if words else 'it says nothing'}); leave it out with --resolver"
            raise Unusable(msg)
        yield [process.pid for process in processes]


def _behind(lab: Lab) -> int:
    return _BEHIND if lab.answers.port == 53 else free_ports(1)[0]


def _words(command: _Command) -> list[str]:
    binary = _which(command.program)
    assert binary is not None
    return [binary, *command.options]


def _written(name: str, here: Address, there: Address, zone: str, folder: Path) -> _Command:
    """Write a resolver's settings, and return the command that runs it with them."""
    file, form = _FILES[name]
    path = folder / file
    (folder / "root.zone").write_text(_ROOT, encoding="utf-8")
    path.write_text(form.format(here=here, there=there, zone=zone, folder=folder), encoding="utf-8")
    options = {
        "unbound": ("-d", "-c", str(path)),
        "bind": ("-g", "-c", str(path)),
        "powerdns": (f"--config-dir={folder}",),
        "knot": ("-n", "-c", str(path), str(folder)),
    }
    return _Command(program=PROGRAMS[name][0], options=options[name])


def _dnsmasq(here: Address, behind: Address) -> _Command:
    options = (
        "--keep-in-foreground",
        "--conf-file=/dev/null",
        "--log-facility=-",
        "--no-resolv",
        "--no-hosts",
        "--pid-file=",
        "--user=",
        "--group=",
        "--bind-interfaces",
        f"--listen-address={here.host}",
        f"--port={here.port}",
        f"--server={behind.host}#{behind.port}@{here.host}",
    )
    return _Command(program="dnsmasq", options=options)
