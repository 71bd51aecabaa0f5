"""The graph manager of source page 004 with the interface of the V1 runner's dispatcher (specification 10.0).

The page belongs to the V2 runner, which dispatches once; the V1 step dispatches again with the agreed count. In the
first dispatch, a uniform decode gets a decode graph or none. If the ranks agree on PIECEWISE, it gets a PIECEWISE graph
in the second one. A batch without a graph is not padded. The V2 runner of 0.17 does not pad it either in a group of
several ranks, but a single rank does (example A-15).

    >>> graphs = Managed(EngineConfig(cudagraph_capture_sizes=(1, 2, 4, 8), max_num_seqs=6))
    >>> [graphs.dispatch(count, uniform_decode=True)[0].name for count in (3, 5)]  # no decode graph of 8 requests
    ['FULL', 'NONE']
    >>> graphs.dispatch(8, uniform_decode=True, allowed={RuntimeMode.PIECEWISE})
    (<RuntimeMode.PIECEWISE: 1>, Descriptor(num_tokens=8, num_reqs=None, uniform=False, has_lora=False))

Simplified: all FULL graphs count as captured. There are no separate graphs for adapters, because the page has none.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from dpsim.vllm.config import EngineConfig, RuntimeMode
from dpsim.vllm.graphs.dispatcher import ALL_MODES, Descriptor, Dispatcher017
from dpsim.vllm.graphs.manager import GraphManager


class Managed(Dispatcher017):
    """The manager with the interface of a dispatcher."""

    def __init__(self, config: EngineConfig, sizes: Sequence[int] | None = None) -> None:
        super().__init__(config, sizes)
        self.manager = GraphManager(config, self.sizes)
        self.keys = {mode: set() for mode in RuntimeMode}
        for capture in self.manager.captures():
            self.manager.record(capture)
            self.keys[capture.mode].add(self.graph_key(capture.num_tokens, capture.uniform_decode))

    def graph_key(self, size: int, decodes: bool) -> Descriptor:
        """The key of a graph. The key of a decode graph contains its requests: as many as fit."""
        return Descriptor(size, min(size // self.q, self.max_num_seqs), True) if decodes else Descriptor(size)

    def dispatch(
        self,
        num_tokens: int,
        uniform_decode: bool,
        *,
        has_lora: bool = False,
        allowed: Set[RuntimeMode] = ALL_MODES,
    ) -> tuple[RuntimeMode, Descriptor]:
        """The mode and the graph of a batch, with the arguments of `Dispatcher.dispatch`."""
        if not self.sizes or num_tokens > self.sizes[-1] or allowed == {RuntimeMode.NONE}:
            return RuntimeMode.NONE, Descriptor(num_tokens)
        mode, size = self.manager.graph(num_tokens, uniform_decode)
        decodes = uniform_decode and bool(self.manager.decode_sizes)
        if mode not in allowed and RuntimeMode.PIECEWISE in allowed & {self.mode.mixed_mode}:
            mode, size, decodes = RuntimeMode.PIECEWISE, self.manager.sizes[num_tokens], False
        if size is not None and mode is not RuntimeMode.NONE and mode in allowed:
            return mode, self.graph_key(size, decodes)
        self.nothing_found(num_tokens, uniform_decode, allowed)
        return RuntimeMode.NONE, Descriptor(num_tokens)
