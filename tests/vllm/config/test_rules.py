"""Tests each rule of spec chapter 8.2 with two configurations: one meets the rule, and one breaks only that rule.

The two configurations differ in as few fields as possible. A test fails if a form loses a rule or blames another field,
or if no row of the tables exercises a rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest
from pydantic import ValidationError

from dpsim.vllm.config import (
    FORMS,
    EngineConfig,
    ExactNodes,
    ParallelConfig,
    ParallelConfig033,
    PartialConfig,
    Surroundings,
)
from dpsim.vllm.config import parallel as parallel_module
from dpsim.vllm.config import rules as old
from dpsim.vllm.config import rules_033 as new
from dpsim.vllm.config.fields import EPLBConfig
from dpsim.vllm.config.forms import broken_in
from dpsim.vllm.config.rules import Case, OfOneField, Rule
from dpsim.vllm.config.values import ParallelValues
from tests.vllm.config.mutants import every_rule, without

Fields = Mapping[str, Any]

CUDA = Surroundings(devices=8)
EPLB = {"enable_eplb": True, "enable_expert_parallel": True, "tensor_parallel_size": 2}
ELASTIC = {**EPLB, "enable_elastic_ep": True, "eplb_config": {"use_async": False}}
DBO = {"enable_dbo": True}


class Row(NamedTuple):
    """A rule, fields that meet it, the change that breaks it, the field to blame, and the machine.

    `around`: the platform and packages. `breaks_in`: those under which the rule breaks, if it depends on them.
    """

    rule: Rule | OfOneField
    meets: Fields
    breaks: Fields
    blames: str
    around: Surroundings = CUDA
    breaks_in: Surroundings | None = None


BOTH = [
    Row(old.api_rank_below_count, {"_api_process_rank": -1}, {"_api_process_rank": 1}, "_api_process_rank"),
    Row(
        old.local_engines_at_most_all,
        {"data_parallel_size": 2, "data_parallel_size_local": 2},
        {"data_parallel_size_local": 3},
        "data_parallel_size_local",
    ),
    Row(
        old.external_balancer_needs_data_parallelism,
        {"data_parallel_size": 2, "data_parallel_external_lb": True},
        {"data_parallel_size": 1},
        "data_parallel_external_lb",
    ),
    Row(old.eplb_needs_expert_parallelism, EPLB, {"enable_expert_parallel": False}, "enable_expert_parallel"),
    Row(
        old.redundant_experts_need_eplb,
        {**EPLB, "eplb_config": {"num_redundant_experts": 1}},
        {"enable_eplb": False},
        "eplb_config.num_redundant_experts",
    ),
    Row(
        old.launcher_says_the_rank,
        {"distributed_executor_backend": "external_launcher", "data_parallel_size": 2},
        {},
        "distributed_executor_backend",
        Surroundings(environ={"RANK": "1"}),
        CUDA,
    ),
    Row(
        old.rank_within_data_parallel_size,
        {"data_parallel_size": 2, "data_parallel_rank": 1},
        {"data_parallel_rank": 2},
        "data_parallel_rank",
    ),
    Row(
        old.offline_data_parallelism_of_experts,
        {"is_moe_model": True},
        {"is_moe_model": False},
        "is_moe_model",
        Surroundings(environ={"VLLM_DP_SIZE": "2"}),
    ),
    Row(old.enough_devices, {"tensor_parallel_size": 8}, {"tensor_parallel_size": 9}, "distributed_executor_backend"),
    Row(
        old.several_nodes_have_few_executors,
        {"nnodes": 2, "tensor_parallel_size": 2, "distributed_executor_backend": "mp"},
        {"distributed_executor_backend": "pkg.Executor"},
        "distributed_executor_backend",
    ),
    Row(
        old.nsight_needs_ray,
        {"ray_workers_use_nsight": True, "distributed_executor_backend": "ray"},
        {"distributed_executor_backend": "mp"},
        "ray_workers_use_nsight",
        Surroundings(ray=True),
    ),
    Row(
        old.ray_is_installed,
        {"distributed_executor_backend": "ray"},
        {},
        "distributed_executor_backend",
        Surroundings(ray=True),
        CUDA,
    ),
]

SOURCE_003 = [
    *BOTH,
    Row(old.known_all2all_backend, {"all2all_backend": "pplx"}, {"all2all_backend": "nixl_ep"}, "all2all_backend"),
    Row(
        old.known_all2all_backend_around,
        {},
        {},
        "all2all_backend",
        Surroundings(environ={"VLLM_ALL2ALL_BACKEND": "pplx"}),
        Surroundings(environ={"VLLM_ALL2ALL_BACKEND": "nixl_ep"}),
    ),
    Row(old.eplb_on_its_platforms, EPLB, {}, "enable_eplb", Surroundings("rocm"), Surroundings("xpu")),
    Row(old.eplb_needs_ranks, EPLB, {"tensor_parallel_size": 1}, "enable_eplb"),
    Row(
        old.logging_needs_an_interval,
        {"eplb_config": {"log_balancedness": False, "log_balancedness_interval": 0}},
        {"eplb_config": {"log_balancedness": True, "log_balancedness_interval": 0}},
        "eplb_config.log_balancedness_interval",
    ),
]

EXACT = [
    *SOURCE_003,
    Row(
        parallel_module.nodes_hold_whole_replicas,
        {"nnodes": 2, "data_parallel_size": 4, "data_parallel_size_local": 2},
        {"nnodes": 3},
        "nnodes",
    ),
    Row(
        parallel_module.nodes_hold_whole_replicas,
        {"nnodes": 2, "data_parallel_size": 2, "data_parallel_size_local": 1},
        {"data_parallel_size_local": 0},
        "data_parallel_size_local",
    ),
    Row(parallel_module.nodes_hold_whole_replicas, {"nnodes": 2, "tensor_parallel_size": 4}, {"nnodes": 3}, "nnodes"),
]

RELEASE_033 = [
    *BOTH,
    Row(new.eplb_on_its_platforms, EPLB, {}, "enable_eplb", Surroundings("xpu"), Surroundings("cpu")),
    Row(
        new.eplb_needs_ranks,
        {**EPLB, "tensor_parallel_size": 1, "prefill_context_parallel_size": 2},
        {"prefill_context_parallel_size": 1},
        "enable_eplb",
    ),
    Row(
        new.eplb_counts_are_positive,
        {"eplb_config": {"log_balancedness_interval": 1}},
        {"eplb_config": {"log_balancedness_interval": 0}},
        "eplb_config.log_balancedness_interval",
    ),
    Row(new.eplb_counts_are_positive, {}, {"eplb_config": {"window_size": 0}}, "eplb_config.window_size"),
    Row(new.eplb_counts_are_positive, {}, {"eplb_config": {"step_interval": 0}}, "eplb_config.step_interval"),
    Row(new.data_parallel_rank_from_0, {"data_parallel_rank": 0}, {"data_parallel_rank": -1}, "data_parallel_rank"),
    Row(
        new.rpc_port_is_a_port,
        {"data_parallel_rpc_port": 65535},
        {"data_parallel_rpc_port": 65536},
        "data_parallel_rpc_port",
    ),
    Row(
        new.async_eplb_has_no_nccl,
        {"eplb_config": {"use_async": False, "communicator": "pynccl"}},
        {"eplb_config": {"use_async": True, "communicator": "pynccl"}},
        "eplb_config.communicator",
    ),
    Row(
        new.thresholds_fill_all_microbatches,
        {"ubatch_size": 3, "dbo_decode_token_threshold": 3, "dbo_prefill_token_threshold": 3},
        {"dbo_decode_token_threshold": 2},
        "dbo_decode_token_threshold",
    ),
    Row(
        new.thresholds_fill_all_microbatches,
        {"dbo_prefill_token_threshold": 1},
        DBO,
        "dbo_prefill_token_threshold",
    ),
    Row(
        new.decode_context_groups_fit,
        {"tensor_parallel_size": 4, "decode_context_parallel_size": 2},
        {"decode_context_parallel_size": 3},
        "decode_context_parallel_size",
    ),
    Row(
        new.decode_context_groups_fit,
        {"tensor_parallel_size": 4, "prefill_context_parallel_size": 2, "decode_context_parallel_size": 8},
        {"decode_context_parallel_size": 4},
        "decode_context_parallel_size",
    ),
    Row(
        new.decode_exchange_needs_context_parallelism,
        {"tensor_parallel_size": 2, "decode_context_parallel_size": 2, "dcp_comm_backend": "a2a"},
        {"decode_context_parallel_size": 1},
        "dcp_comm_backend",
    ),
    Row(new.elastic_ep_needs_eplb, ELASTIC, {"enable_eplb": False}, "enable_elastic_ep"),
    Row(new.elastic_ep_has_one_stage, ELASTIC, {"pipeline_parallel_size": 2}, "enable_elastic_ep"),
    Row(new.elastic_ep_has_no_hybrid_balancer, ELASTIC, {"data_parallel_hybrid_lb": True}, "enable_elastic_ep"),
    Row(
        new.elastic_ep_moves_experts_over_nixl,
        {**ELASTIC, "eplb_config": {"use_async": True, "communicator": "nixl"}},
        {},
        "eplb_config.use_async",
        Surroundings(nixl=True),
        CUDA,
    ),
    Row(  # blames use_async: pynccl is a default here, and the user did not set it
        new.elastic_ep_moves_experts_over_nixl,
        {**ELASTIC, "eplb_config": {}},
        {},
        "eplb_config.use_async",
        Surroundings(nixl=True),
        CUDA,
    ),
    Row(
        new.elastic_ep_has_room,
        {**ELASTIC, "data_parallel_size": 2, "elastic_ep_max_dp_size": 2},
        {"elastic_ep_max_dp_size": 1},
        "elastic_ep_max_dp_size",
    ),
    Row(
        new.fault_tolerance_has_one_server,
        {"enable_fault_tolerance": True},
        {"_api_process_count": 2},
        "enable_fault_tolerance",
    ),
    Row(
        new.numa_lists_need_binding,
        {"numa_bind": True, "numa_bind_nodes": (0,)},
        {"numa_bind": False},
        "numa_bind_nodes",
    ),
    Row(
        new.numa_nodes_are_numbers,
        {"numa_bind": True, "numa_bind_nodes": (0, 1)},
        {"numa_bind_nodes": (-1,)},
        "numa_bind_nodes",
    ),
    Row(
        new.numa_cpus_are_lists,
        {"numa_bind": True, "numa_bind_cpus": ("0-3", "4,6-7")},
        {"numa_bind_cpus": ("3-0",)},
        "numa_bind_cpus",
    ),
]

TABLES = {"source-003": SOURCE_003, "0.33": RELEASE_033, "exact-nodes": EXACT}
ROWS = [
    pytest.param(FORMS[name], row, id=f"{name}-{row.rule.__name__}") for name, rows in TABLES.items() for row in rows
]


@pytest.mark.parametrize(("form", "row"), ROWS)
def test_one_meets_it_and_one_breaks_only_it(form: type[ParallelConfig], row: Row) -> None:
    assert row.rule in every_rule(form)
    form.model_validate(row.meets, context=row.around)
    fields = {**row.meets, **row.breaks}
    with pytest.raises(ValidationError) as caught:
        form.model_validate(fields, context=row.breaks_in or row.around)
    found = broken_in(caught.value)
    assert [one.field for one in found] == [row.blames]
    (value,) = [one.value for one in found if one.field == row.blames][:1]
    for word in (row.blames, repr(value), "expected"):
        assert word in str(caught.value), "a message names field, value and rule"
    weaker = without(form, row.rule)
    weaker.model_validate(fields, context=row.breaks_in or row.around)


@pytest.mark.parametrize("name", FORMS)
def test_the_table_asks_for_every_rule(name: str) -> None:
    asked = {row.rule for row in TABLES[name]} | {old.async_eplb_has_one_policy}  # the type allows one policy only
    assert asked == set(every_rule(FORMS[name]))
    eplb = EPLBConfig.model_construct(policy="mine", use_async=True)
    broken = old.async_eplb_has_one_policy(Case.of(ParallelValues.model_construct(eplb_config=eplb)))
    assert broken is not None
    assert str(broken).startswith("eplb_config.policy: 'mine'; expected 'default'")
    healthy = EPLBConfig.model_construct(policy="mine", use_async=False)
    assert old.async_eplb_has_one_policy(Case.of(ParallelValues.model_construct(eplb_config=healthy))) is None


def test_what_source_003_accepts_is_accepted() -> None:
    """Source page 003, which release 0.14 contains, accepts configurations that newer rules of release 0.33 refuse."""
    for fields in (
        {"enable_dbo": True, "dbo_decode_token_threshold": 1},
        {"tensor_parallel_size": 4, "decode_context_parallel_size": 3},
        {"data_parallel_rank": -1},
        {"data_parallel_rpc_port": 0},
        {"eplb_config": {"window_size": 0}},
    ):
        ParallelConfig.model_validate(fields)
        with pytest.raises(ValidationError):
            ParallelConfig033.model_validate(fields)


def test_types_refuse_values_that_no_release_takes() -> None:
    for fields in (
        {"tensor_parallel_size": 0},
        {"data_parallel_size_local": -1},
        {"nnodes": 0},
        {"_api_process_count": 0},
        {"_api_process_rank": -2},
        {"eplb_config": {"num_redundant_experts": -1}},
        {"all2all_backend": "bogus"},
        {"data_parallel_backend": "tcp"},
        {"expert_placement_strategy": "zigzag"},
        {"enable_elastic_ep": True},
        {"no_such_field": 1},
    ):
        with pytest.raises(ValidationError, match=next(iter(fields))):
            ParallelConfig.model_validate(fields)


def test_all_broken_rules_are_named_at_once() -> None:
    with pytest.raises(ValidationError) as caught:
        ParallelConfig.model_validate({"data_parallel_size_local": 2, "_api_process_rank": 1, "enable_eplb": True})
    fields = {found.field for found in broken_in(caught.value)}
    assert fields == {"data_parallel_size_local", "_api_process_rank", "enable_expert_parallel", "enable_eplb"}


def test_the_healthy_twin_refuses_what_source_003_miscounts() -> None:
    """Mutant M-CF-11: source page 003 rounds nodes down to 0, and divides by zero later.

    `ExactNodes` refuses such fields.
    """
    for fields in (
        {"nnodes": 2, "data_parallel_size": 16},
        {"nnodes": 4, "data_parallel_size": 2, "data_parallel_size_local": 0},
    ):
        config = ParallelConfig.model_validate(fields)
        with pytest.raises(ZeroDivisionError):
            _ = config.local_world_size
        with pytest.raises(ValidationError, match="expected"):
            ExactNodes.model_validate(fields)
    assert ParallelConfig(nnodes=2, data_parallel_size=16).nnodes_within_dp == 0
    with pytest.raises(ValueError, match="nnodes: 2; expected a multiple of 16"):
        _ = ParallelConfig033(nnodes=2, data_parallel_size=16).nnodes_within_dp
    external = ParallelConfig033(nnodes=2, data_parallel_size=16, data_parallel_external_lb=True)
    assert external.nnodes_within_dp == 1


@pytest.mark.parametrize("model", [EngineConfig, PartialConfig])
def test_scalars_are_strict(model: type[EngineConfig]) -> None:
    """A flag accepts only a boolean, and a number only an integer: not a boolean, a word or a fraction."""
    wrong = {bool: ("yes", 1), int: (True, "1", 1.0)}
    for name, field in model.model_fields.items():
        for kind, values in wrong.items():
            if type(field.default) is kind or field.annotation == kind | None:
                for value in values:
                    with pytest.raises(ValidationError, match=r"valid (boolean|integer)"):
                        model.model_validate({field.alias or name: value})
    for value in (True, "1", 1.0):
        with pytest.raises(ValidationError):
            model.model_validate({"cudagraph_capture_sizes": [value]})


@pytest.mark.parametrize(
    ("name", "value"),
    [("data_parallel_rank", -1), ("numa_bind_nodes", (-1,)), ("eplb_config", {"log_balancedness_interval": 0})],
)
def test_0_33_names_a_rule_of_one_field_beside_a_wrong_word(name: str, value: Any) -> None:
    """Release 0.33 reports a broken rule of one field together with a wrong value of another field.

    A form without the rule reports the wrong value only.
    """
    form = FORMS["0.33"]
    fields = {name: value, "expert_placement_strategy": "zigzag"}

    def named(one: Any) -> set[str]:
        with pytest.raises(ValidationError) as caught:
            one.model_validate(fields, context=CUDA)
        return {broken.field.partition(".")[0] for broken in broken_in(caught.value)}

    assert named(form) == {name, "expert_placement_strategy"}
    assert named(without(form, new.OF_ONE_FIELD[name])) == {"expert_placement_strategy"}
