"""The stand-in for a forward: one kernel and one expert all-reduce a layer, under counts that all ranks agreed on.

The all-reduce stands for the expert all-gather and reduce-scatter. Each rank has a buffer for the rows of *all* ranks
by its own plan, and writes its own rows. So ranks that decided differently issue collectives of different sizes, as
they would in production. The target model and its drafter both run such layers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from dpsim.contract.interface import Buffer, HostArray, Rank
from dpsim.vllm.config import RuntimeMode
from dpsim.vllm.data_parallel.batch import LocalBatch, StepPlan, told
from dpsim.vllm.data_parallel.flow import BatchFlow
from dpsim.vllm.data_parallel.timeline import Batch
from dpsim.vllm.graphs.dispatcher import Descriptor
from dpsim.vllm.model import rows

ATTENTION_NS = 20_000  # reference: one small layer
TOKEN_NS = 20  # reference: per token of it

Microbatch: TypeAlias = tuple[Buffer, slice]
"""A microbatch on the device: the rows of all ranks, and which of them are this rank's."""


class Execution(NamedTuple):
    """The forward of a rank: the plan that it follows, its mode and token count after the second dispatch, its batch,
    and the graph.
    """

    plan: StepPlan
    mode: RuntimeMode
    num_tokens: int
    batch: Batch
    key: Descriptor


class Forwards(ABC):
    """The layers of one rank, and its communicators."""

    def __init__(self, rank: Rank, flow: BatchFlow) -> None:
        self.rank = rank
        self.config, self.form, self.flow = flow.config, flow.form, flow
        self.host, self.device = rank.host("dp_cpu"), rank.device("dp")
        self.experts, self.main = rank.device("ep"), rank.stream("main")

    @abstractmethod
    async def agree(self, local: LocalBatch) -> StepPlan:
        """Run one agreement: send this rank's column, and decide from the columns of all."""

    async def open_forward(self, num_tokens: int, counts: tuple[int, ...] | None) -> tuple[int, ...]:
        """The tokens of all ranks, for the metadata of a forward. A forward without a list agrees on one, without
        padding, graph or microbatches. In the engine this agreement does not show in the code (1.8).
        """
        if counts is None:
            counts = (num_tokens,)
            if self.host.size > 1:
                local = told(num_tokens, num_tokens, False, None, False, RuntimeMode.NONE, self.config)
                plan = await self.agree(local)
                counts = plan.num_tokens or counts
                self.rank.decide("context", counts, "dp_cpu")
        return counts

    def launch_layer(
        self, total: int, start: int, count: int, pieces: tuple[rows.Piece, ...], model: str = ""
    ) -> Microbatch:
        """Write this rank's tokens into its rows of a buffer for everyone's, and sum it over the expert group.

        `model`: the model of the layer, for the sites; the target if empty.
        """
        of = f"{model}." if model else ""
        buffer = self.main.alloc(total, "int32", f"{of}experts.buffer")
        cost = ATTENTION_NS + count * TOKEN_NS
        self.main.launch(f"{of}attention", rows.write, writes=[buffer], args=(start, pieces), cost=cost)
        self.experts.all_reduce(buffer, self.main, site=f"{of}experts.combine")
        return buffer, slice(start, start + count)

    async def came(self, part: Microbatch, model: str = "") -> HostArray:
        """Wait for a layer. Every rank has to see the same sum. Returns this rank's own rows."""
        of = f"{model}." if model else ""
        buffer, mine = part
        result = await buffer.read(f"{of}experts.read")
        buffer.free()
        self.rank.decide(f"{of}experts", total(result), "ep")
        return result[mine]


def fill_column(table: Any, index: int, column: tuple[int, ...]) -> None:
    """Kernel: zero but for this rank's column."""
    table[:] = 0
    for row, value in enumerate(column):
        table[row, index] = value


FEW_ROWS = 100


def total(rows: HostArray) -> int:
    """The sum of the rows. Most steps have a handful of rows, which Python adds in half the time of numpy."""
    return sum(rows.tolist()) if len(rows) <= FEW_ROWS else int(rows.sum(dtype=np.int64))
