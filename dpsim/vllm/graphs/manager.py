"""Source page 004's graph manager: maps of sizes, choice at run time, and captures with their order (specification 5.2,
5.3 and 5.6). Its functions are those of release 0.17.

Two maps lead from a token count to the padded size. One is for all batches. If decodes have separate graphs, the other
is for decodes, and holds only counts that decodes can have. The V1 dispatcher and this manager differ in three answers,
all seen in the engine's own code:

* a uniform decode without a decode graph runs eagerly, and does not fall back to PIECEWISE;
* a batch in mode NONE may still get a size: `(NONE, 8)` for mixed batches in FULL_DECODE_ONLY;
* a FULL graph that is not captured yet does not count: `(NONE, None)`. PIECEWISE is returned before any capture, since
  the wrapper inside the model captures by itself.

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

from collections.abc import Sequence

from dpsim.vllm.config import EngineConfig, RuntimeMode
from dpsim.vllm.graphs.capture import CaptureSize
from dpsim.vllm.graphs.sizes import Ladder017


class GraphManager:
    """The graphs of one rank. `sizes` given: token counts, in any order; by default those of the configuration.

    `sizes`, `decode_sizes`: from a token count to the padded one. `captured`: token counts of the FULL graphs that
    exist. `output_rows`: rows of the persistent output buffer, None before the first capture.
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
        """Whether every request brings exactly q tokens: the longest does, and the sum is q for each."""
        return max_query_len == self.q and num_tokens == self.q * num_reqs

    def runtime_mode(self, num_reqs: int, num_tokens: int, max_query_len: int) -> tuple[RuntimeMode, int | None]:
        """Mode and padded token count of a batch; None: no padding. `max_query_len`: tokens of the longest request."""
        return self.graph(num_tokens, self.is_uniform_decode(num_reqs, num_tokens, max_query_len))

    def graph(self, num_tokens: int, uniform: bool) -> tuple[RuntimeMode, int | None]:
        """Mode and padded token count of a batch that is known to be a uniform decode, or not to be one."""
        size = (self.decode_sizes if uniform and self.decode_sizes else self.sizes).get(num_tokens)
        if size is None:
            return RuntimeMode.NONE, None
        mode = self.mode.decode_mode if uniform else self.mode.mixed_mode
        if mode is RuntimeMode.FULL and size not in self.captured:
            return RuntimeMode.NONE, None
        return mode, size

    def captures(self) -> list[CaptureSize]:
        """The captures, in this order on every rank (I-CG-6): mixed sizes before decode sizes, the largest first.
        So the first one makes the output buffer and the pool large enough for all others.
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
        """Note that a size was captured. The first one, whatever its mode, makes the output buffer."""
        if self.output_rows is None:
            self.output_rows = capture.num_tokens
        if capture.mode is RuntimeMode.FULL:
            self.captured.add(capture.num_tokens)

    def replay_rows(self, num_tokens: int) -> int:
        """Rows of the output buffer that a replay returns. Raises AssertionError without a graph of that size."""
        assert num_tokens in self.captured, f"no FULL graph of {num_tokens} tokens was captured"
        return num_tokens


def padded_sizes(sizes: Sequence[int]) -> dict[int, int]:
    """Maps every token count up to the largest size to the smallest size with room for it. `sizes`: ascending."""
    ranges = zip((0, *sizes), sizes, strict=False)
    return {count: size for below, size in ranges for count in range(below + 1, size + 1)}
