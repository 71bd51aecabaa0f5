"""Tests of a `dp_batch` rank that has another flag than its peers: it decides otherwise, and the checks find this.

At start-up, an engine refuses flags that differ, if the configuration hash covers them. Here no rank compares hashes,
so the run shows the effect of the flag. A flag that the hash leaves out does not even change the journals (invariant
I-CF-1).
"""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.diagnose.words import text
from dpsim.runner import Result, run_scenario
from dpsim.scenario import Scenario, ScenarioError, scenario_from
from dpsim.vllm.config import compute_hash

LONG = {"prompt_tokens": 600, "output_tokens": 2}
SHORT = {"prompt_tokens": 3, "output_tokens": 4}


def made(own: dict[str, Any], requests: list[Any], **config: Any) -> Scenario:
    """Returns a scenario of two ranks. `own` has the fields of rank 1 that differ from `config`."""
    return scenario_from(
        {
            "name": "other-flag",
            "topology": {"data_parallel_size": 2},
            "config": config,
            "config_by_rank": {1: own} if own else {},
            "workload": {"requests": requests},
        }
    )


def ran(own: dict[str, Any], requests: list[Any], **config: Any) -> Result:
    return run_scenario(made(own, requests, **config))


def hashes_differ(scenario: Scenario) -> bool:
    """Returns whether the configuration hashes of the ranks differ, so that an engine would refuse to start."""
    ranks = range(scenario.topology.data_parallel_size)
    configs = [scenario.config_of(rank).parallel_config(scenario.topology, data_parallel_rank=rank) for rank in ranks]
    return len(set(map(compute_hash, configs))) > 1


NO_GRAPHS = {"cudagraph_mode": "NONE"}

FOUND: list[tuple[dict[str, Any], list[Any], dict[str, Any], str, bool]] = [
    ({"disable_nccl_for_dp_synchronization": True}, [SHORT] * 2, NO_GRAPHS, "HANG:COLLECTIVE", True),  # mutant M-CF-2
    ({"async_scheduling": True}, [SHORT] * 2, NO_GRAPHS, "HANG:COLLECTIVE", True),  # async scheduling selects gloo, too
    ({"enable_dbo": False, "ubatch_size": 3}, [LONG] * 2, {**NO_GRAPHS, "enable_dbo": True}, "HANG:COLLECTIVE", True),
    ({"cudagraph_capture_sizes": [3, 7]}, [SHORT] * 4, {"cudagraph_capture_sizes": [1, 2, 4]}, "CRASH", False),
    ({"cudagraph_mode": "FULL_DECODE_ONLY"}, [SHORT] * 2, {"cudagraph_mode": "PIECEWISE"}, "CRASH", False),
]


@pytest.mark.parametrize(("own", "requests", "config", "klass", "hashed"), FOUND)
def test_another_flag_is_found(
    own: dict[str, Any], requests: list[Any], config: dict[str, Any], klass: str, hashed: bool
) -> None:
    """A flag that differs on one rank breaks the run, and the finding of a hang names the flag. `hashed`: the hash
    covers it.
    """
    result = ran(own, requests, **config)
    assert result.primary is not None
    if not klass.startswith("CRASH"):
        assert f"; rank 1 alone has {next(iter(own))} " in text(result.primary.message)
    assert result.primary.klass.startswith(klass)
    assert ran({}, requests, **config).verdict == "held"
    assert hashes_differ(result.scenario) is hashed, "graph modes and sizes are not covered"


@pytest.mark.parametrize(
    "own",
    [
        {"node_rank": 1, "nnodes": 2, "master_addr": "10.0.0.9"},
        {"data_parallel_rank": 1, "data_parallel_size_local": 2},
        {"worker_cls": "pkg.Worker", "max_parallel_loading_workers": 2, "rank": 1},
        {"_api_process_count": 2},
    ],
)
def test_flags_that_may_differ_change_nothing(own: dict[str, Any]) -> None:
    """Flags that the hash leaves out change nothing: every rank makes the same calls (invariant I-CF-1)."""
    config = {**NO_GRAPHS, "enable_dbo": True, "dbo_decode_token_threshold": 2}
    other, plain = ran(own, [SHORT] * 4, **config), ran({}, [SHORT] * 4, **config)
    assert not hashes_differ(other.scenario)
    assert other.verdict == "held"
    assert other.run.journals == plain.run.journals


def test_a_threshold_is_asked_on_every_rank() -> None:
    """Ranks may have different split thresholds: one rank that does not wish to split forbids it for all.

    No check reports a finding.
    """
    config = {**NO_GRAPHS, "enable_dbo": True, "dbo_decode_token_threshold": 2}
    assert ran({}, [SHORT] * 4, **config).figures["microbatched steps"] > 0
    other = ran({"dbo_decode_token_threshold": 32}, [SHORT] * 4, **config)
    assert (other.verdict, other.figures["microbatched steps"]) == ("held", 0)


def test_limits_of_a_scheduler_are_those_of_its_replica() -> None:
    """A rank may have another `max_num_seqs`, because each rank has its own scheduler."""
    other = ran({"max_num_seqs": 1}, [SHORT] * 4, **NO_GRAPHS)
    assert other.verdict == "held"
    assert other.steps > ran({}, [SHORT] * 4, **NO_GRAPHS).steps


def test_every_configuration_has_to_suit_the_protocol() -> None:
    """A configuration of one rank that the protocol cannot model is refused, as that of all ranks is."""
    for own, said in (
        ({"num_gpu_blocks_override": 4}, "dp_batch models no limit of the KV cache"),
        ({"capture_graphs": True}, "capture_graphs must be equal on all ranks"),
    ):
        with pytest.raises(ScenarioError, match=said):
            ran(own, [SHORT])
    with pytest.raises(ScenarioError, match="microbatches are not captured; remove enable_dbo"):
        ran({"enable_dbo": True}, [SHORT], capture_graphs=True)


def test_a_protocol_that_takes_no_notice_refuses() -> None:
    """A program whose ranks share one configuration refuses `config_by_rank`."""
    scenario = made({"enable_dbo": True}, [SHORT])
    told = scenario.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    pipeline = {**told, "config_by_rank": {1: {"enable_dbo": True}}, "protocol": "pp_tokens"}
    pipeline["topology"] = {"pipeline_parallel_size": 2}
    with pytest.raises(ScenarioError, match="config_by_rank: PipelineTokens gives all ranks the same config"):
        run_scenario(scenario_from(pipeline))
