"""Tests that each nightly test has one part of the night, and that the bound of a part is real."""

from __future__ import annotations

import os
import sys
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import conftest
from tests import ROOT, night, properties
from tests.night import PARTS, Ended, Part


def without_part(files: dict[str, str]) -> list[str]:
    """Returns the files of nightly tests that belong to no part. `files`: their texts by path."""
    marks = "mark.nightly", "nightly_but(", "@examples(", "@seconds"
    return [path for path, text in files.items() if any(mark in text for mark in marks) and not night.part_of(path)]


def test_each_nightly_test_belongs_to_a_part() -> None:
    files = {str(path.relative_to(ROOT)): path.read_text() for path in (ROOT / "tests").rglob("test_*.py")}
    files.pop("tests/test_night.py")
    assert without_part(files) == []
    assert without_part({"tests/new/test_one.py": "@pytest.mark.nightly"}) == ["tests/new/test_one.py"]


def test_a_test_in_the_folder_of_two_parts_runs_in_the_inner_one() -> None:
    inner, outer = night.part_of("tests/vllm/torch/test_dp_utils.py"), night.part_of("tests/vllm/test_pictures.py")
    assert inner is not None
    assert outer is not None
    assert (inner.name, outer.name) == ("torch", "models")
    words = night.command(outer, 1, Path("nights"), "2026-11-27")
    assert {word for word in words if word.startswith("--ignore=")} == {
        f"--ignore={path}" for part in PARTS if part != outer for path in part.paths if path.startswith("tests/vllm/")
    }
    assert not [word for word in night.command(inner, 1, Path("nights"), "2026-11-27") if "--ignore" in word]


def test_all_bounds_together_fit_into_the_night() -> None:
    assert sum(part.minutes for part in PARTS) <= night.MOST
    assert len({part.name for part in PARTS}) == len(PARTS)


def test_a_command_that_is_not_over_at_its_bound_is_ended_with_its_processes(tmp_path: Path) -> None:
    """The command starts a process that would write to a pipe after a minute. The pipe ends when the process does."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reads = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    code = f"import subprocess; subprocess.run('(sleep 60; echo late) > {pipe}', shell=True)"
    assert night.within([sys.executable, "-c", code], 1.0, {}) is None
    os.set_blocking(reads, True)
    with os.fdopen(reads) as file:
        assert file.read() == ""
    assert night.within([sys.executable, "-c", "raise SystemExit(5)"], 60, {}) == 5


def test_a_test_after_the_end_of_its_part_is_left_out(request: pytest.FixtureRequest) -> None:
    def item(ends: float) -> Any:
        return SimpleNamespace(config=SimpleNamespace(getoption={"night_ends": ends}.get))

    conftest.pytest_runtest_setup(item(1e12))
    with pytest.raises(pytest.skip.Exception, match=night.NO_TIME):
        conftest.pytest_runtest_setup(item(0))
    assert request.config.getoption("night_ends") == float("inf")


def test_each_night_has_another_order_of_files_and_within_each_file() -> None:
    """If a night has time for a third of the tests, ten nights run each of them."""
    items: Any = [SimpleNamespace(path=Path(file), name=f"{file}{number}") for file in "abc" for number in range(6)]
    orders = [conftest.in_order_of_night(items, f"2026-11-{day}") for day in range(10, 20)]
    for order in orders:
        assert sorted(one.name for one in order) == [one.name for one in items]
        assert len([one for one, other in pairwise(order) if one.path != other.path]) == 2, "files stay together"
    assert {one.name for order in orders for one in order[:6]} == {one.name for one in items}
    firsts = {next(one.name for one in order if one.path == Path("a")) for order in orders}
    assert len(firsts) > 2


@pytest.mark.parametrize(("size", "draws"), [(1.0, 60), (10.0, 600)])
def test_a_test_draws_more_in_a_larger_night(size: float, draws: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(properties, "SIZE", size)
    assert (properties.of_night(600), properties.of_night(600, 400)) == (draws, max(draws, 400))


def test_the_table_has_a_row_for_each_part() -> None:
    ended = [Ended(Part("one", 7), 61.2, 100.0, "passed", False), Ended(Part("two", 2), 120.0, 8.0, "NOT OVER", True)]
    assert night.table(ended).splitlines() == [
        "part  bound min  seconds  CPU s  result",
        "one   7          61       100    passed",
        "two   2          120      8      NOT OVER",
        "all   9          181      108",
    ]
