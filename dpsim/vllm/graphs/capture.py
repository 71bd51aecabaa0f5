"""The inputs of a capture, and the forwards that a capture needs (specification 5.6).

The batch of the capture has the largest number of requests that the graph may contain, and divides the tokens among
them. Rows behind its last request must have no effect: each starts at its end, with length 0 (invariant I-CG-11).

Source page 004 and release 0.17 fill the buffers differently:

    source-004   decodes start every q tokens; every sequence is as long as the whole batch, a bound for all of them
    0.17         requests share tokens evenly, the last one has the rest; a sequence is as long as its own share

    >>> inputs_017(CaptureSize(5, RuntimeMode.PIECEWISE, False), EngineConfig(max_num_seqs=3))
    CaptureInputs(num_reqs=3, query_start_loc=(0, 1, 2, 5), seq_lens=(1, 1, 3))
    >>> inputs_004(CaptureSize(4, RuntimeMode.FULL, True), EngineConfig(max_num_seqs=3, num_speculative_tokens=1))
    CaptureInputs(num_reqs=2, query_start_loc=(0, 2, 4, 4), seq_lens=(4, 4, 0))
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from dpsim.vllm.config import EngineConfig, RuntimeMode
from dpsim.vllm.graphs.dispatcher import Descriptor


class CaptureSize(NamedTuple):
    """One capture: its tokens, its mode (FULL or PIECEWISE), and whether the graph is for uniform decodes only."""

    num_tokens: int
    mode: RuntimeMode
    uniform_decode: bool


class CaptureInputs(NamedTuple):
    """In a capture. `query_start_loc`: max_num_seqs + 1 offsets in tokens. `seq_lens`: max_num_seqs lengths."""

    num_reqs: int
    query_start_loc: tuple[int, ...]
    seq_lens: tuple[int, ...]

    @property
    def num_scheduled_tokens(self) -> tuple[int, ...]:
        """Tokens of each of the `num_reqs` requests."""
        starts = self.query_start_loc[: self.num_reqs + 1]
        return tuple(after - before for before, after in pairwise(starts))


class CaptureForward(NamedTuple):
    """`mode`: of the forward context; the runner captures a FULL graph around a forward of mode NONE.

    `attn_metadata`: attention gets some. `num_tokens_across_dp`: the tokens of all ranks, None for a single rank.
    """

    mode: RuntimeMode
    num_tokens: int
    attn_metadata: bool
    num_tokens_across_dp: tuple[int, ...] | None
    descriptor: Descriptor | None


def num_capture_reqs(capture: CaptureSize, config: EngineConfig) -> int:
    """The requests in the batch of a capture: the most that a batch of this size may have."""
    each = config.uniform_decode_query_len if capture.uniform_decode else 1
    return min(-(-capture.num_tokens // each), config.max_num_seqs)


def inputs_017(capture: CaptureSize, config: EngineConfig) -> CaptureInputs:
    """The inputs of a capture in release 0.17."""
    reqs = num_capture_reqs(capture, config)
    each, rest = divmod(capture.num_tokens, reqs)
    starts = [request * each for request in range(reqs)]
    return _with_tails(capture, config, starts, [*[each] * (reqs - 1), each + rest])


def inputs_004(capture: CaptureSize, config: EngineConfig) -> CaptureInputs:
    """The inputs of a capture in source page 004."""
    reqs = num_capture_reqs(capture, config)
    each = config.uniform_decode_query_len if capture.uniform_decode else capture.num_tokens // reqs
    starts = [request * each for request in range(reqs)]
    return _with_tails(capture, config, starts, [capture.num_tokens] * reqs)


def _with_tails(capture: CaptureSize, config: EngineConfig, starts: list[int], lengths: list[int]) -> CaptureInputs:
    free = config.max_num_seqs - len(starts)
    tail = [capture.num_tokens] * (free + 1)
    return CaptureInputs(len(starts), (*starts, *tail), (*lengths, *[0] * free))


def forwards(capture: CaptureSize, ranks: int) -> tuple[CaptureForward, CaptureForward]:
    """The warm-up and the capture of one size in source page 004, without an agreement (specification 5.6).

    A PIECEWISE capture gets no attention metadata, because no piece contains attention. Its warm-up gets some.
    """
    across = (capture.num_tokens,) * ranks if ranks > 1 else None
    warm_up = CaptureForward(RuntimeMode.NONE, capture.num_tokens, True, across, None)
    if capture.mode is RuntimeMode.FULL:
        return warm_up, warm_up
    descriptor = Descriptor(capture.num_tokens)
    return warm_up, CaptureForward(RuntimeMode.PIECEWISE, capture.num_tokens, False, across, descriptor)
