"""`racer config`: what it says of files that are right and wrong, what it writes, and what it never overwrites."""

from __future__ import annotations

import json
import os
import stat
import tomllib
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from racer import config
from racer.cli import main
from tests.racer.plugins import install

GOOD = '[[entrant]]\ntransport = "direct"\n'
BAD = 'timout = 5\n[[entrant]]\ntransport = "direct"\ntier = "x"\n'


class Done(NamedTuple):
    code: int
    out: str
    err: str


def run(*arguments: str) -> Done:
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        code = main(["config", *arguments])
    return Done(code, out.getvalue(), err.getvalue())


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    install(monkeypatch, "direct", "soar")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RACER_CONFIG", raising=False)
    for name in ("HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    return tmp_path


def write(name: str, text: str, mode: int = 0o600) -> str:
    file = Path(name)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(mode)
    return name


# --- check --------------------------------------------------------------------------------------


def test_a_file_that_is_right() -> None:
    assert run("check", write("a.toml", GOOD)) == (
        0,
        "a.toml: nothing is wrong; these race: direct\n",
        "",
    )


def test_a_file_that_is_wrong_has_a_line_for_each_problem() -> None:
    assert run("check", write("a.toml", BAD)) == (
        2,
        """\
a.toml:1: unknown key 'timout'; did you mean 'timeout'?
a.toml:4: entrant 1 'direct': tier: must be a whole number, not 'x'
""",
        "",
    )


def test_a_file_that_is_not_there() -> None:
    assert run("check", "a.toml") == (2, "a.toml: cannot be read: No such file or directory\n", "")


def test_without_a_file_the_usual_one_is_checked(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = folder / "home" / "racer" / "racer.toml"
    assert run("check").out == f"{usual}: there is no file, and so these race: direct\n"
    write(str(usual), GOOD)
    assert run("check").out == f"{usual}: nothing is wrong; these race: direct\n"
    monkeypatch.setenv("RACER_CONFIG", write("b.toml", BAD))
    assert run("check").out.startswith("b.toml:1: unknown key")


def test_json_of_both() -> None:
    done = run("check", "--json", write("a.toml", BAD))
    assert (done.code, done.err) == (2, "")
    assert json.loads(done.out) == {
        "file": "a.toml",
        "valid": False,
        "problems": [
            {"line": 1, "text": "unknown key 'timout'; did you mean 'timeout'?"},
            {"line": 4, "text": "entrant 1 'direct': tier: must be a whole number, not 'x'"},
        ],
        "notes": [],
        "entrants": [],
    }
    assert json.loads(run("check", "--json", write("a.toml", GOOD)).out) == {
        "file": "a.toml",
        "valid": True,
        "problems": [],
        "notes": [],
        "entrants": ["direct"],
    }
    (problem,) = json.loads(run("check", "--json", "b.toml").out)["problems"]
    assert problem == {"line": None, "text": "cannot be read: No such file or directory"}


def test_nothing_in_a_file_reaches_the_terminal_as_it_is() -> None:
    done = run("check", write("a.toml", f'"\\u001b[31m\\n" = 1\n{GOOD}'))
    assert done.out == (
        "a.toml:1: unknown key '\\x1b[31m\\n'; known: entrant, memory, proxy, redact, timeout\n"
    )


def test_secrets_that_others_can_read_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PW", "x")
    text = f'{GOOD}options.ports = {{password = "hunter2"}}\n[proxy.users]\na = "hunter2"\nb = "${{PW}}"\n'
    assert run("check", write("a.toml", text)).out.count("\n") == 1
    done = run("check", write("a.toml", text, 0o644))
    assert (done.code, done.out.splitlines()[0]) == (
        0,
        (
            "a.toml: note: others on this machine can read it (mode 0644), and so entrant 1: options.ports, "
            "proxy.users.a: chmod 600, or put ${NAME} in its place"
        ),
    )


# --- init ---------------------------------------------------------------------------------------


def test_the_first_file_is_printed() -> None:
    assert run("init") == (0, config.sample(), "")


def test_the_first_file_is_written_for_its_owner_alone(folder: Path) -> None:
    done = run("init", "--output", "new/racer.toml")
    file = folder / "new" / "racer.toml"
    assert (done.code, done.out) == (0, "")
    assert done.err == (
        "new/racer.toml: written; edit it, then: racer config check new/racer.toml\n"
        f"racer looks for {config.default_path()}, or for what RACER_CONFIG names\n"
    )
    assert file.read_text(encoding="utf-8") == config.sample()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert run("check", str(file)).code == 0


def test_in_the_usual_place_nothing_more_is_to_be_said() -> None:
    done = run("init", "-o", str(config.default_path()))
    assert (done.code, done.err.count("\n")) == (0, 1)
    assert run("check").out.endswith("nothing is wrong; these race: direct\n")


@pytest.mark.parametrize("kind", ["file", "link", "dangling link", "directory"])
def test_what_is_there_is_never_overwritten(kind: str, folder: Path) -> None:
    file = folder / "a.toml"
    match kind:
        case "file":
            write("a.toml", "mine")
        case "link":
            write("b.toml", "mine")
            file.symlink_to("b.toml")
        case "dangling link":
            file.symlink_to("b.toml")
        case _:
            file.mkdir()
    done = run("init", "-o", "a.toml")
    assert done == (5, "", "racer: a.toml: exists already, and is not overwritten\n")
    assert kind not in {"file", "link"} or file.read_text() == "mine"
    assert kind != "dangling link" or not (folder / "b.toml").exists()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a.toml/b.toml", "a.toml: exists already|Not a directory"),
        ("x" * 300, "File name too long"),
    ],
)
def test_where_nothing_can_be_written(name: str, words: str) -> None:
    write("a.toml", "mine")
    done = run("init", "-o", name)
    assert done.code == 5
    assert any(one in done.err for one in words.split("|"))


