"""The data-parallel agreement of the V2 runner: ranks send batches, not graphs, and look the graph up afterwards.

`dpsim.vllm.data_parallel.batch` is the same for the V1 runner, with another interface. There a rank sends the size of
its graph, and the agreed count is the largest size. Here a rank sends its tokens, its requests, and the tokens that all
its requests have in common. The agreed count is that of the graph which every rank then finds for the largest batch.
All ranks find the same one, because they agreed on the inputs of the lookup. They did not agree on the mode (1.7).

    >>> import numpy as np
    >>> config = EngineConfig(cudagraph_capture_sizes=(1, 2, 4, 8, 16), max_num_seqs=8)
    >>> agreement = AgreementV2(config, CandidateTable(config))
    >>> ranks = [LocalV2(3, 3, 1), LocalV2(1, 1, 1)]  # three decodes, and a dummy (example A-16)
    >>> columns = [agreement.column(rank, agreement.first_dispatch(rank)) for rank in ranks]
    >>> columns
    [(3, 2, 1, -1, 0, 3, 0), (1, 2, 1, -1, 0, 1, 0)]
    >>> descriptor, state = agreement.decide(np.array(columns, np.int32).T, ranks[1])
    >>> descriptor[:3] == (RuntimeMode.FULL, 4, 4), state.num_tokens, state.num_reqs
    (True, (4, 4), 3)

After the agreement all ranks have the same record of a batch, `SyncState`. A drafter runs under the record of the step
and agrees on nothing more (`reuse`). In release 0.17 ranks sent sizes, as in the V1 runner: `PaddingV2017`.

This module keeps two defects of 0.33, both in the branch that splits the step (3.4, 1.8). A last microbatch without a
real token keeps its FULL graph if the smallest rank has exactly half of the graph's tokens. And a rank that has to run
eagerly gets a FULL graph, because the branch comes before the check of the modes.
"""

from __future__ import annotations

from typing import NamedTuple

from dpsim.contract.interface import HostArray
from dpsim.vllm.config import EngineConfig, RuntimeMode
from dpsim.vllm.data_parallel.microbatch import wants_microbatching
from dpsim.vllm.graphs.candidates import BatchDescriptor, CandidateTable


class LocalV2(NamedTuple):
    """The column of one rank. `uniform_token_count`: tokens of each of its requests, None if they differ; `may_split`,
    `may_skip_drafts`: its permissions; `need_eager`: it runs without a graph.
    """

    num_tokens: int
    num_reqs: int
    uniform_token_count: int | None = None
    may_split: bool = False
    may_skip_drafts: bool = False
    need_eager: bool = False


class SyncState(NamedTuple):
    """The record of a batch, equal on all ranks, so no field may be one rank's own (1.2).

    `num_tokens`: tokens that each rank runs. `uniform_token_count`: tokens of each request of all ranks, None if they
    differ. `num_reqs`: the most requests that a rank has.
    """

    num_tokens: tuple[int, ...]
    uniform_token_count: int | None
    eager: bool
    num_reqs: int
    skip_drafts: bool


class ReducedTable(NamedTuple):
    """The reduced table, row by row, in the order of the wire (1.4). A rank without work sends zeros."""

    tokens: list[int]
    modes: list[int]
    uniform: list[int]
    longest: list[int]
    may_split: list[int]
    requests: list[int]
    may_skip_drafts: list[int]

    def common_uniform(self) -> int | None:
        """The tokens of every request of every rank, None if they differ."""
        return self.uniform[0] if len(set(self.uniform)) == 1 and self.uniform[0] else None


