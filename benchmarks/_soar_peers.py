"""Tunnels of other people's through DNS, as they are run by default: which are on PATH, and how each is started."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import anyio

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from benchmarks._soar_lab import Address

__all__ = ("PEERS", "Peer", "Place", "found_peers", "prepare")

_SBIN: Final = ("/usr/sbin", "/usr/local/sbin")
_LOCAL: Final = "127.0.0.1"
_PASSWORD: Final = "racer"  # noqa: S105 - of a tunnel that lasts some seconds, on this machine
_IODINE: Final = "10.77.0.1"  # the server's address inside its tunnel


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a peer runs.

    Attributes:
        folder: for keys and settings.
        zone: the server's.
        listens: where the server listens for DNS.
        asks: where the client asks.
        origin: where the server leads to.
        local: the port at which the client listens for TCP.
    """

    folder: Path
    zone: str
    listens: Address
    asks: Address
    origin: Address
    local: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One of them.

    Attributes:
        name: by which it is known.
        programs: what has to be on PATH.
        server: returns the server's command.
        client: returns the client's.
        keys: returns the command that makes its keys, if it needs one.
        target: returns where to connect to on the client's side.
        fixed_port: whether it asks port 53 alone, which only a namespace has to give.
    """

    name: str
    programs: tuple[str, ...]
    server: Callable[[Place], list[str]]
    client: Callable[[Place], list[str]]
    keys: Callable[[Place], list[str]] | None = None
    target: Callable[[Place], tuple[str, int]] = lambda place: (_LOCAL, place.local)
    fixed_port: bool = False


def _dnstt_keys(place: Place) -> list[str]:
    files = [f"{place.folder}/dnstt.{kind}" for kind in ("key", "pub")]
    return ["dnstt-server", "-gen-key", "-privkey-file", files[0], "-pubkey-file", files[1]]


def _dnstt_server(place: Place) -> list[str]:
    listen, origin = (f"{at.host}:{at.port}" for at in (place.listens, place.origin))
    key = f"{place.folder}/dnstt.key"
    return ["dnstt-server", "-udp", listen, "-mtu", "1232", "-privkey-file", key, place.zone, origin]  # fmt: skip


def _dnstt_client(place: Place) -> list[str]:
    asks = f"{place.asks.host}:{place.asks.port}"
    key = f"{place.folder}/dnstt.pub"
    return ["dnstt-client", "-udp", asks, "-pubkey-file", key, place.zone, f"{_LOCAL}:{place.local}"]  # fmt: skip


def _slipstream_server(place: Place) -> list[str]:
    return [
        "slipstream-server",
        f"--dns-listen-port={place.listens.port}",
        f"--target-address={place.origin.host}:{place.origin.port}",
        f"--domain={place.zone}",
        f"--cert={place.folder}/slipstream.pem",
        f"--key={place.folder}/slipstream.key",
    ]


def _slipstream_client(control: str) -> Callable[[Place], list[str]]:
    def client(place: Place) -> list[str]:
        return [
            "slipstream-client",
            f"--congestion-control={control}",
            f"--tcp-listen-port={place.local}",
            f"--resolver={place.asks.host}:{place.asks.port}",
            f"--domain={place.zone}",
        ]

    return client


def _iodine_server(place: Place) -> list[str]:
    options = ["-f", "-c", "-P", _PASSWORD, "-l", place.listens.host]
    return ["iodined", *options, f"{_IODINE}/27", place.zone]


def _iodine_client(place: Place) -> list[str]:
    return ["iodine", "-f", "-r", "-P", _PASSWORD, place.asks.host, place.zone]


def _dns2tcp_server(place: Place) -> list[str]:
    return ["dns2tcpd", "-F", "-f", f"{place.folder}/dns2tcpd.conf"]


def _dns2tcp_client(place: Place) -> list[str]:
    return ["dns2tcpc", "-z", place.zone, "-r", "origin", "-l", str(place.local), place.asks.host]


PEERS: Final = (
    Peer(
        name="dnstt",
        programs=("dnstt-client", "dnstt-server"),
        keys=_dnstt_keys,
        server=_dnstt_server,
        client=_dnstt_client,
    ),
    # Its two congestion controls trade one direction for the other: each is a peer of its own.
    *(
        Peer(
            name=f"slipstream-{control}",
            programs=("slipstream-client", "slipstream-server"),
            server=_slipstream_server,
            client=_slipstream_client(control),
        )
        for control in ("bbr", "dcubic")
    ),
    Peer(
        name="iodine",
        programs=("iodine", "iodined"),
        server=_iodine_server,
        client=_iodine_client,
        target=lambda place: (_IODINE, place.origin.port),
        fixed_port=True,
    ),
    Peer(
        name="dns2tcp",
        programs=("dns2tcpc", "dns2tcpd"),
        server=_dns2tcp_server,
        client=_dns2tcp_client,
        fixed_port=True,
    ),
)
"""All that are looked for."""


def _path() -> str:
    return os.pathsep.join([os.environ.get("PATH", os.defpath), *_SBIN])


def found_peers() -> tuple[list[Peer], list[str]]:
    """Return those whose programs are on PATH, and the names of those whose are not."""
    there, missing = [], []
    for peer in PEERS:
        if all(shutil.which(program, path=_path()) for program in peer.programs):
            there.append(peer)
        else:
            missing.append(peer.name)
    return there, missing


async def prepare(peer: Peer, place: Place) -> None:
    """Make the keys, certificates and settings that a peer needs.

    Raises:
        OSError, CalledProcessError: they cannot be made.
    """
    if peer.keys is not None:
        await anyio.run_process(peer.keys(place))
    if "slipstream-server" in peer.programs:
        import trustme  # noqa: PLC0415 - only this peer needs it

        made = trustme.CA().issue_cert(place.zone)
        made.private_key_pem.write_to_path(place.folder / "slipstream.key")
        made.cert_chain_pems[0].write_to_path(place.folder / "slipstream.pem")
    if "dns2tcpd" in peer.programs:
        text = (
            f"listen = {place.listens.host}\nport = {place.listens.port}\nuser = nobody\n"
            f"chroot = {place.folder}\ndomain = {place.zone}\n"
            f"resources = origin:{place.origin.host}:{place.origin.port}\n"
        )
        await anyio.Path(place.folder / "dns2tcpd.conf").write_text(text)
