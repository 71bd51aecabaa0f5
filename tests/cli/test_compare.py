"""Tests `dpsim compare` with two traces, equal or not, and with files that are no traces."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from dpsim.trace import read_trace
from tests.cli.commands import dpsim_


def test_compare_finds_a_trace_equal_to_itself(traces: tuple[str, str]) -> None:
    answer = dpsim_("compare", "a.jsonl", "a.jsonl")
    assert (answer.code, answer.err) == (0, "")
    header = read_trace("a.jsonl").header
    first, _, *rest = answer.out.splitlines()
    assert re.fullmatch(rf"equal: {header.records} records, \d+ decisions, 36 collectives", first)
    assert rest[:2] == ["A  a.jsonl", f"   three on sim, held, digest {header.digest[:16]}"]
    found = dpsim_("compare", "a.jsonl", "a.jsonl", "--json").json
    assert (found["equal"], found["difference"], found["collectives"]) == (True, None, 36)
    assert found["a"] == found["b"]
    assert (found["a"]["digest"], found["a"]["records"]) == (header.digest, header.records)


def test_compare_names_the_first_difference(traces: tuple[str, str]) -> None:
    answer = dpsim_("compare", *traces)
    assert answer.code == 1
    assert answer.out.startswith("first difference: rank 1, communicator world_cpu, op 2, in step 2\n")
    assert "B's rank 1 has one all_reduce fewer on world_cpu from step 2 on\n" in answer.out
    assert "B did not finish: ranks 0 to 2 blocked" in answer.out
    assert "   three on sim, violated (HANG:COLLECTIVE:MISSING_RANK), digest " in answer.out
    assert "warning: the scenarios differ in 1 place:\n  faults: A has [], B has [{'kind': 'skip'" in answer.out


def test_compare_prints_the_first_difference_as_json(traces: tuple[str, str]) -> None:
    answer = dpsim_("compare", *traces, "--json")
    assert answer.code == 1
    found = answer.json
    assert list(found) == [
        *("equal", "a", "b", "records", "decisions", "collectives", "scenario_changes", "difference")
    ]
    assert found["difference"]["rank"] == 1
    assert len(found["scenario_changes"]) == 1


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "x: No such file or directory"),
        (b"", "x:1: the file is empty"),
        (b"\x7fELF\x01\x02\n", "x:1: not a trace"),
        (b'{"format":"dpsim-trace","version":9}\n', "x:1: version 9 of the format is unknown"),
    ],
)
def test_compare_refuses_a_file_that_is_no_trace(
    content: bytes | None, said: str, traces: tuple[str, str], tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / "x").write_bytes(content)
    answer = dpsim_("compare", "a.jsonl", "x")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"dpsim: {said}")
    assert answer.err.count("\n") == 1


def test_compare_refuses_a_changed_trace(traces: tuple[str, str]) -> None:
    Path("b.jsonl").write_bytes(Path("a.jsonl").read_bytes().replace(b'"step":3', b'"step":2', 1))
    answer = dpsim_("compare", *traces)
    assert answer.code == 2
    assert answer.err.startswith("dpsim: b.jsonl: the body was changed after it was written")


def test_a_terminal_obeys_nothing_of_a_trace(traces: tuple[str, str]) -> None:
    """The test puts control characters into a trace. The output escapes them, so that a terminal does not
    execute them.
    """
    healthy = dpsim_("compare", *traces).out
    other = Path(traces[1])
    head, _, rest = other.read_text().partition("\n")
    row = json.loads(head)
    row |= {"class": "X\x1b[31m\nequal: all", "observed": "\x1b]0;title\a", "backend": "sim\u202e"}
    row["scenario"]["\x1b[2J"] = 1
    other.write_text(json.dumps(row, separators=(",", ":")) + "\n" + rest)
    answer = dpsim_("compare", *traces)
    assert all(line.isprintable() for line in [*healthy.splitlines(), *answer.out.splitlines()])
    assert "violated (X\\x1b[31m\\nequal: all)" in answer.out
    assert "\\x1b]0;title\\x07" in answer.out
    assert "on sim\\u202e," in answer.out
    assert len(answer.out.splitlines()) >= len(healthy.splitlines())
    assert "\\" not in healthy
