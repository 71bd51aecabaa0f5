"""The drafter of the V2 runner in release 0.33: it reuses the agreement of the step (specification 10.3).

The `SyncState` of the step has the tokens of each rank and the largest number of requests (specification 1.2 and 1.7).
In its first forward, each rank runs the tokens of the step. In each further forward, a request has one token, and every
rank runs the largest number of requests.

    num_speculative_tokens   agreements   forwards
    1                        0            1
    3                        0            1 + 2
    any, skipped by all      0            0

A rank votes to skip the drafts of a step if no request of its batch has drafts in its next decode. If all ranks vote to
skip, the drafter does not run (`SyncState.skip_drafts`). The specification describes the vote and its effect (1.2 and
6.5), but not when a rank votes so: the model derives the condition. This drafter accepts sequences of any length.
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
    """The drafter of one rank of the V2 runner."""

    def __init__(self, step: DataParallelStepV2, flow: BatchFlow) -> None:
        super().__init__(step, flow)
        self.of_step, config = step, graphs_of(flow.config)
        self.reuses = step.agreement(config, step.graphs(config))

    async def propose(self, batch: Batch) -> list[Microbatch]:
        """Launch all forwards of a step's drafter, none if the ranks skip them. The caller reads their rows later."""
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
        """Whether no rank runs the drafter in this step. A single rank has no record and decides by its own vote."""
        return local.may_skip_drafts if record is None else record.skip_drafts

    def record(self) -> SyncState | None:
        """The record of the agreement on this step's batch; None for a single rank."""
        return self.of_step.state

    def forward(
        self, record: SyncState | None, local: LocalV2, pieces: tuple[Piece, ...], times: int
    ) -> list[Microbatch]:
        """Launch forwards under a record. Raises AssertionError if the tokens of `local` contradict the record."""
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
