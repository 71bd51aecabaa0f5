"""Judges a run as `dpsim.checks.judge` does, with texts in place of the facts of findings, for tests of what users
read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpsim.campaign.explored import Explored
from dpsim.checks import judge as checks
from dpsim.checks.finding import Finding, facts_in
from dpsim.contract.world import Run, World
from dpsim.diagnose.words.told import Told, told


def said(finding: Finding, name: str) -> dict[str, Any]:
    """Returns the values of the facts of one name in a message, so that a test pins no word."""
    message = finding.of.message if isinstance(finding, Told) else finding.message
    return {key: value for one in facts_in(message) if one.name == name for key, value in one.values}


def told_of(explored: Explored) -> list[Told]:
    """Returns the findings of an exploration as text."""
    return [told(one.run, finding) for one in explored.shown[:1] if one.run is not None for finding in one.findings]


def judge(world: World, run: Run, off: Sequence[str] = ()) -> list[Told]:
    """Returns the findings as text; `told.of` has the facts."""
    return [told(run, finding) for finding in checks.judge(world, run, off)]
