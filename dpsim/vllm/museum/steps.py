"""Variants beside the tokens: dummy steps of replicas, a queue of batches that is too deep, and steps after sampling
in another order. Others give slots of one stage back late.

Mutants of specification 6.11, 7.8 and 10.8; `scenarios/museum/` has the smallest world that shows each.

    protocol: {name: pp_tokens, form: source-002, variant: M-PS-7}
"""

from __future__ import annotations

from typing import Any

from dpsim.contract.interface import Buffer
from dpsim.vllm.museum.tokens import WRONG, mutant
from dpsim.vllm.pipeline.batches import Batch, InputBatch
from dpsim.vllm.pipeline.scheduler import PipelineScheduler
from dpsim.vllm.pipeline.stage import Stage


@mutant(
    "M-PP-16",
    None,
    "performance only, against the specification: the queue keeps its length, stages take tokens over before they "
    "need them, and the main stream waits for them",
)
class DummyTakesOver(Stage):
    """A dummy step takes an entry from the queue of tokens, and puts an empty one in."""

    async def dummy(self) -> None:
        self.consume()
        await super().dummy()


@mutant("M-PP-16-push", WRONG)
class DummyPushes(Stage):
    """A dummy step puts an empty entry into the queue of tokens, which then lags behind."""

    async def dummy(self) -> None:
        if self.tokens is not None and not self.is_last:
            self.tokens.queue.append(None)
        await super().dummy()


@mutant("M-PS-7", "HANG:*")
class DummyReceives(Stage):
    """The last stage runs its dummy steps like any step, and waits for hidden states that no stage sends."""

    async def dummy(self) -> None:
        if self.transfer is not None and self.is_last:
            await self.transfer.receive()
        await super().dummy()


@mutant("M-PS-8-deep", "RACE:BUFFER")
class DeepQueue(PipelineScheduler):
    """The queue holds one batch more than there are staging buffers: the host overwrites one that is in use."""

    def depth(self) -> int:
        return super().depth() + 1


# ---- after sampling


@mutant(
    "M-ES-8",
    None,
    "performance only: the same goes over the same communicator in the same order. Tokens arrive later, by the time of "
    "the drafter, and the main stream waits behind them",
)
class TokensAfterDrafts(Stage):
    """The last stage broadcasts its tokens on the main stream, and only after the drafter has ended."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        if self.tokens is not None and self.is_last:
            self.tokens.side = self.main

    def after_sampling(self, input_batch: InputBatch, tokens: Buffer, sampled: Buffer, rejected: Buffer) -> None:
        self.table.update(tokens, sampled, rejected, input_batch.mapping, input_batch.lengths)
        if self.drafts:
            self.table.propose(input_batch.mapping)
        if self.tokens is not None:
            self.tokens.broadcast(input_batch.batch.rows, tokens, sampled, rejected)
        rejected.free()
        if self.drafts:
            self.send_drafts(input_batch)


@mutant("M-ES-14", WRONG)
class ShiftsInPlace(Stage):
    """The last stage shifts sampled tokens in place, so that the drafter finds the last one, and then copies them.

    If nothing else reads them, as on a single stage, clients get other text. In a pipeline the broadcast races.
    """

    def after_sampling(self, input_batch: InputBatch, tokens: Buffer, sampled: Buffer, rejected: Buffer) -> None:
        super().after_sampling(input_batch, tokens, sampled, rejected)
        self.main.launch("tokens.shift", shift, reads=[sampled], writes=[tokens])


def shift(sampled: Any, tokens: Any) -> None:
    """Kernel: copy the last token of each row to its first place."""
    for row in range(tokens.shape[0]):
        tokens[row, 0] = tokens[row, sampled[row] - 1]


# ---- slots


@mutant(
    "M-ES-16",
    None,
    "equivalent: no request had the slot meanwhile, for a step that preempts admits none. The next request overwrites "
    "tokens that still reach it, and slots may differ between stages (M-PP-18)",
)
class FreesPreemptedLate(Stage):
    """The first stage gives the slots of preempted requests back with the next step, before it hands slots out."""

    late: tuple[int, ...] = ()

    def update_slots(self, batch: Batch) -> None:
        if not self.is_first:
            return super().update_slots(batch)
        now = tuple(request for request in batch.freed if request not in batch.preempted)
        freed, self.late = (*self.late, *now), batch.preempted
        return super().update_slots(batch._replace(freed=freed))


@mutant("M-ES-16-behind", "CRASH:INDEXERROR")
class FreesPreemptedBehind(Stage):
    """The first stage does that after the step's admissions: it takes a request that came again for the old one."""

    late: tuple[int, ...] = ()

    def update_slots(self, batch: Batch) -> None:
        if not self.is_first:
            return super().update_slots(batch)
        super().update_slots(batch._replace(freed=tuple(one for one in batch.freed if one not in batch.preempted)))
        for request in self.late:
            self.free(request)
        self.late = batch.preempted
