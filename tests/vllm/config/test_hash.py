"""Tests the configuration hash of spec chapter 8.4: which fields change it, each alone and in random pairs.

`changed` draws a configuration and gives one field another value. The hashes must differ exactly if all engines need
the same value of that field.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsim.vllm.config import (
    ParallelConfig,
    ParallelConfig033,
    Surroundings,
    Topology,
    compute_hash,
    differing,
    hashed_fields,
)
from dpsim.vllm.config.engine import EngineConfig
from tests import ROOT

Fields = dict[str, Any]

SAME: dict[str, Any] = {
    "data_parallel_rank": [0, 1, 3],
    "data_parallel_rank_local": [None, 0, 1],
    "data_parallel_size_local": [1, 2, 4],
    "data_parallel_backend": ["mp", "ray"],
    "data_parallel_external_lb": [False, True],
    "data_parallel_hybrid_lb": [False, True],
    "data_parallel_master_ip": ["127.0.0.1", "10.0.0.9"],
    "data_parallel_rpc_port": [29550, 31000],
    "data_parallel_master_port": [29500, 31001],
    "_data_parallel_master_port_list": [(), (1, 2, 3), (4, 5)],
    "rank": [0, 5],
    "master_addr": ["127.0.0.1", "10.0.0.9"],
    "master_port": [29501, 31002],
    "node_rank": [0, 1],
    "nnodes": [1, 2],
    "max_parallel_loading_workers": [None, 2],
    "disable_custom_all_reduce": [False, True],
    "ray_workers_use_nsight": [False],
    "ray_runtime_env": [None, {"pip": ["x"]}],
    "placement_group": [None, "mine"],
    "distributed_executor_backend": [None, "mp", "uni"],
    "worker_cls": ["auto", "pkg.Worker"],
    "sd_worker_cls": ["auto", "pkg.Worker"],
    "worker_extension_cls": ["", "pkg.Ext"],
    "_api_process_count": [2, 3],
    "_api_process_rank": [-1, 0, 1],
}
"""Fields that may differ between engines, with values that fit each drawn configuration."""

HASHED: dict[str, Any] = {
    "tensor_parallel_size": [2, 4, 8],
    "pipeline_parallel_size": [1, 2],
    "prefill_context_parallel_size": [1, 2],
    "data_parallel_size": [4, 8],
    "decode_context_parallel_size": [1, 2],
    "dcp_kv_cache_interleave_size": [1, 16],
    "cp_kv_cache_interleave_size": [1, 16],
    "is_moe_model": [None, True, False],
    "enable_expert_parallel": [True],
    "enable_eplb": [False, True],
    "eplb_config": [{}, {"window_size": 5}, {"step_interval": 7}, {"log_balancedness": True}],
    "expert_placement_strategy": ["linear", "round_robin"],
    "all2all_backend": ["allgather_reducescatter", "deepep_low_latency", "deepep_high_throughput"],
    "enable_dbo": [False, True],
    "ubatch_size": [0, 2, 3],
    "dbo_decode_token_threshold": [32, 64],
    "dbo_prefill_token_threshold": [512, 1024],
    "disable_nccl_for_dp_synchronization": [None, False, True],
}

SAME_033: dict[str, Any] = {
    "_coord_store_port": [0, 1234],
    "numa_bind": [True],
    "numa_bind_nodes": [None, (0,), (1,)],
    "numa_bind_cpus": [None, ("0-3",)],
    "assigned_physical_gpu_ids": [None, (1, 0)],
    "enable_shm_tensor_arena": [False, True],
}
HASHED_033: dict[str, Any] = {
    "dp_sync_interval": [16, 32],
    "elastic_ep_max_dp_size": [None],
    "enable_fault_tolerance": [False],
    "distributed_timeout_seconds": [None, 10],
    "cpu_distributed_timeout_seconds": [None, 10],
    "dcp_comm_backend": ["ag_rs"],
    "enable_elastic_ep": [False],
    "fault_tolerance_config": [{}, {"engine_recovery_timeout_sec": 5}],
    "enable_hc_sp": [False, True],
    "enable_batch_sharded_sampling": [None, False, True],
    "enable_ep_weight_filter": [False, True],
    "dcp_q_replicate": [None, False, True],
    "_allow_auto_resolve_cp_interleave_size": [False, True],
}
NOT_033 = {"sd_worker_cls"}
"""Release 0.33 dropped this field. dpsim keeps it for both releases, and neither hash covers it."""

VALUES = {ParallelConfig: (SAME, HASHED), ParallelConfig033: (SAME | SAME_033, HASHED | HASHED_033)}

VALUES_OF = {form: first | second for form, (first, second) in VALUES.items()}

RAY = Surroundings(ray=True)


BASE: Fields = {
    "data_parallel_size": 4,
    "tensor_parallel_size": 2,
    "enable_expert_parallel": True,
    "_api_process_count": 2,
}
BASES: dict[type[ParallelConfig], Fields] = {ParallelConfig: BASE, ParallelConfig033: {**BASE, "numa_bind": True}}
"""With these base fields, all the values above are valid together."""


@st.composite
def changed(draw: st.DrawFn, form: type[ParallelConfig]) -> tuple[Fields, Fields, str]:
    """Draws a configuration, a copy with one changed field and another order of fields, and the name of that field."""
    pairs = [(name, value) for part in VALUES[form] for name, choices in part.items() for value in choices]
    drawn = draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=8))
    field, other = draw(st.sampled_from([pair for pair in pairs if len(VALUES_OF[form][pair[0]]) > 1]))
    fields = {**BASES[form], **dict(drawn)}
    if fields.get(field, object()) == other:
        other = next(value for value in VALUES_OF[form][field] if value != other)
    fields.setdefault(field, next(value for value in VALUES_OF[form][field] if value != other))
    return fields, {field: other, **{name: fields[name] for name in reversed(fields) if name != field}}, field


def hashes(form: type[ParallelConfig], first: Fields, second: Fields) -> tuple[bool, tuple[str, ...]]:
    one, other = (form.model_validate(fields, context=RAY) for fields in (first, second))
    return compute_hash(one) == compute_hash(other), differing(one, other)


def asked(form: type[ParallelConfig]) -> list[str]:
    """Returns the fields with more than one value in the tables above."""
    return [name for name, choices in VALUES_OF[form].items() if len(choices) > 1]


def agrees(form: type[ParallelConfig], first: Fields, second: Fields, field: str) -> bool:
    """Returns whether the hashes and the names of differing fields follow spec chapter 8.4 for the changed field."""
    equal, names = hashes(form, first, second)
    own = {name.partition(".")[0] for name in names}
    follows = {"world_size", "eplb_config", "elastic_ep_max_dp_size"}
    told = own <= {field.lstrip("_"), *follows}  # derived values may differ too
    return equal is (field in VALUES[form][0]) is (not names) and told


@pytest.mark.parametrize("form", VALUES)
def test_each_field_changes_the_hash_exactly_if_engines_must_agree_on_it(form: type[ParallelConfig]) -> None:
    """Invariant I-CF-2: a field that may differ between engines does not change the hash.

    Each other field changes the hash, and `differing` names it.
    """
    for field in asked(form):
        for one, other in combinations(VALUES_OF[form][field], 2):
            first, second = ({**BASES[form], field: value} for value in (one, other))
            assert agrees(form, first, second, field), field


@pytest.mark.slow
@pytest.mark.parametrize("form", VALUES)
def test_random_pairs_of_configurations_hash_by_the_fields_that_matter(form: type[ParallelConfig]) -> None:
    """Invariant I-CF-2 also holds with random values of the other fields."""
    seen: Counter[str] = Counter()

    @settings(max_examples=1000, database=None, derandomize=True, deadline=None)
    @given(changed(form))
    def draw(pair: tuple[Fields, Fields, str]) -> None:
        assert agrees(form, *pair)
        seen[pair[2]] += 1

    draw()
    assert len(seen) > 0.9 * len(asked(form))


@pytest.mark.parametrize("form", VALUES)
def test_every_field_is_hashed_or_not(form: type[ParallelConfig]) -> None:
    """The tables above contain each field, and the form's `not_hashed` equals the table of free fields."""
    free, fixed = ({name.lstrip("_") for name in part} for part in VALUES[form])
    derived = {"world_size", "data_parallel_index"}
    assert free | fixed | derived == set(form.model_fields)
    assert form.not_hashed == free | {"data_parallel_index"}
    assert {name.partition(".")[0] for name in hashed_fields(form())} == fixed | {"world_size"}


