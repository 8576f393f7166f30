"""What transports say of their options, and the file that can be made of it."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

import pytest

from racer import _registry, config
from racer.abc import Guest, MakeContext
from racer.config._options import Option, options_of, refused_option, summary_of
from racer.config._writing import written
from racer.errors import ConfigError, NoTransports
from racer.testing import ScriptedTransport
from tests.racer.plugins import install, point

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from racer.abc import Target

BUILT_IN = {one.name: one for one in entry_points(group=_registry.GROUP)}


class Described(ScriptedTransport):
    """Does what it is told
    to do.

    At length.

    Args:
        needed: what it
            cannot be without.
        rate (float): bits in each second.
        hook: code.
        flag: on or off.

    Raises:
        ConfigError: never.
    """

    def __init__(
        self,
        needed: str | Target,
        *,
        rate: float = 0.5,
        hook: Callable[[], str] | None = None,
        names: Sequence[str] = ("a", "b"),
        table: Mapping[str, int] | None = None,
        flag: bool = False,
        undescribed: int | None = None,
        name: str = "described",
    ) -> None:
        super().__init__(name)


def make_described(context: MakeContext) -> Described:
    """Return one.

    Options:
        flag: whether it is on.
        base (table): what it is built on:
            another transport.
    """
    return Described(name=context.name, **context.options)


def make_any(context: MakeContext) -> Guest:
    return ScriptedTransport(context.name)


def make_needy(context: MakeContext) -> Described:
    return Described(**context.options)


def test_options_are_those_of_the_class_and_of_the_factory() -> None:
    empty = Option(name="").default
    assert options_of(make_described) == (
        Option(name="needed", meaning="what it cannot be without.", needed=True, kind="text"),
        Option(name="rate", meaning="bits in each second.", default=0.5, kind="float"),
        Option(name="names", default=("a", "b"), kind="list"),
        Option(name="table", default=None, kind="table"),
        Option(name="flag", meaning="whether it is on.", default=False, kind="bool"),
        Option(name="undescribed", default=None, kind="int"),
        Option(
            name="base",
            meaning="what it is built on: another transport.",
            default=empty,
            kind="table",
        ),
    )
    assert summary_of(make_described) == "Does what it is told to do."
    assert options_of(Described)[0].name == "needed"


@pytest.mark.parametrize("factory", [make_any, 5, lambda context: None])
def test_who_says_nothing_of_options_is_said_to_have_none(factory: Any) -> None:
    assert (options_of(factory), summary_of(factory)) == ((), "")


@pytest.mark.parametrize("kind", sorted(BUILT_IN))
def test_built_in_transports_describe_exactly_the_options_they_take(kind: str) -> None:
    factory = BUILT_IN[kind].load()
    described = [option.name for option in options_of(factory)]
    assert all(option.meaning for option in options_of(factory))
    with pytest.raises(ConfigError) as caught:
        factory(MakeContext(name=kind, options={"\0": 1}))
    known = re.search(r"known: (.*)$", str(caught.value))
    assert known is not None
    assert sorted(described) == known[1].split(", ")


@pytest.mark.parametrize("kind", sorted(BUILT_IN))
def test_built_in_transports_take_what_is_said_to_be_the_default(kind: str) -> None:
    factory = BUILT_IN[kind].load()
    for option in options_of(factory):
        if option.needed or option.default in {
            None,
            option.__dataclass_fields__["default"].default,
        }:
            continue
        value = tomllib.loads(f"x = {written(option.default)}")["x"]
        try:
            factory(MakeContext(name=kind, options={option.name: value}))
        except ConfigError as exc:
            assert "missing" in str(exc)  # noqa: PT017 - one that is needed; the default itself is not minded


# --- which option an error is about -------------------------------------------------------------

OPTIONS = {
    "domain": "x",
    "port": 5,
    "base": {"transport": "direct", "options": {"hosts": {"a": 1}}},
}


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("domain: not a zone", ("domain",)),
        ("domain must be a zone", ("domain",)),
        ("port=5: too small", ("port",)),
        ("unknown key 'port'; did you mean 'ports'?", ("port",)),
        ("unknown key 'nowhere'; known: port", ()),
        ("server_key: missing", ("server_key",)),
        ("base: unknown key 'transport'", ("base", "transport")),
        ("base: transport 'x' is not installed", ("base", "transport")),
        ("base: hosts: 'a' is no address", ("base", "options", "hosts")),
        ("base: hosts: a: no address", ("base", "options", "hosts", "a")),
        ("base: nothing", ("base",)),
        ("that is no port", ("port",)),
        ("neither domain nor port", ()),
        ("no import", ()),
        ("", ()),
    ],
)
def test_which_option_an_error_is_about(text: str, path: tuple[str, ...]) -> None:
    assert refused_option(text, OPTIONS) == path


# --- the first file -----------------------------------------------------------------------------


def test_the_sample_is_valid_as_it_stands_and_says_what_holds_without_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("RACER_CONFIG", raising=False)
    text = config.sample()
    file = tmp_path / "first.toml"
    file.write_text(text, encoding="utf-8")
    assert config.read(file) == config.read()
    assert not [line for line in text.splitlines() if line != line.rstrip()]
    for kind, one in BUILT_IN.items():
        assert f'transport = "{kind}"' in text
        for option in options_of(one.load()):
            assert re.search(rf"^#{option.name} = ", text, re.MULTILINE)


def test_everything_in_the_sample_can_be_put_in_force(tmp_path: Path) -> None:
    """Without its marks it is TOML, and what is wrong in it is what has to be given."""
    text = re.sub(r"^#(?=[\[a-z])", "", config.sample(), flags=re.MULTILINE)
    data = tomllib.loads(text)
    assert [one["transport"] for one in data["entrant"]] == [
        "direct",
        "proxyless",
        *sorted(BUILT_IN.keys() - {"direct", "proxyless"}),
    ]
    assert data["proxy"]["users"]
    file = tmp_path / "all.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        config.read(file)
    assert not [told for told in caught.value.problems if "unknown key" in told]


def test_transports_of_others_are_in_the_sample_whatever_they_say(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = __name__
    install(
        monkeypatch,
        point("needy", f"{here}:make_needy"),
        point("any", f"{here}:make_any"),
        point("described", f"{here}:make_described"),
        EntryPoint(name="broken", value="nowhere:make", group=_registry.GROUP),
    )
    text = config.sample()
    active = tomllib.loads(text)["entrant"]
    assert [one["transport"] for one in active] == ["any"]
    assert "# Which options it takes is in its own documentation." in text
    assert "# It cannot be loaded: ModuleNotFoundError\n#[[entrant]]" in text.replace(
        "it c", "It c"
    )
    assert '# What it cannot be without. Has to be given.\n#needed = ""\n' in text
    assert '#names = ["a", "b"]\n' in text


def test_there_is_no_sample_where_nothing_races(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    with pytest.raises(NoTransports, match="no transport is installed"):
        config.sample()
    install(monkeypatch, point("needy", f"{__name__}:make_needy"))
    with pytest.raises(
        NoTransports, match="none of the installed transports races without options: needy"
    ):
        config.sample()
