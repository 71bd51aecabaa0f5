"""Tests the values that a configuration derives from the environment, the platform and its fields (spec chapters 8.0,
8.1).
"""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from pydantic import ValidationError

from dpsim.vllm.config import (
    ExactNodes,
    ParallelConfig,
    ParallelConfig033,
    Surroundings,
    sync_kv_cache_memory_size,
)
from dpsim.vllm.config.kv_memory import LARGEST, offer, reduced

EIGHT = Surroundings(devices=8)


def made(around: Surroundings = EIGHT, form: type[ParallelConfig] = ParallelConfig, **fields: Any) -> ParallelConfig:
    return form.model_validate(fields, context=around)


# ---- offline SPMD


def test_the_environment_gives_data_parallelism_that_the_user_does_not() -> None:
    environ = {"VLLM_DP_SIZE": "4", "VLLM_DP_RANK": "2", "VLLM_DP_MASTER_IP": "10.0.0.9", "VLLM_DP_MASTER_PORT": "7"}
    config = made(Surroundings(environ=environ), data_parallel_rank=9, data_parallel_master_port=1)
    assert (config.data_parallel_size, config.data_parallel_rank, config.data_parallel_rank_local) == (4, 2, 2)
    assert (config.data_parallel_master_ip, config.data_parallel_master_port) == ("10.0.0.9", 7)
    assert config.data_parallel_index == 2
    local = made(Surroundings(environ={**environ, "VLLM_DP_RANK_LOCAL": "0"}))
    assert local.data_parallel_rank_local == 0
    assert made().data_parallel_master_port == 0, "the environment overwrites fields that the user gives as well"


@pytest.mark.parametrize(
    "fields", [{"data_parallel_size": 2}, {"data_parallel_size": 1, "data_parallel_size_local": 0}]
)
def test_given_data_parallelism_does_not_ask_the_environment(fields: dict[str, Any]) -> None:
    config = made(Surroundings(environ={"VLLM_DP_SIZE": "8", "VLLM_DP_RANK": "7"}), **fields)
    assert (config.data_parallel_size, config.data_parallel_rank) == (fields["data_parallel_size"], 0)


def test_a_variable_that_is_no_number_is_named() -> None:
    with pytest.raises(ValidationError, match="VLLM_DP_SIZE is 'four'; expected a whole number"):
        made(Surroundings(environ={"VLLM_DP_SIZE": "four"}))


def test_the_environment_overrides_the_all_to_all_backend_until_033() -> None:
    around = Surroundings(environ={"VLLM_ALL2ALL_BACKEND": "pplx"})
    assert made(around, all2all_backend="naive").all2all_backend == "pplx"
    assert made(around, ParallelConfig033, all2all_backend="nixl_ep").all2all_backend == "nixl_ep"


# ---- the external launcher


class WithoutD(ParallelConfig):
    """Mutant M-CF-10: the world size is that of one replica, without the data-parallel size."""

    def _ranks(self) -> int:
        return self.workers


def launched(form: type[ParallelConfig], size: int = 2, workers: int = 4) -> list[ParallelConfig]:
    """Returns one configuration for each rank that an external launcher starts."""
    fields: dict[str, Any] = {"data_parallel_size": size, "tensor_parallel_size": workers}
    fields |= {"distributed_executor_backend": "external_launcher"}
    ranks = range(size * workers)
    return [made(Surroundings(environ={"RANK": str(rank)}), form, **fields) for rank in ranks]


def test_the_launchers_rank_says_the_replica() -> None:
    """Invariant I-CF-4: a worker's rank is its replica times the workers of a replica, plus its local rank."""
    configs = launched(ParallelConfig)
    assert [config.data_parallel_rank for config in configs] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert {config.world_size for config in configs} == {8}
    with pytest.raises(ValidationError, match=r"data_parallel_rank: 2; expected 0 to 1"):
        launched(WithoutD)


# ---- the executor

ONE = {"tensor_parallel_size": 1}
TWO = {"tensor_parallel_size": 2}
RAY = Surroundings(ray=True)


