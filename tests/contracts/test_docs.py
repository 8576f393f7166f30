"""Every block of code in README.md and docs/ does what the page says: tests/README.md has the rules."""

from __future__ import annotations

import gc
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.contracts import pages, stand_in

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]


@pytest.fixture
def internet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The documentation's names on loopback, an empty working directory, and nobody's settings."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RACER_CONFIG", raising=False)
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")  # a page's telemetry would be this process's
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with stand_in.internet(monkeypatch, tmp_path):
        yield


async def run(page: Path) -> None:
    namespace: dict[str, Any] = {"__name__": "__page__"}
    for block in pages.blocks(page):
        if block.language == "python":
            try:
                await pages.run_python(block, namespace)
            except Exception as exc:
                exc.add_note(f"in the block at {block}")
                raise
    namespace.clear()
    gc.collect()  # what a page drops unclosed warns while its own test still runs


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
async def test_python_blocks_run(page: Path, internet: None) -> None:
    await run(page)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_shell_blocks_name_what_exists(page: Path) -> None:
    shell = [block for block in pages.blocks(page) if block.language == "sh"]
    assert {str(b): m for b in shell if (m := pages.check_shell(b, ROOT))} == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_toml_blocks_parse(page: Path) -> None:
    for block in pages.blocks(page):
        if block.language == "toml":
            tomllib.loads(block.text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_tests_that_are_named_exist(page: Path) -> None:
    assert pages.missing_tests(page, ROOT) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_says_what_it_is(page: Path) -> None:
    other = [str(b) for b in pages.blocks(page) if b.language not in pages.LANGUAGES]
    assert other == []
    fences = page.read_text(encoding="utf-8").count("```")
    assert fences == 2 * len(list(pages.blocks(page)))


# --- and each of these can fail ---------------------------------------------------------------


def page_of(folder: Path, text: str) -> Path:
    page = folder / "page.md"
    page.write_text(text, encoding="utf-8")
    return page


async def test_a_page_reaches_the_stand_ins(tmp_path: Path, internet: None) -> None:
    page = page_of(
        tmp_path,
        """
```python
import anyio, httpx, socket, ssl

tls = ssl.create_default_context()
seen = []
```
Blocks go on where the last one stopped, on one loop:
```python
conn = await anyio.connect_tcp("www.example.com", 443, tls=True, tls_standard_compatible=False)
```
```python
async with conn:
    await conn.send(b"GET / HTTP/1.1\\r\\nHost: example.com\\r\\nConnection: close\\r\\n\\r\\n")
    assert b"200 OK" in await conn.receive()
del conn
```
- indented, plain and secure, and without a loop:
  ```python
  seen.append(httpx.get("https://example.org/").text)
  seen.append(httpx.post("http://example.org:8080/", content=b"x").text)
  assert seen[0] == seen[1]
  ```
A server that speaks first, an address, and a program of its own:
```python
async def say():
    async with await anyio.connect_tcp("203.0.113.7", 22) as stream:
        return await stream.receive()

assert anyio.run(say).startswith(b"SSH-2.0")
```
```python
async def main():
    seen.append("main")
```
```python
assert seen[-1] == "main"
```
""",
    )
    await run(page)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("```python\n1 / 0\n```\n", ZeroDivisionError),
        (
            "```python\nimport anyio\nawait anyio.lowlevel.checkpoint()\n1 / 0\n```\n",
            ZeroDivisionError,
        ),
        ("```python\nasync def main():\n    1 / 0\n```\n", ZeroDivisionError),
        ("```python\ndef\n```\n", SyntaxError),
    ],
)
async def test_a_wrong_python_block_fails(
    tmp_path: Path, text: str, error: type[Exception]
) -> None:
    with pytest.raises(error) as caught:
        await run(page_of(tmp_path, text))
    assert "in the block at page.md:2" in caught.value.__notes__


@pytest.mark.parametrize(
    ("line", "missing"),
    [
        ("make test race", []),
        ("$ make nonsense  # words", ["make nonsense"]),
        ("cd racer && make test lint unmake", ["make unmake"]),
        (".venv/bin/python -m racer.nowhere --help", ["python -m racer.nowhere"]),
        ("CI=1 python3 -m racer.errors", []),
        ("pip install 'racer-dialer[cli, soap]'", ["the extra 'soap'"]),
        (".ci/walk", [".ci/walk"]),
        ("racer dial example.com --json > race.json", []),
        ("sudo true && racer soar grants /etc/soar/grants", []),
        ("racer get --help", []),
        ("racer dail", ["racer dail: there is no command 'dail'; did you mean 'dial'?"]),
        ("racer dial", ["racer dial: Missing parameter: host"]),
        ("racer soar status", ["racer soar status: Missing parameter: socket"]),
        ("bash .ci/run", []),
    ],
)
def test_a_wrong_shell_block_is_told(line: str, missing: list[str], tmp_path: Path) -> None:
    (block,) = pages.blocks(page_of(tmp_path, f"```sh\n{line}\n```\n"))
    assert pages.check_shell(block, ROOT) == missing


def test_a_test_that_does_not_exist_is_found(tmp_path: Path) -> None:
    here = "contracts/test_docs.py::test_a_test_that_does_not_exist_is_found"
    wrong = ["contracts/test_docs.py::test_what_nobody_wrote", "nowhere.py::test_every_block"]
    page = page_of(tmp_path, "".join(f"`{name}`, " for name in (here, *wrong)))
    assert pages.missing_tests(page, ROOT) == wrong
