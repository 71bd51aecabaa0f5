"""Tests the chain of calls that a report shows for a culprit: those of the culprit's step, or of the nearest step with
this op.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

from dpsim.campaign import calls
from dpsim.campaign.calls import with_calls
from dpsim.campaign.explored import explore_subject
from dpsim.campaign.replay import replay
from dpsim.campaign.subject import Subject
from dpsim.checks.finding import Finding
from dpsim.contract.interface import Rank
from dpsim.contract.program import Arguments
from dpsim.contract.registry import register_protocol
from dpsim.contract.world import Run
from dpsim.runner import Result, run_scenario
from dpsim.scenario import scenario_from
from dpsim.trace import read_trace, write_trace
from dpsim.trace.schedule import Schedule
from tests.sized import Sized, SizedProgram


class Steps(Sized):
    """The number of steps, and the step that rank 1 leaves out."""

    steps: int = Field(default=4, ge=1, le=9)
    left_out: int = 9


@register_protocol("t_two_callers")
class TwoCallers(SizedProgram):
    """Steps 0 and 1 warm up, and later steps serve. Both call the same line to agree."""

    Params = Steps

    async def run(self, rank: Rank, prepared: Arguments[Steps]) -> None:
        for rank.step in range(prepared.params.steps):
            if rank.rank == 1 and rank.step == prepared.params.left_out:
                continue
            await (self.warm(rank) if rank.step < 2 else self.serve_one(rank))

    async def warm(self, rank: Rank) -> None:
        await self.agree(rank)

    async def serve_one(self, rank: Rank) -> None:
        await self.agree(rank)

    async def agree(self, rank: Rank) -> None:
        await rank.host("world").barrier(site="agree")


def judged(kind: str, step: int) -> Result:
    faults: list[Any] = [{"kind": kind, "rank": 1, "at": {"site": "agree", "ordinal": step}}]
    params = {"ranks": 3, "left_out": step if kind == "leave out" else 9}
    faults = [] if kind == "leave out" else faults
    protocol = {"name": "t_two_callers", "params": params}
    return run_scenario(scenario_from({"name": "x", "protocol": protocol, "faults": faults}))


def functions(result: Result) -> list[str]:
    assert result.primary is not None
    assert result.primary.culprit is not None
    return [function for function, _ in result.run.chains[result.primary.culprit.where]]


def called(run: Run, findings: Sequence[Finding]) -> list[str]:
    culprit = findings[0].culprit
    assert culprit is not None
    return [function for function, _ in run.chains[culprit.where]][:2]


@pytest.mark.parametrize(("step", "caller"), [(0, "warm"), (1, "warm"), (2, "warm"), (3, "serve_one")])
def test_an_op_that_was_left_out_has_the_calls_of_the_nearest_step(step: int, caller: str) -> None:
    """An op that a rank left out has the calls of the nearest step. Of two equally near steps this is the
    earlier one.
    """
    result = judged("leave out", step)
    with_calls(result)
    assert functions(result) == ["agree", caller, "run"]


@pytest.mark.parametrize(
    ("kind", "step", "caller"), [("die", 1, "warm"), ("die", 3, "serve_one"), ("skip", 2, "serve_one")]
)
def test_an_op_has_its_own_calls(kind: str, step: int, caller: str) -> None:
    """An op has its own calls, even one that a fault skips, because the program still calls it."""
    result = judged(kind, step)
    with_calls(result)
    assert functions(result)[:2] == ["agree", caller]


def test_without_a_second_run_it_is_the_first_caller_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """dpsim runs the program again to find the calls of the culprit's step. Without this second run, the report shows
    the first caller of the line in this process.
    """
    judged("skip", 0)
    assert functions(judged("die", 3))[:2] == ["agree", "warm"]
    monkeypatch.setattr(calls, "LONGEST", 3)
    result = judged("die", 3)
    with_calls(result)
    assert functions(result)[:2] == ["agree", "warm"]


def test_a_failure_of_an_exploration_has_its_own_calls(tmp_path: Path) -> None:
    """A failure of an exploration has its own calls, and so has its replay, from an explored trace and from a timed
    one.
    """
    judged("skip", 0)  # the first caller of this process
    result = judged("die", 3)
    explored = explore_subject(Subject.of(result.scenario), schedules=3)
    [shown, *_] = explored.shown
    assert shown.run is not None
    assert called(shown.run, shown.findings) == ["agree", "serve_one"]
    for schedule in (Schedule("dpor", tuple(shown.schedule)), None):
        run = shown.run if schedule else result.run
        plain = result.scenario.model_dump(mode="json", exclude_unset=True)
        write_trace(tmp_path / "x", run, scenario=plain, verdict="violated", klass=None, schedule=schedule)
        replayed = replay(read_trace(tmp_path / "x"))
        assert called(replayed.run, replayed.findings) == ["agree", "serve_one"]
