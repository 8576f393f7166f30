"""What is in force, to be seen by a person who may have others looking over the shoulder."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

import pytest

from racer.config._reading import examine
from racer.config._showing import as_toml, hides, in_force
from racer.config._writing import is_writable, written
from tests.racer.plugins import install

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("domain", "t.example.com", "t.example.com"),
        ("port", 5, 5),
        ("password", "hunter2", "[hidden]"),
        ("PASSWORD", 12345, "[hidden]"),
        ("password", "${PW}", "${PW}"),
        ("password", "hunter2-hunter2-hunter2-${PW}", "[hidden]"),
        ("credential", ["a", "${B}"], ["[hidden]", "${B}"]),
        ("api_key", "x", "[hidden]"),
        ("public_key", "x", "x"),
        ("origin_header", True, True),
        ("headers", {"Accept": "x", "X": {"y": 1}}, {"Accept": "[hidden]", "X": {"y": "[hidden]"}}),
        ("base", {"options": {"token": "x", "tier": 1}}, {"options": {"token": "[hidden]", "tier": 1}}),
        ("proxy", "socks5://bob:hunter2@proxy:1", "socks5://[hidden]@proxy:1"),
        ("proxy", "socks5://${WHO}@proxy:1", "socks5://${WHO}@proxy:1"),
        ("urls", ["https://a.example/dns-query"], ["https://a.example/dns-query"]),
        ("urls", ["https://a.example/my/account"], ["https://a.example/[hidden]"]),
        ("urls", ["https://a.example/dns-query?token=1"], ["https://a.example/[hidden]"]),
        ("urls", ["https://a.example?token=1"], ["https://a.example/[hidden]"]),
    ],
)  # fmt: skip
def test_what_is_hidden(
    key: str, value: Any, shown: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, "direct")
    for name in ("PW", "B", "WHO"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setattr("tests.racer.plugins.ScriptedTransport.__init__", lambda *_: None)
    from racer.config._showing import _shown

    assert _shown({key: value}) == {key: shown}
    assert hides(value, key) == (value != shown)


def test_all_of_it_can_be_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, "direct", "soar")
    monkeypatch.setenv("PW", "hunter2")
    file = tmp_path / "racer.toml"
    file.write_text(
        """
timeout = 5
[[entrant]]
transport = "direct"
options.ports = [1, 'a"\\', 1979-05-27, 07:32:00, inf, true, {x = "\\u0000"}]
[[entrant]]
transport = "soar"
name = "second one"
tier = 1
[memory]
enabled = true
file = ""
[proxy.users]
"a b" = "${PW}"
""",
        encoding="utf-8",
    )
    found, raw = examine(file)
    data = in_force(found, raw)
    text = as_toml(data)
    assert tomllib.loads(text) == {
        **data,
        "entrant": [
            {key: value for key, value in one.items() if value != {}} for one in data["entrant"]
        ],
    }
    assert data["entrant"][1] == {
        "transport": "soar",
        "name": "second one",
        "start_delay": 0.0,
        "tier": 1,
        "options": {},
    }
    assert data["memory"] == {"enabled": True, "ttl": 86400.0, "file": ""}
    assert data["proxy"] == {"listen": "127.0.0.1:1080", "users": {"a b": "${PW}"}}
    assert "hunter2" not in text
    file.write_text(text, encoding="utf-8")
    again, raw = examine(file)
    assert as_toml(in_force(again, raw)) == text


@pytest.mark.parametrize("value", [1, 1.5, "a\n\"'\\\u2028\x1b", [], {}, [{"a b": [1, "x"]}], True])
def test_values_are_written_as_they_are_read(value: Any) -> None:
    assert is_writable(value)
    assert tomllib.loads(f"x = {written(value)}")["x"] == value
    assert "\n" not in written(value)


@pytest.mark.parametrize("value", [None, b"", [None], {1: 2}, {"a": object()}])
def test_what_toml_has_no_word_for(value: object) -> None:
    assert not is_writable(value)
