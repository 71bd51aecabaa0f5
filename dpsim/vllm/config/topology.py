"""The topology: the number of ranks, and the position and the groups of each rank.

The axes are data parallelism (DP), pipeline stages (PP), prefill context parallelism (PCP) and tensor parallelism (TP).
Global ranks count through (DP, PP, PCP, TP), and the TP index varies fastest. A group contains the ranks that differ in
some axes and agree in the others. Decode context parallelism has no separate axis: its groups are consecutive ranks of
one stage (specification 9.2).

    >>> sizes = Topology(data_parallel_size=2, prefill_context_parallel_size=2, tensor_parallel_size=2)
    >>> sizes.position(5)
    Position(dp=1, pp=0, pcp=0, tp=1)
    >>> sizes.groups("tp"), sizes.groups("pcp")
    ([(0, 1), (2, 3), (4, 5), (6, 7)], [(0, 2), (1, 3), (4, 6), (5, 7)])
"""

from __future__ import annotations

from itertools import product
from typing import Literal, NamedTuple, Self, TypeAlias

from pydantic import model_validator

from dpsim.vllm.config.base import MAX_RANKS, Size, StrictModel

Axis: TypeAlias = Literal["dp", "pp", "pcp", "tp"]


class Position(NamedTuple):
    """The position of a rank: its index on each axis."""

    dp: int
    pp: int
    pcp: int
    tp: int


class ParallelSizes(StrictModel):
    """The five sizes, with vLLM's names. Decode context parallelism adds no ranks."""

    data_parallel_size: Size = 1
    """The number of engines. Each runs other requests, and all agree on each step."""
    pipeline_parallel_size: Size = 1
    """The number of stages of an engine, each with some of the layers."""
    tensor_parallel_size: Size = 1
    """The number of ranks that share the layers of a stage."""
    prefill_context_parallel_size: Size = 1
    """The number of ranks that share the tokens of a prefill."""
    decode_context_parallel_size: Size = 1
    """The number of tensor-parallel ranks that share the KV cache of a request; it adds no ranks."""


class Topology(ParallelSizes):
    """The number of ranks, and the position and the groups of each rank.

    Global ranks count through (DP, PP, PCP, TP), and the TP index varies fastest (specification 9.2).
    """

    @model_validator(mode="after")
    def _limit(self) -> Self:
        if self.world_size > MAX_RANKS:
            raise ValueError(f"{self.world_size} ranks: the product of the sizes may be at most {MAX_RANKS}")
        stage, dcp = self.prefill_context_parallel_size * self.tensor_parallel_size, self.decode_context_parallel_size
        if stage % dcp:
            raise ValueError(
                f"decode_context_parallel_size {dcp}: a stage of {stage} cannot be cut into parts of {dcp} ranks; "
                f"expected a divisor of {stage}, which is prefill_context_parallel_size times tensor_parallel_size"
            )
        return self

    @property
    def world_size(self) -> int:
        """The number of all ranks, of all replicas."""
        return self.data_parallel_size * self.replica_size

    @property
    def replica_size(self) -> int:
        """The number of ranks of one data-parallel replica."""
        return self.pipeline_parallel_size * self.prefill_context_parallel_size * self.tensor_parallel_size

    def position(self, rank: int) -> Position:
        """Returns the position of a global rank."""
        rest, tp = divmod(rank, self.tensor_parallel_size)
        rest, pcp = divmod(rest, self.prefill_context_parallel_size)
        dp, pp = divmod(rest, self.pipeline_parallel_size)
        return Position(dp, pp, pcp, tp)

    def coordinates(self, rank: int) -> tuple[int, int, int]:
        """Returns (DP, PP, TP) of a global rank, for a caller that does not need the PCP index."""
        dp, pp, _, tp = self.position(rank)
        return dp, pp, tp

    def rank(self, dp: int, pp: int = 0, tp: int = 0, pcp: int = 0) -> int:
        """Returns the global rank at a position."""
        stage = dp * self.pipeline_parallel_size + pp
        return (stage * self.prefill_context_parallel_size + pcp) * self.tensor_parallel_size + tp

    def groups(self, *joined: Axis) -> list[tuple[int, ...]]:
        """The groups of ranks that differ only in the `joined` axes, sorted by their lowest rank.

        Members are sorted by their positions; the last of the `joined` axes varies fastest.
        """
        sizes: dict[Axis, int] = {
            "dp": self.data_parallel_size,
            "pp": self.pipeline_parallel_size,
            "pcp": self.prefill_context_parallel_size,
            "tp": self.tensor_parallel_size,
        }
        fixed: list[Axis] = [axis for axis in sizes if axis not in joined]
        return [
            tuple(
                self.rank(**dict(zip(fixed, outer, strict=True)), **dict(zip(joined, inner, strict=True)))
                for inner in product(*[range(sizes[axis]) for axis in joined])
            )
            for outer in product(*[range(sizes[axis]) for axis in fixed])
        ]

    def dp_groups(self) -> list[tuple[int, ...]]:
        """Returns the worker DP groups: one for each (PP, PCP, TP) position, members sorted by DP position."""
        return self.groups("dp")

    def expert_groups(self) -> list[tuple[int, ...]]:
        """Returns the expert groups: all ranks of one pipeline stage, sorted."""
        return self.groups("dp", "pcp", "tp")

    def decode_context_groups(self) -> list[tuple[int, ...]]:
        """Returns the groups that share the KV cache of a decode: the ranks of each stage, cut into equal parts."""
        size = self.decode_context_parallel_size
        return [tuple(range(start, start + size)) for start in range(0, self.world_size, size)]
