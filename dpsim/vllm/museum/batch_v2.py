"""Variants of the V2 runner's agreement: mutants of specification 1.12 and 3.10, and defects of release 0.33 itself.

Two entries are not mutants. 0.33 replays a FULL graph over an empty last microbatch (M-UB-13), and gives one to a rank
that has to run eagerly (1.8). So the form has both defects. Their twin is `v2-repaired`, the form with both repaired,
and each of them undoes one of the repairs.

"One rank" is the last of its group.

    protocol: {name: dp_batch, form: v2-0.33, variant: M-DP-14}
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
    """One rank's table is not contiguous, so that it reduces by the collective and its peers swap with it."""

    def own_table(self, column: tuple[int, ...]) -> HostArray:
        table = super().own_table(column)
        return np.asfortranarray(table) if self.host.index == self.host.size - 1 else table


@mutant("M-DP-13", "CRASH:RANKWITHOUTROW", form="v2-0.17")
class RunsNothing(DataParallelStepV2017):
    """A rank without tokens runs none in a step without a graph."""

    class Unclamped(PaddingV2017):
        def least(self) -> int:
            return 0

    padding = Unclamped


@mutant("M-DP-14", "CRASH:ASSERTIONERROR")
class FirstRecord(DrafterV2):
    """The drafter keeps the record of the first batch.

    A rank whose batch has another number of tokens raises. A rank whose batch has the same number goes on alone, and
    waits for the others in the collective of the drafter's experts.
    """

    kept: SyncState | None = None

    def record(self) -> SyncState | None:
        self.kept = self.kept or super().record()
        return self.kept


@mutant("M-UB-12", "DISAGREEMENT:PLAN")
class OwnThreshold(DataParallelStepV2):
    """A rank chooses the threshold by its own batch only: one rank has decodes and splits, another does not."""

    class Agreement(AgreementV2):
        def decodes(self, uniform: int | None, local: LocalV2) -> bool:
            return local.uniform_token_count == self.graphs.q

    agreement = Agreement


@mutant("skips-by-own-vote", "HANG:COLLECTIVE:MISSING_RANK")
class SkipsByOwnVote(DrafterV2):
    """A rank skips the drafter by its own vote, whatever the others voted: its peers miss it in the experts."""

    def skips(self, record: SyncState | None, local: LocalV2) -> bool:
        return local.may_skip_drafts


# ---- defects of 0.33


class NoneEmpty(AgreementV2):
    """A rank keeps a graph only if every microbatch of every rank has a token."""

    def leaves_one_empty(self, num_tokens: int, graph: BatchDescriptor) -> bool:
        return last_microbatch_empty(num_tokens, graph.num_tokens, graph.num_ubatches)


class EagerStays(AgreementV2):
    """A rank also checks the modes in a split step."""

    def split_dispatch(self, told: ReducedTable, uniform: int | None, local: LocalV2) -> BatchDescriptor:
        chosen = super().split_dispatch(told, uniform, local)
        if self.agreed_mode(told) is RuntimeMode.NONE:
            return BatchDescriptor(RuntimeMode.NONE, max(told.tokens), local.num_reqs, num_ubatches=chosen.num_ubatches)
        return chosen


@mutant(REPAIRED, None, reason="healthy: release 0.33 with its two defects repaired, the twin of its defects")
class Repaired(DataParallelStepV2):
    """No microbatch of a graph is empty, and a rank that has to run eagerly does so."""

    class Agreement(EagerStays, NoneEmpty):
        pass

    agreement: type[AgreementV2] = Agreement


@mutant("M-UB-13", "CRASH:EMPTYREPLAY", twin=REPAIRED)
class KeepsHalfEmpty(Repaired):
    """A rank with exactly half of a graph's tokens has none for the last microbatch, and still keeps the graph.

    Release 0.33 does this (vllm pull request 57020).
    """

    agreement = EagerStays


@mutant("v2-eager-in-graph", "CRASH:EAGERINGRAPH", twin=REPAIRED)
class SplitsBeforeModes(Repaired):
    """A rank decides about a split before it checks the modes: one that has to run eagerly gets a FULL graph.

    Release 0.33 does this, but its rules about configurations keep it out of reach.
    """

    agreement = NoneEmpty
