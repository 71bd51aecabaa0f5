"""Tests that a start with equal configurations has equal hashes, and that mutants of the hash break this (spec chapter
8.4).
"""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from dpsim.vllm.config import (
    FORMS,
    ParallelConfig,
    ParallelConfig033,
    compute_hash,
    differing,
)

Fields = dict[str, Any]


def engines(form: type[ParallelConfig], count: int = 4, **fields: Any) -> list[ParallelConfig]:
    """Returns the configurations of a healthy start: each engine has its own rank, on its own node."""
    own = [{"data_parallel_rank": rank, "rank": rank, "node_rank": rank, "nnodes": count} for rank in range(count)]
    return [form.model_validate({"data_parallel_size": count, **fields, **one}) for one in own]


def starts(configs: list[ParallelConfig]) -> bool:
    """Returns whether the front end finds all hashes equal."""
    return len(set(map(compute_hash, configs))) == 1


class HashesTheRank(ParallelConfig):
    """Mutant M-CF-1: the hash covers a field that is different on each rank."""

    not_hashed: ClassVar[frozenset[str]] = ParallelConfig.not_hashed - {"rank"}


class HashesNuma(ParallelConfig033):
    """Mutant M-CF-1 as release 0.33 once had it: the hash covers the NUMA nodes that each rank detects."""

    not_hashed: ClassVar[frozenset[str]] = ParallelConfig033.not_hashed - {"numa_bind_nodes"}


class IgnoresSynchronization(ParallelConfig):
    """Mutant M-CF-2: the hash lets one rank agree over gloo and another over NCCL."""

    not_hashed: ClassVar[frozenset[str]] = ParallelConfig.not_hashed | {"disable_nccl_for_dp_synchronization"}


class IgnoresThresholds(ParallelConfig):
    """Mutant M-CF-3: the hash lets one rank split a step that another rank runs whole."""

    not_hashed: ClassVar[frozenset[str]] = ParallelConfig.not_hashed | {"dbo_decode_token_threshold", "all2all_backend"}


def test_a_healthy_start_has_equal_hashes() -> None:
    assert all(starts(engines(form)) for form in FORMS.values())
    assert not starts(engines(HashesTheRank)), "M-CF-1: an engine that hashes its rank is always refused"


def test_numa_nodes_may_differ() -> None:
    own = [{"numa_bind": True, "numa_bind_nodes": (node,)} for node in (0, 1)]
    assert starts([ParallelConfig033.model_validate(fields) for fields in own])
    assert not starts([HashesNuma.model_validate(fields) for fields in own])


@pytest.mark.parametrize(
    ("mutant", "fields"),
    [
        (IgnoresSynchronization, {"disable_nccl_for_dp_synchronization": True}),
        (IgnoresThresholds, {"dbo_decode_token_threshold": 8}),
        (IgnoresThresholds, {"all2all_backend": "deepep_low_latency"}),
    ],
)
def test_a_node_with_another_flag_does_not_start(mutant: type[ParallelConfig], fields: Fields) -> None:
    """The front end refuses a node with another synchronization, threshold or all-to-all backend.

    Mutants M-CF-2, M-CF-3 start.
    """
    assert not starts(
        [*engines(ParallelConfig, 3, enable_dbo=True), *engines(ParallelConfig, 3, enable_dbo=True, **fields)]
    )
    assert starts([*engines(mutant, 3, enable_dbo=True), *engines(mutant, 3, enable_dbo=True, **fields)])


def test_the_hash_is_that_after_the_handshake() -> None:
    """An engine hashes after the handshake, in which the front end sends it the data-parallel size.

    Mutant M-CF-13 hashes before the handshake, and reports a false mismatch.
    """
    front_end = ParallelConfig(data_parallel_size=4)
    engine = ParallelConfig(data_parallel_rank=0)
    told = engine.after_handshake(front_end)
    assert compute_hash(told) == compute_hash(front_end)
    assert differing(engine, front_end) == ("data_parallel_size",), "the mutant: a false mismatch"
    assert told.data_parallel_master_port_list == front_end.data_parallel_master_port_list
