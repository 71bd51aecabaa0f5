"""Tests that the pictures of docs/pictures.md have the words of the present code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dpsim.diagnose.pictures.op import Picture
from tests import ROOT
from tests.vllm.docs_pictures import FOLDER, SHOTS, pictured, words


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Picture]:
    return {name: pictured(shot, tmp_path_factory.mktemp("traces")) for name, shot in SHOTS.items()}


def test_the_pictures_have_the_words_of_today(pictures: dict[str, Picture]) -> None:
    assert words(pictures) == (FOLDER / "words.txt").read_text(), "python -m tests.vllm.docs_pictures"


def test_a_changed_mark_changes_the_words(pictures: dict[str, Picture]) -> None:
    marked = next(op for op in pictures["turning"].ops if op.turning)
    before, turning = words(pictures), marked.turning
    marked.turning = "too early"
    assert words(pictures) != before
    marked.turning = turning


def test_each_picture_of_the_page_has_its_run() -> None:
    used = re.findall(r"\]\(pictures/([\w-]+)\.png\)", (ROOT / "docs" / "pictures.md").read_text())
    assert sorted(used) == sorted(SHOTS) == sorted(path.stem for path in FOLDER.glob("*.png"))
    assert all(Path(ROOT / "scenarios" / f"{shot.scenario}.yaml").is_file() for shot in SHOTS.values())
