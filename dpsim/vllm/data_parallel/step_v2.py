"""One step of the V2 runner in release 0.33: the ranks agree first, then each looks up the graph once (specification
1.7).

Except for the agreement, the step is that of the V1 runner (`dpsim.vllm.data_parallel.step`). In every configuration,
the ranks agree over gloo by recursive doubling. If the last microbatch has no real token, it runs all the same; the V1
runner does not split such a step (specification 3.4).

    column of seven numbers, SUM over dp_cpu -> graph, counts of all ranks, record       (specification 10.1, row 6)

The step raises two errors that the engine does not check, because their effect depends on the attention backend:

    EmptyReplay    a FULL graph of microbatches runs over a microbatch without a real token (invariant I-DP-7)
    EagerInGraph   a batch that has to run eagerly runs in a graph (specification 1.8)
"""

from __future__ import annotations

import numpy as np

from dpsim.contract.interface import HostArray
from dpsim.vllm.config import RuntimeMode
from dpsim.vllm.data_parallel.batch import StepPlan
from dpsim.vllm.data_parallel.batch_v2 import AgreementV2, LocalV2, SyncState
from dpsim.vllm.data_parallel.doubling import sum_over
from dpsim.vllm.data_parallel.forward import Execution
from dpsim.vllm.data_parallel.microbatch import last_microbatch_empty
from dpsim.vllm.data_parallel.step import DataParallelStep
from dpsim.vllm.data_parallel.timeline import Batch
from dpsim.vllm.graphs.candidates import BatchDescriptor, CandidateTable


class EmptyReplay(AssertionError):
    """A rank replays a FULL graph over a microbatch without a real token, and the graph reads rows of an earlier step.

    Release 0.33 does this if a rank has exactly half of the graph's tokens (mutant M-UB-13).
    """


class EagerInGraph(AssertionError):
    """A rank runs a batch in a graph, although the batch has to run eagerly."""


class DataParallelStepV2(DataParallelStep):
    """`state`: of the last agreement; None for a single rank. `num_tokens`: this rank's, with padding."""

    agreement: type[AgreementV2] = AgreementV2
    graphs: type[CandidateTable] = CandidateTable
    state: SyncState | None = None
    num_tokens = 0

    async def coordinate(self, batch: Batch) -> Execution:
        """Agree, then look up the graph. EmptyReplay, EagerInGraph: this rank's batch may not run in it."""
        agreement, local = self.agreement(self.config, self.graphs(self.config)), self.local(batch)
        wished = chosen = agreement.first_dispatch(local)
        if self.host.size > 1:
            table = await self.gather(agreement.column(local, wished))
            chosen, self.state = agreement.decide(table, local)
            self.probe_v2(local, wished, chosen)
        counts = self.state.num_tokens if self.state is not None else None
        plan = StepPlan(chosen.num_ubatches > 1, counts, chosen.mode)
        self.rank.decide("plan", (plan.microbatched, plan.num_tokens, int(plan.mode)), "dp_cpu")
        self.rank.decide("mode", (plan.mode.name, plan.microbatched), "dp_cpu")
        self.refuse_graph(local, chosen)
        self.num_tokens = chosen.num_tokens
        return Execution(plan, plan.mode, chosen.num_tokens, batch, chosen.key)

    def local(self, batch: Batch) -> LocalV2:
        """A dummy is one decode. A batch with encoder inputs runs eagerly (specification 1.8)."""
        uniform = self.flow.q if self.flow.uniform(batch) else None
        eager = batch.force_eager or batch.encoder_reqs > 0
        may_split = self.config.use_ubatching and batch.allow_microbatching
        no_drafts = batch.drafts == 0
        return LocalV2(batch.num_tokens, max(batch.num_reqs, 1), uniform, may_split, no_drafts, need_eager=eager)

    async def gather(self, column: tuple[int, ...]) -> HostArray:
        """All columns, int32 (rows, ranks), by point-to-point swaps (specification 1.4)."""
        return await sum_over(self.host, self.own_table(column), "dp.agree")

    def own_table(self, column: tuple[int, ...]) -> HostArray:
        """Contiguous; otherwise the rank would reduce by another protocol than its peers."""
        table = np.zeros((len(column), self.host.size), np.int32)
        table[:, self.host.index] = column
        return table

    def probe_v2(self, local: LocalV2, wished: BatchDescriptor, chosen: BatchDescriptor) -> None:
        """Record as probes (marks in the trace, for tests) in which ways this rank followed the others."""
        if chosen.num_ubatches > 1:
            self.rank.probe("dp.microbatched")
        elif local.may_split:
            self.rank.probe("dp.not_microbatched")
        if chosen.num_tokens > wished.num_tokens:
            self.rank.probe("dp.padded_further")
        if chosen.mode < wished.mode:
            self.rank.probe("dp.lower_mode")

    def refuse_graph(self, local: LocalV2, chosen: BatchDescriptor) -> None:
        """Raises EagerInGraph or EmptyReplay if this rank's batch may not run in the chosen graph."""
        if local.need_eager and chosen.mode is not RuntimeMode.NONE:
            raise EagerInGraph(f"{local.num_tokens} tokens have to run eagerly, and are in a {chosen.mode.name} graph")
        parts, full = chosen.num_ubatches, chosen.mode is RuntimeMode.FULL
        if full and parts > 1 and last_microbatch_empty(local.num_tokens, chosen.num_tokens, parts):
            raise EmptyReplay(
                f"{local.num_tokens} tokens are to fill {parts} microbatches of a FULL graph of {chosen.num_tokens}, "
                "and the last microbatch receives none of them (I-DP-7)"
            )

    def syncs_on_host(self) -> bool:
        return True

    def refuse_empty(self, number: int, start: int, real: int) -> None:
        """Accepts a microbatch without a real token: it runs as a dummy."""
