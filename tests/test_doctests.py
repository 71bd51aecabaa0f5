"""Runs the examples in docstrings, so that no example shows a wrong output."""

from __future__ import annotations

import doctest
import importlib
import linecache
import pkgutil

import pytest

import dpsim

ALL = sorted(module.name for module in pkgutil.walk_packages(dpsim.__path__, "dpsim."))
WITH_VLLM = ("dpsim.campaign.museum", "dpsim.campaign.properties", "dpsim.runner")
"""Modules whose examples need vLLM's parameters. `tests/vllm/test_doctests.py` runs them."""

MODULES = [name for name in ALL if name not in WITH_VLLM and not f"{name}.".startswith("dpsim.vllm.")]


def run_examples(name: str) -> doctest.TestResults:
    """Runs the examples of a module. For each docstring, doctest looks at every file in Python's cache of source lines.
    Other tests fill that cache, so it is emptied first.
    """
    linecache.clearcache()
    return doctest.testmod(importlib.import_module(name))


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name: str) -> None:
    assert run_examples(name).failed == 0


def test_there_are_examples() -> None:
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = [test for name in MODULES for test in finder.find(importlib.import_module(name)) if test.examples]
    assert len(found) >= 15, "if nothing is collected, nothing is tested"
