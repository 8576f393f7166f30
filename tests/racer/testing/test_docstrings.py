"""Every example in the workshop's docstrings runs."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import racer.testing

MODULES = [
    f"racer.testing.{module.name}" for module in pkgutil.iter_modules(racer.testing.__path__)
]


@pytest.mark.parametrize("module", ["racer.testing", *MODULES])
def test_the_examples_run(module: str) -> None:
    results = doctest.testmod(importlib.import_module(module))
    assert results.failed == 0


def test_there_are_examples() -> None:
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = {
        test.name
        for name in MODULES
        for test in finder.find(importlib.import_module(name))
        if test.examples
    }
    assert {"racer.testing._clocks.run_virtual", "racer.testing._streams.stream_pair"} <= found