@pytest.mark.parametrize(
    ("around", "fields", "executor"),
    [
        (EIGHT, ONE, "uni"),
        (EIGHT, TWO, "mp"),
        (Surroundings("tpu", environ={"VLLM_XLA_USE_SPMD": "1"}), TWO, "uni"),
        (Surroundings("tpu", environ={"VLLM_XLA_USE_SPMD": "0"}), TWO, "mp"),
        (EIGHT, {"tensor_parallel_size": 16, "nnodes": 2}, "mp"),
        (Surroundings("rocm", devices=8), {"tensor_parallel_size": 16}, "mp"),
        (RAY, {**TWO, "data_parallel_backend": "ray"}, "ray"),
        (RAY, {**TWO, "placement_group": "mine"}, "ray"),
        (RAY, TWO, "mp"),
        (Surroundings(ray=True, ray_placement_group=True), TWO, "ray"),
        (Surroundings(ray=True, ray_placement_group=True), {**TWO, "nnodes": 2}, "mp"),
        (EIGHT, {**TWO, "distributed_executor_backend": "pkg.Executor"}, "pkg.Executor"),
    ],
)
def test_the_first_executor_that_applies(around: Surroundings, fields: dict[str, Any], executor: str) -> None:
    config = made(around, **fields)
    assert config.distributed_executor_backend == executor
    assert config.use_ray is (executor == "ray")


def test_033_counts_the_ranks_of_all_replicas() -> None:
    """With one worker in each of two engines, release 0.33 selects executor `mp`, but source page 003 selects `uni`."""
    assert made(data_parallel_size=2).distributed_executor_backend == "uni"
    assert made(form=ParallelConfig033, data_parallel_size=2).distributed_executor_backend == "mp"


# ---- other derived values


def test_custom_all_reduce_is_switched_off_and_no_error() -> None:
    assert not made().disable_custom_all_reduce
    assert made(nnodes=2).disable_custom_all_reduce
    assert not made(form=ParallelConfig033, nnodes=2).disable_custom_all_reduce
    assert made(Surroundings("cpu")).disable_custom_all_reduce
    assert made(Surroundings(environ={"VLLM_BATCH_INVARIANT": "1"})).disable_custom_all_reduce


def test_how_experts_move_is_filled_in() -> None:
    eplb: dict[str, Any] = {"enable_eplb": True, "enable_expert_parallel": True, "tensor_parallel_size": 2}
    assert made().eplb_config.use_async is False
    moved = made(form=ParallelConfig033, **eplb).eplb_config
    assert (moved.use_async, moved.communicator) == (True, "torch_gloo")
    assert made(Surroundings(nixl=True), ParallelConfig033, **eplb).eplb_config.communicator == "nixl"
    elastic = {**eplb, "enable_elastic_ep": True, "eplb_config": {"use_async": False}}
    assert made(form=ParallelConfig033, **elastic).eplb_config.communicator == "pynccl"


def test_a_configuration_that_splits_has_at_least_two_microbatches() -> None:
    """Invariant I-CF-6: a configuration that splits has at least two microbatches, and `enable_dbo` overrides
    `ubatch_size`.
    """
    for dbo, size, expected in ((True, 4, 2), (False, 4, 4), (False, 1, 1)):
        config = made(enable_dbo=dbo, ubatch_size=size)
        assert config.num_ubatches == expected
        assert config.use_ubatching is (expected >= 2)


def test_sequence_parallel_experts() -> None:
    moe: dict[str, Any] = {"enable_expert_parallel": True, "tensor_parallel_size": 2, "data_parallel_size": 2}
    assert made(**moe).use_sequence_parallel_moe
    assert made(**moe, all2all_backend="naive").use_sequence_parallel_moe
    for left_out in moe:
        assert not made(**{name: value for name, value in moe.items() if name != left_out}).use_sequence_parallel_moe
    assert not made(**moe, all2all_backend="pplx").use_sequence_parallel_moe
    newer = ParallelConfig033.model_validate
    assert newer({**moe, "all2all_backend": "nixl_ep"}).use_sequence_parallel_moe


def test_a_dense_replica_keeps_its_index() -> None:
    """Spec chapter 8.1: a dense model's replica becomes independent, with data-parallel size 1, and keeps its replica
    index.
    """
    config = made(data_parallel_size=4, data_parallel_rank=3, nnodes=2, data_parallel_size_local=2, node_rank=1)
    alone = config.independent()
    assert (alone.data_parallel_size, alone.data_parallel_rank, alone.data_parallel_index) == (1, 0, 3)
    assert (alone.nnodes, alone.node_rank) == (1, 0)


@pytest.mark.parametrize("field", ["world_size", "data_parallel_index"])
def test_computed_values_are_not_given(field: str) -> None:
    with pytest.raises(ValidationError, match=f"{field}: 3; expected none given: it is computed"):
        ParallelConfig.model_validate({field: 3})


# ---- nodes


