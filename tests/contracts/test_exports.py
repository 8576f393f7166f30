"""What the packages show to the world: listed, sorted, documented, and cheap to import."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import pkgutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import racer
import transports

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

# They load when first needed: none of them may cost a program that only says `import racer`.
HEAVY = (
    "cryptography",
    "dns",
    "grpc",
    "h2",
    "httpcore",
    "httpx",
    "httpx2",
    "opentelemetry.exporter",
    "opentelemetry.sdk",
    "racer.lab",
    "racer.testing",
    "rich",
    "transports",
    "trio",
    "trustme",
)
# What loads none of these, beside what is heavy: whoever is started for one dial waits for every module.
_LATER = (
    "racer._explain",
    "racer._guest_status",
    "racer._making",
    "racer._memory",
    "racer._status",
)
CHEAP = {
    "import racer": ("anyio", "asyncio", "opentelemetry", "racer._dialer", "racer.abc", "ssl"),
    "import racer.abc": (*_LATER, "asyncio", "opentelemetry", "racer._dialer", "racer._report"),
    "from racer import Dialer, dial": (*_LATER, "difflib", "racer.config"),
}
TELL = "print(json.dumps(sorted(set(sys.modules) - before)))"


def public_modules() -> list[str]:
    """Return every importable module without a private part in its name."""
    names = [racer.__name__, transports.__name__]
    for package in (racer, transports):
        found = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        names += [m.name for m in found if not any(p.startswith("_") for p in m.name.split("."))]
    return names


def export_order(name: str) -> tuple[int, str]:
    """Order names as ruff's RUF022 does: constants, classes, the rest."""
    return (0 if name.isupper() and len(name) > 1 else 1 if name[:1].isupper() else 2, name)


def documented_parts(module: ModuleType) -> Iterator[tuple[str, object]]:
    """Yield each exported class and function, and the public methods and properties of each class."""
    for name in module.__all__:
        thing = getattr(module, name)
        if inspect.isclass(thing) or inspect.isroutine(thing):
            yield name, thing
        if inspect.isclass(thing):
            for attribute, member in vars(thing).items():
                callables = (classmethod, property, staticmethod)
                if not attribute.startswith("_") and (
                    inspect.isroutine(member) or isinstance(member, callables)
                ):
                    yield f"{name}.{attribute}", getattr(thing, attribute)


@pytest.fixture(scope="module")
def modules() -> list[ModuleType]:
    """Every public module, imported."""
    return [importlib.import_module(name) for name in public_modules()]


def test_all_is_a_sorted_tuple_without_repeats(modules: list[ModuleType]) -> None:
    lists = {m.__name__: m.__all__ for m in modules}
    assert [name for name, listed in lists.items() if not isinstance(listed, tuple)] == []
    ordered = {n: sorted(set(listed), key=export_order) for n, listed in lists.items()}
    assert {n: order for n, order in ordered.items() if order != list(lists[n])} == {}


def test_every_exported_name_exists(modules: list[ModuleType]) -> None:
    assert [f"{m.__name__}.{n}" for m in modules for n in m.__all__ if not hasattr(m, n)] == []


def test_no_public_name_is_left_out(modules: list[ModuleType]) -> None:
    """A public definition in a public module is in `__all__`, or it should be private."""
    left_out = {}
    for module in modules:
        assert module.__file__ is not None
        body = ast.parse(Path(module.__file__).read_text(encoding="utf-8")).body
        defined = {
            node.name
            for node in body
            if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
            and not node.name.startswith("_")
        }
        left_out[module.__name__] = sorted(defined - set(module.__all__))
    assert {name: names for name, names in left_out.items() if names} == {}


def test_every_exported_name_is_documented(modules: list[ModuleType]) -> None:
    assert [m.__name__ for m in modules if not inspect.getdoc(m)] == []
    bare = [
        f"{module.__name__}: {name}"
        for module in modules
        for name, thing in documented_parts(module)
        if not inspect.getdoc(thing)
    ]
    assert bare == []


@pytest.mark.parametrize(("program", "late"), CHEAP.items())
def test_what_is_not_used_is_not_loaded(program: str, late: tuple[str, ...]) -> None:
    result = subprocess.run(
        [sys.executable, "-c", f"import json, sys; before = set(sys.modules); {program}; {TELL}"],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = json.loads(result.stdout)
    assert any(m.startswith("racer.") for m in loaded)
    heavy = [m for m in loaded if any(m == h or m.startswith(f"{h}.") for h in (*HEAVY, *late))]
    assert heavy == []


def test_what_is_loaded_late_is_listed_before_and_kept_after() -> None:
    program = (
        "import racer\n"
        "assert {'dial', 'Dialer', 'config'} <= set(dir(racer))\n"
        "assert 'Dialer' not in vars(racer)\n"
        "assert racer.Dialer is vars(racer)['Dialer']\n"
        "assert {'Finding', 'Host'} <= set(dir(racer.abc))\n"
        "assert racer.abc.Finding is vars(racer.abc)['Finding']\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
