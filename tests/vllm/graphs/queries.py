"""Hypothesis strategies that draw configurations, and batches to dispatch."""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import strategies as st

from dpsim.vllm.config import CUDAGraphMode, EngineConfig, RuntimeMode

NONE, PIECEWISE, FULL = RuntimeMode

MODES = {  # spec chapter 5.1 (mode algebra): decode mode, mixed mode, whether decode batches have separate graphs
    CUDAGraphMode.NONE: (NONE, NONE, False),
    CUDAGraphMode.PIECEWISE: (PIECEWISE, PIECEWISE, False),
    CUDAGraphMode.FULL: (FULL, FULL, False),
    CUDAGraphMode.FULL_DECODE_ONLY: (FULL, NONE, True),
    CUDAGraphMode.FULL_AND_PIECEWISE: (FULL, PIECEWISE, True),
}


class Asked(NamedTuple):
    """A batch: the number of tokens of each request."""

    tokens: list[int]

    @property
    def num_reqs(self) -> int:
        return len(self.tokens)

    @property
    def num_tokens(self) -> int:
        return sum(self.tokens)

    @property
    def longest(self) -> int:
        return max(self.tokens)

    def uniform(self, q: int) -> bool:
        """Returns whether the batch is a uniform decode, i.e. each request has q tokens.

        The sum alone would not show this.
        """
        return set(self.tokens) == {q}


@st.composite
def graph_configs(draw: st.DrawFn, multiples: bool = True) -> EngineConfig:
    """Draws configurations with few sizes, with or without drafts, and with a small `max_num_seqs`.

    `multiples`: the sizes are multiples of q, the tokens of one decode, as they are after rounding.
    """
    q = draw(st.integers(1, 3))
    sizes = [(q if multiples else 1) * size for size in draw(st.lists(st.integers(1, 12), min_size=1, max_size=5))]
    return EngineConfig(
        cudagraph_mode=draw(st.sampled_from(CUDAGraphMode)),
        cudagraph_capture_sizes=tuple(sizes),
        num_speculative_tokens=q - 1,
        max_num_seqs=draw(st.integers(1, 12)),
    )


@st.composite
def batches(draw: st.DrawFn, config: EngineConfig) -> Asked:
    """Draws decodes, or requests with any number of tokens. In many batches the longest request has q tokens."""
    q, requests = config.uniform_decode_query_len, draw(st.integers(1, config.max_num_seqs))
    each: Any = draw(st.sampled_from([st.just(q), st.integers(1, q), st.integers(1, 12)]))
    return Asked([draw(each) for _ in range(requests)])
