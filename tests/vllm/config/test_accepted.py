"""Tests that valid but unusual configurations are accepted, and that a scenario assumes the packages that its flags
need.
"""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from dpsim.vllm.config import FORMS, EngineConfig, Surroundings, Topology, broken_rules
from dpsim.vllm.graphs.sizes import Ladder017, Ladder033


def test_a_configuration_that_breaks_no_rule_is_accepted() -> None:
    """Accepts an interleave that does not divide a block, and an empty list of capture sizes.

    The list is also empty if `max_num_batched_tokens` excludes all explicit sizes.
    """
    for release in FORMS:
        fields = {"cp_kv_cache_interleave_size": 7, "block_size": 16, "cudagraph_capture_sizes": ()}
        config = EngineConfig.model_validate({**fields, "parallel_rules": release})
        assert broken_rules(config, Topology(data_parallel_size=2)) == []
        assert [ladder().sizes(config) for ladder in (Ladder017, Ladder033)] == [(), ()]
    dropped = EngineConfig(cudagraph_capture_sizes=(600,), max_num_seqs=4, max_num_batched_tokens=128)
    assert [ladder().sizes(dropped) for ladder in (Ladder017, Ladder033)] == [(), ()]


def test_a_scenario_has_the_packages_that_its_configuration_asks_for() -> None:
    """A scenario with a NIXL communicator is valid on a machine without NIXL, because dpsim assumes the package.

    The faulty twin validates against a machine without NIXL, and the rule on `use_async` refuses the configuration.
    """
    flags = dict.fromkeys(("enable_elastic_ep", "enable_eplb", "enable_expert_parallel"), True)
    own = {"use_async": True, "communicator": "nixl"}
    config = EngineConfig.model_validate({**flags, "eplb_config": own, "parallel_rules": "0.33"})
    topology = Topology(tensor_parallel_size=2)
    assert broken_rules(config, topology) == []
    with pytest.raises(ValidationError, match="use_async"):
        config.parallel_config(topology, Surroundings(ray=True))
