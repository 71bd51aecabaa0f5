"""Tests that the first cause leads the report: a death in a mispaired collective, and an exception before a stop.

Each test also switches one rule of the checks off, and then another finding leads.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dpsim.campaign.subject import Subject
from dpsim.checks.blame import roots, waiters
from dpsim.checks.judge import judge
from dpsim.contract.ops import KIND
from dpsim.contract.world import Run, World
from dpsim.explore import search
from dpsim.scenario import load_scenario
from dpsim.scenario.to_world import prepare, world
from dpsim.sim.backend import SimBackend
from tests import ROOT

MISSING, DEAD, CAME_LATE = "HANG:COLLECTIVE:MISSING_RANK", "HANG:COLLECTIVE:DEAD_RANK", "CRASH:NOBODYCAME"


def hung(name: str) -> tuple[World, Run]:
    scenario = load_scenario(ROOT / "scenarios" / "museum" / f"{name}.yaml")
    program, _, prepared = prepare(scenario)
    told = world(scenario, program, prepared)
    return told, SimBackend().run_program(told, program, prepared)


def test_a_death_in_a_mispaired_collective_is_no_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 0 makes two calls where rank 1 makes one of twice the size, and gloo kills rank 0, which receives too much
    data.

    The report must lead with the missing call, not with the death of the process.
    """
    told, made = hung("m-ub-10")
    cut = [own[: max(at for at, raw in enumerate(own) if raw[KIND] == "read") + 1] for own in made.journals]
    died = replace(made, journals=cut, ends=["died", "blocked"], observed="rank 0 died (SIGABRT)")
    assert judge(told, died)[0].klass == MISSING
    monkeypatch.setattr(roots, "_met_another", lambda run_index, actor: False)
    assert judge(told, died)[0].klass == DEAD


@pytest.mark.slow
def test_an_exception_does_not_follow_from_what_stopped_ranks_leave_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine core raises because its peers never arrive, and the front end then stops a worker inside a collective.

    The report must lead with the exception, not with the call that the stopped worker leaves out.
    """
    scenario = load_scenario(ROOT / "scenarios" / "museum" / "m-st-6.yaml")
    subject: Any = Subject.of(scenario, ROOT)
    stopped = 0
    for seed in range(8):
        strategy = search("pos", seed)
        assert strategy.begin()
        made, findings = subject.run(strategy.current)
        assert findings[0].klass == CAME_LATE
        with monkeypatch.context() as patch:
            patch.setattr(waiters, "_ended", lambda run_index, call: False)
            stopped += judge(subject.world, made)[0].klass == MISSING
    assert stopped, "in some schedules a worker was in a collective"
