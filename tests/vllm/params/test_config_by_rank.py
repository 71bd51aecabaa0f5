"""Tests settings of single ranks: they override the settings of all, survive a dump, and reach the program."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from dpsim.scenario import Scenario, dump_scenario, parse_scenario, scenario_from
from dpsim.vllm.config import EngineConfig, PartialConfig
from dpsim.vllm.params.arguments import EngineArguments
from dpsim.vllm.params.small import scope, small_scenarios

REQUEST = {"prompt_tokens": 4, "output_tokens": 2}


def made(by_rank: dict[int, Any], **config: Any) -> Scenario:
    sections = {"config": config, "config_by_rank": by_rank, "workload": {"requests": [REQUEST]}}
    return scenario_from({"name": "made", "topology": {"data_parallel_size": 2}, **sections})


def test_a_ranks_settings_override_those_of_all_ranks() -> None:
    scenario = made({1: {"enable_dbo": False, "max_num_batched_tokens": 64, "max_num_seqs": 4}}, enable_dbo=True)
    assert scenario.config_of(0) == scenario.config
    own = scenario.config_of(1)
    assert (own.enable_dbo, own.max_num_batched_tokens, own.max_num_seqs) == (False, 64, 4)
    assert type(own) is EngineConfig
    assert own.model_copy(update={"enable_dbo": True, "max_num_batched_tokens": 8192, "max_num_seqs": 128}) == (
        scenario.config
    )


def test_a_ranks_setting_that_equals_the_default_still_counts() -> None:
    """A rank's setting that equals the default still overrides the setting of all ranks.

    The mutant leaves defaults out of a dump, as for other sections, and so loses the setting.
    """
    scenario = made({1: {"enable_dbo": False}}, enable_dbo=True)
    assert not scenario.config_of(1).enable_dbo
    again = parse_scenario(dump_scenario(scenario))
    assert again == scenario
    assert not again.config_of(1).enable_dbo
    assert "  1: {enable_dbo: false}" in dump_scenario(scenario)
    assert scenario.config_by_rank[1].model_dump(exclude_defaults=True) == {"enable_dbo": False}


def test_names_with_an_underscore_are_written_and_read() -> None:
    scenario = made({0: {"_api_process_rank": -1}}, _api_process_count=2)
    assert parse_scenario(dump_scenario(scenario)) == scenario
    assert (scenario.config_of(0).api_process_rank, scenario.config_of(0).api_process_count) == (-1, 2)


def test_the_program_receives_the_settings_of_each_rank() -> None:
    own = {"enable_dbo": False, "eplb_config": {"window_size": 5}, "cudagraph_capture_sizes": [1]}
    scenario = made({1: own}, enable_dbo=True)
    args = scenario.arguments()
    assert args.config_of(0) == args.config
    for rank in (0, 1):
        assert EngineConfig.model_validate(args.config_of(rank)) == scenario.config_of(rank)
    assert set(args.config_by_rank[1]) == set(own)
    assert json.loads(json.dumps(asdict(args)))["config_by_rank"]["1"]["enable_dbo"] is False


def test_arguments_without_any_are_as_before() -> None:
    args = EngineArguments({}, {"enable_dbo": True}, (), 1, form="default")
    assert args.config_of(3) == {"enable_dbo": True}


def test_small_worlds_leave_out_ranks_that_they_lack() -> None:
    scenario = made({1: {"enable_dbo": True}})
    own = {
        (small.topology.data_parallel_size, tuple(small.config_by_rank))
        for small in small_scenarios(scenario, scope("ranks=2,steps=1,prompt=1,output=1"))
    }
    assert own == {(1, ()), (2, (1,))}


def test_parts_need_not_fit_alone() -> None:
    """A rank's settings are validated together with those of all ranks: 4 batched tokens fit 2 requests, not 128."""
    assert PartialConfig(max_num_batched_tokens=4).over(EngineConfig(max_num_seqs=2)).max_num_batched_tokens == 4
