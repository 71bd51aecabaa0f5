"""Helpers that explore a program and return its verdict and first finding."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dpsim.campaign.explored import Explored, explore_subject
from dpsim.campaign.subject import Subject
from dpsim.scenario import scenario_from

PROGRAMS = Path(__file__).parent / "programs"


def explored(
    target: str, ranks: int, *, order: str = "gloo", args: Sequence[str] = (), silence: float = 120
) -> Explored:
    """Explores a program of `programs/` with DPOR."""
    params = {"target": str(PROGRAMS / target), "ranks": ranks, "order": order, "args": list(args), "silence": silence}
    scenario = scenario_from({"name": "tested", "torch": params})
    return explore_subject(Subject.of(scenario), "dpor", schedules=200)


def blamed(found: Explored) -> tuple[str, Any, str]:
    """Returns the class, the culprits and the place of the first finding."""
    finding = found.findings[0]
    culprit = finding.culprit
    if culprit is None:
        return finding.klass, (), ""
    return finding.klass, culprit.ranks or (culprit.rank,), culprit.where