@pytest.mark.parametrize("elastic", [False, True])
def test_only_an_elastic_engine_keeps_its_maximal_size(elastic: bool) -> None:
    """In 0.33, an engine that is not elastic replaces `elastic_ep_max_dp_size` by its own data-parallel size.

    A mutant that keeps the given value would make equal engines hash differently.
    """
    fields: Fields = {"data_parallel_size": 2, "enable_expert_parallel": True, "enable_eplb": True}
    fields |= {"enable_elastic_ep": elastic, "eplb_config": {"use_async": False}}
    small, large = fields | {"elastic_ep_max_dp_size": 4}, fields | {"elastic_ep_max_dp_size": 8}
    assert hashes(ParallelConfig033, small, large)[0] is not elastic
    assert hashes(ParallelConfig033, fields, fields | {"elastic_ep_max_dp_size": 2})[0]
    kept = ParallelConfig033.model_validate(small, context=RAY).elastic_ep_max_dp_size
    assert kept == (4 if elastic else 2)


def test_nested_fields_are_named() -> None:
    first, second = ParallelConfig(), ParallelConfig.model_validate({"eplb_config": {"window_size": 5}})
    assert differing(first, second) == ("eplb_config.window_size",)
    assert differing(first, first) == ()
    assert "dp_sync_interval" in differing(ParallelConfig(), ParallelConfig033()), "only the second class has the field"


