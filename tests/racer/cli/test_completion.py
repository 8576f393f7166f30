"""Completion as a shell asks for it, and one shell that does."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from racer.cli import main
from racer.cli._program import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Callable

CONFIG = """
[[entrant]]
transport = "direct"
[[entrant]]
transport = "soar"
name = "last-resort"
[[entrant]]
transport = "socks5"
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("RACER_CONFIG", raising=False)
    (tmp_path / "racer").mkdir()
    return tmp_path


@pytest.fixture
def completed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[str], list[str]]:
    """Return what the last word of a line can become."""

    def ask(line: str) -> list[str]:
        monkeypatch.setenv("_RACER_COMPLETE", "bash_complete")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
        assert main([]) == 0
        return [line for line in capsys.readouterr().out.splitlines() if line]

    return ask


def plain(*words: str) -> list[str]:
    return [f"plain,{word}" for word in words]


def test_commands_are_completed(completed: Callable[[str], list[str]]) -> None:
    assert completed("racer ") == plain(*COMMANDS, "demo", "soar")
    assert completed("racer d") == plain("dial", "doctor", "demo")
    assert completed("racer xyzzy") == []
    assert completed("racer soar g") == plain("grant", "grants")
    assert completed("racer --v") == plain("--version")


def test_options_are_completed(completed: Callable[[str], list[str]]) -> None:
    assert completed("racer dial --no") == plain("--no-tls", "--no-memory")
    assert completed("racer get --m") == plain("--max-bytes")
    assert completed("racer soar serve --log w") == plain("warning")
    assert completed("racer completion ") == plain("bash", "zsh", "fish")


def test_files_are_left_to_the_shell(completed: Callable[[str], list[str]]) -> None:
    for line in (
        "racer dial --config x",
        "racer dial --save x",
        "racer get -o x",
        "racer replay x",
    ):
        assert completed(line) == ["file,x"]


def test_entrants_are_those_of_the_configuration(
    completed: Callable[[str], list[str]], place: Path
) -> None:
    assert completed("racer dial --only ") == plain("direct", "proxyless")
    (place / "racer" / "racer.toml").write_text(CONFIG)
    assert completed("racer dial --only ") == plain("direct", "last-resort", "socks5")
    assert completed("racer dial --exclude l") == plain("last-resort")
    other = place / "other.toml"
    other.write_text('[[entrant]]\ntransport = "amp"\n')
    for command in ("dial", "get", "proxy"):
        assert completed(f"racer {command} --config {other} --only ") == plain("amp")
        assert completed(f"racer {command} --config {other} --exclude ") == plain("amp")


@pytest.mark.parametrize(
    "text",
    [
        b"[[entrant",
        b"entrant = 5",
        b"entrant = [5]",
        b"[entrant]\nname = 5",
        b"[[entrant]]\nname = 5",
        b'[[entrant]]\nname = "a\\nb"',
        b"\xff\xfe",
        b"x = " + b"[" * 100_000,
    ],
)
def test_what_is_no_configuration_completes_nothing_and_complains_of_nothing(
    completed: Callable[[str], list[str]], place: Path, text: bytes
) -> None:
    config = place / "x.toml"
    config.write_bytes(text)
    assert completed(f"racer dial --config {config} --only ") == []
    assert completed(f"racer dial --config {place} --only ") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_own_words(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    assert f"_RACER_COMPLETE={shell}_complete" in text
    checker = shutil.which(shell)
    if checker is not None:
        subprocess.run([checker, "-n"], input=text, text=True, check=True, timeout=20)


def test_another_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "tcsh"]) == 2
    assert "'tcsh' is not one of" in capsys.readouterr().err


def test_bash_completes(place: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    (place / "racer" / "racer.toml").write_text(CONFIG)
    script = """
        eval "$(racer completion bash)"
        complete -p racer
        COMP_WORDS=(racer dial --only la); COMP_CWORD=3
        _racer_completion racer la --only
        echo "${COMPREPLY[@]}"
    """
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        [bash, "--norc", "-c", script],
        capture_output=True,
        text=True,
        env=os.environ | {"PATH": path},
        timeout=50,
        check=True,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1] == "last-resort"
    assert "-F _racer_completion racer" in done.stdout
