"""Tests of the section of a trace with the step that each rank last set. A rank that hangs before the first op of a
step has no record of the step.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dpsim.checks.finding import Finding
from dpsim.checks.judge import judge
from dpsim.contract.interface import Rank
from dpsim.contract.ops import KIND
from dpsim.contract.world import At, Fault, Run
from dpsim.trace import TraceError, read_trace, write_trace
from tests.programs import run, world_of

SITES = (("a", "b", "c", "d"), ("meet", "load", "serve", "leave"), ("k", "l", "m", "n"))

WORLD = world_of(3, hosts=["h"])


async def rounds(rank: Rank) -> None:
    """Gives each step of each rank its own site, so that no other record shows the next op."""
    for rank.step in range(4):
        await rank.host("h").barrier(site=SITES[rank.rank][rank.step])


@pytest.fixture
def hung() -> Run:
    """Returns a run in which rank 1 hangs between its second step and the first op of its third one."""
    made = run(replace(WORLD, faults=(Fault("hang", 1, At("serve", 0)),)), rounds)
    return replace(made, journals=[[raw for raw in own if raw[KIND] != "injected"] for own in made.journals])


def written(path: Path, made: Run) -> Path:
    write_trace(path, made, scenario={}, verdict="violated", klass=None)
    return path


def stands(found: list[Finding]) -> tuple[int, int]:
    culprit = found[0].culprit
    assert culprit is not None
    return culprit.rank, culprit.step


def test_a_trace_is_judged_as_its_run(tmp_path: Path, hung: Run) -> None:
    trace = read_trace(written(tmp_path / "x", hung))
    again = trace.run()
    assert again.steps_set == hung.steps_set == (2, 2, 2)
    assert stands(judge(WORLD, hung)) == stands(judge(WORLD, again)) == (1, 2)


def test_without_the_section_a_rank_has_the_step_of_its_last_record(tmp_path: Path, hung: Run) -> None:
    """The faulty twin: without the section, as in a trace of an older dpsim, the finding names the step of the last
    record.
    """
    again = read_trace(written(tmp_path / "x", replace(hung, steps_set=()))).run()
    assert again.steps_set == ()
    assert stands(judge(WORLD, again)) == (1, 1)


def test_a_finished_run_has_no_section_of_steps(tmp_path: Path) -> None:
    path = written(tmp_path / "x", run(WORLD, rounds))
    assert b'"section":"steps"' not in path.read_bytes()


@pytest.mark.parametrize("wrong", [b'"1":"2"', b'"1":-2', b'"1":true', b'"9":2', b'"1":2.0'])
def test_other_forms_are_refused(tmp_path: Path, hung: Run, wrong: bytes) -> None:
    path = written(tmp_path / "x", hung)
    path.write_bytes(path.read_bytes().replace(b'{"0":2,"1":2,', b'{"0":2,' + wrong + b","))
    with pytest.raises(TraceError, match="the section 'steps' has a form that"):
        read_trace(path).check()
