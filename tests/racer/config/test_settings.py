"""A configuration as data: what it makes, what of it is shown, what it refuses where nobody has checked before."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from racer._memory import DEFAULT_TTL, Memory
from racer.config import Configuration, EntrantSettings, MemorySettings, ProxySettings
from racer.errors import ConfigError
from tests.racer import plugins
from tests.racer.plugins import install


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, "direct")
    for name in ("HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))


def test_settings_do_not_change() -> None:
    for one in (
        Configuration(entrants=()),
        EntrantSettings(transport="direct"),
        MemorySettings(),
        ProxySettings(),
    ):
        with pytest.raises((dataclasses.FrozenInstanceError, AttributeError, TypeError)):
            one.anything = 1  # type: ignore[union-attr]
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(one, dataclasses.fields(one)[0].name, 1)


def test_an_entrant_makes_guests_of_its_own() -> None:
    settings = EntrantSettings(transport="direct", start_delay=1, tier=2, options={"after": 0.5})
    first, second = settings.make(), settings.make()
    assert (first.name, first.start_delay, first.tier) == ("direct", 1, 2)
    assert first.transport is not second.transport
    assert plugins.made == [first.transport, second.transport]


def test_a_dialer_by_hand_of_what_a_file_would_list() -> None:
    with pytest.raises(ConfigError, match="a dialer needs at least one entrant"):
        Configuration(entrants=()).dialer()
    with pytest.raises(ConfigError, match="unknown key 'aftr'"):
        Configuration(entrants=(EntrantSettings(transport="direct", options={"aftr": 1}),)).dialer()
    with pytest.raises(ConfigError, match="entrants share a name"):
        Configuration(entrants=(EntrantSettings(transport="direct"),) * 2).dialer()


# --- memory -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "remember", "file"),
    [
        (MemorySettings(), False, "no memory"),
        (MemorySettings(), True, "{home}/racer/memory.json"),
        (MemorySettings(enabled=False), True, "no memory"),
        (MemorySettings(enabled=True), False, "{home}/racer/memory.json"),
        (MemorySettings(enabled=True, file=""), False, None),
        (MemorySettings(enabled=True, file="~/here.json"), False, "{home}/here.json"),
        (MemorySettings(enabled=True, file="there.json"), False, "there.json"),
    ],
)
def test_whether_and_where_it_remembers(
    settings: MemorySettings, remember: bool, file: str | None, tmp_path: Path
) -> None:
    dialer = Configuration(entrants=(EntrantSettings(transport="direct"),), memory=settings).dialer(
        remember=remember
    )
    memory = dialer._memory
    if file == "no memory":
        assert memory is None
    else:
        assert memory is not None
        expected = None if file is None else Path(file.format(home=tmp_path))
        assert memory.file == expected


def test_how_long_it_remembers() -> None:
    for settings, ttl in ((MemorySettings(), DEFAULT_TTL), (MemorySettings(ttl=60), 60)):
        memory = settings.make(remember=True)
        assert memory is not None
        assert memory._table._ttl == ttl


def test_without_a_home_it_remembers_in_this_process_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(*_: object) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Memory, "default_path", nowhere)
    monkeypatch.setattr(Path, "expanduser", nowhere)
    memory = MemorySettings().make(remember=True)
    assert memory is not None
    assert memory.file is None
    with pytest.raises(ConfigError, match=r"memory\.file: Could not determine home"):
        MemorySettings(file="~/x").make(remember=True)


@pytest.mark.parametrize(
    "options", [{"enabled": 1}, {"ttl": 0}, {"ttl": "1"}, {"file": 5}, {"file": "a\0"}]
)
def test_memory_that_cannot_be(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        MemorySettings(**options)


# --- the proxy ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"listen": 1080}, "listen must be an address and a port"),
        ({"listen": "0.0.0.0:1"}, "others than this machine could use the proxy"),
        ({"users": ["a"]}, "users must be a table"),
        ({"users": {f"u{n}": "p" for n in range(1001)}}, "users must be a table of up to 1000"),
        ({"users": {"a:b": "hidden"}}, "a user's name has 1 to 255 octets"),
        ({"users": {"": "hidden"}}, "a user's name has 1 to 255 octets"),
        ({"users": {"a": ""}}, "a password has 1 to 255 octets"),
        ({"users": {"a": "ü" * 128}}, "a password has 1 to 255 octets"),
        ({"users": {"a": 5}}, "a password has 1 to 255 octets"),
    ],
)
def test_a_proxy_that_cannot_be(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        ProxySettings(**options)
    assert "hidden" not in str(caught.value)


def test_nothing_secret_is_in_a_repr() -> None:
    settings = EntrantSettings(
        transport="direct", options={"password": "hidden"}, secrets={"A": "hidden"}
    )
    proxy = ProxySettings(users={"alice": "hidden"})
    assert "hidden" not in repr(Configuration(entrants=(settings,), proxy=proxy))
