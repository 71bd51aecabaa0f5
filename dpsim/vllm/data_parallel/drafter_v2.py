"""The drafter of the V2 runner, release 0.33: it runs under the record of the step, and agrees on nothing (10.3).

The record has the tokens of each rank in the step, so all ranks know how many each runs in the drafter's first forward.
Each further forward has one token a request. The record has the most requests of a rank, and every rank runs that
number (1.2, 1.7).

    num_speculative_tokens   agreements   forwards
    1                        0            1
    3                        0            1 + 2
    any, skipped by all      0            0

A rank votes to skip the drafts of a step if no request of its batch has drafts in its next decode. If all ranks vote
so, the drafter does not run (`SyncState.skip_drafts`). A rank whose peers want drafts runs it with them, because
they need its experts. The specification has the vote and its effect (1.2, 6.5); the condition of the vote is derived.

No sequence is too long for this drafter.
"""

from __future__ import annotations

from dpsim.vllm.data_parallel.batch_v2 import LocalV2, SyncState
from dpsim.vllm.data_parallel.drafter import Drafter, graphs_of
from dpsim.vllm.data_parallel.flow import BatchFlow
from dpsim.vllm.data_parallel.forward import Microbatch
from dpsim.vllm.data_parallel.step_v2 import DataParallelStepV2
from dpsim.vllm.data_parallel.timeline import Batch
from dpsim.vllm.model.rows import Piece


class DrafterV2(Drafter):
    """The drafter of one rank. `num_tokens`: what the step ran, with padding, as its batch says it."""

    def __init__(self, step: DataParallelStepV2, flow: BatchFlow) -> None:
        super().__init__(step, flow)
        self.of_step, config = step, graphs_of(flow.config)
        self.reuses = step.agreement(config, step.graphs(config))

    async def propose(self, batch: Batch) -> list[Microbatch]:
        """Launch all forwards after a step of the target. The caller still has to read their rows."""
        record, local = self.record(), self.of_step.local(batch)
        if self.skips(record, local):
            return []
        forwards = self.forward(record, local._replace(num_tokens=self.of_step.num_tokens), batch.scheduled, times=1)
        further = self.config.num_speculative_tokens - 1
        if further:
            pieces = tuple([(request, 1, position + tokens) for request, tokens, position in batch.scheduled])
            most = local.num_reqs if record is None else record.num_reqs
            if record is not None:
                record = record._replace(num_tokens=(most,) * self.step.host.size, uniform_token_count=1)
            forwards += self.forward(record, LocalV2(most, local.num_reqs, 1), pieces, times=further)
        return forwards

    def skips(self, record: SyncState | None, local: LocalV2) -> bool:
        """Whether no rank drafts in this step; a single rank goes by its own vote."""
        return local.may_skip_drafts if record is None else record.skip_drafts

    def record(self) -> SyncState | None:
        """The record of this step's batch, None for a single rank."""
        return self.of_step.state

    def forward(
        self, record: SyncState | None, local: LocalV2, pieces: tuple[Piece, ...], times: int
    ) -> list[Microbatch]:
        """Launch forwards under a record. Raises AssertionError for a record of another batch, as far as it sees."""
        index = self.step.host.index
        counts: tuple[int, ...] = (local.num_tokens,)
        if record is not None:
            chosen, record = self.reuses.reuse(record, index, local)
            counts = record.num_tokens
            self.step.rank.decide("draft.plan", (counts, int(chosen.mode)), "dp_cpu")
        return [
            self.step.launch_layer(sum(counts), sum(counts[:index]), counts[index], pieces, "draft")
            for _ in range(times)
        ]
