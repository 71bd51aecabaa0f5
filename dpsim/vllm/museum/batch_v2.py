"""Variants of the V2 runner's batch agreement: each class is a healthy program with one planted mistake.

The mutants are those of sections 1.12 and 3.10. Two variants are defects of the form `v2-0.33`. First, it replays a
FULL graph although the last microbatch is empty (M-UB-13). Second, it gives such a graph to a rank that has to run
eagerly (specification 1.8). The variant `v2-repaired` repairs both, and each of the two defects is `v2-repaired`
without one repair.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dpsim.contract.interface import HostArray
from dpsim.contract.registry import register_variant
from dpsim.vllm.config import RuntimeMode
from dpsim.vllm.data_parallel.batch_v2 import AgreementV2, LocalV2, PaddingV2017, ReducedTable, SyncState
from dpsim.vllm.data_parallel.drafter_v2 import DrafterV2
from dpsim.vllm.data_parallel.microbatch import last_microbatch_empty
from dpsim.vllm.data_parallel.step_v2 import DataParallelStepV2
from dpsim.vllm.data_parallel.step_v2_017 import DataParallelStepV2017
from dpsim.vllm.graphs.candidates import BatchDescriptor

REPAIRED = "v2-repaired"


def mutant(
    name: str, expected: str | None, form: str = "v2-0.33", reason: str = "", twin: str = ""
) -> Callable[[type[Any]], type[Any]]:
    return register_variant(name, protocol="dp_batch", form=form, expected=expected, reason=reason, twin=twin)


@mutant("M-DP-12", "HANG:P2P:UNMATCHED_RECV")
class NotContiguous(DataParallelStepV2):
    """One rank's table is not contiguous in memory, so this rank calls the ordinary all-reduce.

    The engine sums a contiguous table by point-to-point messages, and any other table by a collective. So the peers of
    the rank wait for messages that it never sends.
    """

    def own_table(self, column: tuple[int, ...]) -> HostArray:
        table = super().own_table(column)
        return np.asfortranarray(table) if self.host.index == self.host.size - 1 else table


@mutant("M-DP-13", "CRASH:RANKWITHOUTROW", form="v2-0.17")
class RunsNothing(DataParallelStepV2017):
    """A rank without tokens brings no row to the experts' collectives in a step without a graph.

    The healthy rule of release 0.17 gives such a rank at least one row.
    """

    class Unclamped(PaddingV2017):
        def least(self) -> int:
            return 0

    padding = Unclamped


@mutant("M-DP-14", "CRASH:ASSERTIONERROR")
class FirstRecord(DrafterV2):
    """The drafter keeps the agreement record of the first batch for all later batches.

    A rank whose batch has another number of tokens than the record raises. A rank whose batch has the same number
    continues, and waits for the others in the collective of the drafter's experts.
    """

    kept: SyncState | None = None

    def record(self) -> SyncState | None:
        self.kept = self.kept or super().record()
        return self.kept


@mutant("M-UB-12", "DISAGREEMENT:PLAN")
class OwnThreshold(DataParallelStepV2):
    """A rank selects the split threshold by its own batch only: one rank has decodes and splits, another does not."""

    class Agreement(AgreementV2):
        def decodes(self, uniform: int | None, local: LocalV2) -> bool:
            return local.uniform_token_count == self.graphs.q

    agreement = Agreement


@mutant("skips-by-own-vote", "HANG:COLLECTIVE:MISSING_RANK")
class SkipsByOwnVote(DrafterV2):
    """A rank skips the drafter by its own vote, although the others voted to run it and wait for it in the experts."""

    def skips(self, record: SyncState | None, local: LocalV2) -> bool:
        return local.may_skip_drafts


# ---- defects of 0.33


class NoneEmpty(AgreementV2):
    """The repair of the first defect: a rank uses a graph only if every microbatch of every rank contains a token."""

    def leaves_one_empty(self, num_tokens: int, graph: BatchDescriptor) -> bool:
        return last_microbatch_empty(num_tokens, graph.num_tokens, graph.num_ubatches)


class EagerStays(AgreementV2):
    """The repair of the second defect: a rank checks the agreed mode also in a step that splits."""

    def split_dispatch(self, reduced: ReducedTable, uniform: int | None, local: LocalV2) -> BatchDescriptor:
        chosen = super().split_dispatch(reduced, uniform, local)
        if self.agreed_mode(reduced) is RuntimeMode.NONE:
            return BatchDescriptor(
                RuntimeMode.NONE, max(reduced.tokens), local.num_reqs, num_ubatches=chosen.num_ubatches
            )
        return chosen


@mutant(REPAIRED, None, reason="healthy: release 0.33 with its two defects repaired, the twin of both")
class Repaired(DataParallelStepV2):
    """Release 0.33 without its two defects: no microbatch of a graph is empty, and an eager rank runs eagerly."""

    class Agreement(EagerStays, NoneEmpty):
        pass

    agreement: type[AgreementV2] = Agreement


@mutant("M-UB-13", "CRASH:EMPTYREPLAY", twin=REPAIRED)
class KeepsHalfEmpty(Repaired):
    """A rank with exactly half of a graph's tokens leaves the last microbatch empty, and still replays the graph.

    Release 0.33 does this (vllm pull request 57020).
    """

    agreement = EagerStays


@mutant("v2-eager-in-graph", "CRASH:EAGERINGRAPH", twin=REPAIRED)
class SplitsBeforeModes(Repaired):
    """A rank decides to split before it checks the modes, so a rank that has to run eagerly gets a FULL graph.

    Release 0.33 contains this defect, but its configuration rules refuse every configuration that reaches it.
    """

    agreement = NoneEmpty
