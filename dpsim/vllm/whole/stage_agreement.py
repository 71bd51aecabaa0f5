"""The agreement of a stage's workers with the same stage of other replicas, once in each forward (specification 10.1,
row 6).

Before a forward, each worker sends its batch, and all decide on the graph and the rows of each. In this module, a batch
is the tokens of each request. A worker without tokens sends a dummy batch. Each runner has its own form:

    AgreementV1   dispatch, send, dispatch again with the agreed count
    AgreementV2   send the batch itself, by point-to-point swaps, and choose the graph afterwards

    >>> from dpsim.vllm.config import EngineConfig
    >>> from dpsim.vllm.graphs.candidates import CandidateTable
    >>> config = EngineConfig(cudagraph_capture_sizes=(1, 2, 4), max_num_seqs=4)
    >>> agreement = AgreementV2(batch_v2.AgreementV2(config, CandidateTable(config)))
    >>> table = np.array([agreement.column((1, 1, 1)), agreement.column(agreement.dummy())], np.int32).T
    >>> agreement.decide(table, (1, 1, 1), index=0)
    Ran(mode=<RuntimeMode.FULL: 2>, num_tokens=4, counts=(4, 4), microbatched=False, skip_drafts=True)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from dpsim.contract.interface import HostArray, HostCommunicator
from dpsim.vllm.config import RuntimeMode
from dpsim.vllm.data_parallel import batch_v2
from dpsim.vllm.data_parallel.doubling import sum_over
from dpsim.vllm.data_parallel.flow import BatchFlow
from dpsim.vllm.data_parallel.timeline import Batch
from dpsim.vllm.graphs.capture import CaptureSize

SITE = "dp.agree"

Tokens = Sequence[int]
"""The tokens of each request of a batch."""


class Ran(NamedTuple):
    """`num_tokens`: this rank's, padded. `counts`: the rows of all ranks for the experts.

    `skip_drafts`: all ranks skip the drafts of this step; None if the runner has no vote on it.
    """

    mode: RuntimeMode
    num_tokens: int
    counts: tuple[int, ...]
    microbatched: bool = False
    skip_drafts: bool | None = None


class StageAgreement(ABC):
    """One rank's side of the agreement: what it sends, and the decision."""

    @abstractmethod
    def dummy(self) -> Tokens:
        """The batch of a rank without tokens."""

    @abstractmethod
    def column(self, tokens: Tokens, may_skip_drafts: bool = True) -> tuple[int, ...]:
        """This rank's column, int32. `may_skip_drafts`: its batch needs no drafts after this step."""

    async def reduced(self, peers: HostCommunicator, table: HostArray) -> HostArray:
        """Sum the tables of all ranks, each of which contains one rank's column."""
        return await peers.all_reduce(table, site=SITE)

    @abstractmethod
    def decide(self, table: HostArray, tokens: Tokens, index: int) -> Ran:
        """Decide from the reduced table, of shape (rows, ranks). `index`: this rank's column."""

    @abstractmethod
    def captures(self) -> list[CaptureSize]:
        """The graphs for all batches: mixed ones before those of decodes, the largest first."""


def in_order(graphs: Iterable[tuple[bool, int, RuntimeMode]]) -> list[CaptureSize]:
    """`graphs`: for decodes or not, tokens, mode. Of equal tokens and mode, those of mixed batches stay."""
    ordered = sorted(graphs, key=lambda one: (one[0], -one[1], one[2]))
    first: dict[tuple[int, RuntimeMode], bool] = {}
    for uniform, tokens, mode in ordered:
        first.setdefault((tokens, mode), uniform)
    return [CaptureSize(tokens, mode, uniform) for (tokens, mode), uniform in first.items()]


class AgreementV1(StageAgreement):
    """The agreement of the V1 runner, with its first and its second dispatch."""

    def __init__(self, flow: BatchFlow) -> None:
        self.flow, self.form = flow, flow.form

    def dummy(self) -> Tokens:
        return (self.flow.dummy_tokens(),)

    def batch(self, tokens: Tokens) -> Batch:
        pieces = tuple((number, count, 0) for number, count in enumerate(tokens))
        return Batch(pieces, sum(tokens), max(tokens))

    def column(self, tokens: Tokens, may_skip_drafts: bool = True) -> tuple[int, ...]:
        batch = self.batch(tokens)
        return self.form.column(self.flow.local_batch(batch, *self.flow.first_dispatch(batch)))

    def decide(self, table: HostArray, tokens: Tokens, index: int) -> Ran:
        plan = self.form.decide(table, self.flow.config)
        assert plan.num_tokens is not None, "ranks that agree have a count each"
        agreed = plan.num_tokens[index]
        mode, descriptor = self.flow.second_dispatch(self.batch(tokens), agreed, plan)
        assert descriptor.num_tokens == agreed, f"the second dispatch pads {agreed} tokens to {descriptor.num_tokens}"
        return Ran(mode, agreed, plan.num_tokens, plan.microbatched)

    def captures(self) -> list[CaptureSize]:
        keys = self.flow.dispatcher.keys
        return in_order([(key.uniform, key.num_tokens, mode) for mode, graphs in keys.items() for key in graphs])


class AgreementV2(StageAgreement):
    """The agreement of the V2 runner in release 0.33."""

    def __init__(self, agreement: batch_v2.AgreementV2) -> None:
        self.agreement, self.table = agreement, agreement.graphs

    def dummy(self) -> Tokens:
        return (self.table.q,)

    def local(self, tokens: Tokens) -> batch_v2.LocalV2:
        return batch_v2.LocalV2(sum(tokens), len(tokens), tokens[0] if len(set(tokens)) == 1 else None)

    def column(self, tokens: Tokens, may_skip_drafts: bool = True) -> tuple[int, ...]:
        local = self.local(tokens)._replace(may_skip_drafts=may_skip_drafts)
        return self.agreement.column(local, self.agreement.first_dispatch(local))

    async def reduced(self, peers: HostCommunicator, table: HostArray) -> HostArray:
        return await sum_over(peers, table, SITE)

    def decide(self, table: HostArray, tokens: Tokens, index: int) -> Ran:
        chosen, state = self.agreement.decide(table, self.local(tokens))
        assert state is not None, "every rank sends some tokens, if only those of a dummy"
        return Ran(chosen.mode, chosen.num_tokens, state.num_tokens, skip_drafts=state.skip_drafts)

    def captures(self) -> list[CaptureSize]:
        mixed = [(False, graph.num_tokens, graph.mode) for graph in self.table.mixed]
        return in_order([*mixed, *[(True, graph.num_tokens, graph.mode) for graph in self.table.decodes]])


def table_of(column: tuple[int, ...], index: int, ranks: int) -> HostArray:
    """A table of zeros with this rank's column. The sum over all ranks is the whole table."""
    table = np.zeros((len(column), ranks), np.int32)
    table[:, index] = column
    return table
