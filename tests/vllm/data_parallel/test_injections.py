"""A planted fault at an agreement that does not exist, because a single rank makes none."""

from __future__ import annotations

from typing import Any

from dpsim.runner import Result, run_scenario
from dpsim.scenario import scenario_from

REQUESTS = [{"arrival": "0ms", "prompt_tokens": 9, "output_tokens": 6}] * 3


def run(ranks: int = 3, **more: Any) -> Result:
    scenario = {
        "name": "t",
        "topology": {"data_parallel_size": ranks},
        "config": {"async_scheduling": True},
        "workload": {"requests": REQUESTS},
        **more,
    }
    return run_scenario(scenario_from(scenario))


def at(site: str, ordinal: int) -> dict[str, Any]:
    return {"site": site, "ordinal": ordinal}


def test_with_one_rank_a_skipped_agreement_does_not_exist() -> None:
    """With one rank, a fault at an agreement never applies, and the report has no number of run tokens."""
    assert not run(ranks=1, faults=[{"kind": "skip", "rank": 0, "at": at("dp.agree", 1)}]).met
    assert "tokens run" not in run(ranks=1).figures, "no count was agreed on, so none is shown"
