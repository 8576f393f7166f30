"""Guests are found by entry point, and each way in which that can fail is told apart."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from racer import _registry
from racer.abc import Guest
from racer.errors import ConfigError, NoTransports
from tests.racer import plugins
from tests.racer.plugins import install, point

if TYPE_CHECKING:
    from pathlib import Path


def test_what_comes_with_racer_is_installed_like_anybody_elses() -> None:
    assert _registry.installed()["direct"].value == "transports.direct:make"


def test_a_guest_is_made_with_its_name_and_options(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, "direct", "soar")
    options = {"after": 1.5}
    guest = _registry.make("soar", name="last resort", options=options)
    assert isinstance(guest, Guest)
    assert guest.name == "last resort"
    assert plugins.made == [guest]
    assert _registry.make("direct", name="direct").name == "direct"


def test_nothing_is_imported_to_see_what_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, point("absent", "a_module_that_is_not_there:make"), "direct")
    assert list(_registry.installed()) == ["absent", "direct"]
    assert _registry.make("direct", name="direct").name == "direct"


def test_with_nothing_installed_the_error_says_how_that_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install(monkeypatch)
    with pytest.raises(NoTransports, match=r"no entry point in the group 'racer\.transports'.*pip"):
        _registry.make("direct", name="direct")


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("sor", "transport 'sor' is not installed: .*did you mean 'soar'"),
        ("http_connect", "did you mean 'http-connect'"),
        ("Direct", "did you mean 'direct'"),
        ("vpn", "transport 'vpn' is not installed: .*known: direct, http-connect, soar"),
    ],
)
def test_an_unknown_kind_is_told_with_the_nearest(
    monkeypatch: pytest.MonkeyPatch, kind: str, words: str
) -> None:
    install(monkeypatch, "direct", "soar", "http-connect")
    with pytest.raises(ConfigError, match=words):
        _registry.make(kind, name=kind)


@pytest.mark.parametrize(
    ("factory", "words"),
    [
        ("a_module_that_is_not_there:make", "not_there:make.* could not be imported: ModuleNotF"),
        ("tests.racer.plugins:absent", "plugins:absent.* could not be imported: AttributeError"),
        ("broken_plugin:make", r"broken_plugin:make.* could not be imported: RuntimeError: no GPU"),
        ("not_a_factory", "could not be made: TypeError$"),
        ("make_bug", "could not be made: KeyError$"),
        ("make_nothing", "made NoneType, which is no transport"),
        ("make_class", "made the class ScriptedTransport, which is no transport"),
    ],
)
def test_a_plugin_that_cannot_be_used_is_named_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, factory: str, words: str
) -> None:
    (tmp_path / "broken_plugin.py").write_text("raise RuntimeError('no GPU')")
    monkeypatch.syspath_prepend(tmp_path)
    install(monkeypatch, point("plugin", factory))
    with pytest.raises(ConfigError, match=f"transport 'plugin' .*({words})") as caught:
        _registry.make("plugin", name="any")
    assert "broken_plugin" not in sys.modules
    if factory.endswith("make_bug"):
        assert isinstance(caught.value.__cause__, KeyError)


def test_what_a_factory_refuses_is_told_in_its_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, point("plugin", "make_refusal"))
    with pytest.raises(ConfigError) as caught:
        _registry.make("plugin", name="any")
    assert str(caught.value) == "key: must be 32 bytes"


def test_two_packages_with_one_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, "direct", "soar", point("direct", "somebody.elses:make"))
    with pytest.raises(
        ConfigError,
        match=r"'direct' is installed twice: as tests.*:make and as somebody\.elses:make",
    ):
        _registry.make("soar", name="soar")


def test_one_package_that_is_seen_twice_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, "direct", "direct")
    assert list(_registry.installed()) == ["direct"]
