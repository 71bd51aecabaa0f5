"""Twelve kinds of trouble. A file in `reports/` keeps the first screen of each, which an engineer reads first.

python -m tests.vllm.blame.kinds        # rewrites the files; review the difference before you commit it
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dpsim.campaign.alternatives import of_result
from dpsim.diagnose.report import report
from dpsim.diagnose.variants import extras_of
from dpsim.runner import run_scenario
from dpsim.scenario import Scenario, load_scenario, scenario_from
from tests import ROOT

Data = dict[str, Any]

REQUESTS = [{"arrival": "0ms", "prompt_tokens": 3, "output_tokens": 8} for _ in range(4)]
AGREES: Data = {
    "protocol": {"name": "dp_batch"},
    "topology": {"data_parallel_size": 4},
    "config": {"async_scheduling": True},
    "workload": {"requests": REQUESTS},
}
STAGES: Data = {
    "protocol": {"name": "pp_tokens"},
    "topology": {"pipeline_parallel_size": 3},
    "config": {"max_num_seqs": 2, "async_scheduling": True},
    "workload": {"requests": REQUESTS},
}


def _fault(world: Data, kind: str, site: str, ordinal: int, **change: Any) -> Data:
    at = {"site": site, "ordinal": ordinal}
    return {**world, "faults": [{"kind": kind, "rank": 1, "at": at, **change}]}


KINDS: dict[str, Data | str] = {
    "skip": _fault(AGREES, "skip", "dp.agree", 5),
    "repeat": _fault(AGREES, "repeat", "dp.agree", 3),
    "count": _fault(AGREES, "alter", "experts.combine", 2, change={"count": 9}),
    "die": _fault(AGREES, "die", "dp.agree", 2),
    "hang": _fault(AGREES, "hang", "experts.combine", 2),
    "transfer_left_out": _fault(STAGES, "skip", "hidden.send", 2),
    "order": "m-dp-9",
    "race": "m-bt-10",
    "stale_token": "m-pp-15",
    "baton_lost": "m-bt-6",
    "graph_replay": "m-cg-15-replay",
    "wave_lost": "wave-rearm-paused",
}
"""For each kind: a world with a planted fault, or the name of an exhibit of the museum."""

FOLDER = Path(__file__).parent / "reports"


def scenario_of(kind: str) -> Scenario:
    """Returns the scenario of a kind."""
    world = KINDS[kind]
    if isinstance(world, str):
        return load_scenario(ROOT / "scenarios" / "museum" / f"{world}.yaml")
    return scenario_from({"name": kind, **world})


def report_of(kind: str) -> str:
    """Runs the scenario of a kind and returns its first screen, as its file contains it."""
    scenario = scenario_of(kind)
    result = run_scenario(scenario)
    folder = "" if scenario.protocol.variant is None else "museum/"
    extras = extras_of(scenario.protocol.variant, f"dpsim run {folder}{scenario.name} --full")
    return report(result.run, result.findings, of_result(extras, result)) + "\n"


def file_of(kind: str) -> Path:
    """Returns the file with the report of a kind."""
    return FOLDER / f"{kind}.txt"


if __name__ == "__main__":
    for each in KINDS:
        file_of(each).write_text(report_of(each))
