"""Follows the recipes of CONTRIBUTING.md word for word in a copy of the tree, and checks the copy by the rules of
tests/house.

Only the lines of the `__init__.py` files are missing, because a developer has to write them. A further test compares
the page's table of what a backend implements with the code.
"""

from __future__ import annotations

import inspect
import pkgutil
import re
import shutil
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import dpsim.backend
from tests import ROOT
from tests.documents import blocks, files, fits, follow
from tests.house.tree import complaints

NOT_NAMED = {
    "dpsim/checks/__init__.py: its docstring does not name steps.py",
    "dpsim/contract/collectives/__init__.py: its docstring does not name scan.py",
    "dpsim/explore/strategies/__init__.py: its docstring does not name newest.py",
    "dpsim/vllm/releases/__init__.py: its docstring does not name v0_34.py",
    "dpsim/vllm/__init__.py: its docstring does not name largest/",
}


@pytest.mark.slow
def test_the_recipes_do_what_they_say(tmp_path: Path) -> None:
    for name in ("dpsim", "real", "tests", "scenarios"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "conftest.py"):
        shutil.copy(ROOT / name, tmp_path)
    typed = follow((ROOT / "CONTRIBUTING.md").read_text(), tmp_path, tree=tmp_path)
    assert len(typed) == 7, "one command for each recipe"
    assert set(complaints(tmp_path)) - set(complaints(ROOT)) == NOT_NAMED


def test_a_failed_test_does_not_fit() -> None:
    shown = "...\n... passed in ..."
    assert fits(".....\n20 passed in 6.57s\n", shown)
    assert not fits("....F\nFAILED test_gloo\n1 failed, 19 passed in 6.57s\n", shown)


def recipe(name: str) -> str:
    """Returns a section of the document."""
    _, _, rest = (ROOT / "CONTRIBUTING.md").read_text().partition(f"\n## {name}\n")
    return rest.partition("\n## ")[0]


def changed(text: str) -> set[str]:
    """Returns the files outside of tests/ that a recipe adds or changes."""
    named = [name for name, _ in files(text)]
    named += [block.partition("\n")[0].removeprefix("--- ") for language, block in blocks(text) if language == "diff"]
    return {name for name in named if not name.startswith("tests/")}


def test_a_collective_is_one_file_two_signatures_and_two_native_calls() -> None:
    assert changed(recipe("A collective")) == {
        "dpsim/contract/collectives/scan.py",
        "dpsim/contract/interface.py",
        "real/gloo_calls.py",
        "real/nccl_calls.py",
    }


@pytest.mark.slow
@pytest.mark.xdist_group("gloo")
def test_a_collective_works_everywhere(tmp_path: Path) -> None:
    """Follows the recipe for a collective, in a separate copy. The collective works on both machines, explored and on
    gloo.
    """
    for name in ("dpsim", "real", "tests"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "conftest.py"):
        shutil.copy(ROOT / name, tmp_path)
    assert len(follow(recipe("A collective"), tmp_path, tree=tmp_path)) == 1


# ---- what a backend implements


def left_to_a_backend() -> dict[str, set[str]]:
    """Returns the abstract methods of each class of dpsim.backend that has no concrete subclass there."""
    names = (module.name for module in pkgutil.walk_packages(dpsim.backend.__path__, "dpsim.backend."))
    modules = [import_module(name) for name in names]
    classes = [kind for module in modules for kind in vars(module).values() if inspect.isclass(kind)]
    own: set[Any] = {kind for kind in classes if kind.__module__.startswith("dpsim.backend.")}
    bases = {base for kind in own for base in kind.__mro__[1:]}
    return {kind.__name__: set(kind.__abstractmethods__) for kind in own - bases if inspect.isabstract(kind)}


def listed(text: str) -> dict[str, set[str]]:
    """Returns the rows of the table."""
    rows = re.findall(r"^\| `(\w+)` \| ([`\w ]+) \|", text, re.MULTILINE)
    return {kind: set(re.findall(r"`(\w+)`", methods)) for kind, methods in rows}


def test_the_table_of_a_backend_is_that_of_the_code() -> None:
    assert listed((ROOT / "CONTRIBUTING.md").read_text()) == left_to_a_backend()


@pytest.mark.parametrize("wrong", ["| `JournaledThread` |", "`_alloc` ", "`_spin`"])
def test_a_table_that_lacks_something_is_another(wrong: str) -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    assert wrong in text
    assert listed(text.replace(wrong, "", 1)) != left_to_a_backend()