def test_nodes_of_a_replica() -> None:
    fields: dict[str, Any] = {
        "nnodes": 4,
        "data_parallel_size": 8,
        "data_parallel_size_local": 4,
        "tensor_parallel_size": 4,
    }
    for form in (ParallelConfig, ParallelConfig033, ExactNodes):
        config = made(form=form, **fields, node_rank=3)
        assert (config.nnodes_within_dp, config.node_rank_within_dp, config.local_world_size) == (2, 1, 2)
    with pytest.raises(ValueError, match="nnodes: 3; expected a multiple of 2"):
        made(form=ParallelConfig033, nnodes=3, data_parallel_size=4, data_parallel_size_local=2).nnodes_within_dp  # noqa: B018


def test_nodes_and_local_ranks_make_the_world() -> None:
    """Invariant I-CF-8: local workers times nodes are the world size, in each small configuration that `ExactNodes`
    accepts.

    Both releases also accept configurations that break the invariant.
    """
    names = "nnodes", "data_parallel_size", "data_parallel_size_local", "tensor_parallel_size"
    every = [dict(zip(names, sizes, strict=True)) for sizes in product(*[range(1, 5)] * 2, range(5), range(1, 5))]
    accepted, uneven = 0, {ParallelConfig: 0, ParallelConfig033: 0}
    for fields in every:
        if fields["data_parallel_size_local"] > fields["data_parallel_size"]:
            continue
        try:
            config = ExactNodes.model_validate(fields)
        except ValidationError:
            for form in uneven:
                uneven[form] += not adds_up(form.model_validate(fields))
            continue
        accepted += 1
        assert adds_up(config)
    assert accepted == 100
    assert min(uneven.values()) > 50


def adds_up(config: ParallelConfig) -> bool:
    try:
        return config.nnodes_within_dp * config.local_world_size == config.world_size
    except (ValueError, ZeroDivisionError):
        return False


# ---- the size of KV caches


def largest(sizes: list[int]) -> int:
    """Mutant M-CF-6: MAX instead of MIN."""
    return max(map(offer, sizes))


def raw(sizes: list[int]) -> int:
    """Mutant M-CF-7: a rank without a size sends -1 as it is."""
    return reduced(sizes)


@pytest.mark.parametrize("sizes", [[-1, 1001, 1002], [7], [5, 5], [-1, -1, 3], [1, -1]])
def test_the_smallest_cache_decides(sizes: list[int]) -> None:
    """Invariant I-CF-5: the agreed KV cache size is the smallest that a rank has."""
    known = [size for size in sizes if size != -1]
    agreed = sync_kv_cache_memory_size(sizes)
    assert 0 <= agreed <= min(known)
    assert agreed in known


def test_unknown_cache_sizes_of_all_ranks_give_the_largest() -> None:
    assert sync_kv_cache_memory_size([-1, -1]) == LARGEST == 2**63 - 1


def test_mutants_of_the_kv_sizes() -> None:
    assert largest([1001, 1002]) > min(1001, 1002), "M-CF-6: out of memory on the smallest rank"
    assert raw([-1, 1001]) == -1, "M-CF-7: no blocks"


@pytest.mark.parametrize(
    ("environ", "fields", "apart"),
    [
        ({}, {}, True),
        ({"VLLM_ENABLE_V1_MULTIPROCESSING": "0"}, {}, False),
        ({"VLLM_ENABLE_V1_MULTIPROCESSING": "1"}, {"distributed_executor_backend": "external_launcher"}, False),
        ({"VLLM_ENABLE_V1_MULTIPROCESSING": "1"}, {"distributed_executor_backend": "uni"}, True),
    ],
)
def test_an_external_launcher_has_the_engine_in_its_process(
    environ: dict[str, str], fields: dict[str, Any], apart: bool
) -> None:
    around = Surroundings(devices=8, environ=environ)
    assert made(around, **fields).engine_apart(around) is apart


@pytest.mark.parametrize("form", [ParallelConfig, ParallelConfig033])
def test_batch_invariance_switches_custom_all_reduce_off(form: type[ParallelConfig]) -> None:
    around = Surroundings(devices=8, environ={"VLLM_BATCH_INVARIANT": "1"})
    assert (made(form=form).disable_custom_all_reduce, made(around, form).disable_custom_all_reduce) == (False, True)


def test_an_executor_may_be_a_class() -> None:
    """The user may name an executor class by its path.

    No default replaces it, and a deployment on several nodes refuses it.
    """
    own: dict[str, Any] = {"distributed_executor_backend": "my_package.MyExecutor"}
    assert made(**own).distributed_executor_backend == "my_package.MyExecutor"
    with pytest.raises(ValidationError, match="mp, uni or external_launcher, as nnodes is 2"):
        made(nnodes=2, tensor_parallel_size=2, **own)
