"""Networks are told apart by their routers and name servers, and by nothing that can be read back."""

from __future__ import annotations

import re
import socket
from typing import TYPE_CHECKING

import pytest

import racer.abc
from racer import _network_id
from racer._network_id import network_id

if TYPE_CHECKING:
    from pathlib import Path

ROUTES = """Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
{device}\t00000000\t{gateway}\t0003\t0\t0\t100\t00000000\t0\t0\t0
eth0\t000200C0\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0
{more}"""
ROUTES_V6 = (
    "00000000000000000000000000000000 00 00000000000000000000000000000000 00 {hop} "
    "00000400 00000001 00000000 00000003     eth0\n"
    "20010db8000000000000000000000000 40 00000000000000000000000000000000 00 "
    "00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth0\n"
    "00000000000000000000000000000000 00 00000000000000000000000000000000 00 "
    "00000000000000000000000000000000 ffffffff 00000001 00000000 00200200       lo\n"
)
HOME = {
    "device": "eth0",
    "gateway": "010200C0",
    "hop": "fe80000000000000",
    "resolver": "192.0.2.53",
    "more": "",
}


class Machine:
    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.files = {name: folder / name for name in ("_ROUTES", "_ROUTES_V6", "_RESOLVERS")}
        for name, path in self.files.items():
            monkeypatch.setattr(_network_id, name, path)
        monkeypatch.setattr("sys.platform", "linux")

    def id(self, **change: str) -> str:
        """Return what is said of this network, with some of its facts changed."""
        facts = HOME | change
        self.files["_ROUTES"].write_text(ROUTES.format_map(facts))
        hop = facts["hop"].ljust(32, "0")
        self.files["_ROUTES_V6"].write_text(ROUTES_V6.format(hop=hop))
        resolver = facts["resolver"]
        self.files["_RESOLVERS"].write_text(f"search example\nnameserver {resolver}\n")
        return network_id()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("change", "is_another"),
    [
        ({"device": "wlan0"}, True),
        ({"gateway": "020200C0"}, True),
        ({"hop": "fe80000000000001"}, True),
        ({"resolver": "192.0.2.54"}, True),
        ({"more": "tun0\t000010AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n"}, False),
        ({"more": "cut short\n"}, False),
    ],
)
def test_another_network_is_another(
    machine: Machine, change: dict[str, str], is_another: bool
) -> None:
    before = machine.id()
    assert machine.id() == before
    assert (machine.id(**change) != before) is is_another
    assert machine.id() == before


def test_it_says_nothing_about_the_network(machine: Machine) -> None:
    assert re.fullmatch("[0-9a-f]{64}", machine.id())


def test_a_machine_without_networks_has_an_id_too(machine: Machine) -> None:
    for path in machine.files.values():
        path.touch()
    assert re.fullmatch("[0-9a-f]{64}", network_id())


def test_guests_have_it_from_the_contract() -> None:
    assert racer.abc.network_id is network_id


def test_where_no_routes_are_shown_it_is_the_addresses_that_would_be_sent_from(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_network_id, "_PROBES", ((socket.AF_INET, "127.0.0.1"),))
    here = network_id()
    assert network_id() == here
    monkeypatch.setattr(_network_id, "_PROBES", ((10_000, "nowhere"),))
    assert network_id() != here


def test_elsewhere_it_is_always_the_addresses(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = machine.id()
    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.setattr(_network_id, "_PROBES", ((socket.AF_INET, "127.0.0.1"),))
    assert network_id() == network_id() != before
