"""Which resolvers are asked, over what, and what an option of them may say."""

from __future__ import annotations

import ssl
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from racer.errors import ConfigError
from transports._net.resolver_urls import ResolverURL
from transports.soar._ways import MAX_PATHS, checked_resolvers, make_ways
from transports.soar.carriers.https import HTTPSCarrier
from transports.soar.carriers.streams import StreamCarrier
from transports.soar.carriers.udp import UDPCarrier

if TYPE_CHECKING:
    from transports.soar._ways import Way

URLS = ("udp://192.0.2.1", "tcp://192.0.2.1", "tls://dns.example", "https://dns.example/a-secret")


# Runs a client until its resolver has been asked, and tells what is loaded by then.
FIRST_QUESTION = """
import os, socket, sys
import anyio
from racer.abc import Host, Progress, Target
from transports.soar import Soar, generate_key

class Home(Host):
    tracer = meter = None
    def __init__(self, group):
        self.group = group
    def start_soon(self, fn, *args, name):
        self.group.start_soon(fn, *args, name=name)

async def main():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as resolver:
        resolver.bind(("127.0.0.1", 0))
        resolver.setblocking(False)
        soar = Soar(
            domain="t.example",
            server_key=generate_key().public.to_text(),
            resolvers=[f"udp://127.0.0.1:{resolver.getsockname()[1]}"],
        )
        async with anyio.create_task_group() as group:
            await soar.start(Home(group))
            group.start_soon(soar.connect, Target("192.0.2.1"), Progress())
            with anyio.fail_after(30):
                await anyio.wait_readable(resolver)
            print(*sorted(sys.modules), flush=True)
            os._exit(0)

anyio.run(main)
"""
LATE = {
    "difflib",
    "dns",
    "h2",
    "httpx",
    "json",
    "opentelemetry",
    "racer._dialer",
    "racer._finding",
    "racer._guest_status",
    "racer._making",
    "racer._report",
    "racer._schedule",
    "transports._net.connector",
    "transports._net.eyeballs",
    "transports._net.http_client",
    "transports._net.resolve",
    "transports._net.tls",
    "transports.soar._carriers",
    "transports.soar._diagnose",
    "transports.soar._server",
    "transports.soar._status",
    "transports.soar.carriers.streams",
    "transports.soar.core.server",
}


def ways(*urls: str, zones: tuple[str, ...] = ("t.example",)) -> list[Way]:
    resolvers = [ResolverURL.parse(url) for url in urls]
    return make_ways(resolvers, zones=zones, tls=None, dial_tcp=None, dial_udp=None)


def test_each_scheme_has_its_carrier() -> None:
    made = ways(*URLS)
    assert [type(way.carrier) for way in made] == [
        UDPCarrier,
        StreamCarrier,
        StreamCarrier,
        HTTPSCarrier,
    ]
    assert [way.datagram for way in made] == [True, False, False, False]
    assert [way.label for way in made] == [
        "udp://192.0.2.1",
        "tcp://192.0.2.1",
        "tls://dns.example",
        "https://dns.example",  # the path may be an account's
    ]


def test_every_resolver_is_asked_for_every_zone() -> None:
    made = ways("udp://192.0.2.1", "udp://192.0.2.2", zones=("a.example", "b.example"))
    assert [(way.zone, way.label) for way in made] == [
        (0, "udp://192.0.2.1 for a.example"),
        (0, "udp://192.0.2.2 for a.example"),
        (1, "udp://192.0.2.1 for b.example"),
        (1, "udp://192.0.2.2 for b.example"),
    ]


def test_no_two_ways_are_called_the_same() -> None:
    made = ways("https://dns.example/one", "https://dns.example/two")
    assert [way.label for way in made] == ["https://dns.example", "https://dns.example (2)"]


def test_there_are_only_so_many_paths() -> None:
    assert len(ways(*(f"udp://192.0.2.{n}" for n in range(20)))) == MAX_PATHS


@pytest.mark.parametrize(
    ("given", "zones", "words"),
    [
        ("udp://192.0.2.1", 1, "resolvers must be a list of 1 to 16 URLs"),
        ([], 1, "resolvers must be a list of 1 to 16 URLs"),
        (["system"] * 17, 1, "resolvers must be a list of 1 to 16 URLs"),
        ([53], 1, r"resolvers\[0\] must be a text, not int"),
        (["system", "192.0.2.1"], 1, r"resolvers\[1\]='192.0.2.1': not 'system', nor a URL"),
        (["udp://"], 1, r"resolvers\[0\] \(udp://\): the host is missing"),
        (["system", "system"], 1, r"resolvers\[1\]: stands in the list already"),
        (["udp://[::1]", "udp://[::1]:53"], 1, r"resolvers\[1\]: stands in the list already"),
        ([f"udp://192.0.2.{n}" for n in range(9)], 2, "which makes 18 paths; at most 16"),
    ],
)
def test_a_wrong_resolver_is_told(given: Any, zones: int, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        checked_resolvers(given, zones=zones)


def test_right_resolvers_are_taken() -> None:
    found = checked_resolvers(["system", "udp://192.0.2.1"], zones=8)
    assert found == (None, ResolverURL.parse("udp://192.0.2.1"))


def test_what_a_client_does_not_need_is_not_loaded_before_its_first_question() -> None:
    """A program that is started for one dial waits for every import."""
    result = subprocess.run(
        [sys.executable, "-c", FIRST_QUESTION], capture_output=True, text=True, check=True
    )
    loaded = set(result.stdout.split())
    assert "transports.soar._engine" in loaded
    assert loaded & LATE == set()


def test_an_encrypted_resolver_takes_the_context_that_is_given() -> None:
    context = ssl.create_default_context()
    resolver = ResolverURL.parse("tls://dns.example")
    (way,) = make_ways([resolver], zones=("t.example",), tls=context, dial_tcp=None, dial_udp=None)
    assert isinstance(way.carrier, StreamCarrier)
