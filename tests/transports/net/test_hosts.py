"""Addresses of the user's own: whose they are, what is refused, and who is not asked then."""

from __future__ import annotations

from typing import Any

import pytest

from racer.errors import ConfigError
from tests.transports.net.world import BOTH, V4, V6, Oracle, answer4, answers
from transports._net.hosts import Hosts, HostsResolver
from transports._net.resolve import Answer

TABLE = {
    "a.example": ["192.0.2.1"],
    "*.example": ["192.0.2.2"],
    "*.deep.example": ["192.0.2.3"],
    "*.a.example": ["192.0.2.4"],
    "Bücher.example.": ["192.0.2.5", "2001:db8::5", "192.0.2.5"],
}


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("a.example", "192.0.2.1"),
        ("a.example.", "192.0.2.1"),
        ("b.example", "192.0.2.2"),
        ("c.b.example", "192.0.2.2"),
        ("deep.example", "192.0.2.2"),
        ("x.deep.example", "192.0.2.3"),
        ("y.x.deep.example.", "192.0.2.3"),
        ("x.a.example", "192.0.2.4"),
        ("example", None),
        ("aexample", None),
        ("a.example.com", None),
    ],
)
def test_whole_names_go_before_wildcards_and_long_ones_before_short(
    name: str, address: str | None
) -> None:
    found = Hosts(TABLE).find(name)
    assert found == (None if address is None else (address,))


def test_names_are_normalised_and_addresses_kept_in_order() -> None:
    assert Hosts(TABLE).find("xn--bcher-kva.example") == ("192.0.2.5", "2001:db8::5")


def test_it_is_a_copy() -> None:
    table = {"a.example": ["192.0.2.1"]}
    hosts = Hosts(table)
    table["a.example"].append("192.0.2.2")
    table["b.example"] = ["192.0.2.3"]
    assert (len(hosts), hosts.find("a.example")) == (1, ("192.0.2.1",))
    assert Hosts().find("a.example") is None


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ([("a.example", ["::1"])], "hosts must be a table of names and lists of IP addresses, not list"),
        ({7: ["::1"]}, "hosts: a name must be a text, not int"),
        ({"a b": ["::1"]}, "hosts: 'a b': ' ' cannot be in a host name"),
        ({"*": ["::1"]}, "hosts: '*': '*' cannot be in a host name"),
        ({"*.": ["::1"]}, "hosts: the host is empty"),
        ({"a.*.example": ["::1"]}, "'*' cannot be in a host name"),
        ({"192.0.2.1": ["::1"]}, "hosts['192.0.2.1']: an IP address, where a name belongs"),
        ({"*.192.0.2.1": ["::1"]}, "an IP address, where a name belongs"),
        ({"https://a.example": ["::1"]}, "is a URL"),
        ({"a.example": ["::1"], "A.example.": ["::1"]}, "hosts['A.example.']: the same name as another"),
        ({"a.example": "::1"}, "hosts['a.example'] must be a list of IP addresses, not str"),
        ({"a.example": None}, "hosts['a.example'] must be a list of IP addresses, not NoneType"),
        ({"a.example": []}, "hosts['a.example']: 0 addresses; one to 32 are taken"),
        ({"a.example": ["::1"] * 33}, "hosts['a.example']: 33 addresses"),
        ({"a.example": ["b.example"]}, "hosts['a.example']: 'b.example' is not an IP address"),
        ({"a.example": ["192.0.2.1:80"]}, "hosts['a.example']: '192.0.2.1:80' is not an IP address"),
        ({"a.example": [7]}, "hosts['a.example']: int is not an IP address"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_and_why(table: Any, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Hosts(table)
    assert words in str(caught.value)


def test_a_name_too_many_is_refused() -> None:
    with pytest.raises(ConfigError, match="hosts has 100001 names; at most 100000"):
        Hosts({f"n{n}.example": ["::1"] for n in range(100_001)})


@pytest.mark.virtual_time
async def test_what_is_in_the_table_is_asked_of_nobody() -> None:
    oracle = Oracle([(1, answers("9.9.9.9"))])
    resolver = HostsResolver(Hosts(TABLE), oracle)
    reports: list[Answer] = []
    await resolver.resolve("a.example", BOTH, reports.append)
    await resolver.resolve("xn--bcher-kva.example", BOTH, reports.append)
    await resolver.resolve("xn--bcher-kva.example", (V6,), reports.append)
    await resolver.resolve("a.example", (V6,), reports.append)
    assert reports == [
        answers("192.0.2.1"),
        answers("192.0.2.5", "2001:db8::5"),
        Answer(families=(V6,), addresses=("2001:db8::5",)),
        Answer(families=(V6,)),
    ]
    assert oracle.asked == []


@pytest.mark.virtual_time
async def test_for_the_rest_the_other_resolver_speaks_and_fails() -> None:
    oracle = Oracle([(1, answer4("9.9.9.9"))], error=OSError("no"))
    reports: list[Answer] = []
    with pytest.raises(OSError, match="no"):
        await HostsResolver(Hosts(TABLE), oracle).resolve("b.test", (V4, V6), reports.append)
    assert reports == [answer4("9.9.9.9")]
    assert oracle.asked == [("b.test", (V4, V6))]


def test_it_shows_how_many_names_it_knows_and_no_name() -> None:
    assert repr(HostsResolver(Hosts({"a.example": ["::1"]}), Oracle([]))).startswith(
        "HostsResolver(<1 names>, Oracle("
    )
