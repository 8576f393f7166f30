"""Networks are told apart by their routers and name servers, and by nothing that can be read back."""

from __future__ import annotations

import re
import socket
from typing import TYPE_CHECKING

import pytest

from transports.proxyless import _network_id
from transports.proxyless._network_id import network_id

if TYPE_CHECKING:
    from pathlib import Path

ROUTES = """Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
{device}\t00000000\t{gateway}\t0003\t0\t0\t100\t00000000\t0\t0\t0
eth0\t000200C0\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0
"""
ROUTES_V6 = (
    "00000000000000000000000000000000 00 00000000000000000000000000000000 00 {hop} "
    "00000400 00000001 00000000 00000003     eth0\n"
    "20010db8000000000000000000000000 40 00000000000000000000000000000000 00 "
    "00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth0\n"
)


class Machine:
    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.files = {name: folder / name for name in ("_ROUTES", "_ROUTES_V6", "_RESOLVERS")}
        for name, path in self.files.items():
            monkeypatch.setattr(_network_id, name, path)
        monkeypatch.setattr("sys.platform", "linux")
        self.set()

    def set(
        self,
        *,
        device: str = "eth0",
        gateway: str = "010200C0",
        hop: str = "fe80000000000000",
        resolver: str = "192.0.2.53",
        more: str = "",
    ) -> None:
        self.files["_ROUTES"].write_text(ROUTES.format(device=device, gateway=gateway) + more)
        self.files["_ROUTES_V6"].write_text(ROUTES_V6.format(hop=hop.ljust(32, "0")))
        self.files["_RESOLVERS"].write_text(f"search example\nnameserver {resolver}\n")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    "change",
    [
        {"device": "wlan0"},
        {"gateway": "020200C0"},
        {"hop": "fe80000000000001"},
        {"resolver": "192.0.2.54"},
    ],
)
def test_another_network_is_another(machine: Machine, change: dict[str, str]) -> None:
    before = network_id()
    assert network_id() == before
    machine.set(**change)
    assert network_id() != before
    machine.set()
    assert network_id() == before


def test_other_routes_make_no_other_network(machine: Machine) -> None:
    before = network_id()
    machine.set(more="tun0\t000010AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n")
    assert network_id() == before


def test_it_says_nothing_about_the_network(machine: Machine) -> None:
    assert re.fullmatch("[0-9a-f]{16}", network_id())


def test_a_machine_without_networks_has_an_id(machine: Machine) -> None:
    for path in machine.files.values():
        path.unlink()
    assert re.fullmatch("[0-9a-f]{16}", network_id())


def test_elsewhere_it_is_the_addresses_that_would_be_sent_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.setattr(_network_id, "_PROBES", ((socket.AF_INET, "127.0.0.1"),))
    here = network_id()
    assert network_id() == here
    monkeypatch.setattr(_network_id, "_PROBES", ((10_000, "nowhere"),))
    assert network_id() != here
