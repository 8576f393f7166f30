"""What the pages say of configuration files is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from racer import config
from racer.errors import ConfigError
from tests.contracts import pages

ROOT = Path(__file__).parents[3]
BLOCKS = [
    block
    for page in (ROOT / "README.md", ROOT / "docs" / "configuration.md")
    for block in pages.blocks(page)
]


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "toml"], ids=str)
def test_every_file_on_the_pages_is_valid(
    block: pages.Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OFFICE_PASSWORD", "x")
    file = tmp_path / "racer.toml"
    file.write_text(block.text, encoding="utf-8")
    assert config.read(file).dialer().status().entrants


def test_what_is_wrong_is_told_as_the_page_has_it(tmp_path: Path) -> None:
    (told,) = [block.text for block in BLOCKS if "config check racer.toml" in block.text]
    file = tmp_path / "racer.toml"
    text = """\
timout = 5

[[entrant]]
transport = "direct"
start_delay = 0.005

[[entrant]]
transport = "soar"

[entrant.options]
domian = "t.example.com"
server_key = "{}"
resolvers = ["upd://9.9.9.9"]
"""
    from transports.soar import generate_key

    file.write_text(text.replace("{}", generate_key().public.to_text()), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        config.read(file)
    lines = [one.removeprefix(f"{tmp_path}/") for one in caught.value.problems]
    assert lines == told.splitlines()[1:]


def test_the_page_has_every_key() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*?) \|", page, re.MULTILINE)
    keys = {word for row in rows for word in re.findall(r"[a-z_]+", row)}
    from racer.config import _reading

    known = {*_reading._TOP, *_reading._ENTRANT, *_reading._MEMORY, *_reading._PROXY}
    assert known <= keys
