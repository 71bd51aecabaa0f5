"""The recipes of CONTRIBUTING.md are followed word for word, in a copy of the tree, and keep the rules of the house:
only the lines of the maps are missing, which a reader has to find words for.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests import ROOT
from tests.documents import follow
from tests.house.tree import complaints

NOT_NAMED = {
    "dpsim/checks/__init__.py: its docstring does not name steps.py",
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
    assert len(typed) == 6, "one command for each recipe"
    assert set(complaints(tmp_path)) - set(complaints(ROOT)) == NOT_NAMED
