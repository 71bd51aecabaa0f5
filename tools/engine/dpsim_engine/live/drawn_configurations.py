"""Draws random configurations: single ones, valid or not, and pairs that differ in one field."""

from __future__ import annotations

from random import Random
from typing import Any, get_args

from dpsim.vllm.config.fields import All2AllBackend
from dpsim.vllm.releases import V0_14
from dpsim_engine.comparison import Row, series

VALUES: dict[str, tuple[Any, ...]] = {
    "tensor_parallel_size": (1, 2, 4, 8),
    "pipeline_parallel_size": (1, 2, 4),
    "data_parallel_size": (1, 2, 4, 8, 16),
    "data_parallel_size_local": (0, 1, 2, 4, 8),
    "data_parallel_rank": (-1, 0, 1, 2, 4, 16),
    "data_parallel_rank_local": (0, 1),
    "data_parallel_backend": ("ray", "mp", "tcp"),
    "data_parallel_external_lb": (True,),
    "data_parallel_hybrid_lb": (True,),
    "data_parallel_master_ip": ("10.0.0.9",),
    "data_parallel_master_port": (31001,),
    "data_parallel_rpc_port": (31000,),
    "is_moe_model": (True, False),
    "enable_expert_parallel": (True, False),
    "enable_eplb": (True,),
    "eplb_config": (
        {"use_async": True},
        {"num_redundant_experts": 2},
        {"num_redundant_experts": -1},
        {"window_size": 10, "step_interval": 50},
        {"log_balancedness": True, "log_balancedness_interval": 0},
    ),
    "expert_placement_strategy": ("linear", "round_robin", "zigzag"),
    "enable_dbo": (True, False),
    "ubatch_size": (0, 1, 2, 3),
    "dbo_decode_token_threshold": (1, 2, 8, 32, 48),
    "dbo_prefill_token_threshold": (1, 4, 128, 512, 640),
    "all2all_backend": (*get_args(All2AllBackend), "bogus"),
    "disable_nccl_for_dp_synchronization": (True, False, None),
    "disable_custom_all_reduce": (True,),
    "distributed_executor_backend": ("mp", "uni", "ray", "external_launcher", "nonsense"),
    "nnodes": (1, 2, 3, 4),
    "node_rank": (0, 1, 3),
    "master_addr": ("10.0.0.9",),
    "max_parallel_loading_workers": (2,),
    "prefill_context_parallel_size": (1, 2),
    "decode_context_parallel_size": (1, 2, 3, 4),
    "cp_kv_cache_interleave_size": (16,),
    "ray_workers_use_nsight": (True,),
    "worker_cls": ("auto", "pkg.Worker"),
    "_api_process_count": (0, 1, 2),
    "_api_process_rank": (-1, 0, 1, 2),
}
"""Valid and invalid values of fields that releases 0.14 and 0.33 have."""

SINCE: dict[str, tuple[Any, ...]] = {
    "dp_sync_interval": (1, 16, 64),
    "elastic_ep_max_dp_size": (1, 4, 32),
    "enable_elastic_ep": (True,),
    "numa_bind": (True,),
    "numa_bind_nodes": ([0], [], [-1]),
}
"""Values of fields that only release 0.33 has."""


def values(release: str) -> dict[str, tuple[Any, ...]]:
    return VALUES if series(release) <= series(V0_14.name) else VALUES | SINCE


def configuration(random: Random, release: str) -> Row:
    """Returns a random question: a single configuration in 60 %, and a pair in 40 % of the cases."""
    table = values(release)
    if random.random() < 0.6:
        return {"kind": "one", "fields": _fields(random, table, random.randint(1, 8))}
    first = _fields(random, table, random.randint(0, 2)) | {"data_parallel_size": 2}
    changed = random.choice(sorted(table))
    return {"kind": "pair", "first": first, "second": {**first, changed: random.choice(table[changed])}}


def _fields(random: Random, table: dict[str, tuple[Any, ...]], count: int) -> Row:
    return {name: random.choice(table[name]) for name in random.sample(sorted(table), count)}
