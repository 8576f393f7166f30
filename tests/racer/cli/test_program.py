"""The program around the commands: which there are, what each end is called, and what others may bring."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

import racer
from racer.cli import main
from racer.cli._exits import CommandError, Exit, ending, needs
from racer.cli._program import COMMANDS, program
from racer.errors import (
    AllAttemptsFailed,
    ConfigError,
    DialTimeout,
    InvalidTarget,
    NetworkError,
    NoTransports,
)
from tests.racer import reports

if TYPE_CHECKING:
    from collections.abc import Iterator

PLUGIN = """
import click

@click.command(short_help="Greet somebody.")
@click.argument("name", default="")
def hello(name):
    match name:
        case "bug":
            raise KeyError("a bug")
        case "ctrl-c":
            raise KeyboardInterrupt
        case "refused":
            error = click.ClickException("no such person")
            error.exit_code = 9
            raise error
        case "exit":
            raise SystemExit(4)
        case "missing":
            import trustme_that_is_not_there
    print(f"hello {name}")
    return 3 if name == "three" else None

dial = click.Command("dial", callback=lambda: print("not racer's"))
number = 5
"""


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install a package that brings commands, for this process."""
    info = tmp_path / "racer_test_commands-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: racer-test-commands\nVersion: 1.0\n"
    )
    points = ("hello", "dial", "number")
    listed = [f"{name} = racer_test_commands:{name}" for name in points]
    listed += ["broken = racer_test_no_such_module:command", "gone = racer_test_commands:gone"]
    (info / "entry_points.txt").write_text("[racer.commands]\n" + "\n".join(listed) + "\n")
    (tmp_path / "racer_test_commands.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("racer_test_commands", None)


# --- the commands there are -----------------------------------------------------------------


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_says_what_it_does(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = importlib.import_module(COMMANDS[name].module).command
    assert isinstance(command, click.Command)
    assert main([name, "--help"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"Usage: racer {name} ")
    assert all(len(line) <= 80 for line in text.splitlines())
    assert re.fullmatch(r"[A-Z].{10,60}\.", COMMANDS[name].summary)


def test_the_help_lists_all_commands_and_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    for argv in (["--help"], ["-h"], []):
        assert main(argv) == 0
        text = capsys.readouterr().out
        commands = text.partition("Commands:\n")[2].partition("\n\n")[0]
        listed = re.findall(r"^  (\w+)  +\S", commands, re.MULTILINE)
        assert listed == [*COMMANDS, "demo", "soar"]
        codes = re.findall(r"^    (\d+) +\w", text, re.MULTILINE)
        assert codes == [str(int(code)) for code in Exit]
        assert all(len(line) <= 80 for line in text.splitlines())


def test_a_list_of_commands_loads_none_of_them() -> None:
    code = (
        "import json, sys; from racer.cli import main; main(['--help']);"
        "print(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout.splitlines()[-1]))
    commands = {listed.module for listed in COMMANDS.values()}
    costly = {"rich", "httpx", "cryptography", "racer.config", "racer.lab", "transports.direct"}
    costly |= {"asyncio", "opentelemetry", "racer._dialer"}
    assert loaded & (commands | costly | {"transports.soar._transport"}) == set()
    assert {"click", "transports.soar.command"} <= loaded


def test_a_module_and_a_script_are_one_program() -> None:
    script = Path(sys.executable).with_name("racer")
    for program_ in ([sys.executable, "-m", "racer"], [str(script)]):
        done = subprocess.run([*program_, "--version"], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, f"racer {racer.__version__}\n")


# --- what does not exist --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["dail"], "there is no command 'dail'; did you mean 'dial'? (see racer --help)"),
        (["replays"], "did you mean 'replay'?"),
        (["example.com"], "to dial a host: racer dial example.com (see"),
        (["localhost"], "to dial a host: racer dial localhost (see"),
        (["192.0.2.1:22", "--json"], "to dial a host: racer dial 192.0.2.1:22 (see"),
        (["[2001:db8::1]:22"], "to dial a host: racer dial [2001:db8::1]:22 (see"),
        (["xyzzy"], "there is no command 'xyzzy' (see racer --help)"),
        ([""], "there is no command '' (see racer --help)"),
        (["a\x1b[31m"], r"there is no command 'a\x1b[31m' (see racer --help)"),
        (["x" * 10_000], "there is no command 'xxx"),
        (["--bogus"], "--bogus"),
        (["--json"], "--json"),
        (["soar", "seve"], "seve"),
        (["soar", "serve", "--port"], "(see racer soar"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_what_does_not_exist_is_answered_with_what_does(
    argv: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    out, errors = capsys.readouterr()
    assert out == ""
    assert words in errors
    assert errors.startswith("racer: ")
    assert errors.count("\n") == 1
    assert errors[:-1].isprintable()
    assert len(errors) < 1100


# --- ends -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (CommandError("so", Exit.REFUSED), 6, "so"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (BrokenPipeError(), 141, ""),
        (ConfigError("no"), 2, "no"),
        (InvalidTarget("no"), 2, "no"),
        (NoTransports("none"), 4, "none"),
        (NetworkError("gone"), 1, "gone"),
        (TimeoutError(), 3, "the time was over"),
        (FileNotFoundError(2, "No such file or directory", "x"), 5, "x: No such file or directory"),
        (OSError(28, "No space left on device"), 5, "No space left on device"),
        (OSError("odd"), 5, "odd"),
        (OSError(), 5, "OSError"),
        (KeyError("x"), 70, "this is a bug: KeyError: 'x'"),
        (ModuleNotFoundError("no", name="rich.text"), 2, "pip install 'racer-dialer[cli]'"),
        (ModuleNotFoundError("no", name="trustme"), 2, "pip install 'racer-dialer[lab]'"),
        (ModuleNotFoundError("no", name="other"), 70, "ModuleNotFoundError"),
        (ExceptionGroup("one", [ConfigError("no")]), 2, "no"),
        (ExceptionGroup("one", [ExceptionGroup("one", [OSError(5, "x")])]), 5, "x"),
        (BaseExceptionGroup("two", [KeyboardInterrupt(), ValueError("x")]), 130, "interrupted"),
        (ExceptionGroup("two", [ConfigError("no"), ValueError("x")]), 70, "two (2 sub-exceptions)"),
    ],
    ids=repr,
)
def test_one_code_means_one_thing(error: BaseException, code: int, words: str) -> None:
    ended, sentence = ending(error)
    assert ended == code
    assert words in sentence
    assert bool(words) is bool(sentence)


def test_races_end_by_their_own_kind() -> None:
    report = reports.report(OSError())
    assert ending(AllAttemptsFailed(report))[0] is Exit.FAILED
    assert ending(DialTimeout(report))[0] is Exit.TIMEOUT


def test_what_to_install_is_said_of_extras_only() -> None:
    assert needs("opentelemetry.exporter.otlp") != ""
    assert needs("opentelemetry.sdk") == needs("richer") == needs("") == ""


def test_without_click_one_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "click", None)
    monkeypatch.delitem(sys.modules, "racer.cli._program")
    assert main(["--help"]) == 2
    assert capsys.readouterr() == (
        "",
        "racer: click is not installed; install it with: pip install 'racer-dialer[cli]'\n",
    )


def test_without_rich_one_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [each for each in sys.modules if each == "rich" or each.startswith("rich.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "rich", None)
    for name in ("racer.cli._get", "racer.cli._progress"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert main(["get", "https://example.com/"]) == 2
    assert capsys.readouterr().err.endswith("install it with: pip install 'racer-dialer[cli]'\n")


def test_an_output_that_takes_nothing_is_said() -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "racer", "--version"],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (done.returncode, done.stderr) == (5, b"racer: No space left on device\n")


def test_a_group_without_a_command_shows_which_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["soar"]) == 2
    out, errors = capsys.readouterr()
    assert out == ""
    assert errors.startswith("Usage: racer soar [OPTIONS] COMMAND")
    assert re.search(r"^  keygen  +Make a key", errors, re.MULTILINE)


def test_closed_outputs_change_nothing(tmp_path: Path) -> None:
    make = f"{sys.executable} -m racer soar keygen key <&- >&- 2>&-"
    done = subprocess.run(
        f"{make}; echo $?; {make}; echo $?",
        shell=True,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    assert done.stdout == b"0\n2\n"
    text = (tmp_path / "key").read_text()
    assert len(text.splitlines()) == 1  # and nothing that was printed


# --- what others bring ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "code", "out", "error"),
    [
        (["hello", "you"], 0, "hello you\n", ""),
        (["hello", "three"], 3, "hello three\n", ""),
        (["hello", "refused"], 9, "", "racer: no such person\n"),
        (["hello", "ctrl-c"], 130, "", "racer: interrupted\n"),
        (["hello", "--x"], 2, "", "--x"),
        (["hello", "bug"], 70, "", "racer: this is a bug: KeyError: 'a bug'\n"),
        (["hello", "missing"], 70, "", "racer: this is a bug: ModuleNotFoundError"),
        (
            ["broken"],
            2,
            "",
            "the command 'broken' (racer_test_no_such_module:command) cannot be loaded",
        ),
        (["gone"], 2, "", "cannot be loaded: AttributeError"),
        (["number"], 2, "", "'number' (racer_test_commands:number) is no click command but int"),
        (["dial", "--bogus"], 2, "", "(see racer dial --help)"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
@pytest.mark.usefixtures("plugins")
def test_a_command_of_others_ends_as_it_says(
    argv: list[str], code: int, out: str, error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == code
    said = capsys.readouterr()
    assert said.out == out
    assert error in said.err
    assert ("Traceback" in said.err) is (code == 70)


@pytest.mark.usefixtures("plugins")
def test_an_exit_of_others_is_one() -> None:
    with pytest.raises(SystemExit) as caught:
        main(["hello", "exit"])
    assert caught.value.code == 4


@pytest.mark.usefixtures("plugins")
def test_a_broken_command_breaks_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert re.search(r"^  hello +Greet somebody\.$", text, re.MULTILINE)
    assert re.search(r"^  broken +\(cannot be loaded\)$", text, re.MULTILINE)
    assert len(re.findall(r"^  dial  ", text, re.MULTILINE)) == 1
    assert main(["hello"]) == 0


@pytest.mark.usefixtures("plugins")
def test_nobody_replaces_a_command_of_racers() -> None:
    command = program.get_command(click.Context(program), "dial")
    assert command is importlib.import_module("racer.cli._dial").command


# --- the demonstration ----------------------------------------------------------------------


def test_without_trustme_the_demonstration_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "trustme", None)
    assert main(["demo", "--fast"]) == 2
    assert "racer-dialer[lab]" in capsys.readouterr().err
