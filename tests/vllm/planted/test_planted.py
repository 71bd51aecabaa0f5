"""Tests the planted mistakes: each fits today's code, each program has one, and the campaign confirms what notices
each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import ROOT
from tests.vllm.planted.campaign import MISTAKES, Copy, asked, copied, parts
from tests.vllm.planted.mistake import DoesNotFit, Mistake

PROGRAMS = {
    *("dbo", "dp_batch", "dp_survivors", "engine", "engine_watched", "eplb", "pp_tokens", "startup"),
    *("startup_watched", "whole_engine", "whole_engine_dp", "whole_engine_watched"),
}


def names(mistake: Mistake) -> str:
    return mistake.name


@pytest.mark.parametrize("mistake", MISTAKES, ids=names)
def test_each_planted_mistake_fits_the_code(mistake: Mistake) -> None:
    healthy = mistake.path(ROOT).read_text()
    planted = mistake.planted(healthy)
    assert planted != healthy
    compile(planted, mistake.file, "exec")


@pytest.mark.parametrize("old", ["no such line", "self"])
def test_a_mistake_without_a_unique_place_is_an_error(old: str) -> None:
    with pytest.raises(DoesNotFit, match="expected once"):
        MISTAKES[0]._replace(old=old).planted(MISTAKES[0].path(ROOT).read_text())


def test_every_program_has_one() -> None:
    assert {mistake.program for mistake in MISTAKES} == PROGRAMS
    assert len({mistake.name for mistake in MISTAKES}) == len(MISTAKES) == 40


def test_the_mistakes_are_counted_by_what_notices_them() -> None:
    """Of 40 mistakes the shipped scenarios notice 32, and the quick tests 6 more; the other 2 are harmless."""
    counts = Counter(mistake.by for mistake in MISTAKES)
    assert counts == {"shipped": 32, "quick": 6, "nothing": 2}
    assert all(mistake.why.startswith("Harmless: ") == (mistake.by == "nothing") for mistake in MISTAKES)


def test_a_planted_change_is_undone(tmp_path: Path) -> None:
    """After the `with` block the file is healthy again, and each state of it has its own modification time.

    Python decides by size and time whether to compile a file again.
    """
    mistake = MISTAKES[0]
    path = mistake.path(tmp_path)
    path.parent.mkdir(parents=True)
    healthy = mistake.path(ROOT).read_text()
    path.write_text(healthy)
    times = [path.stat().st_mtime]
    with Copy(tmp_path).with_one(mistake):
        assert path.read_text() == mistake.planted(healthy)
        times.append(path.stat().st_mtime)
    assert path.read_text() == healthy
    assert len({*times, path.stat().st_mtime}) == 3


@pytest.fixture(scope="module")
def tree() -> Iterator[Copy]:
    with copied() as copy:
        yield copy


@pytest.mark.nightly
@pytest.mark.parametrize("mistake", [one for one in MISTAKES if one.by == "shipped"], ids=names)
def test_a_shipped_scenario_notices_a_planted_mistake(tree: Copy, mistake: Mistake) -> None:
    answer = asked(tree, mistake)
    assert answer.by == "shipped", answer.failed


HEALTHY = MISTAKES[0]._replace(name="healthy", new=MISTAKES[0].old, by="nothing")
"""The twin: a change that changes nothing."""

PASSING = [HEALTHY, *(one for one in MISTAKES if one.by != "shipped")]


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(3))
@pytest.mark.parametrize("mistake", PASSING, ids=names)
def test_no_scenario_notices_what_quick_tests_or_nothing_notice(tree: Copy, mistake: Mistake, part: int) -> None:
    """Runs a part of the tests, because all of them take minutes if none fails."""
    by, arguments = parts(mistake)[part]
    with tree.with_one(mistake):
        failed = tree.failed(arguments)
    assert bool(failed) == (by == mistake.by), failed
