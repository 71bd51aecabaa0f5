"""The data-parallel agreement of the V2 runner: ranks send their batches, and choose the CUDA graph afterwards.

A rank sends the tokens and the requests of its batch. All find the same graph, because they agreed on the inputs of the
lookup (specification 1.7):

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

The model keeps two defects of 0.33, both where the ranks split the step (specification 3.4 and 1.8). First, if the
smallest rank has exactly half of the graph's tokens, its last microbatch has no real token, and still runs the FULL
graph. Second, a rank that has to run eagerly gets a FULL graph, because the engine chooses the split before it looks at
the modes.
"""

from __future__ import annotations

from typing import NamedTuple

from dpsim.contract.interface import HostArray
from dpsim.vllm.config import EngineConfig, RuntimeMode
from dpsim.vllm.data_parallel.microbatch import wants_microbatching
from dpsim.vllm.graphs.candidates import BatchDescriptor, CandidateTable


class LocalV2(NamedTuple):
    """What one rank sends. `uniform_token_count`: the tokens of each of its requests, None if they differ. `may_split`
    and `may_skip_drafts`: what this rank permits. `need_eager`: its batch has to run without a graph.
    """

    num_tokens: int
    num_reqs: int
    uniform_token_count: int | None = None
    may_split: bool = False
    may_skip_drafts: bool = False
    need_eager: bool = False


class SyncState(NamedTuple):
    """The result of an agreement, equal on all ranks, so no field depends on the batch of one (specification 1.2).

    `num_tokens`: what each rank runs. `uniform_token_count`: the tokens of each request of all ranks, None if they
    differ. `num_reqs`: the most requests of a rank.
    """

    num_tokens: tuple[int, ...]
    uniform_token_count: int | None
    eager: bool
    num_reqs: int
    skip_drafts: bool


class ReducedTable(NamedTuple):
    """The reduced table, one field for each row in the order of the wire, one entry a rank (specification 1.4)."""

    tokens: list[int]
    modes: list[int]
    uniform: list[int]
    longest: list[int]
    may_split: list[int]
    requests: list[int]
    may_skip_drafts: list[int]

    def common_uniform(self) -> int | None:
        """The tokens of each request, if all requests of all ranks have equally many; None if they differ."""
        return self.uniform[0] if len(set(self.uniform)) == 1 and self.uniform[0] else None


