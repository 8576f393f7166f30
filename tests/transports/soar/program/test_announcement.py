"""What an operator publishes, and hands to clients (S25)."""

from __future__ import annotations

import tomllib

import dns.zone
import pytest

from transports.soar import Soar, generate_key
from transports.soar.program.announcement import client_configuration, zone_records


def test_the_records_delegate_every_zone_and_say_where_the_servers_are() -> None:
    text = zone_records(
        ["t.example.com", "u.example.com"], {"ns.t.example.com": ["192.0.2.1", "2001:db8::1"]}
    )
    assert text.splitlines() == [
        "t.example.com. 3600 IN NS ns.t.example.com.",
        "u.example.com. 3600 IN NS ns.t.example.com.",
        "ns.t.example.com. 3600 IN A 192.0.2.1",
        "ns.t.example.com. 3600 IN AAAA 2001:db8::1",
    ]
    zone = dns.zone.from_text(text, origin="example.com.", check_origin=False)
    assert len(list(zone.iterate_rdatas())) == 4


def test_an_address_that_is_not_known_is_asked_for_where_one_is_needed() -> None:
    assert "ns.t.example.com. 3600 IN A <the public address" in zone_records(
        ["t.example.com"], {"ns.t.example.com": []}
    )
    assert zone_records(["t.example.com"], {"ns.example.net": []}) == (
        "t.example.com. 3600 IN NS ns.example.net.\n"
    )


@pytest.mark.parametrize("zones", [["t.example.com"], ["t.example.com", "t.example.net"]])
@pytest.mark.parametrize("needs_grant", [False, True])
def test_a_client_takes_its_configuration(zones: list[str], needs_grant: bool) -> None:
    key = generate_key().public.to_text()
    (entrant,) = tomllib.loads(client_configuration(zones, key, needs_grant=needs_grant))["entrant"]
    assert entrant["transport"] == "soar"
    options = entrant["options"]
    assert ("credential" in options) == needs_grant
    options.pop("credential", None)
    assert isinstance(Soar(**options), Soar)
