"""Random scenarios of pipelines, drawn as a user draws them, with delays, and run through the runner."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import Phase, find, settings
from hypothesis import strategies as st

from dpsim.checks import matches
from dpsim.runner import run_scenario
from dpsim.scenario import Scenario
from dpsim.vllm.params.strategies import pipeline_configs, pipelines, scenarios, workloads
from tests.properties import breaks, holds

SHRINK = settings(max_examples=500, database=None, derandomize=True, phases=[Phase.generate, Phase.shrink])
SITES = ["hidden.send", "size.receive", "tokens.send", "tokens.receive", "layers"]


def drawn(variant: str | None = None, **changed: Any) -> st.SearchStrategy[Scenario]:
    return scenarios(
        protocol="pp_tokens",
        form=None if variant is None else "source-002",
        variant=variant,
        topology=changed.get("topology", pipelines(max_replicas=2)),
        config=pipeline_configs(),
        workload=workloads(max_requests=changed.get("requests", 4), force_eager=False),
        max_faults=0,
        sites=SITES,
    )


def tokens_are_right(scenario: Scenario) -> None:
    result = run_scenario(scenario)
    assert result.verdict == "held", f"{result.findings[0].klass}: {result.findings[0].message}"


def test_random_pipelines_hold_with_any_delays() -> None:
    holds(tokens_are_right, drawn(), examples=25)


@pytest.mark.parametrize(
    ("variant", "says"), [("M-PP-2", "CRASH:WRONG"), ("M-PS-8-deep", "RACE:BUFFER"), ("M-PS-7", "HANG")]
)
def test_random_pipelines_find_each_variant(variant: str, says: str) -> None:
    breaks(tokens_are_right, drawn(variant, requests=3), says)


def test_a_failing_pipeline_shrinks_to_one_slot_and_one_request() -> None:
    """Hypothesis shrinks a failing scenario to one slot and one request, without drafts, delays or a limit of
    blocks.
    """

    def wrong(scenario: Scenario) -> bool:
        primary = run_scenario(scenario).primary
        return primary is not None and matches(primary.klass, "CRASH:WRONG*")

    found = find(drawn("M-PP-2", requests=3, topology=pipelines()), wrong, settings=SHRINK)
    assert (found.config.max_num_seqs, found.config.num_speculative_tokens, found.delays) == (1, 0, ())
    assert found.config.num_gpu_blocks_override is None
    assert found.topology.world_size == 2
    assert len(found.workload.requests or ()) == 1