class AgreementV2:
    """The agreement of release 0.33, in the order of this file.

    A single rank makes none: it runs its first dispatch, and has no `SyncState` (invariant I-DP-8).
    """

    rows = 7

    def __init__(self, config: EngineConfig, graphs: CandidateTable) -> None:
        self.config, self.graphs = config, graphs

    def first_dispatch(self, local: LocalV2) -> BatchDescriptor:
        """The graph that this rank would run without other ranks."""
        if local.need_eager:
            return BatchDescriptor(RuntimeMode.NONE, local.num_tokens, local.num_reqs)
        return self.graphs.dispatch(local.num_reqs, local.num_tokens, local.uniform_token_count)

    def column(self, local: LocalV2, desired: BatchDescriptor) -> tuple[int, ...]:
        """This rank's column: `rows` int32 values. The longest query is -1: no graph here limits query lengths."""
        uniform, split, skip = local.uniform_token_count or 0, int(local.may_split), int(local.may_skip_drafts)
        return local.num_tokens, int(desired.mode), uniform, -1, split, local.num_reqs, skip

    def decide(self, table: HostArray, local: LocalV2) -> tuple[BatchDescriptor, SyncState | None]:
        """Decides from the reduced table, int32 of shape (rows, ranks). Returns this rank's graph and the `SyncState`.

        The lookup also takes this rank's own number of requests. It does not change the graph, because every candidate
        has room for it. If no rank has tokens, the state is None, and no rank runs a forward.
        """
        reduced = ReducedTable(*table.tolist())
        uniform = reduced.common_uniform()
        if not any(reduced.tokens):
            return BatchDescriptor(RuntimeMode.NONE, 0, 0), None
        if self.splits(reduced, uniform, local):
            chosen = self.split_dispatch(reduced, uniform, local)
            counts = [chosen.num_tokens] * len(reduced.tokens)
        elif self.agreed_mode(reduced) == RuntimeMode.NONE:
            chosen, counts = BatchDescriptor(RuntimeMode.NONE, local.num_tokens, local.num_reqs), reduced.tokens
        else:
            chosen = self.graphs.dispatch(local.num_reqs, max(reduced.tokens), uniform)
            counts = [chosen.num_tokens] * len(reduced.tokens)
        return chosen, SyncState(
            tuple(counts),
            uniform,
            chosen.mode == RuntimeMode.NONE,
            max(reduced.requests),
            set(reduced.may_skip_drafts) == {1},
        )

    def agreed_mode(self, reduced: ReducedTable) -> RuntimeMode:
        return RuntimeMode(min(reduced.modes))

    # ---- microbatches (3.4)

    def splits(self, reduced: ReducedTable, uniform: int | None, local: LocalV2) -> bool:
        """Whether the ranks split: all permit it, and the smallest count, so each, reaches the threshold (I-UB-7)."""
        return set(reduced.may_split) == {1} and wants_microbatching(
            min(reduced.tokens), self.decodes(uniform, local), self.config
        )

    def decodes(self, uniform: int | None, local: LocalV2) -> bool:
        """Whether the threshold of decodes applies: all requests of all ranks are decodes."""
        return uniform == self.graphs.q

    def split_dispatch(self, reduced: ReducedTable, uniform: int | None, local: LocalV2) -> BatchDescriptor:
        """A FULL graph of the configured number of microbatches; else the largest count without a graph."""
        parts = self.config.num_ubatches
        graph = self.graphs.split_graph(local.num_reqs, max(reduced.tokens), uniform, parts)
        if graph is not None and not self.leaves_one_empty(min(reduced.tokens), graph):
            return graph
        return BatchDescriptor(RuntimeMode.NONE, max(reduced.tokens), local.num_reqs, num_ubatches=parts)

    def leaves_one_empty(self, num_tokens: int, graph: BatchDescriptor) -> bool:
        """As 0.33 computes it: wrong for exactly half of the graph's tokens, and for more than two microbatches."""
        return 2 * num_tokens < graph.num_tokens

    # ---- a later dispatch of the same batch

    def reuse(self, state: SyncState, index: int, local: LocalV2) -> tuple[BatchDescriptor, SyncState]:
        """Looks up a graph under the result of an earlier agreement, without another one (invariant I-DP-14). The
        drafter calls it, because its graphs differ from those of the target model.

        `index`: this rank's column. Returns the graph and the state; if the graph pads further, the state has the
        larger count for all ranks. Raises AssertionError if the tokens of `local` contradict `state`. The method
        ignores `local.need_eager`, because the eager flag of the state applies to all ranks.
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
    """The agreement of release 0.17: ranks send graph sizes, and all run the largest size in the smallest mode."""

    rows = 3

    def column(self, num_tokens: int, size: int | None, mode: RuntimeMode) -> tuple[int, ...]:
        """This rank's column. `size`: of its graph; None is written as -1. A rank without tokens writes 0."""
        return num_tokens, 0 if not num_tokens else -1 if size is None else size, int(mode)

    def alone(self, num_tokens: int, size: int | None, mode: RuntimeMode) -> tuple[int, None, RuntimeMode]:
        """A single rank pads to its size even in mode NONE; several ranks do not (example A-15)."""
        return num_tokens if size is None else size, None, mode

    def decide(self, table: HostArray, index: int) -> tuple[int, tuple[int, ...] | None, RuntimeMode]:
        """The tokens of rank `index`, those of all ranks (None if no rank has any), and the mode."""
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
        """With one token, even a rank without work has a row in the expert collectives."""
        return 1