def test_a_disk_that_is_full_leaves_no_half_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full(StringIO):
        def write(self, text: str) -> int:
            raise OSError(28, "No space left on device")

    def fdopen(descriptor: int, *args: Any, **options: Any) -> StringIO:
        os.close(descriptor)
        return Full()

    monkeypatch.setattr("racer.cli._config.os.fdopen", fdopen)
    done = run("init", "-o", "a.toml")
    assert done == (5, "", "racer: a.toml: cannot be written: No space left on device\n")
    assert not (folder / "a.toml").exists()


# --- show ---------------------------------------------------------------------------------------


def test_what_is_in_force_is_shown_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PW", "hunter2")
    text = f'{GOOD}options.ports = {{password = "hunter3", token = "${{PW}}"}}\n'
    done = run("show", write("a.toml", text))
    assert (done.code, done.err) == (0, "")
    assert (
        done.out
        == """\
# a.toml
redact = false

[[entrant]]
transport = "direct"
name = "direct"
start_delay = 0.0
tier = 0
[entrant.options]
ports = {password = "[hidden]", token = "${PW}"}

[memory]
ttl = 86400.0

[proxy]
listen = "127.0.0.1:1080"
"""
    )
    tomllib.loads(done.out)
    data = json.loads(run("show", "--json", "a.toml").out)
    assert data["file"] == "a.toml"
    assert data["entrant"][0]["options"] == {"ports": {"password": "[hidden]", "token": "${PW}"}}


def test_what_is_in_force_without_a_file() -> None:
    done = run("show")
    assert done.out.startswith("# no file: what holds without one\nredact = false\n")
    assert json.loads(run("show", "--json").out)["file"] is None


def test_what_is_wrong_is_not_shown() -> None:
    done = run("show", write("a.toml", BAD))
    assert (done.code, done.out) == (2, "")
    assert "a.toml:1: unknown key 'timout'" in done.err
