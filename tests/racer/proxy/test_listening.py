from __future__ import annotations

import errno
import socket
from typing import Any

import pytest

from racer.abc import Target
from racer.errors import ConfigError
from racer.proxy import _listening
from racer.proxy._listening import checked_host, is_own, listen


@pytest.mark.parametrize(
    ("host", "checked"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "::1"),
        ("localhost", "127.0.0.1"),
        ("127.3.2.1", "127.3.2.1"),
    ],
)
def test_loopback_needs_no_users(host: str, checked: str) -> None:
    assert checked_host(host, is_guarded=False) == checked


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "2001:db8::1", "::ffff:127.0.0.1"])
def test_wider_than_that_needs_users(host: str) -> None:
    with pytest.raises(ConfigError, match="in your name"):
        checked_host(host, is_guarded=False)
    assert checked_host(host, is_guarded=True)


@pytest.mark.parametrize("host", ["proxy.example", "", "127.1", "[::1]", 1, None])
def test_a_name_is_no_address_to_listen_on(host: Any) -> None:
    with pytest.raises(ConfigError, match="IP address"):
        checked_host(host, is_guarded=True)


@pytest.mark.parametrize(
    ("target", "address", "own"),
    [
        ("127.0.0.1:1080", ("127.0.0.1", 1080), True),
        ("127.0.0.1:1081", ("127.0.0.1", 1080), False),
        ("127.0.0.2:1080", ("127.0.0.1", 1080), False),
        ("localhost:1080", ("127.0.0.1", 1080), True),
        ("x.localhost.:1080", ("::1", 1080), True),
        ("localhost:1080", ("192.0.2.1", 1080), False),
        ("0.0.0.0:1080", ("127.0.0.1", 1080), True),
        ("[::]:1080", ("127.0.0.1", 1080), True),
        ("[::ffff:127.0.0.1]:1080", ("127.0.0.1", 1080), True),
        ("127.9.9.9:1080", ("0.0.0.0", 1080), True),
        ("[::1]:1080", ("::", 1080), True),
        ("198.51.100.1:1080", ("0.0.0.0", 1080), False),
        ("192.0.2.1:1080", ("192.0.2.1", 1080), True),
        ("0.0.0.0:1080", ("192.0.2.1", 1080), False),
        ("news.example:1080", ("127.0.0.1", 1080), False),
    ],
)
def test_its_own_address_is_known_in_every_guise(
    target: str, address: tuple[str, int], own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_listening, "_is_of_this_machine", {"192.0.2.1": True}.get)
    assert bool(is_own(Target.parse(target, tls=False), address)) is own


def test_an_address_of_this_machine_is_told_from_others() -> None:
    assert _listening._is_of_this_machine("127.0.0.1")
    assert not _listening._is_of_this_machine("no address")  # no way there


def test_an_address_that_is_taken_is_named() -> None:
    with listen("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(
            OSError, match=f"127.0.0.1:{port}: another program listens there"
        ) as caught:
            listen("127.0.0.1", port)
        assert caught.value.errno == errno.EADDRINUSE


def test_an_address_of_another_machine_is_named() -> None:
    with pytest.raises(OSError, match=r"cannot listen on 198\.51\.100\.1:0: ") as caught:
        listen("198.51.100.1", 0)
    assert caught.value.errno == errno.EADDRNOTAVAIL


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6")
def test_ipv6_is_listened_on_alone() -> None:
    with listen("::1", 0) as sock:
        assert sock.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
