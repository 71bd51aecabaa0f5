"""For each rule of spec chapter 8.2, two configurations: one meets the rule, and one breaks only that rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from dpsim.vllm.config import (
    Surroundings,
)
from dpsim.vllm.config import parallel as parallel_module
from dpsim.vllm.config import rules as old
from dpsim.vllm.config import rules_033 as new
from dpsim.vllm.config.rules import OfOneField, Rule

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
