"""The stand-in for a forward: for each layer, one attention kernel and one all-reduce for the experts.

The all-reduce replaces the all-gather and the reduce-scatter of the experts. Each rank allocates a buffer for the rows
of *all* ranks, with the sizes that it agreed on, and writes only its own rows. If two ranks agreed on different sizes,
their collectives have different sizes, as in production.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from dpsim.contract.interface import Buffer, HostArray, Rank
from dpsim.vllm.config import RuntimeMode
from dpsim.vllm.data_parallel.batch import LocalBatch, StepPlan, batch_to_send
from dpsim.vllm.data_parallel.flow import BatchFlow
from dpsim.vllm.data_parallel.timeline import Batch
from dpsim.vllm.graphs.dispatcher import Descriptor
from dpsim.vllm.model import rows

ATTENTION_NS = 20_000  # reference: one small layer
TOKEN_NS = 20  # reference: one token of this layer

Microbatch: TypeAlias = tuple[Buffer, slice]
"""A launched layer: the buffer with the rows of all ranks, and the slice of this rank's rows."""


class Execution(NamedTuple):
    """What a rank runs in a step: the agreed plan, mode and tokens of the second dispatch, its batch, and the graph."""

    plan: StepPlan
    mode: RuntimeMode
    num_tokens: int
    batch: Batch
    key: Descriptor


class Forwards(ABC):
    """The layers of one rank, and the communicators and streams that they use."""

    def __init__(self, rank: Rank, flow: BatchFlow) -> None:
        self.rank = rank
        self.config, self.form, self.flow = flow.config, flow.form, flow
        self.host, self.device = rank.host("dp_cpu"), rank.device("dp")
        self.experts, self.main = rank.device("ep"), rank.stream("main")

    @abstractmethod
    async def agree(self, local: LocalBatch) -> StepPlan:
        """Make one agreement: send this rank's column, and decide from the columns of all ranks."""

    async def open_forward(self, num_tokens: int, counts: tuple[int, ...] | None) -> tuple[int, ...]:
        """The tokens of all ranks, for the metadata of a forward.

        Without counts, ranks agree once more, without padding, graph or microbatches: the engine's forward context does
        so implicitly (specification 1.8).
        """
        if counts is None:
            counts = (num_tokens,)
            if self.host.size > 1:
                local = batch_to_send(num_tokens, num_tokens, False, None, False, RuntimeMode.NONE, self.config)
                plan = await self.agree(local)
                counts = plan.num_tokens or counts
                self.rank.decide("context", counts, "dp_cpu")
        return counts

    def launch_layer(
        self, total: int, start: int, count: int, pieces: tuple[rows.Piece, ...], model: str = ""
    ) -> Microbatch:
        """Launch one layer. Writes this rank's tokens into its rows of a buffer for all ranks, and sums it over the
        expert group.

        `total`: the rows of all ranks. `start` and `count`: the rows of this rank. `model`: the model's name in the
        labels of the ops; empty for the target model.
        """
        of = f"{model}." if model else ""
        buffer = self.main.alloc(total, "int32", f"{of}experts.buffer")
        cost = ATTENTION_NS + count * TOKEN_NS
        self.main.launch(f"{of}attention", rows.write, writes=[buffer], args=(start, pieces), cost=cost)
        self.experts.all_reduce(buffer, self.main, site=f"{of}experts.combine")
        return buffer, slice(start, start + count)

    async def layer_result(self, part: Microbatch, model: str = "") -> HostArray:
        """Wait for a layer, record the sum of all rows, equal on all ranks, and return this rank's rows."""
        of = f"{model}." if model else ""
        buffer, mine = part
        result = await buffer.read(f"{of}experts.read")
        buffer.free()
        self.rank.decide(f"{of}experts", total(result), "ep")
        return result[mine]


def fill_column(table: Any, index: int, column: tuple[int, ...]) -> None:
    """Kernel: write this rank's column of the table, and zero into all others."""
    table[:] = 0
    for row, value in enumerate(column):
        table[row, index] = value


FEW_ROWS = 100


def total(rows: HostArray) -> int:
    """The sum of the rows. For a few rows, Python adds in half the time of numpy."""
    return sum(rows.tolist()) if len(rows) <= FEW_ROWS else int(rows.sum(dtype=np.int64))
