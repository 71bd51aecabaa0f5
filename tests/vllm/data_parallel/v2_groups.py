"""Ranks of the V2 runner for tests of its batch agreement, and agreements with one mistake each."""

from __future__ import annotations

from dpsim.contract.interface import HostArray
from dpsim.vllm.config import CUDAGraphMode, EngineConfig, RuntimeMode
from dpsim.vllm.data_parallel.batch_v2 import (
    AgreementV2,
    LocalV2,
    ReducedTable,
    SyncState,
)
from dpsim.vllm.graphs.candidates import BatchDescriptor
from dpsim_engine.v2 import Decided

Kind = type[AgreementV2]

SMALL = EngineConfig(cudagraph_capture_sizes=(1, 2, 4, 8, 16), max_num_seqs=8)
SPLIT = EngineConfig(
    cudagraph_capture_sizes=(64, 128), max_num_seqs=128, enable_dbo=True, cudagraph_mode=CUDAGraphMode.FULL_DECODE_ONLY
)


def decodes(count: int, **more: bool) -> LocalV2:
    return LocalV2(count, count, 1, may_split=True, **more)


def prefill(count: int) -> LocalV2:
    return LocalV2(count, 1, count, may_split=True)


# ---- agreements with one mistake each


class LargestMode(AgreementV2):
    """All ranks take the largest mode that a rank sent, instead of the smallest."""

    def agreed_mode(self, told: ReducedTable) -> RuntimeMode:
        return RuntimeMode(max(told.modes))


class OwnThreshold(AgreementV2):
    """Mutant M-UB-12: a rank checks only its own batch to decide whether the step has decodes only."""

    def decodes(self, uniform: int | None, local: LocalV2) -> bool:
        return local.uniform_token_count == self.graphs.q


class IdleOptsOut(AgreementV2):
    """Mutant M-UB-10: a rank with one request, as a dummy has, does not split."""

    def splits(self, told: ReducedTable, uniform: int | None, local: LocalV2) -> bool:
        return super().splits(told, uniform, local) and local.num_reqs > 1


class OwnRequestsInTheRecord(AgreementV2):
    """A rank keeps its own number of requests in the agreement record, instead of the agreed number."""

    def decide(self, table: HostArray, local: LocalV2) -> Decided:
        chosen, state = super().decide(table, local)
        return chosen, state and state._replace(num_reqs=local.num_reqs)


class OwnCountsInTheRecord(AgreementV2):
    """A rank keeps the counts that the ranks sent in the agreement record, instead of the agreed counts."""

    def decide(self, table: HostArray, local: LocalV2) -> Decided:
        chosen, state = super().decide(table, local)
        return chosen, state and state._replace(num_tokens=tuple(table[0].tolist()))


class PadsEager(AgreementV2):
    """A rank sends the size of its graph instead of its tokens, as in the V1 runner."""

    def column(self, local: LocalV2, desired: BatchDescriptor) -> tuple[int, ...]:
        return (desired.num_tokens, *super().column(local, desired)[1:])


class KeepsEmpty(AgreementV2):
    """The ranks keep a graph although the last microbatch of a rank is empty."""

    def leaves_one_empty(self, num_tokens: int, graph: BatchDescriptor) -> bool:
        return False


class ReusesAnything(AgreementV2):
    """Mutant M-DP-14: a rank reuses the record of another batch, and no check compares the record with its batch."""

    def reuse(self, state: SyncState, index: int, local: LocalV2) -> tuple[BatchDescriptor, SyncState]:
        told = local._replace(num_tokens=state.num_tokens[index], uniform_token_count=state.uniform_token_count)
        return super().reuse(state, index, told)


class ReusesOwnRequests(AgreementV2):
    """A rank looks up the drafter's graph by its own number of requests, instead of the number in the record."""

    def reuse(self, state: SyncState, index: int, local: LocalV2) -> tuple[BatchDescriptor, SyncState]:
        return super().reuse(state._replace(num_reqs=local.num_reqs), index, local)
