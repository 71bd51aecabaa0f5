"""The rows of scenario files: one run of each (`dpsim run --json`), and a short exploration of each.

The exploration ends after SCHEDULES schedules. That many show the failures of most exhibits of the museum, and the
snapshot compares what a search finds, not how long it searches.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dpsim.campaign.deepening import explore_each
from dpsim.campaign.files import Options, Outcome
from dpsim.checks.finding import Finding
from dpsim.cli.explore_text import as_json
from dpsim.scenario import load_scenario
from dpsim.trace import digest
from tests import ROOT
from tests.cli.commands import dpsim_
from tests.snapshot.row import Found

SCENARIOS = ROOT / "scenarios"
SCHEDULES = 6

LONG = ("dp2_overlap", "whole_engine", "whole_engine_dp_v2", "whole_engine_split")
"""Files whose exploration takes as long as a part may. Their runs have rows."""


def written(museum: bool) -> list[str]:
    """Returns the names of the scenario files of the museum, or of all others."""
    names = [file.relative_to(SCENARIOS).with_suffix("").as_posix() for file in SCENARIOS.rglob("*.yaml")]
    return sorted(name for name in names if name.startswith("museum/") == museum)


def explored() -> list[str]:
    """Returns the names of the files outside of the museum that are explored."""
    return [name for name in written(False) if name not in LONG]


def run(name: str) -> Found:
    """Runs a scenario file once, with the command."""
    return run_file(Path("scenarios") / f"{name}.yaml")


def run_file(file: Path) -> Found:
    found = dpsim_("run", file, "--json", "--no-results").json
    return Found(found, str(found.pop("digest") or ""))


def explore(name: str) -> Found:
    """Explores some schedules of a scenario file."""
    file = SCENARIOS / f"{name}.yaml"
    with tempfile.TemporaryDirectory() as folder:
        options = Options(schedules=SCHEDULES, folder=Path(folder))
        [outcome] = explore_each([(load_scenario(file), file.parent)], options)
        return of_outcome(outcome)


def of_outcome(outcome: Outcome) -> Found:
    """Returns the object of an exploration, with its culprit as values, and the digest of the run that fails first."""
    explored = outcome.explored
    shown = explored.shown[0].run if explored.shown else None
    found = as_json(explored, outcome.scenario, outcome.traces)
    return Found(found, "" if shown is None else digest(shown.journals), culprit_of(explored.findings))


def culprit_of(findings: Sequence[Finding]) -> dict[str, Any] | None:
    """Returns the culprit of the primary finding as values."""
    culprit = findings[0].culprit if findings else None
    if culprit is None:
        return None
    return {
        "ranks": culprit.ranks or [culprit.rank],
        "step": culprit.step,
        "site": culprit.site,
        "where": culprit.where,
    }
