"""The captured forward of the V2 runner: its capture session makes no agreement (specification 5.5 and 5.6).

A rank captures a graph for each whole batch that its dispatcher may choose. With microbatches, it also captures graphs
for batches that are split into microbatches. All ranks capture the same list in the same order, and each rank runs
exactly the tokens of the graph. So a rank computes the counts of all ranks by itself; a rank of the V1 runner agrees on
them with the others.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsim.vllm.capture.session import Target
from dpsim.vllm.config import RuntimeMode
from dpsim.vllm.data_parallel.captured import Agree, Agreed, CapturedForward
from dpsim.vllm.graphs.candidates import CandidateTable
from dpsim.vllm.graphs.capture import CaptureInputs
from dpsim.vllm.graphs.dispatcher import Descriptor


class CapturedForwardV2(CapturedForward):
    """The captured forward of one rank of the V2 runner."""

    table: type[CandidateTable] = CandidateTable

    def graph_sizes(self) -> Sequence[int]:
        return [target.key.num_tokens for target in self.targets()]

    def targets(self) -> list[Target]:
        """The graphs of whole batches, then the graphs of batches in microbatches."""
        table, parts = self.table(self.config), self.config.num_ubatches
        whole = [Target(graph.mode, graph.key) for graph in (*table.mixed, *table.decodes)]
        if not self.config.use_ubatching:
            return whole
        return whole + [Target(graph.mode, graph.key, parts) for graph in table.split_graphs(parts)]

    async def agree_on(self, target: Target, mode: RuntimeMode, inputs: CaptureInputs, agree: Agree) -> Agreed:
        """Compute the agreement without a message. All ranks have the same count, because they capture the same
        list.
        """
        num_tokens = target.key.num_tokens
        key = Descriptor(num_tokens) if mode is RuntimeMode.NONE else target.key
        return Agreed(mode, key, (num_tokens,) * self.ranks, target.num_ubatches > 1)
