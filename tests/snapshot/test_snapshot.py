"""Checks the snapshot: some of its rows are as stored, and the comparison reports what differs.

Faulty twins: a check that finds another class, an object that lost a key, and a row that is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import dpsim.checks.judge
from tests import ROOT
from tests.snapshot import __main__ as command
from tests.snapshot import stored
from tests.snapshot.comparing import of_objects, of_rows
from tests.snapshot.parts import PARTS, PROCESSES, Part, compute
from tests.snapshot.row import Found, row

SOME = {
    "drawn": ("plain-3", "threads-5", "asking-2", "any-source-1", "losing-27"),
    "jobs": ("beside.test_a_stack_of_py_spy_names_the_rank_outside_any_call-1", "reading.test_a_bad_file_is_named-1"),
}


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Computes rows in this process: to start others takes seconds."""

    def computed(part: Part, names: Sequence[str]) -> Iterator[tuple[str, Found]]:
        return ((name, compute(part.name, name)) for name in names)

    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(command, "computed", computed)
    for name, names in SOME.items():
        monkeypatch.setitem(PARTS, name, PARTS[name]._replace(names=partial(tuple, names)))
    everything = stored.rows_of
    monkeypatch.setattr(stored, "rows_of", lambda part: {name: everything(part)[name] for name in SOME[part]})


@pytest.mark.parametrize("part", SOME)
def test_some_rows_are_as_stored(part: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["compare", part]) == 0, capsys.readouterr().out


def test_twin_another_class_is_a_difference(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    judge = dpsim.checks.judge.judge

    def other_class(*given: Any) -> Any:
        return [replace(one, klass=one.klass.replace("MISSING_RANK", "EXTRA_CALL")) for one in judge(*given)]

    monkeypatch.setattr("dpsim.campaign.subject.judge", other_class)
    assert command.main(["compare", "drawn"]) == 1
    changed = "drawn/losing-27  class: HANG:COLLECTIVE:MISSING_RANK -> HANG:COLLECTIVE:EXTRA_CALL"
    assert changed in capsys.readouterr().out.splitlines()


def test_an_unknown_part_is_refused() -> None:
    assert command.main(["compare", "drawn", "no-such-part"]) == 2


@pytest.mark.parametrize("part", PARTS)
def test_a_part_has_stored_rows_and_keys(part: str) -> None:
    lines = (stored.ROWS / f"{part}.jsonl").read_text().splitlines()
    assert len(lines) >= 40
    assert stored.keys_of(part)
    assert PROCESSES == 2  # the bound of a part is for two cores


BEFORE: dict[str, Any] = {"verdict": "violated", "findings": [{"class": "RACE", "where": "a.py:3", "message": "x"}]}
KNOWN = {"verdict", "findings", "findings.class", "findings.where", "findings.message"}


@pytest.mark.parametrize(
    ("finding", "differ"),
    [
        ({"class": "RACE", "where": "a.py:9", "message": "x", "family": "RACE"}, set()),
        ({"class": "RACE", "where": "a.py:3", "message": "y"}, {"words"}),
        ({"class": "STALE", "where": "a.py:3", "message": "x"}, {"json", "others"}),
        ({"class": "RACE", "detail": "NEW", "where": "a.py:3", "message": "x"}, {"json", "others"}),
        ({"class": "RACE", "message": "x"}, {"json"}),
    ],
    ids=["a line and a new key", "a sentence", "a class", "a detail", "a lost key"],
)
def test_what_is_a_difference(finding: dict[str, Any], differ: set[str]) -> None:
    old, new = (row("one", Found(found), KNOWN) for found in (BEFORE, {**BEFORE, "findings": [finding]}))
    told = list(of_rows({"one": old}, {"one": new}, words=True))
    assert {difference.partition(":")[0] for _, difference in told} == differ
    assert {name for name, _ in of_rows({"one": old}, {}, words=True)} == {"one"}


def test_a_row_has_full_names() -> None:
    apart = {"schema_version": 2, "class": "HANG:JOIN", "detail": "NEW", "findings": [{"class": "A", "detail": None}]}
    joined = {"schema_version": 1, "class": "HANG:JOIN:NEW", "findings": [{"class": "A"}]}
    assert row("one", Found(apart)) == row("one", Found(joined))
    assert row("one", Found({**apart, "detail": "OTHER"})) != row("one", Found(joined))


def test_the_objects_behind_a_difference(tmp_path: Path) -> None:
    after = {"verdict": "held", "findings": []}
    for name, found in (("before", BEFORE), ("after", after)):
        stored.keep_object(tmp_path / name, "jobs", "a/b", found)
    old, new = (stored.object_of(tmp_path / name, "jobs", "a/b") for name in ("before", "after"))
    assert {line.partition(":")[0] for line in of_objects(old, new)} == {"verdict", "findings.0"}
    assert list(of_objects(old, old)) == []
