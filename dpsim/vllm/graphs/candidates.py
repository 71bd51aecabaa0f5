"""The V2 runner's CUDA graphs in release 0.33, and the choice of a graph for a batch (specification 5.5).

There are three kinds of graphs: FULL graphs of mixed batches, FULL graphs of uniform decodes, and PIECEWISE graphs.
Each kind has its own sizes. For a token count, the candidates are the smallest large enough graph of each kind, and
FULL comes before PIECEWISE. The batch runs in the first candidate that is compatible with it. The V2 runner rounds the
sizes of decode graphs itself, so configured sizes need not be multiples of q, the tokens of a decode.

    >>> config = EngineConfig(cudagraph_capture_sizes=(1, 2, 5, 8), max_num_seqs=6, num_speculative_tokens=1)
    >>> table = CandidateTable(config)
    >>> table.dispatch(num_reqs=2, num_tokens=4, uniform_token_count=2)
    BatchDescriptor(mode=<RuntimeMode.FULL: 2>, num_tokens=6, num_reqs=3, uniform_token_count=2, num_ubatches=1)
    >>> table.dispatch(num_reqs=2, num_tokens=4)[:3]
    (<RuntimeMode.PIECEWISE: 1>, 5, None)

If the requests of a FULL graph share its tokens evenly, the runner captures a second graph of the same size, for
several microbatches. If the ranks split a batch, its tokens select the smallest large enough graph, and the batch runs
in the second graph of this size.

    >>> few = config.model_copy(update={"dbo_decode_token_threshold": 2})
    >>> CandidateTable(few).split_graph(2, 4, 2, num_ubatches=2)
    BatchDescriptor(mode=<RuntimeMode.FULL: 2>, num_tokens=6, num_reqs=3, uniform_token_count=2, num_ubatches=2)

The model leaves out adapters and the bound on query lengths (varlen graphs).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dpsim.vllm.config import EngineConfig, RuntimeMode
from dpsim.vllm.graphs.dispatcher import Descriptor
from dpsim.vllm.graphs.sizes import Ladder033


class BatchDescriptor(NamedTuple):
    """A graph, or a batch without. `num_reqs`: room for requests. `uniform_token_count`: of each. None: any."""

    mode: RuntimeMode
    num_tokens: int
    num_reqs: int | None = None
    uniform_token_count: int | None = None
    num_ubatches: int = 1

    @property
    def key(self) -> Descriptor:
        """The V1 runner's key of the same graph. It does not contain the number of microbatches."""
        return Descriptor(self.num_tokens, self.num_reqs, self.uniform_token_count is not None)

    def fits(self, num_reqs: int, num_tokens: int, uniform_token_count: int | None) -> bool:
        """Whether a batch may run in this graph."""
        return (
            self.num_tokens >= num_tokens
            and (self.num_reqs is None or self.num_reqs >= num_reqs)
            and self.uniform_token_count in (None, uniform_token_count)
        )


class CandidateTable:
    """The graphs, equal on every rank. `sizes`: by default the configuration's. Before `captured`, all is eager."""

    def __init__(self, config: EngineConfig, sizes: Sequence[int] | None = None, *, captured: bool = True) -> None:
        mode, most = config.cudagraph_mode, config.max_num_seqs
        self.q = config.uniform_decode_query_len
        self.max_num_seqs = most
        self.captured = captured
        self.least_split = config.dbo_decode_token_threshold
        given = sorted(set(Ladder033().configured(config) if sizes is None else sizes))
        self.decodes: list[BatchDescriptor] = []
        self.mixed: list[BatchDescriptor] = []
        if mode.separate_routine:
            whole = self.decode_sizes(given)
            self.decodes = [BatchDescriptor(mode.decode_mode, size, size // self.q, self.q) for size in whole]
        if mode.mixed_mode is not RuntimeMode.NONE:
            full = mode.mixed_mode is RuntimeMode.FULL
            self.mixed = [BatchDescriptor(mode.mixed_mode, size, min(size, most) if full else None) for size in given]

    def decode_sizes(self, sizes: Sequence[int]) -> list[int]:
        """`sizes` rounded up to multiples of q, ascending, up to the largest and to `max_num_seqs` decodes."""
        rounded = sorted({-(-size // self.q) * self.q for size in sizes})
        return [size for size in rounded if size <= min(self.q * self.max_num_seqs, sizes[-1])]

    def candidates(self, num_tokens: int) -> Iterator[BatchDescriptor]:
        """The smallest graph of each kind with room for `num_tokens`. Decode graphs, which are FULL, come first."""
        for kind in (self.decodes, self.mixed):
            yield from [graph for graph in kind if graph.num_tokens >= num_tokens][:1]

    def dispatch(self, num_reqs: int, num_tokens: int, uniform_token_count: int | None = None) -> BatchDescriptor:
        """The graph of a batch. Without tokens or a compatible graph it runs in mode NONE with its own counts."""
        if self.captured and num_tokens:
            for graph in self.candidates(num_tokens):
                if graph.fits(num_reqs, num_tokens, uniform_token_count):
                    return graph
        return BatchDescriptor(RuntimeMode.NONE, num_tokens, num_reqs)

    def split_graph(
        self, num_reqs: int, num_tokens: int, uniform_token_count: int | None, num_ubatches: int
    ) -> BatchDescriptor | None:
        """For a batch in `num_ubatches` microbatches; None if there is none (specification 5.5).

        For each kind, it considers only the smallest graph with room for the tokens.
        """
        for kind in (self.decodes, self.mixed) if self.captured else ():
            for graph in [graph for graph in kind if graph.num_tokens >= num_tokens][:1]:
                twin = self.twin(graph, num_ubatches)
                if twin is not None and twin.fits(num_reqs, num_tokens, uniform_token_count):
                    return twin
        return None

    def split_graphs(self, num_ubatches: int) -> Iterator[BatchDescriptor]:
        """All graphs of microbatches, the smallest of each kind first."""
        for graph in (*self.decodes, *self.mixed):
            twin = self.twin(graph, num_ubatches)
            if twin is not None:
                yield twin

    def twin(self, graph: BatchDescriptor, num_ubatches: int) -> BatchDescriptor | None:
        """The graph of the same size for `num_ubatches` microbatches; None if the runner captures none.

        It does so for a FULL graph whose requests have equal tokens that reach the threshold for decodes.
        """
        if graph.mode is not RuntimeMode.FULL or graph.num_reqs is None:
            return None
        each, remainder = divmod(graph.num_tokens, graph.num_reqs)
        if remainder or graph.num_tokens < max(num_ubatches, self.least_split):
            return None
        return graph._replace(uniform_token_count=each, num_ubatches=num_ubatches)
