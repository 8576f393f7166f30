"""Where this machine's own resolvers are read, and what in there is none."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from racer.errors import ErrorType, NetworkError
from transports.soar import _system_resolvers
from transports.soar._system_resolvers import system_resolvers

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps them elsewhere")


@pytest.fixture(name="settings")
def _settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that stands for the system's."""
    path = tmp_path / "resolv.conf"
    monkeypatch.setattr(_system_resolvers, "_FILE", str(path))
    return path


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("nameserver 192.0.2.1", ["udp://192.0.2.1"]),
        (
            "nameserver 192.0.2.1\nnameserver 2001:db8::1\nnameserver 192.0.2.1\nnameserver 192.0.2.4\n",
            ["udp://192.0.2.1", "udp://[2001:db8::1]"],
        ),
        ("nameserver fe80::1%eth0\n", ["udp://[fe80::1%eth0]"]),
        (
            "# nameserver 192.0.2.9\n; nameserver 192.0.2.8\n\nsearch example.com\nnameserver\t192.0.2.1 # ours\n",
            ["udp://192.0.2.1"],
        ),
        ("nameserver\nnameserver dns.example\nnameserver 192.0.2.1\n", ["udp://192.0.2.1"]),
        ("nameserver 192.0.2.1\r\noptions edns0\r\n", ["udp://192.0.2.1"]),
        ("nameserver 192.0.2.1\n" + "#" * 100_000, ["udp://192.0.2.1"]),
        ("nameserver \0\nnameserver 192.0.2.1\n", ["udp://192.0.2.1"]),
    ],
    ids=["one", "the first three", "scope", "else", "no address", "line ends", "large", "NUL"],
)
def test_those_that_are_addresses_are_taken(settings: Path, text: str, found: list[str]) -> None:
    settings.write_text(text, newline="")
    assert [str(url) for url in system_resolvers()] == found


def test_octets_that_are_no_text_keep_nothing_from_being_read(settings: Path) -> None:
    settings.write_bytes(b"# \xff\xfe\nnameserver 192.0.2.1\n")
    assert [str(url) for url in system_resolvers()] == ["udp://192.0.2.1"]


@pytest.mark.parametrize("text", ["", "search example.com\n", "nameserver dns.example\n", None])
def test_a_machine_without_resolvers_says_so(settings: Path, text: str | None) -> None:
    if text is not None:
        settings.write_text(text)
    with pytest.raises(NetworkError, match="this machine") as caught:
        system_resolvers()
    assert caught.value.error_type is ErrorType.DNS_FAILURE


def test_to_find_them_no_library_is_loaded() -> None:
    program = (
        "import sys; from racer.errors import NetworkError; "
        "from transports.soar._system_resolvers import system_resolvers\n"
        "try: system_resolvers()\n"
        "except NetworkError: pass\n"
        "print('dns' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"
