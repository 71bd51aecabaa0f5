"""Variants of steps in a pipeline: dummy steps, a batch queue that is too deep, the order after sampling, late frees.

The mistakes are mutants of the engine's specification, sections 6.11, 7.8 and 10.8 (keys such as M-PS-7; see
docs/keys.md).
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
    "performance only: the token queue keeps its length, stages apply tokens before they need them, and the main "
    "stream waits for them",
)
class DummyTakesOver(Stage):
    """A dummy step takes an entry from the token queue, applies its tokens, and appends an empty entry."""

    async def dummy(self) -> None:
        self.consume()
        await super().dummy()


@mutant("M-PP-16-push", WRONG)
class DummyPushes(Stage):
    """A dummy step appends an empty entry to the token queue, so stages apply tokens one step too late."""

    async def dummy(self) -> None:
        if self.tokens is not None and not self.is_last:
            self.tokens.queue.append(None)
        await super().dummy()


@mutant("M-PS-7", "HANG:*")
class DummyReceives(Stage):
    """The last stage receives hidden states in a dummy step, although no stage sends any."""

    async def dummy(self) -> None:
        if self.transfer is not None and self.is_last:
            await self.transfer.receive()
        await super().dummy()


@mutant("M-PS-8-deep", "RACE:BUFFER")
class DeepQueue(PipelineScheduler):
    """The batch queue contains one batch more than there are staging buffers: the host overwrites a buffer in use."""

    def depth(self) -> int:
        return super().depth() + 1


# ---- the order after sampling


@mutant(
    "M-ES-8",
    None,
    "performance only: the last stage broadcasts the same data over the same communicator in the same order. Tokens "
    "arrive later by the time of the drafter, and the main stream waits for the broadcast",
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
    """The last stage shifts sampled tokens in place for the drafter, and copies them only afterwards.

    If nothing else reads the tokens at that time, as on a single stage, clients receive wrong text. In a pipeline the
    shift races with the broadcast.
    """

    def after_sampling(self, input_batch: InputBatch, tokens: Buffer, sampled: Buffer, rejected: Buffer) -> None:
        super().after_sampling(input_batch, tokens, sampled, rejected)
        self.main.launch("tokens.shift", shift, reads=[sampled], writes=[tokens])


def shift(sampled: Any, tokens: Any) -> None:
    """Kernel: copies the last token of each row to the first column."""
    for row in range(tokens.shape[0]):
        tokens[row, 0] = tokens[row, sampled[row] - 1]


# ---- slots of preempted requests


@mutant(
    "M-ES-16",
    None,
    "equivalent: no other request uses the slot in between, because a step that preempts admits none. The next request "
    "overwrites tokens that still arrive, and slots may differ between stages (M-PP-18)",
)
class FreesPreemptedLate(Stage):
    """The first stage frees slots of preempted requests one step late, but before it assigns slots in that step."""

    late: tuple[int, ...] = ()

    def update_slots(self, batch: Batch) -> None:
        if not self.is_first:
            return super().update_slots(batch)
        now = tuple(request for request in batch.freed if request not in batch.preempted)
        freed, self.late = (*self.late, *now), batch.preempted
        return super().update_slots(batch._replace(freed=freed))


@mutant("M-ES-16-behind", "CRASH:INDEXERROR")
class FreesPreemptedBehind(Stage):
    """The first stage frees slots of preempted requests one step late, and after the admissions of that step.

    A preempted request that the scheduler admits again has one id for both times, so the stage frees its new slot.
    """

    late: tuple[int, ...] = ()

    def update_slots(self, batch: Batch) -> None:
        if not self.is_first:
            return super().update_slots(batch)
        super().update_slots(batch._replace(freed=tuple(one for one in batch.freed if one not in batch.preempted)))
        for request in self.late:
            self.free(request)
        self.late = batch.preempted
