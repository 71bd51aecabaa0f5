"""One step of the V2 runner in release 0.17: ranks send graph sizes, and all run the largest size (specification 1.7).

    column of three numbers, SUM over dp_cpu -> tokens of this rank, counts of all ranks, mode

In release 0.17, a rank without tokens has no dummy batch: it sends zero tokens. If the ranks agree on mode NONE, it
still runs one token, so that it has a row in the collectives of the experts.

Simplified: this step has no microbatches, no drafter and no captures.
"""

from __future__ import annotations

from dpsim.vllm.config import RuntimeMode
from dpsim.vllm.data_parallel.batch import StepPlan
from dpsim.vllm.data_parallel.batch_v2 import PaddingV2017
from dpsim.vllm.data_parallel.forward import Execution
from dpsim.vllm.data_parallel.step import DataParallelStep
from dpsim.vllm.data_parallel.timeline import Batch
from dpsim.vllm.graphs.dispatcher import Descriptor
from dpsim.vllm.graphs.manager import GraphManager


class RankWithoutRow(AssertionError):
    """A rank has no row in the collectives of the experts, so its kernels have no input."""


class DataParallelStepV2017(DataParallelStep):
    """The steps of one rank."""

    padding: type[PaddingV2017] = PaddingV2017

    async def step(self, batch: Batch) -> None:
        if not batch.num_tokens:
            self.rank.probe("dp.dummy_batch")
        await self.execute(await self.coordinate(batch))

    async def coordinate(self, batch: Batch) -> Execution:
        """Agree on a size and a mode. Raises RankWithoutRow if a rank runs no token while others run some."""
        padding, (mode, size) = self.padding(), self.own_graph(batch)
        if self.host.size > 1:
            table = await self.gather(padding.column(batch.num_tokens, size, mode))
            num_tokens, counts, mode = padding.decide(table, self.host.index)
        else:
            num_tokens, counts, mode = padding.alone(batch.num_tokens, size, mode)
        self.rank.decide("plan", (False, counts, int(mode)), "dp_cpu")
        self.rank.decide("mode", (mode.name, False), "dp_cpu")
        if counts is not None and not all(counts):
            raise RankWithoutRow(f"ranks run {counts} tokens: one of them has no row for the experts (1.7)")
        return Execution(StepPlan(False, counts, mode), mode, num_tokens, batch, Descriptor(num_tokens))

    def own_graph(self, batch: Batch) -> tuple[RuntimeMode, int | None]:
        """The mode and the size that this rank would run by itself. All graphs count as captured."""
        graphs = GraphManager(self.config)
        for capture in graphs.captures():
            graphs.record(capture)
        if batch.force_eager or batch.encoder_reqs:
            return RuntimeMode.NONE, None
        return graphs.graph(batch.num_tokens, self.flow.uniform(batch))

    def syncs_on_host(self) -> bool:
        return True

    def refuse_empty(self, number: int, start: int, real: int) -> None:
        """Accepts a forward without real tokens: a rank without tokens runs padding only."""
