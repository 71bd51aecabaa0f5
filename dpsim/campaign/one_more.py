"""The rank that the same run would blame in a world with one rank more.

    with_one_more(result)        # "rank 1, step 5, dp.agree at step.py:134", or empty

Two ranks that differ have no majority, and then no rank may be blamed. A program may know the same world with one rank
more, which does what the last one does (`Program.one_more`). The simulation runs it in time, with the same faults.
If the same class of finding has a culprit there, a report prints it beside its own finding.
"""

from __future__ import annotations

from pathlib import Path

from dpsim.checks.finding import Finding
from dpsim.checks.judge import judge, switch_off
from dpsim.contract.program import Unsuitable
from dpsim.contract.world import Unended
from dpsim.scenario import Scenario, ScenarioError
from dpsim.scenario.to_world import prepare, world
from dpsim.sim.backend import SimBackend


def with_one_more(scenario: Scenario, found: Finding, base: Path | None = None) -> Finding | None:
    """The same finding in the world with one rank more. None if it has a culprit already, if there is no such world, or
    if that world does not decide either.
    """
    if found.culprit is not None:
        return None
    try:
        more = scenario.one_more()
        if more is None:
            return None
        program, _, prepared = prepare(more, base)
        told = world(more, program, prepared)
        run = SimBackend().run_program(told, program, prepared)
    except (ScenarioError, Unsuitable, Unended):  # a rule of the program's own refuses that size
        return None
    off = scenario.checks.switched_off
    findings = switch_off(judge(told, run, off), off)[0]
    same = bool(findings) and findings[0].klass == found.klass and findings[0].culprit is not None
    return findings[0] if same else None
