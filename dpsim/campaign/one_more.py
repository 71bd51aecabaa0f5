"""One more: runs the same scenario with one more rank, so that a difference between two ranks gets a majority.

    with_one_more(result)        # "rank 1, step 5, dp.agree at step.py:134", or empty

If two ranks differ, there is no majority, so a finding may have no culprit. A program may offer the same scenario with
one more rank, which does the same as the last one (`Program.one_more`). The simulation makes a timed run of it with the
same faults. If a finding of the same class has a culprit there, the report prints this culprit as well.
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
    """Returns the finding with one more rank; None if it has a culprit, or none in that scenario either."""
    if found.culprit is not None:
        return None
    try:
        more = scenario.one_more()
        if more is None:
            return None
        program, _, prepared = prepare(more, base)
        larger_world = world(more, program, prepared)
        run = SimBackend().run_program(larger_world, program, prepared)
    except (ScenarioError, Unsuitable, Unended):  # the program may refuse this size
        return None
    off = scenario.checks.switched_off
    findings = switch_off(judge(larger_world, run, off), off)[0]
    same = bool(findings) and findings[0].klass == found.klass and findings[0].culprit is not None
    return findings[0] if same else None
