"""Tests of explanations of dumps as text and as JSON, also for a run of dpsim."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dpsim.checks.classes import class_and_detail
from dpsim.checks.finding import Finding
from dpsim.diagnose.dumps.entries import CallPlace
from dpsim.diagnose.dumps.explanation import Explanation, Suspect
from dpsim.diagnose.dumps.judgement import judge_dumps
from dpsim.diagnose.dumps.of_run import explained
from dpsim.diagnose.dumps.reading import read_dumps
from dpsim.diagnose.dumps.text import LINES, as_json, as_text
from dpsim.diagnose.fitting import WIDTH
from tests.checks.handmade import Made
from tests.diagnose.dumps.made import MadeJob
from tests.diagnose.dumps.test_judgement import HANGS, steps

FIELDS = {
    *("outcome", "class", "detail", "culprit", "said", "waits"),
    *("cycle", "undecided_ranks", "confidence", "ground"),
}


@pytest.mark.parametrize("what", HANGS)
def test_ten_lines_name_the_rank_and_the_place(what: str) -> None:
    fault, _, line, _ = HANGS[what]
    found = steps(MadeJob(4), 3, fault).explained()
    lines = as_text(found).split("\n")
    assert len(lines) <= LINES
    assert max(map(len, lines)) <= WIDTH
    assert lines[0].startswith(f"HANG  {class_and_detail(found.klass)[0]}  ")
    assert lines[1].startswith("culprit   rank 2, ")
    assert line in lines[1]
    assert [one[:4] for one in lines[-2:]] == ["sure", "next"]


def long(number: int) -> Explanation:
    """Returns an explanation with `number` entries of everything, including control characters of a terminal."""
    text = tuple(f"rank {at} waits \x1b[31m for rank {at + 1} in a group with a long name" for at in range(number))
    chain = tuple((f"function_{at}", f"/a/long/path/to/a/file_{at}.py:{at}") for at in range(number))
    suspect = Suspect(tuple(range(0, 3 * number, 3)), "group " * 20, 6, "all_reduce", CallPlace("/a/b.py:1", chain))
    return Explanation("hang", "HANG:UNDECIDED", suspect, "x " * 300, text, (), (), "low", text)


@pytest.mark.parametrize("number", [1, 5, 60])
def test_long_explanations_fit(number: int) -> None:
    lines = as_text(long(number)).split("\n")
    assert len(lines) <= LINES
    assert all(line.isprintable() for line in lines)
    assert [line[:4] for line in lines if line.startswith(("sure", "next"))] == ["sure", "next"]


def test_no_rank_is_named_where_none_is_to_blame() -> None:
    text = as_text(steps(MadeJob(4), 2).explained())
    assert text.startswith("FINISHED  the job ended: no rank is to blame")
    assert "culprit" not in text


def test_a_culprit_without_a_dump_may_have_died_or_not() -> None:
    """Its faulty twin is the same job with all dumps: there the rank certainly left out the call."""
    for gone in (True, False):
        text = as_text(steps(MadeJob(4), 3, HANGS["absent"][0]).explained(without=(2,) if gone else ()))
        assert ("or its dump is missing" in text.split("\n")[0]) is gone
        assert ("sure      low" in text) is gone
        assert ("next      fetch the dump of rank 2" in text) is gone


@pytest.mark.parametrize("rank", [1, 2])
def test_the_next_step_is_the_exception_of_the_culprit_s_log(tmp_path: Path, rank: int) -> None:
    """The exception of another rank does not explain what the culprit did."""
    steps(MadeJob(4), 3, HANGS["absent"][0]).write(tmp_path)
    (tmp_path / f"rank_{rank}.log").write_text("Traceback\nValueError: bad batch\n")
    lines = as_text(judge_dumps(read_dumps(tmp_path))).split("\n")
    assert (lines[-1] == "next      read the exception in the log of rank 2: ValueError: bad batch") is (rank == 2)


@pytest.mark.parametrize("number", [1, 60])
def test_full_prints_what_the_short_text_leaves_out(number: int) -> None:
    found = long(number)
    short, full = as_text(found), as_text(found, full=True)
    assert "rank 0 waits" in short
    assert ("more facts" in short) is ("--full" in short) is (number == 60)
    assert full.count("rank 59 waits") == (2 if number == 60 else 0)


def test_json_has_all_fields() -> None:
    found = as_json(steps(MadeJob(4), 3, HANGS["absent"][0]).explained())
    assert {*found} == FIELDS
    assert json.loads(json.dumps(found)) == found
    assert found["culprit"] == {
        "ranks": [2],
        "group": "default_pg",
        "seq": 10,
        "op": "all_reduce",
        "site": "train.py:10",
        "chain": [["step", "train.py:10"], ["<module>", "train.py:99"]],
    }


def test_the_command_line_page_documents_each_field() -> None:
    from tests import ROOT

    page = (ROOT / "docs" / "a-job-hangs.md").read_text()
    assert [field for field in FIELDS if f"`{field}`" not in page] == []


def test_a_folder_is_named_as_it_was_typed(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=str(tmp_path)):
        read_dumps(tmp_path)


@pytest.mark.parametrize("why", ["each rank received the same result from agree, so a majority proves nothing", ""])
def test_an_explanation_without_a_culprit_gives_the_reason_of_its_check(why: str) -> None:
    """Explains a simulated run. Without a reason of its check, there is no majority."""
    made = Made(2)
    made[0].collective("cpu", None)
    finding = Finding("agreement", "DISAGREEMENT:PLAN", "ranks disagree", None, (0, 0), why=why)
    line = as_text(explained(made.world, made.run("finished", "blocked"), [finding])).split("\n")[1]
    assert line == f"culprit   not decided: {why or 'no majority and no other evidence'}"
