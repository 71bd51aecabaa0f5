"""The step of the V2 runner: ranks tell batches, all look one graph up, and nobody dispatches twice (1.7, 10.1).

All else is the step of the V1 runner. Ranks agree over gloo whatever is configured, and a microbatch without a real
token is run, where the V1 runner never lets it come to that (3.4).

    10.1, row 6   column of seven numbers, SUM over dp_cpu -> descriptor, counts of all ranks, record

No program names it yet: a stack does (`dpsim.protocol.whole.stacks`). XX: without a drafter, which runs under the
record of the step (`AgreementV2.reuse`), and without captures.
"""

from __future__ import annotations

from dpsim.protocol.data_parallel.batch import StepPlan
from dpsim.protocol.data_parallel.batch_v2 import AgreementV2, LocalV2, SyncState
from dpsim.protocol.data_parallel.forward import Execution
from dpsim.protocol.data_parallel.step import DataParallelStep
from dpsim.protocol.data_parallel.timeline import Batch
from dpsim.protocol.graphs.candidates import BatchDescriptor, CandidateTable
from dpsim.protocol.graphs.dispatcher import Descriptor


class DataParallelStepV2(DataParallelStep):
    """The step of one rank. `state`: what all ranks know of the batch that was agreed on last."""

    agreement: type[AgreementV2] = AgreementV2
    graphs: type[CandidateTable] = CandidateTable
    state: SyncState | None = None

    async def coordinate(self, batch: Batch) -> Execution:
        """Agree, and look the graph up with what all told."""
        agreement, local = self.agreement(self.config, self.graphs(self.config)), self.local(batch)
        chosen = agreement.first_dispatch(local)
        if self.host.size > 1:
            table = await self.gather(agreement.column(local, chosen))
            chosen, self.state = agreement.decide(table, local)
        counts = self.state.num_tokens if self.state is not None else None
        plan = StepPlan(chosen.num_ubatches > 1, counts, chosen.mode)
        self.rank.decide("plan", (plan.microbatched, plan.num_tokens, int(plan.mode)), "dp_cpu")
        self.rank.decide("mode", (plan.mode.name, plan.microbatched), "dp_cpu")
        return Execution(plan, plan.mode, chosen.num_tokens, batch, self.key(chosen))

    def local(self, batch: Batch) -> LocalV2:
        """What this rank brings. A dummy is one request that decodes; encoder inputs have no graph (1.8)."""
        uniform = self.flow.q if self.flow.uniform(batch) else None
        eager = batch.force_eager or batch.encoder_reqs > 0
        may_split = self.config.use_ubatching and batch.allow_microbatching
        return LocalV2(batch.num_tokens, max(batch.num_reqs, 1), uniform, may_split, need_eager=eager)

    def key(self, chosen: BatchDescriptor) -> Descriptor:
        """The graph in the V1 runner's words."""
        return Descriptor(chosen.num_tokens, chosen.num_reqs, chosen.uniform_token_count is not None)

    def syncs_on_host(self) -> bool:
        return True

    def refuse_empty(self, number: int, start: int, real: int) -> None:
        """It runs as a dummy."""


__all__ = ["DataParallelStepV2"]
