"""Tests the comparison of all kinds of questions: dpsim compares each stored answer, and a wrong answer gets its
verdict.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from dpsim_engine import check
from dpsim_engine.kinds import KINDS
from dpsim_engine.live.adapters import ADAPTERS, STORED_ONLY
from dpsim_engine.stored import OWN, answers, files_in
from tests.vllm.answers.stand_in import few


def test_every_file_has_a_kind() -> None:
    assert {kind.file for kind in KINDS} == set(files_in(OWN))


def test_every_kind_is_asked_or_has_a_reason() -> None:
    assert set(ADAPTERS) | set(STORED_ONLY) == {kind.name for kind in KINDS}
    assert not set(ADAPTERS) & set(STORED_ONLY)


@pytest.mark.slow
def test_each_release_with_a_function_has_stored_rows() -> None:
    """Each release for which dpsim has a function has stored rows.

    Rows of other releases are compared with no function, not even with that of a neighbouring release.
    """
    for kind in KINDS:
        versions = {row["version"] for row in answers(kind.file, place=OWN) if kind.applies(row)}
        releases = {one.release for one in kind.ours}
        assert releases <= versions, kind.name
        assert all(kind.of_release(version) == () for version in versions - releases), kind.name


def test_the_stored_answers_are_equal(tmp_path: Path) -> None:
    found = check.stored(few(tmp_path / "few", 5))
    assert found.verdict == "equal"
    assert len(found.compared) == sum(len(kind.ours) for kind in KINDS)
    unasked = {one.kind: one.reason for one in found.unasked}
    assert "rows left out: dpsim knows this of releases 0.33.0 to now" in unasked.pop("slices_v2")
    assert unasked == {}


def test_a_wrong_answer_is_found(tmp_path: Path) -> None:
    place = few(tmp_path / "few", 5, ["need_mask"])
    rows = answers("need_mask", place=place)
    rows[-1]["answer"] = None if rows[-1]["answer"] else [True]
    with gzip.open(place / "need_mask.jsonl.gz", "wt") as out:
        out.writelines(json.dumps(row) + "\n" for row in rows)
    found = check.stored(place)
    assert found.verdict == "different"
    (wrong,) = [one for one in found.compared if one.differing]
    assert (wrong.kind, wrong.release, wrong.equal, wrong.differing) == ("need_mask", "0.33.0", 4, 1)
    assert wrong.first is not None
    assert wrong.first.row == f"batch {rows[-1]['batch']}"
    assert wrong.where.startswith("dpsim/vllm/pipeline/need_mask.py:")


def test_nothing_compared_is_no_verdict(tmp_path: Path) -> None:
    (tmp_path / "mine.jsonl.gz").write_bytes(gzip.compress(b""))
    found = check.stored(tmp_path)
    assert found.verdict == "no verdict"
    assert found.unasked[0] == ("mine", "", "no kind of question has a file of this name", False)


@pytest.mark.parametrize("release", ["0.24.0", "0.33.0"])
def test_a_later_release_is_compared_with_the_one_before(release: str, tmp_path: Path) -> None:
    """Rows of a release without its own function in dpsim are compared with the newest earlier release."""
    place = few(tmp_path / "few", 50, ["need_mask"])
    rows = [{**row, "version": f"{release[:-1]}7"} for row in answers("need_mask", release, place)]
    with gzip.open(place / "need_mask.jsonl.gz", "wt") as out:
        out.writelines(json.dumps(row) + "\n" for row in rows)
    (found,) = check.stored(place).compared
    assert (found.ours, found.release, found.equal) == (release, f"{release[:-1]}7", 50)
