"""Where the configuration is looked for, and what holds where there is none."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from racer import config
from racer.errors import ConfigError, NoTransports
from tests.racer import plugins
from tests.racer.plugins import install, point

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home directory, and two transports installed."""
    found = tmp_path / "home"
    found.mkdir()
    monkeypatch.setenv("HOME", str(found))
    for name in ("APPDATA", "RACER_CONFIG", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    install(monkeypatch, "direct", "soar", point("refuses", "make_refusal"))
    return found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "some" / ".." / "racer.toml"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


LISTED = '[[entrant]]\ntransport = "direct"\n'


@pytest.mark.parametrize(
    ("platform", "environment", "expected"),
    [
        ("linux", {}, "{home}/.config"),
        ("linux", {"XDG_CONFIG_HOME": "/xdg"}, "/xdg"),
        ("linux", {"XDG_CONFIG_HOME": ""}, "{home}/.config"),
        ("linux", {"XDG_CONFIG_HOME": "relative"}, "{home}/.config"),
        ("linux", {"XDG_CONFIG_HOME": "."}, "{home}/.config"),
        ("freebsd14", {"APPDATA": "/appdata"}, "{home}/.config"),
        ("darwin", {"XDG_CONFIG_HOME": "/xdg"}, "{home}/Library/Application Support"),
        ("win32", {"APPDATA": "/appdata"}, "/appdata"),
        ("win32", {"APPDATA": "relative"}, "{home}/AppData/Roaming"),
        ("win32", {}, "{home}/AppData/Roaming"),
    ],
)
def test_the_users_configuration_directory(
    platform: str,
    environment: dict[str, str],
    expected: str,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("racer._directories.sys", SimpleNamespace(platform=platform))
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert str(config.default_path()) == expected.format(home=home) + "/racer/racer.toml"


def test_a_named_file_comes_first(file: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(home / ".config" / "racer" / "racer.toml", "broken")
    monkeypatch.setenv("RACER_CONFIG", str(write(file, LISTED.replace("direct", "soar"))))
    assert config.default_path() == file
    assert repr(config.configured()) == "<Dialer of soar>"


def test_a_named_file_that_is_not_there_is_an_error(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RACER_CONFIG", str(file))
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        config.configured()
    assert plugins.made == []


def test_without_a_configuration_direct_races_alone_where_proxyless_is_not_installed() -> None:
    assert repr(config.configured()) == "<Dialer of direct>"


def test_without_a_configuration_direct_and_proxyless_race(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, "soar", "proxyless", "direct")
    assert repr(config.configured()) == "<Dialer of direct, proxyless>"


def test_with_a_configuration_nothing_races_that_it_does_not_list(home: Path) -> None:
    write(home / ".config" / "racer" / "racer.toml", LISTED.replace("direct", "soar"))
    assert repr(config.configured()) == "<Dialer of soar>"
    assert [guest.name for guest in plugins.made] == ["soar"]


def test_the_working_directory_is_never_looked_into(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trap = tmp_path / "trap"
    for name in ("racer.toml", "racer/racer.toml", ".config/racer/racer.toml"):
        write(trap / name, LISTED.replace("direct", "soar"))
    monkeypatch.chdir(trap)
    for value in ("", ".", "racer"):
        monkeypatch.setenv("XDG_CONFIG_HOME", value)
        assert repr(config.configured()) == "<Dialer of direct>"
    monkeypatch.setenv("HOME", ".")
    assert repr(config.configured()) == "<Dialer of direct>"


def test_without_a_home_a_configuration_is_still_found_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr("pathlib.Path.home", nowhere)
    assert repr(config.configured()) == "<Dialer of direct>"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    write(tmp_path / "racer" / "racer.toml", LISTED.replace("direct", "soar"))
    assert repr(config.configured()) == "<Dialer of soar>"


@pytest.mark.parametrize(
    "fault", ["dangling link", "circle of links", "directory", "name too long"]
)
def test_a_file_that_cannot_be_reached_does_not_come_to_mean_direct(
    fault: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = home / ".config" / "racer" / "racer.toml"
    path.parent.mkdir(parents=True)
    match fault:
        case "dangling link":
            path.symlink_to(home / "unmounted" / "racer.toml")
        case "circle of links":
            path.symlink_to(path)
        case "directory":
            path.mkdir()
        case _:
            monkeypatch.setenv("XDG_CONFIG_HOME", os.sep + "x" * 300)
    with pytest.raises(ConfigError, match="cannot be read"):
        config.configured()
    assert plugins.made == []


def test_what_is_read_without_a_file() -> None:
    found = config.read()
    assert found == config.Configuration(entrants=(config.EntrantSettings(transport="direct"),))
    assert found.file is None


def test_what_is_read_from_the_default_place(home: Path) -> None:
    path = write(home / ".config" / "racer" / "racer.toml", LISTED.replace("direct", "soar"))
    found = config.read()
    assert [(each.name, each.transport) for each in found.entrants] == [("soar", "soar")]
    assert found.file == path


def test_nothing_installed_is_an_error_of_its_own(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch)
    with pytest.raises(NoTransports, match="no transport is installed"):
        config.load(write(file, LISTED))
    with pytest.raises(NoTransports, match="no transport is installed"):
        config.configured()
