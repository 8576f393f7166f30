"""The server's configuration, and what is said of a wrong one (S25)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from racer.errors import ConfigError
from transports.soar.core.crypto.keys import ServerKey
from transports.soar.program.grants_file import add_grant
from transports.soar.program.settings import Settings


def write(folder: Path, text: str) -> Path:
    path = folder / "soar.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_everything_can_be_said(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
domain = ["t.example.com", "t.example.net"]
key = "key"
host = "192.0.2.1"
port = 5353
idle_timeout = 60
allow = ["*.example.org", "198.51.100.0/24:*"]
ports = [443]
grants = "grants.toml"
needs_grant = false
own = ["198.51.100.7"]
max_sessions = 100
status = "status"
resolver = "udp://127.0.0.1:5300"
trace_targets = true
[name_servers]
"ns.example.com" = ["192.0.2.1", "2001:db8::1"]
""",
    )
    assert Settings.read(path) == Settings(
        domain=("t.example.com", "t.example.net"),
        key=tmp_path / "key",
        host="192.0.2.1",
        port=5353,
        idle_timeout=60,
        allow=("*.example.org", "198.51.100.0/24:*"),
        ports=(443,),
        grants=tmp_path / "grants.toml",
        needs_grant=False,
        own=("198.51.100.7",),
        max_sessions=100,
        status=tmp_path / "status",
        resolver="udp://127.0.0.1:5300",
        trace_targets=True,
        name_servers={"ns.example.com": ("192.0.2.1", "2001:db8::1")},
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("domian = 'x'", "unknown key 'domian'; did you mean 'domain'?"),
        ("domain = 7", "domain: must be a list of texts"),
        ("domain = ''", "domain: must be a text"),
        ("port = '53'", "port: must be a whole number"),
        ("port = true", "port: must be a whole number"),
        ("idle_timeout = 'long'", "idle_timeout: must be a number"),
        ("ports = 443", "ports: must be a list of whole numbers"),
        ("needs_grant = 1", "needs_grant: must be true or false"),
        ("name_servers = []", "name_servers: must be a table of names and lists of addresses"),
        ("key = 1", "key: must be a text"),
        ("= 1", "Invalid statement (at line 1, column 1)"),
    ],
)
def test_a_mistake_is_said_with_its_place(tmp_path: Path, text: str, words: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        Settings.read(path)
    assert str(caught.value) == f"{path}: {words}"


def test_the_command_line_goes_before_the_file(tmp_path: Path) -> None:
    settings = Settings.read(write(tmp_path, "port = 5353\nhost = '192.0.2.1'"))
    assert settings.over(port=54, host=None) == Settings(port=54, host="192.0.2.1")


def test_the_records_name_what_is_known() -> None:
    assert Settings(domain=("t.example",), host="192.0.2.1").servers == {
        "ns.t.example": ("192.0.2.1",)
    }
    assert Settings(domain=("t.example",)).servers == {"ns.t.example": ()}


def test_grants_are_demanded_where_there_is_a_file_unless_said_otherwise() -> None:
    assert not Settings().demands_grant
    assert Settings(grants=Path("grants")).demands_grant
    assert not Settings(grants=Path("grants"), needs_grant=False).demands_grant


def test_what_only_a_restart_changes_is_named() -> None:
    old = Settings(port=53, allow=("a.example",))
    assert Settings(port=54, allow=("b.example",), status=Path("s")).differs(old) == (
        "port",
        "status",
    )
    assert old.over(ports=(1,), own=("192.0.2.1",), grants=Path("g")).differs(old) == ()


@pytest.mark.parametrize(
    "content", [b"", b"soar1nonsense", b"\xff\xfe", b"soarkey1" + b"a" * 60, b"x" * 5000]
)
def test_a_file_that_is_no_key_is_not_quoted(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        Settings(key=path).secret()
    assert str(caught.value) == f"{path}: no secret key of a Soar server"
    assert caught.value.__cause__ is None


def test_a_public_key_in_place_of_the_secret_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(ServerKey.generate(os.urandom).public.to_text(), encoding="ascii")
    with pytest.raises(ConfigError, match="no secret key"):
        Settings(key=path).secret()


def test_a_server_is_made_of_it(tmp_path: Path) -> None:
    key = ServerKey.generate(os.urandom)
    (tmp_path / "key").write_text(key.to_text() + "\n", encoding="ascii")
    add_grant(tmp_path / "grants")
    settings = Settings(
        domain=("t.example.com",), key=tmp_path / "key", grants=tmp_path / "grants", port=0
    )
    assert settings.server().public_key == key.public.to_text()
    assert len(settings.issued()) == 1
    assert Settings().issued() == ()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (Settings(), "domain: no zone is named"),
        (Settings(domain=("t.example",), host="here"), "host: 'here' is no IP address"),
        (Settings(domain=("t.example",)), "key: no file is named; make one with: keygen FILE"),
    ],
)
def test_what_is_missing_is_said(settings: Settings, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings.server()
    assert str(caught.value) == words


def test_targets_are_looked_up_where_the_operator_says() -> None:
    assert str(Settings(resolver="udp://127.0.0.1:5300").lookups()) == "udp://127.0.0.1:5300"
    assert Settings().lookups() is Settings(resolver="system").lookups() is None
    with pytest.raises(ConfigError, match=r"resolver='here': not 'system', nor a URL such as udp:"):
        Settings(resolver="here").lookups()
