"""The graph manager of source page 004: its sizes, its choice at run time, and its captures (specification 5.2, 5.3,
5.6).

The functions of the manager are those of release 0.17. Two maps lead from a token count to the padded size: one for all
batches and, if decodes have separate graphs, one for decodes. The manager differs from the V1 runner's dispatcher in
three answers, which the engine's own code confirms:

* A uniform decode without a decode graph runs eagerly. In the dispatcher, it falls back to a PIECEWISE graph.
* A batch in mode NONE may still get a size, for example `(NONE, 8)` for a mixed batch in FULL_DECODE_ONLY.
* Before the capture of a FULL graph, its batches get `(NONE, None)`. A PIECEWISE graph needs no earlier capture,
  because the wrapper in the model captures it at its first use.

    >>> manager = GraphManager(EngineConfig(cudagraph_capture_sizes=(1, 2, 4, 8), max_num_seqs=6))
    >>> manager.runtime_mode(num_reqs=3, num_tokens=3, max_query_len=1)
    (<RuntimeMode.NONE: 0>, None)
    >>> for one in manager.captures():
    ...     manager.record(one)
    >>> manager.runtime_mode(num_reqs=3, num_tokens=3, max_query_len=1)
    (<RuntimeMode.FULL: 2>, 4)
    >>> manager.runtime_mode(num_reqs=5, num_tokens=5, max_query_len=1)
    (<RuntimeMode.NONE: 0>, None)
    >>> manager.runtime_mode(num_reqs=2, num_tokens=5, max_query_len=4)
    (<RuntimeMode.PIECEWISE: 1>, 8)
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from dpsim.vllm.config import EngineConfig, RuntimeMode
from dpsim.vllm.graphs.capture import CaptureSize
from dpsim.vllm.graphs.dispatcher import ALL_MODES, Descriptor, Dispatcher017
from dpsim.vllm.graphs.sizes import Ladder017


class GraphManager:
    """The graphs of one rank. The argument `sizes`: token counts; by default those of the configuration.

    `sizes`, `decode_sizes`: a token count to the padded one. `captured`: of FULL graphs so far. `output_rows`: of the
    persistent output buffer, None before the first capture.
    """

    def __init__(self, config: EngineConfig, sizes: Sequence[int] | None = None) -> None:
        self.mode = config.cudagraph_mode
        self.q = config.uniform_decode_query_len
        self.max_num_seqs = config.max_num_seqs
        given = sorted(set(Ladder017().configured(config) if sizes is None else sizes))
        self.sizes = padded_sizes(given) if self.mode != "NONE" else {}
        self.decode_sizes: dict[int, int] = {}
        if self.mode.separate_routine and self.mode.decode_mode is RuntimeMode.FULL:
            most = self.q * self.max_num_seqs
            self.decode_sizes = {count: size for count, size in self.sizes.items() if self.q <= size <= most}
        self.captured: set[int] = set()
        self.output_rows: int | None = None

    @property
    def needs_capture(self) -> bool:
        return bool(self.sizes)

    def is_uniform_decode(self, num_reqs: int, num_tokens: int, max_query_len: int) -> bool:
        """Whether every request has exactly q tokens: the longest has q, and the sum is q for each request."""
        return max_query_len == self.q and num_tokens == self.q * num_reqs

    def runtime_mode(self, num_reqs: int, num_tokens: int, max_query_len: int) -> tuple[RuntimeMode, int | None]:
        """Mode and padded count; None for no padding. `max_query_len`: the tokens of the longest request."""
        return self.graph(num_tokens, self.is_uniform_decode(num_reqs, num_tokens, max_query_len))

    def graph(self, num_tokens: int, uniform: bool) -> tuple[RuntimeMode, int | None]:
        """The mode and the padded count of a batch. `uniform`: whether the batch is a uniform decode."""
        size = (self.decode_sizes if uniform and self.decode_sizes else self.sizes).get(num_tokens)
        if size is None:
            return RuntimeMode.NONE, None
        mode = self.mode.decode_mode if uniform else self.mode.mixed_mode
        if mode is RuntimeMode.FULL and size not in self.captured:
            return RuntimeMode.NONE, None
        return mode, size

    def captures(self) -> list[CaptureSize]:
        """In one order on every rank (invariant I-CG-6): mixed before decodes, and the largest first.

        So the first one makes the output buffer and the memory pool large enough for all.
        """
        mixed = self.sizes.values() if self.mode.mixed_mode is not RuntimeMode.NONE else ()
        return [
            *(CaptureSize(size, self.mode.mixed_mode, False) for size in sorted(set(mixed), reverse=True)),
            *(
                CaptureSize(size, RuntimeMode.FULL, True)
                for size in sorted(set(self.decode_sizes.values()), reverse=True)
            ),
        ]

    def record(self, capture: CaptureSize) -> None:
        """The first capture, in whatever mode, sets the rows of the output buffer."""
        if self.output_rows is None:
            self.output_rows = capture.num_tokens
        if capture.mode is RuntimeMode.FULL:
            self.captured.add(capture.num_tokens)

    def replay_rows(self, num_tokens: int) -> int:
        """The rows that a replay returns. AssertionError: no FULL graph of this size."""
        assert num_tokens in self.captured, f"no FULL graph of {num_tokens} tokens was captured"
        return num_tokens


def padded_sizes(sizes: Sequence[int]) -> dict[int, int]:
    """Maps every token count up to the largest size to the smallest size with room for it. `sizes`: ascending."""
    ranges = zip((0, *sizes), sizes, strict=False)
    return {count: size for below, size in ranges for count in range(below + 1, size + 1)}


class Managed(Dispatcher017):
    """The manager with the interface of the V1 runner's dispatcher (specification 10.0).

    The page belongs to the V2 runner, which dispatches once; the V1 step dispatches again with the agreed count. First,
    a uniform decode gets a decode graph or none; then a PIECEWISE one, if the ranks agree on that. A batch without a
    graph is not padded, as in 0.17 with several ranks (example A-15). Simplified: all FULL graphs count as
    captured, and there are none for adapters, because the page has none.
    """

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
