"""Judges a run as `dpsim.checks.judge` does, with texts in place of the facts of findings, for tests of what users
read.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsim.campaign.explored import Explored
from dpsim.checks import judge as checks
from dpsim.contract.world import Run, World
from dpsim.diagnose.words.told import Told, told


def told_of(explored: Explored) -> list[Told]:
    """Returns the findings of an exploration as text."""
    return [told(one.run, finding) for one in explored.shown[:1] if one.run is not None for finding in one.findings]


def judge(world: World, run: Run, off: Sequence[str] = ()) -> list[Told]:
    """Returns the findings as text; `told.of` has the facts."""
    return [told(run, finding) for finding in checks.judge(world, run, off)]