def test_a_hash_is_the_same_in_every_process() -> None:
    """Invariant I-CF-10: the hash is equal under another PYTHONHASHSEED and with the fields in another order."""
    fields = {"tensor_parallel_size": 2, "enable_dbo": True, "eplb_config": {"window_size": 5, "step_interval": 7}}
    reordered = {name: fields[name] for name in reversed(fields)}
    reordered["eplb_config"] = {"step_interval": 7, "window_size": 5}
    code = (
        "import json, sys; from dpsim.vllm.config import *;"
        "print(compute_hash(ParallelConfig.model_validate(json.loads(sys.argv[1]))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(reordered)],
        cwd=ROOT,
        env={"PYTHONHASHSEED": "12345", "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == compute_hash(ParallelConfig.model_validate(fields))
    assert compute_hash(ParallelConfig()).startswith("8a9062b055841fbc"), "the hash is the same on every machine"


def test_unset_synchronization_is_that_of_async_scheduling() -> None:
    """Spec chapter 8.1: an unset `disable_nccl_for_dp_synchronization` takes the value of async scheduling before
    hashing.
    """
    topology = Topology(data_parallel_size=2)
    on, off = (EngineConfig(async_scheduling=value).parallel_config(topology) for value in (True, False))
    assert (on.disable_nccl_for_dp_synchronization, off.disable_nccl_for_dp_synchronization) == (True, False)
    assert differing(on, off) == ("disable_nccl_for_dp_synchronization",)
    given = EngineConfig(disable_nccl_for_dp_synchronization=True).parallel_config(topology)
    assert compute_hash(given) == compute_hash(on), "async scheduling as such is not covered"


def test_the_hash_does_not_cover_capture_sizes() -> None:
    """The hash does not cover capture sizes, so ranks with different sizes start. Mutant M-CF-14 exploits this gap."""
    topology = Topology(data_parallel_size=2)
    first = EngineConfig(cudagraph_capture_sizes=(1, 2), max_num_seqs=4).parallel_config(topology)
    assert compute_hash(first) == compute_hash(EngineConfig().parallel_config(topology))
