"""Variants of CUDA graph dispatch: mutants of specification 5.12, as far as the batch agreement alone shows them.

`dpsim.vllm.museum.batch` explains more. Ranks look up a graph, agree, and look up again; each class below looks up
something else. Mistakes that show only in a capture or a replay are not here.

    protocol: {name: dp_batch, form: source-000, variant: M-CG-1}
"""

from __future__ import annotations

from copy import copy
from typing import Any

from dpsim.contract.interface import Rank
from dpsim.contract.registry import register_variant
from dpsim.vllm.config import RuntimeMode
from dpsim.vllm.data_parallel.batch import StepPlan
from dpsim.vllm.data_parallel.flow import BatchFlow, Flow017
from dpsim.vllm.data_parallel.step import DataParallelStep
from dpsim.vllm.data_parallel.timeline import Batch
from dpsim.vllm.graphs.dispatcher import Descriptor
from dpsim.vllm.museum.batch import is_last


@register_variant("M-CG-1", protocol="dp_batch", form="source-000", expected="CRASH:ASSERTIONERROR")
class RoundsDown(Flow017):
    """A rank pads a batch to the largest graph below its count, not to the smallest that has room for it.

    Tokens would be lost; the rank checks the padded count against the batch's own before it sends it (1.3).
    """

    def dispatch(
        self, batch: Batch, num_tokens: int, allowed: frozenset[RuntimeMode]
    ) -> tuple[RuntimeMode, Descriptor]:
        smaller = [size for size in self.dispatcher.sizes if size <= num_tokens]
        return super().dispatch(batch, max(smaller, default=num_tokens), allowed)


@register_variant("M-CG-5", protocol="dp_batch", form="source-000", expected="CRASH:ASSERTIONERROR")
class LacksASize(DataParallelStep):
    """One rank has a configuration without the second largest size.

    The configuration of graphs is no part of the hash that ranks compare at start (chapter 8). If the others agree on
    that size, the rank finds the next one, and would run more tokens than they expect of it.
    """

    def __init__(self, rank: Rank, dp_index: int, flow: BatchFlow, *pieces: Any) -> None:
        super().__init__(rank, dp_index, flow, *pieces)
        sizes = flow.dispatcher.sizes
        if is_last(self):
            self.flow = copy(flow)
            self.flow.dispatcher = flow.graphs(flow.config, (*sizes[:-2], *sizes[-1:]))


@register_variant("M-CG-15", protocol="dp_batch", form="source-000", expected="CRASH:ASSERTIONERROR")
class DispatchesOwnCount(Flow017):
    """After the agreement a rank dispatches every batch with its own count once more (pull request 25906).

    Ranks run graphs of different sizes. Without 1.6 e they would hang in the expert collectives. M-DP-11 is the same
    for dummy batches alone.
    """

    def second_dispatch(self, batch: Batch, agreed: int, plan: StepPlan) -> tuple[RuntimeMode, Descriptor]:
        return super().second_dispatch(batch, batch.num_tokens, plan)
