"""Who may import whom: the contracts in pyproject.toml hold, and each of them can fail."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CONTRACTS = SETTINGS["tool"]["importlinter"]["contracts"]

# Who runs racer on trio has brought trio, and with it `outcome`.
BROUGHT_ALONG = {"outcome", "trio"}

# contract -> the module that breaks it, the line that does, and what that imports; together in one tree, if none of
# them breaks another's contract as well
FAULTS = [
    {
        "host": ("racer._report", "import transports", "transports"),
        "guests": (
            "transports.planted._room",
            "from racer._report import Attempt",
            "racer._report",
        ),
        "front-door": ("transports.planted._room", "import racer", "racer"),
        "rooms": (
            "transports.planted._room",
            "import transports.neighbour",
            "transports.neighbour",
        ),
        "soar-core": ("transports.soar.core.planted", "import random", "random"),
        "soar-rooms": (
            "transports.soar.carriers.planted",
            "import transports.soar._engine",
            "transports.soar._engine",
        ),
        "soar-floors": (
            "transports.soar.core.streams.planted",
            "import transports.soar.core.client",
            "transports.soar.core.client",
        ),
    },
    {
        "workshop": ("racer._report", "from racer.testing import run_virtual", "racer.testing"),
        "loops": ("racer._report", "import asyncio", "asyncio"),
    },
    {"pure": ("racer._report", "import time", "time")},
]


def lint(src: Path, *only: str) -> subprocess.CompletedProcess[str]:
    """Run the contracts over the packages in `src`, wherever the installed ones are."""
    arguments = [f"--contract={contract}" for contract in only]
    return subprocess.run(
        [
            sys.executable,
            "-c",
            "from importlinter.cli import lint_imports_command as run; run()",
            f"--config={ROOT / 'pyproject.toml'}",
            "--no-cache",
            "--no-logo",
            *arguments,
        ],
        cwd=src,  # import-linter looks here first
        env={**os.environ, "COLUMNS": "200"},  # the name of a contract stays on one line
        capture_output=True,
        text=True,
        check=False,
    )


def outside_packages(source: str) -> set[str]:
    """Return the top-level packages that are imported and come with neither Python nor this project."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(str(node.module).partition(".")[0])
    return found - sys.stdlib_module_names - {"racer", "transports"}


def declared() -> set[str]:
    """Return the distributions that pyproject.toml names for a user, extras included."""
    project = SETTINGS["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    return {re.split(r"[<>=\[; ]", line, maxsplit=1)[0] for lines in lists for line in lines}


def test_what_is_imported_is_declared() -> None:
    """A package that is there only because another needs it can go at that one's next release."""
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")]
    imported = set[str]().union(*map(outside_packages, sources))
    # Both spread over many distributions, of which the SDK brings the API.
    names = {"dns": "dnspython", "opentelemetry": "opentelemetry-sdk", "yaml": "pyyaml"}
    assert {"anyio", "opentelemetry"} <= imported
    assert {names.get(name, name) for name in imported} - declared() - BROUGHT_ALONG == set()


def test_the_contracts_are_kept() -> None:
    result = lint(ROOT / "src")
    assert result.returncode == 0, result.stdout + result.stderr


def broken(printed: str) -> dict[str, str]:
    """Return what is said of each broken contract, by its name."""
    told = printed.rpartition("Broken contracts")[2]
    _, *parts = re.split(r"^(\S.*)\n-{2,}\n", told, flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def test_every_contract_has_a_fault_that_breaks_it() -> None:
    assert sorted(c["id"] for c in CONTRACTS) == sorted(c for faults in FAULTS for c in faults)


@pytest.mark.parametrize("faults", FAULTS, ids=" ".join)
def test_planted_faults_break_their_contracts(
    faults: dict[str, tuple[str, str, str]], tmp_path: Path
) -> None:
    for package in ("racer", "transports"):
        shutil.copytree(
            ROOT / "src" / package, tmp_path / package, ignore=shutil.ignore_patterns("*.pyc")
        )
    for room in ("planted", "neighbour"):
        (tmp_path / "transports" / room).mkdir()
        (tmp_path / "transports" / room / "__init__.py").touch()
    for module, line, _ in faults.values():
        with (tmp_path / f"{module.replace('.', '/')}.py").open("a", encoding="utf-8") as file:
            file.write(f"\n{line}\n")

    result = lint(tmp_path, *faults)
    assert result.returncode == 1, result.stdout + result.stderr
    said = broken(result.stdout)
    names = {contract["id"]: contract["name"] for contract in CONTRACTS}
    assert set(said) == {names[contract] for contract in faults}, result.stdout
    for contract, (module, _, imported) in faults.items():
        assert f"{module} -> {imported} (l." in said[names[contract]]
