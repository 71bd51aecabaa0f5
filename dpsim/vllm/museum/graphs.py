"""Variants of CUDA graph dispatch: each class is the healthy program with one planted mistake.

Each class selects by another rule. They are mutants of the engine's specification, section 5.12, that the batch
agreement alone reveals (keys such as M-CG-1; see docs/keys.md).
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
    """A rank selects the largest graph below its token count, not the smallest graph that has room for all tokens.

    The rank would lose tokens. But it asserts that the padded count is not below the batch's own count before it sends
    the padded count (specification 1.3).
    """

    def dispatch(
        self, batch: Batch, num_tokens: int, allowed: frozenset[RuntimeMode]
    ) -> tuple[RuntimeMode, Descriptor]:
        smaller = [size for size in self.dispatcher.sizes if size <= num_tokens]
        return super().dispatch(batch, max(smaller, default=num_tokens), allowed)


@register_variant("M-CG-5", protocol="dp_batch", form="source-000", expected="CRASH:ASSERTIONERROR")
class LacksASize(DataParallelStep):
    """One rank's configuration lacks the second largest graph size.

    Ranks compare a hash of the parallel configuration at start, but graph sizes are no part of this hash (specification
    chapter 8). If the others agree on the missing size, this rank finds the next larger graph. So it would run more
    tokens than its peers expect.
    """

    def __init__(self, rank: Rank, dp_index: int, flow: BatchFlow, *pieces: Any) -> None:
        super().__init__(rank, dp_index, flow, *pieces)
        sizes = flow.dispatcher.sizes
        if is_last(self):
            self.flow = copy(flow)
            self.flow.dispatcher = flow.graphs(flow.config, (*sizes[:-2], *sizes[-1:]))


@register_variant("M-CG-15", protocol="dp_batch", form="source-000", expected="CRASH:ASSERTIONERROR")
class DispatchesOwnCount(Flow017):
    """After the agreement, a rank dispatches every batch with its own token count again (vllm pull request 25906).

    So ranks select graphs of different sizes. A rank raises because it checks its second dispatch (specification 1.6
    e). Without this check the ranks would hang in the experts' collectives. M-DP-11 is the same mistake for dummy
    batches only.
    """

    def second_dispatch(self, batch: Batch, agreed: int, plan: StepPlan) -> tuple[RuntimeMode, Descriptor]:
        return super().second_dispatch(batch, batch.num_tokens, plan)
