"""Tests that dpsim's parallel configuration has the field names of vLLM's, in each release."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from dpsim.vllm.config import ParallelConfig, ParallelConfig033


class Names(NamedTuple):
    """Field names.

    `fields`: of `ParallelConfig`; `eplb`: of `EPLBConfig`; `not_hashed`: those that the hash leaves out.
    """

    fields: str
    eplb: str
    not_hashed: str


ENGINE = {
    "0.14.0": Names(
        fields="""
            _api_process_count _api_process_rank _data_parallel_master_port_list all2all_backend
            cp_kv_cache_interleave_size data_parallel_backend data_parallel_external_lb
            data_parallel_hybrid_lb data_parallel_index data_parallel_master_ip data_parallel_master_port
            data_parallel_rank data_parallel_rank_local data_parallel_rpc_port data_parallel_size
            data_parallel_size_local dbo_decode_token_threshold dbo_prefill_token_threshold
            dcp_kv_cache_interleave_size decode_context_parallel_size disable_custom_all_reduce
            disable_nccl_for_dp_synchronization distributed_executor_backend enable_dbo enable_eplb
            enable_expert_parallel eplb_config expert_placement_strategy is_moe_model master_addr master_port
            max_parallel_loading_workers nnodes node_rank pipeline_parallel_size placement_group
            prefill_context_parallel_size rank ray_runtime_env ray_workers_use_nsight sd_worker_cls
            tensor_parallel_size ubatch_size worker_cls worker_extension_cls world_size
        """,
        eplb="""
            log_balancedness log_balancedness_interval num_redundant_experts policy step_interval use_async
            window_size
        """,
        not_hashed="""
            _api_process_count _api_process_rank _data_parallel_master_port_list data_parallel_backend
            data_parallel_external_lb data_parallel_hybrid_lb data_parallel_index data_parallel_master_ip
            data_parallel_master_port data_parallel_rank data_parallel_rank_local data_parallel_rpc_port
            data_parallel_size_local disable_custom_all_reduce distributed_executor_backend master_addr
            master_port max_parallel_loading_workers nnodes node_rank placement_group rank ray_runtime_env
            ray_workers_use_nsight sd_worker_cls worker_cls worker_extension_cls
        """,
    ),
    "0.33.0": Names(
        fields="""
            _allow_auto_resolve_cp_interleave_size _api_process_count _api_process_rank _coord_store_port
            _data_parallel_master_port_list all2all_backend assigned_physical_gpu_ids
            cp_kv_cache_interleave_size cpu_distributed_timeout_seconds data_parallel_backend
            data_parallel_external_lb data_parallel_hybrid_lb data_parallel_index data_parallel_master_ip
            data_parallel_master_port data_parallel_rank data_parallel_rank_local data_parallel_rpc_port
            data_parallel_size data_parallel_size_local dbo_decode_token_threshold
            dbo_prefill_token_threshold dcp_comm_backend dcp_kv_cache_interleave_size dcp_q_replicate
            decode_context_parallel_size disable_custom_all_reduce disable_nccl_for_dp_synchronization
            distributed_executor_backend distributed_timeout_seconds dp_sync_interval elastic_ep_max_dp_size
            enable_batch_sharded_sampling enable_dbo enable_elastic_ep enable_ep_weight_filter enable_eplb
            enable_expert_parallel enable_fault_tolerance enable_hc_sp enable_shm_tensor_arena eplb_config
            expert_placement_strategy fault_tolerance_config is_moe_model master_addr master_port
            max_parallel_loading_workers nnodes node_rank numa_bind numa_bind_cpus numa_bind_nodes
            pipeline_parallel_size placement_group prefill_context_parallel_size rank ray_runtime_env
            ray_workers_use_nsight tensor_parallel_size ubatch_size worker_cls worker_extension_cls
            world_size
        """,
        eplb="""
            communicator enable_migration_batching log_balancedness log_balancedness_interval
            num_redundant_experts policy step_interval use_async window_size
        """,
        not_hashed="""
            _api_process_count _api_process_rank _coord_store_port _data_parallel_master_port_list
            assigned_physical_gpu_ids data_parallel_backend data_parallel_external_lb data_parallel_hybrid_lb
            data_parallel_index data_parallel_master_ip data_parallel_master_port data_parallel_rank
            data_parallel_rank_local data_parallel_rpc_port data_parallel_size_local
            disable_custom_all_reduce distributed_executor_backend enable_shm_tensor_arena master_addr
            master_port max_parallel_loading_workers nnodes node_rank numa_bind numa_bind_cpus
            numa_bind_nodes placement_group rank ray_runtime_env ray_workers_use_nsight worker_cls
            worker_extension_cls
        """,
    ),
}
"""The names in each release's `vllm/config/parallel.py`."""

OURS = {"0.14.0": ParallelConfig, "0.33.0": ParallelConfig033}
GONE = {"0.14.0": set[str](), "0.33.0": {"sd_worker_cls"}}
"""Fields that a release dropped. dpsim still accepts them, because its class derives from that of the earlier release.
"""
LATER = {"0.14.0": {"communicator", "enable_migration_batching"}, "0.33.0": set[str]()}
"""Fields of `EPLBConfig` that a release lacks; dpsim has one `EPLBConfig` for all releases."""


def spelled(kind: type[ParallelConfig]) -> dict[str, str]:
    """Returns vLLM's name of each of dpsim's fields."""
    return {name: field.alias or name for name, field in kind.model_fields.items()}


@pytest.mark.parametrize("release", ENGINE)
def test_the_fields_are_those_of_the_engine(release: str) -> None:
    engine, kind = ENGINE[release], OURS[release]
    assert set(spelled(kind).values()) - GONE[release] == set(engine.fields.split())
    eplb = set(kind.model_fields["eplb_config"].annotation.model_fields)  # type: ignore[union-attr]
    assert eplb - LATER[release] == set(engine.eplb.split())


@pytest.mark.parametrize("release", ENGINE)
def test_the_hash_leaves_out_what_the_engine_leaves_out(release: str) -> None:
    kind = OURS[release]
    ours = {spelled(kind)[name] for name in kind.not_hashed}
    assert ours - GONE[release] == set(ENGINE[release].not_hashed.split())


def test_the_hash_covers_the_later_fields_of_033() -> None:
    """Spec chapter 8.4: the hash covers these later fields of 0.33, except the engine's arena of shared memory."""
    names = "enable_hc_sp enable_batch_sharded_sampling enable_ep_weight_filter dcp_q_replicate"
    later = {*names.split(), "allow_auto_resolve_cp_interleave_size", "fault_tolerance_config"}
    assert not later & ParallelConfig033.not_hashed
    assert "enable_shm_tensor_arena" in ParallelConfig033.not_hashed
