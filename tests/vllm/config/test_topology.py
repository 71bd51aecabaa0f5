"""Tests the rank layout and the groups of spec chapter 9.2 against a reshape by NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from dpsim.vllm.config import Topology
from dpsim.vllm.params.communicators import communicators


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    dp, pp, pcp, tp = (draw(st.integers(1, 3)) for _ in range(4))
    dcp = draw(st.sampled_from([size for size in range(1, pcp * tp + 1) if pcp * tp % size == 0]))
    return Topology(
        data_parallel_size=dp,
        pipeline_parallel_size=pp,
        prefill_context_parallel_size=pcp,
        tensor_parallel_size=tp,
        decode_context_parallel_size=dcp,
    )


def reshaped(sizes: Topology) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    outer, inner = sizes.data_parallel_size, sizes.prefill_context_parallel_size
    return np.arange(sizes.world_size).reshape(outer, sizes.pipeline_parallel_size, inner, sizes.tensor_parallel_size)


@settings(max_examples=30, database=None, derandomize=True, deadline=None)
@given(topologies())
def test_groups_are_those_of_a_reshaped_world(sizes: Topology) -> None:
    world = reshaped(sizes)
    for place, axis in enumerate(("dp", "pp", "pcp", "tp")):
        rows = np.moveaxis(world, place, -1).reshape(-1, world.shape[place])
        assert sizes.groups(axis) == [tuple(row) for row in rows.tolist()]  # type: ignore[arg-type]
    experts = world.transpose(1, 0, 2, 3).reshape(sizes.pipeline_parallel_size, -1)
    assert sizes.expert_groups() == [tuple(row) for row in experts.tolist()]
    decodes = world.reshape(-1, sizes.decode_context_parallel_size)
    assert sizes.decode_context_groups() == [tuple(row) for row in decodes.tolist()]
    for rank in range(sizes.world_size):
        dp, pp, pcp, tp = sizes.position(rank)
        assert sizes.rank(dp, pp, tp, pcp) == rank == world[dp, pp, pcp, tp]
        assert rank == dp * sizes.replica_size + rank % sizes.replica_size, "I-CF-4"
        assert sizes.coordinates(rank) == (dp, pp, tp)


@settings(max_examples=30, database=None, derandomize=True, deadline=None)
@given(topologies())
def test_groups_of_a_kind_partition_the_world(sizes: Topology) -> None:
    """Invariant I-ST-2: the groups of one kind partition the ranks."""
    by_kind: dict[str, list[int]] = {}
    for spec in communicators(sizes):
        by_kind.setdefault(spec.kind, []).extend(spec.ranks)
    assert all(sorted(ranks) == list(range(sizes.world_size)) for ranks in by_kind.values())
    wanted = {"dp", "dp_cpu", "ep"}
    wanted |= {"tp"} if sizes.tensor_parallel_size > 1 else set()
    wanted |= {"dcp"} if sizes.decode_context_parallel_size > 1 else set()
    wanted |= {"pcp"} if sizes.prefill_context_parallel_size > 1 else set()
    wanted |= {"pp", "pp_cpu", "pp_broadcast"} if sizes.pipeline_parallel_size > 1 else set()
    assert set(by_kind) == wanted


def test_groups_are_made_in_the_order_of_the_specification() -> None:
    sizes = Topology(
        data_parallel_size=2,
        pipeline_parallel_size=2,
        prefill_context_parallel_size=2,
        tensor_parallel_size=2,
        decode_context_parallel_size=2,
    )
    kinds = list(dict.fromkeys(spec.kind for spec in communicators(sizes)))
    assert kinds == ["tp", "dcp", "pcp", "pp", "pp_cpu", "dp", "dp_cpu", "ep", "pp_broadcast"]
    assert sizes.expert_groups()[0] == (0, 1, 2, 3, 8, 9, 10, 11)


def test_mutant_of_the_layout() -> None:
    """Mutant M-ST-5 swaps pipeline and tensor parallelism, and so pairs ranks of the same stage in a pipeline group."""
    sizes = Topology(pipeline_parallel_size=2, tensor_parallel_size=3)
    swapped = [tuple(row) for row in np.arange(6).reshape(3, 2).tolist()]
    assert sizes.groups("pp") == [(0, 3), (1, 4), (2, 5)] != swapped


@pytest.mark.parametrize(("tp", "pcp", "dcp"), [(8, 1, 3), (2, 1, 4), (2, 2, 8)])
def test_parts_that_do_not_fit_are_refused(tp: int, pcp: int, dcp: int) -> None:
    with pytest.raises(ValidationError, match=f"decode_context_parallel_size {dcp}.*expected a divisor of {tp * pcp}"):
        Topology(tensor_parallel_size=tp, prefill_context_parallel_size=pcp, decode_context_parallel_size=dcp)
