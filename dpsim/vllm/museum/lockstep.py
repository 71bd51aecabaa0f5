"""Variants of engines whose data-parallel ranks run every step together: bugs that engines really had.

Each class below is the healthy program with one bug in about ten lines, and names the report of the bug. Four more bugs
are equal to a mutant of the engine's specification and have the mutant's name (M-DP-11; see docs/keys.md):

* dp-dummy-graph-size is mutant M-DP-11: a dummy batch runs in a smaller graph (vllm pull request 25906).
* dp-mode-split is mutant M-DP-6: each rank runs its own graph mode (vllm 30173).
* dp-drafter-gate is mutant M-ES-6: one rank skips the drafter (vllm 40589, issue 44185).
* dp-dummy-stale-rows is mutants M-CG-13 and M-ES-5: a dummy batch overwrites cache rows of requests (vllm 37728, 39444,
  49757, 56734).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpsim.contract.registry import register_variant
from dpsim.vllm.data_parallel.drafter import Drafter
from dpsim.vllm.data_parallel.forward import Execution, Microbatch
from dpsim.vllm.data_parallel.step import DataParallelStep
from dpsim.vllm.data_parallel.timeline import Batch
from dpsim.vllm.model import rows


@register_variant("dp-drafter-pass-count", protocol="dp_batch", form="source-000", expected="*:COLLECTIVE:*")
class DummyDraftsOnce(Drafter):
    """A dummy step runs only the first forward of the drafter (vllm pull requests 26086 and 26217).

    Busy ranks run all forwards, each with an agreement. So after each step the idle rank is one agreement ahead, and
    joins the wrong agreement of its peers.
    """

    async def propose(self, batch: Batch) -> list[Microbatch]:
        if batch.is_dummy:
            return await self.phase(batch.num_tokens, batch.scheduled, times=1)
        return await super().propose(batch)


@register_variant("sgl-idle-none-field", protocol="dp_batch", form="source-000", expected="CRASH:TYPEERROR")
class IdleIsNotNothing(DataParallelStep):
    """An idle rank's batch contains None where the code expects an empty list (sglang pull request 25404).

    This rank raises before it agrees, and all others wait for it.
    """

    async def step(self, batch: Batch) -> None:
        lengths: Any = [tokens for _, tokens, _ in batch.scheduled] if batch.num_tokens else None
        await super().step(batch._replace(num_tokens=sum(lengths)))


@register_variant("trt-rank-local-branch", protocol="dp_batch", form="source-000", expected="*:COLLECTIVE:*")
class AsksInTheErrorPath(DataParallelStep):
    """A rank on which a KV transfer failed starts a collective of all ranks (TensorRT-LLM 13902, 13900, 14020).

    The other ranks have seen no failure and start their agreement instead. In the scenario, requests with encoder
    inputs represent the failed transfers.
    """

    async def step(self, batch: Batch) -> None:
        if batch.encoder_reqs:
            await self.host.all_reduce(np.ones(1, np.int32), site="transfer.failed")
        await super().step(batch)


@register_variant("rank-clock-rng", protocol="dp_batch", form="source-000", expected="*:COLLECTIVE:*")
class OwnClock(DataParallelStep):
    """Each tensor-parallel rank schedules by its own clock, so one rank drops a request a step before the others do.

    From then on the ranks of a replica run different batches. Sglang issue 27221 reports this; in TensorRT-LLM pull
    request 12024 separate random states have the same effect.
    """

    async def step(self, batch: Batch) -> None:
        late = self.experts.index % (self.experts.size // self.host.size)
        await super().step(without_last(batch) if late and self.rank.step else batch)


def without_last(batch: Batch) -> Batch:
    """Returns the batch without its last request."""
    *kept, (_, tokens, _) = batch.scheduled or ((0, 0, 0),)
    return batch._replace(scheduled=tuple(kept), num_tokens=batch.num_tokens - tokens)


CHUNK = 2
"""The number of tokens that the experts process at a time."""


@register_variant(
    "moe-chunks",
    protocol="dp_batch",
    form="source-000",
    expected=None,
    reason="healthy: the experts process the tokens in chunks, the twin of moe-chunk-size-vector",
)
class InChunks(DataParallelStep):
    """The experts process a few tokens of each rank at a time; a rank without tokens left sends one padding token."""

    def launch_layers(self, execution: Execution, counts: tuple[int, ...]) -> list[Microbatch]:
        own, parts = self.host.index, []
        for start in range(0, max(counts), CHUNK):
            sizes = self.sizes(counts, start)
            pieces = rows.cut(execution.batch.scheduled, start, start + CHUNK)
            parts.append(self.launch_layer(sum(sizes), sum(sizes[:own]), sizes[own], pieces))
        return parts

    def sizes(self, counts: tuple[int, ...], start: int) -> tuple[int, ...]:
        """Returns the rows of each rank in the chunk from token `start` on, by one rule on all ranks."""
        return tuple(max(min(count - start, CHUNK), 1) for count in counts)


@register_variant(
    "moe-chunk-size-vector",
    protocol="dp_batch",
    form="source-000",
    expected="MISMATCH:COLLECTIVE:COUNT",
    twin="moe-chunks",
)
class PatchesOwnEntry(InChunks):
    """A rank without tokens left sends a padding token, but corrects only its own entry in its own list of sizes.

    In the lists of the others its entry is 0, so ranks enter one collective with different lists (TensorRT-LLM 16745;
    vllm 21963).
    """

    def sizes(self, counts: tuple[int, ...], start: int) -> tuple[int, ...]:
        own = self.host.index
        left = [max(min(count - start, CHUNK), 0) for count in counts]
        return tuple(max(size, int(rank == own)) for rank, size in enumerate(left))
