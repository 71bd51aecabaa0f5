"""The recipes of CONTRIBUTING.md are followed word for word, in a copy of the tree, and keep the rules of the house:
only the lines of the maps are missing, which a reader has to find words for.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests import ROOT
from tests.documents import blocks, files, follow
from tests.house.tree import complaints

NOT_NAMED = {
    "dpsim/checks/__init__.py: its docstring does not name steps.py",
    "dpsim/contract/collectives/__init__.py: its docstring does not name scan.py",
    "dpsim/explore/strategies/__init__.py: its docstring does not name newest.py",
    "dpsim/vllm/__init__.py: its docstring does not name largest/",
}


@pytest.mark.slow
def test_the_recipes_do_what_they_say(tmp_path: Path) -> None:
    for name in ("dpsim", "real", "tests", "scenarios"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "conftest.py"):
        shutil.copy(ROOT / name, tmp_path)
    typed = follow((ROOT / "CONTRIBUTING.md").read_text(), tmp_path, tree=tmp_path)
    assert len(typed) == 6, "one command for each recipe"
    assert set(complaints(tmp_path)) - set(complaints(ROOT)) == NOT_NAMED


def recipe(name: str) -> str:
    """A chapter of the document."""
    _, _, rest = (ROOT / "CONTRIBUTING.md").read_text().partition(f"\n## {name}\n")
    return rest.partition("\n## ")[0]


def changed(text: str) -> set[str]:
    """The files of the product that a recipe adds or changes."""
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
    """In both machines, explored, on gloo and to the checks: the recipe alone, in another copy."""
    for name in ("dpsim", "real", "tests"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "conftest.py"):
        shutil.copy(ROOT / name, tmp_path)
    assert len(follow(recipe("A collective"), tmp_path, tree=tmp_path)) == 1
