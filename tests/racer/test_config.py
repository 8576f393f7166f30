"""A dialer from a file: what cannot be understood is told with file, place, reason and the nearest word that can."""

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


# --- what a file can say --------------------------------------------------------------------


def test_a_whole_configuration(file: Path) -> None:
    dialer = config.load(
        write(
            file,
            """
            timeout = 60
            redact = true

            [[entrant]]
            transport = "direct"

            [[entrant]]
            transport = "soar"
            name = "last-resort"
            start_delay = 8
            tier = 1
            [entrant.options]
            after = 0.25
            """,
        )
    )
    assert repr(dialer) == "<Dialer of direct, last-resort>"
    entrants = dialer.status().entrants
    assert [(e.name, e.start_delay, e.tier) for e in entrants] == [
        ("direct", 0.0, 0),
        ("last-resort", 8, 1),
    ]
    assert [guest.name for guest in plugins.made] == ["direct", "last-resort"]
    assert dialer._timeout == 60
    assert dialer._telemetry.redact is True


def test_what_is_left_out_has_its_default(file: Path) -> None:
    dialer = config.load(str(write(file, LISTED)))
    assert dialer._timeout is None
    assert dialer._telemetry.redact is False


def test_a_byte_order_mark_is_no_content(file: Path) -> None:
    assert repr(config.load(write(file, "\ufeff" + LISTED))) == "<Dialer of direct>"


# --- what it cannot -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", r"entrant: at least one \[\[entrant\]\] table is needed"),
        ("entrant = 5", "entrant: at least one"),
        ("entrant = []", "entrant: at least one"),
        ("entrant = [1]", "entrant: at least one"),
        ("[entrant]\ntransport = 'direct'", "entrant: at least one"),
        (f"timout = 5\n{LISTED}", "unknown key 'timout'; did you mean 'timeout'"),
        (f"[[entrants]]\n{LISTED}", "unknown key 'entrants'; did you mean 'entrant'"),
        (f"x = 5\n{LISTED}", "unknown key 'x'; known: entrant, redact, timeout"),
        (f"timeout = '5'\n{LISTED}", "timeout: must be a number of seconds, not '5'"),
        (f"timeout = true\n{LISTED}", "timeout: must be a number of seconds, not True"),
        (f"timeout = 0\n{LISTED}", "timeout must be a finite, positive number"),
        (f"timeout = nan\n{LISTED}", "timeout must be a finite, positive number"),
        (f"timeout = inf\n{LISTED}", "timeout must be a finite, positive number"),
        (f"redact = 1\n{LISTED}", "redact: must be true or false, not 1"),
        (f"redact = 'yes'\n{LISTED}", "redact: must be true or false, not 'yes'"),
        ("[[entrant]]", "entrant 1: transport: missing; it names an installed transport"),
        (f"{LISTED}[[entrant]]\ntransport = 5", "entrant 2: transport: must be the name of"),
        (f"{LISTED}stat_delay = 5", "entrant 1: unknown key 'stat_delay'; did you mean 'start_d"),
        (
            f"{LISTED}after = 5",
            "entrant 1: unknown key 'after'.*; the transport's own options go under",
        ),
        (f"{LISTED}name = 5", "entrant 1: name: must be a text, not 5"),
        (f"{LISTED}name = ''", "entrant 1: an entrant's name is a text of 1 to 100"),
        (f"{LISTED}options = 5", "entrant 1: options: must be a table, not 5"),
        (f"{LISTED}start_delay = '8'", "entrant 1: start_delay: must be a number of seconds"),
        (f"{LISTED}start_delay = true", "entrant 1: start_delay: must be a number of seconds"),
        (f"{LISTED}start_delay = 0.005", "entrant 1: start_delay of 'direct'=0.005: a delay is 0"),
        (f"{LISTED}start_delay = -inf", "entrant 1: start_delay of 'direct' must be a finite"),
        (f"{LISTED}tier = 1.0", "entrant 1: tier: must be a whole number, not 1.0"),
        (f"{LISTED}tier = -1", "entrant 1: tier must be a whole number of at least 0"),
        (f"{LISTED}tier = false", "entrant 1: tier: must be a whole number, not False"),
        (f"{LISTED}{LISTED}", "entrants share a name: 'direct'"),
        (
            "[[entrant]]\ntransport = 'sor'",
            "entrant 1: transport 'sor' is not.*did you mean 'soar'",
        ),
        ("[[entrant]]\ntransport = 'refuses'", "entrant 1: key: must be 32 bytes"),
        (f"{LISTED}options = {{aftr = 1}}", "entrant 1: unknown key 'aftr'; did you mean 'after'"),
        ("timeout = = 5", "not TOML: .*line 1"),
        (LISTED + 'transport = "again"', "not TOML: .*overwrite"),
        ("x = " + "[" * 100_000, "not TOML: "),
        ("x = " + "9" * 5_000, "not TOML: "),
        ("x = 2024-02-30", "not TOML: "),
        ("x = 'a\0b'", "not TOML: "),
    ],
)
def test_errors_name_file_place_and_reason(file: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        config.load(write(file, text))
    assert str(caught.value).startswith(f"{file}: ")
    assert len(str(caught.value)) < 1000


def test_what_is_not_utf8_is_not_toml(file: Path) -> None:
    write(file, "").write_bytes(LISTED.encode() + b"# \xff\xfe")
    with pytest.raises(ConfigError, match="not TOML: 'utf-8' codec can't decode"):
        config.load(file)


def test_a_file_of_over_a_mebibyte_is_not_read(file: Path) -> None:
    write(file, LISTED + "#" * (1024 * 1024 - len(LISTED)))
    assert repr(config.load(file)) == "<Dialer of direct>"
    write(file, LISTED + "#" * (1024 * 1024 - len(LISTED) + 1))
    with pytest.raises(ConfigError, match="larger than 1048576 bytes"):
        config.load(file)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("absent.toml", "absent.toml: cannot be read: No such file"),
        (".", "cannot be read: Is a directory"),
        ("racer.toml/more", "cannot be read: (Not a directory|No such file)"),
        ("x" * 300, "cannot be read: File name too long"),
        ("a\0b", "cannot be read: embedded null byte"),
    ],
)
def test_a_file_that_cannot_be_read(tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        config.load(tmp_path / name)


def test_nothing_installed_is_an_error_of_its_own(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch)
    with pytest.raises(NoTransports, match="no transport is installed"):
        config.load(write(file, LISTED))


# --- where it is looked for -----------------------------------------------------------------


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
    monkeypatch.setattr(config, "sys", SimpleNamespace(platform=platform))
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
