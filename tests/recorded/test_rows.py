"""Tests of the rows of a recorded scenario, each of which is one call.

The parser reads back each call that the writer wrote. If a row contains no valid call, the parser raises one error that
explains it.
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from string import ascii_letters, digits
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsim.contract.ops import DTYPES
from dpsim.diagnose.dumps.job import job_of
from dpsim.diagnose.dumps.reading import read_dumps
from dpsim.recorded.importing import imported
from dpsim.recorded.rows import OPS, REDUCTIONS, TRANSFERS, CallRow, parsed
from dpsim.scenario import dump_scenario, parse_scenario, scenario_from
from tests.diagnose.dumps.made import MadeJob
from tests.every_value import TEXTS

ROOTED = ("broadcast", "reduce", "gather", "scatter", *TRANSFERS)


@given(
    st.sampled_from((*OPS, *TRANSFERS)),
    st.text("".join((ascii_letters, digits, "_.[],()-")), min_size=1, max_size=20),
    st.integers(0, 10**9),
    st.sampled_from([*DTYPES]),
    st.sampled_from(("", *REDUCTIONS)),
    st.integers(0, 4095),
    st.booleans(),
    st.sampled_from(("", "train.py:42", "a/b_c.py:7")),
)
def test_a_row_is_read_as_it_was_written(
    op: str, group: str, elements: int, dtype: str, reduction: str, peer: int, is_open: bool, line: str
) -> None:
    row = CallRow(op, group, elements, dtype, reduction, peer if op in ROOTED else -1, is_open, line)
    assert parsed(str(row)) == row


def test_a_step_is_read() -> None:
    assert parsed("step 12") == CallRow("step", step=12)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("all_reduce", "is no call"),
        ("allreduce world 4 float32", "operation 'allreduce' is unknown"),
        ("all_reduce world 4 float", "type 'float' is unknown"),
        ("broadcast world 4 float32", "expected a rank behind root"),
        ("all_reduce world 4 float32 root 1", "expected a rank behind root"),
    ],
)
def test_a_row_that_is_no_call_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parsed(text)


@st.composite
def jobs(draw: st.DrawFn) -> MadeJob:
    """Draws the dumps of three ranks in groups with any names, and calls with any op, size, type and line."""
    names = draw(st.lists(TEXTS | st.sampled_from(["tp", "tp.1", "tp.1.1", "t p", "t_p"]), unique=True, max_size=4))
    job = MadeJob(3, groups={name: range(3) for name in names if name != "default_pg"})
    ops = st.sampled_from([*OPS, "_allgather_base", "ALLTOALL", "other"])
    size = st.integers(0, 10**12 - 1)
    for _ in range(draw(st.integers(1, 3))):
        group, dtype = draw(st.sampled_from([*job.groups])), draw(st.sampled_from(["Float", "Long", "other", ""]))
        job.call(draw(st.sampled_from([[0, 1, 2], [0, 2]])), draw(ops), draw(size), group, 1, dtype)
        job.transfer(0, 1, draw(size), draw(st.sampled_from(["both", "send", "recv"])))
    for entry in chain.from_iterable(job.entries.values()):
        entry["frames"] = [{"name": "f", "filename": draw(TEXTS) or "x", "line": draw(st.integers(0, 2**31))}]
    return job


@settings(max_examples=25)
@given(jobs(), st.sets(st.integers(0, 2), max_size=1))
def test_the_scenario_of_any_job_is_read_as_it_was_written(job: MadeJob, without: set[int]) -> None:
    with TemporaryDirectory() as folder:
        made = imported(job_of(read_dumps(job.write(Path(folder), without))), "hung")
    assert len(made["protocol"]["params"]["groups"]) == len({one["process_group"] for one in entries(job, without)})
    scenario = scenario_from(made)
    assert parse_scenario(dump_scenario(scenario)) == scenario
    for text in chain.from_iterable(made["protocol"]["params"]["calls"]):
        assert str(parsed(text)) == text


def entries(job: MadeJob, without: set[int]) -> list[dict[str, Any]]:
    return [entry for rank, own in job.entries.items() if rank not in without for entry in own]


def test_no_two_groups_have_one_name(tmp_path: Path) -> None:
    """Imports groups whose names without spaces are equal, or equal to the numbered name of another group."""
    names = ["t_p.1", "t_p", "t p", "t_p.1.1", "t_p.2", "té", "tö"]
    job = MadeJob(2, groups=dict.fromkeys(names, range(2)))
    for name in names:
        job.call([0, 1], group=name)
    made = imported(job_of(read_dumps(job.write(tmp_path))), "hung")
    found = made["protocol"]["params"]["groups"]
    assert len(found) == len(names)
    assert "".join(found).isascii(), "a fault names no other communicators"
