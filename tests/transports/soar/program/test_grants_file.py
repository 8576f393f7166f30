"""The operator's file of grants: read strictly, written whole, by one at a time (S13, S25)."""

from __future__ import annotations

import os
import stat
import threading
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from racer.errors import ConfigError
from transports.soar.program.grants_file import Entry, add_grant, issued, read_grants, revoke_grant

if TYPE_CHECKING:
    from pathlib import Path


def outcome(path: Path) -> tuple[Entry, ...] | ConfigError:
    """Return the grants, or the one named error."""
    try:
        return read_grants(path)
    except ConfigError as exc:
        return exc


def test_what_was_added_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "grants.toml"
    first = add_grant(path, name='Zoë "Z"\n\x7f \\', expires=1_800_000_000.0)
    second = add_grant(path, allow=["*.example.com:443", "[2001:db8::/32]:*"])
    assert read_grants(path) == (first, second)
    assert [grant.grant for grant in issued(read_grants(path))] == [first.grant, second.grant]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_one_is_revoked_by_the_beginning_of_its_id(tmp_path: Path) -> None:
    path = tmp_path / "grants.toml"
    first, second = add_grant(path), add_grant(path)
    revoked = revoke_grant(path, first.id[:11].upper())
    assert revoked.is_revoked
    assert [entry.is_revoked for entry in read_grants(path)] == [True, False]
    for which, count in (("", "no grant"), ("zz", "no grant")):
        with pytest.raises(ConfigError, match=f"{count} with an id that begins with '{which}'"):
            revoke_grant(path, which)
    assert [entry.is_revoked for entry in read_grants(path)] == [True, False]
    assert second.id in path.read_text(encoding="utf-8")


def test_an_id_that_two_begin_with_revokes_neither(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "grants.toml"
    octets = iter([b"\1" * 6, b"\1" * 32, b"\1" * 5 + b"\2", b"\2" * 32])
    monkeypatch.setattr(os, "urandom", lambda size: next(octets))
    add_grant(path)
    add_grant(path)
    with pytest.raises(ConfigError, match="2 grants with an id that begins with '01'"):
        revoke_grant(path, "01")


def test_what_a_crash_tore_is_refused_at_every_cut_or_is_whole_grants(tmp_path: Path) -> None:
    path = tmp_path / "grants.toml"
    entries = [add_grant(path, name="alice"), add_grant(path, allow=["example.com:443"])]
    whole = path.read_bytes()
    secrets = [entry.grant.to_text() for entry in entries]
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        found = outcome(path)
        if isinstance(found, ConfigError):
            assert str(found).startswith(f"{path}: ")
            assert found.__cause__ is None or isinstance(found.__cause__, ConfigError)
            assert [text for text in secrets if text[12:24] in str(found)] == []
        else:
            assert [entry.grant for entry in found] == [e.grant for e in entries[: len(found)]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1", "unknown key 'x'"),
        ("grants = []", "unknown key 'grants'; did you mean 'grant'?"),
        ("[grant]", "grants are written as [[grant]]"),
        ("grant = [1]", "grant 1: not a table"),
        ("[[grant]]", "grant 1: credential: missing"),
        ("[[grant]]\ncredential = 1", "grant 1: credential: must be a text"),
        ("[[grant]]\nrevokd = true", "grant 1: unknown key 'revokd'; did you mean 'revoked'?"),
        ('x = "soargrant1secret', "not TOML (at end of document)"),
    ],
)
def test_a_mistake_is_said_with_its_place(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "grants.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read_grants(path)
    assert str(caught.value).startswith(f"{path}: {words}")
    assert "soargrant1secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("expires = 2027-01-31T12:00:00", "expires: must be a date and time with its zone"),
        ("expires = 12", "expires: must be a date and time with its zone"),
        ("allow = 'x'", "allow: must be a list of host:port"),
        ("allow = ['x']", "the target 'x' is not of the form host:port"),
        ("revoked = 'no'", "revoked: must be true or false"),
        ("name = 1", "name: must be a text"),
    ],
)
def test_a_mistake_in_a_grant_is_said(tmp_path: Path, line: str, words: str) -> None:
    path = tmp_path / "grants.toml"
    add_grant(path)
    with path.open("a", encoding="utf-8") as file:
        file.write(line)
    with pytest.raises(ConfigError) as caught:
        read_grants(path)
    assert str(caught.value).startswith(f"{path}: grant 1: {words}")


def test_a_grant_that_stands_there_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "grants.toml"
    entry = add_grant(path)
    text = path.read_text(encoding="utf-8")
    path.write_text(text + text[text.index("[[grant]]") :], encoding="utf-8")
    with pytest.raises(ConfigError, match=f"grant {entry.id} stands there twice"):
        read_grants(path)


def test_a_rule_that_can_not_be_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "grants.toml"
    with pytest.raises(ConfigError, match="ports end at 65535"):
        add_grant(path, allow=["example.com:70000"])
    assert not path.exists()


def test_those_who_add_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "grants.toml"
    threads = [threading.Thread(target=add_grant, args=(path,)) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(read_grants(path)) == 12


@settings(max_examples=100)
@given(st.binary(max_size=200))
def test_garbage_is_grants_or_one_named_error(
    tmp_path_factory: pytest.TempPathFactory, octets: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "garbage.toml"
    path.write_bytes(octets)
    found = outcome(path)
    assert isinstance(found, tuple) or str(found).startswith(f"{path}: ")
