"""The captured forward of the V2 runner: its capture session makes no agreement (specification 5.5 and 5.6).

All ranks capture the same list in the same order, and run exactly the tokens of the graph, so each knows all counts.
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
        """No message, because all ranks capture the same list and have the same count."""
        num_tokens = target.key.num_tokens
        key = Descriptor(num_tokens) if mode is RuntimeMode.NONE else target.key
        return Agreed(mode, key, (num_tokens,) * self.ranks, target.num_ubatches > 1)