class AgreementV2:
    """Release 0.33. Methods in the order in which a step calls them; a mistake overrides one.

    A single rank sends nothing: it runs what its first dispatch returns, and has no record (I-DP-8).
    """

    rows = 7

    def __init__(self, config: EngineConfig, graphs: CandidateTable) -> None:
        self.config, self.graphs = config, graphs

    def first_dispatch(self, local: LocalV2) -> BatchDescriptor:
        """The graph that this rank would run alone."""
        if local.need_eager:
            return BatchDescriptor(RuntimeMode.NONE, local.num_tokens, local.num_reqs)
        return self.graphs.dispatch(local.num_reqs, local.num_tokens, local.uniform_token_count)

    def column(self, local: LocalV2, desired: BatchDescriptor) -> tuple[int, ...]:
        """This rank's column of the table: `rows` int32 values. No graph here bounds query lengths: that row is -1."""
        uniform, split, skip = local.uniform_token_count or 0, int(local.may_split), int(local.may_skip_drafts)
        return local.num_tokens, int(desired.mode), uniform, -1, split, local.num_reqs, skip

    def decide(self, table: HostArray, local: LocalV2) -> tuple[BatchDescriptor, SyncState | None]:
        """Decide from the reduced table of shape (rows, ranks), int32. Returns what this rank runs, and the record.

        The rank adds its number of requests, for which every graph has room. If no rank has work, there is no
        record, and no rank runs a forward.
        """
        told = ReducedTable(*table.tolist())
        uniform = told.common_uniform()
        if not any(told.tokens):
            return BatchDescriptor(RuntimeMode.NONE, 0, 0), None
        if self.splits(told, uniform, local):
            chosen = self.split_dispatch(told, uniform, local)
            counts = [chosen.num_tokens] * len(told.tokens)
        elif self.agreed_mode(told) == RuntimeMode.NONE:
            chosen, counts = BatchDescriptor(RuntimeMode.NONE, local.num_tokens, local.num_reqs), told.tokens
        else:
            chosen = self.graphs.dispatch(local.num_reqs, max(told.tokens), uniform)
            counts = [chosen.num_tokens] * len(told.tokens)
        return chosen, SyncState(
            tuple(counts),
            uniform,
            chosen.mode == RuntimeMode.NONE,
            max(told.requests),
            set(told.may_skip_drafts) == {1},
        )

    def agreed_mode(self, told: ReducedTable) -> RuntimeMode:
        return RuntimeMode(min(told.modes))

    # ---- microbatches (3.4)

    def splits(self, told: ReducedTable, uniform: int | None, local: LocalV2) -> bool:
        """Whether all permit it, and the smallest rank has enough tokens, for the predicate is monotone (I-UB-7)."""
        return set(told.may_split) == {1} and wants_microbatching(
            min(told.tokens), self.decodes(uniform, local), self.config
        )

    def decodes(self, uniform: int | None, local: LocalV2) -> bool:
        """Whether the threshold of decodes applies: all requests of all ranks are decodes."""
        return uniform == self.graphs.q

    def split_dispatch(self, told: ReducedTable, uniform: int | None, local: LocalV2) -> BatchDescriptor:
        """A graph of this number of microbatches, or the tokens of the largest rank without a graph."""
        parts = self.config.num_ubatches
        graph = self.graphs.split_graph(local.num_reqs, max(told.tokens), uniform, parts)
        if graph is not None and not self.leaves_one_empty(min(told.tokens), graph):
            return graph
        return BatchDescriptor(RuntimeMode.NONE, max(told.tokens), local.num_reqs, num_ubatches=parts)

    def leaves_one_empty(self, num_tokens: int, graph: BatchDescriptor) -> bool:
        """Whether a rank of this number of tokens has none in its last microbatch. As in 0.33, the answer is wrong for
        exactly half of the graph's tokens, and for more than two microbatches.
        """
        return 2 * num_tokens < graph.num_tokens

    # ---- a later dispatch of the same batch

    def reuse(self, state: SyncState, index: int, local: LocalV2) -> tuple[BatchDescriptor, SyncState]:
        """Dispatch under a record, without another agreement. A drafter has other graphs than its target (I-DP-14).

        `index`: this rank's place. Raises AssertionError if the rank sees that the record is not of this batch. The
        rank does not check again whether it needs to run eagerly, because the record holds for all. If a graph pads
        further, it does so on all ranks.
        """
        assert state.num_tokens[index] == local.num_tokens, (
            f"a record of {state.num_tokens[index]} tokens for rank {index}, which has {local.num_tokens} (I-DP-14)"
        )
        assert state.uniform_token_count in (None, local.uniform_token_count), (
            f"a record of {state.uniform_token_count} tokens a request, where there are {local.uniform_token_count}"
        )
        if state.eager:
            return BatchDescriptor(RuntimeMode.NONE, local.num_tokens, local.num_reqs), state
        chosen = self.graphs.dispatch(state.num_reqs, local.num_tokens, state.uniform_token_count)
        if chosen.num_tokens > local.num_tokens:
            state = state._replace(num_tokens=(chosen.num_tokens,) * len(state.num_tokens))
        return chosen, state


class PaddingV2017:
    """Release 0.17: ranks send sizes of graphs, and all run the largest size in the smallest mode."""

    rows = 3

    def column(self, num_tokens: int, size: int | None, mode: RuntimeMode) -> tuple[int, ...]:
        """`size`: the size of this rank's graph, None without one. A rank without tokens needs no graph."""
        return num_tokens, 0 if not num_tokens else -1 if size is None else size, int(mode)

    def alone(self, num_tokens: int, size: int | None, mode: RuntimeMode) -> tuple[int, None, RuntimeMode]:
        """A single rank pads to its size even in mode NONE; several do not (example A-15)."""
        return num_tokens if size is None else size, None, mode

    def decide(self, table: HostArray, index: int) -> tuple[int, tuple[int, ...] | None, RuntimeMode]:
        """Returns the tokens of rank `index`, those of all, and the mode. Without any work there are no counts."""
        tokens, sizes, modes = table.tolist()
        mode = RuntimeMode(min(modes))
        if not any(tokens):
            return 0, None, RuntimeMode.NONE
        if mode is RuntimeMode.NONE or min(sizes) < 0:
            counts, mode = tuple(max(count, self.least()) for count in tokens), RuntimeMode.NONE
        else:
            counts = (max(sizes),) * len(tokens)
        return counts[index], counts, mode

    def least(self) -> int:
        """Tokens of a rank without work. With one token its size in the expert collectives is not zero."""
        return 1
