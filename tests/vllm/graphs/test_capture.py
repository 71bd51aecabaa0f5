"""Tests the inputs of a capture: their shapes, and that rows after the last request have no effect (I-CG-11)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import strategies as st

from dpsim.vllm.config import CUDAGraphMode, EngineConfig
from dpsim.vllm.graphs.capture import CaptureInputs, CaptureSize, forwards, inputs_004, inputs_017
from dpsim.vllm.graphs.dispatcher import Descriptor
from dpsim.vllm.graphs.manager import GraphManager
from tests.properties import breaks, holds
from tests.vllm.graphs.queries import FULL, NONE, PIECEWISE, graph_configs

Make = Callable[[CaptureSize, EngineConfig], CaptureInputs]


class One(NamedTuple):
    """A configuration, and one capture in it."""

    config: EngineConfig
    capture: CaptureSize


@st.composite
def captures(draw: st.DrawFn) -> One:
    modes = st.sampled_from([mode for mode in CUDAGraphMode if mode != CUDAGraphMode.NONE])
    config = draw(graph_configs(multiples=False)).model_copy(update={"cudagraph_mode": draw(modes)})
    listed = GraphManager(config).captures() or [CaptureSize(draw(st.integers(1, 36)), PIECEWISE, False)]
    return One(config, draw(st.sampled_from(listed)))


def inert(one: One, make: Make) -> None:
    config, capture = one
    inputs, most = make(capture, config), config.max_num_seqs
    reqs, starts, lengths = inputs
    q = config.uniform_decode_query_len
    assert (len(starts), len(lengths)) == (most + 1, most), "the inputs have the length of the buffers"
    assert 1 <= reqs <= most
    assert starts[0] == 0
    assert set(starts[reqs:]) == {capture.num_tokens}, "I-CG-11: query starts flat at the end"
    assert not any(lengths[reqs:]), "I-CG-11: no length behind the last request"
    assert all(after > before for before, after in pairwise(starts[: reqs + 1])), "every request has a token"
    assert all(length >= tokens for length, tokens in zip(lengths, inputs.num_scheduled_tokens, strict=False)), (
        "a sequence is no shorter than its tokens"
    )
    if capture.uniform_decode and capture.num_tokens % q == 0:
        assert set(inputs.num_scheduled_tokens) == {q}, "each request is one whole decode"


def starts_go_on(capture: CaptureSize, config: EngineConfig) -> CaptureInputs:
    """Faulty: the query starts continue to grow after the last request."""
    inputs = inputs_017(capture, config)
    tail = range(1, config.max_num_seqs - inputs.num_reqs + 1)
    more = [capture.num_tokens + place for place in tail]
    return inputs._replace(query_start_loc=(*inputs.query_start_loc[: inputs.num_reqs + 1], *more))


def lengths_stay(capture: CaptureSize, config: EngineConfig) -> CaptureInputs:
    """Faulty: rows after the last request keep the sequence lengths of an earlier, larger batch."""
    return inputs_004(capture, config)._replace(seq_lens=(capture.num_tokens,) * config.max_num_seqs)


def all_requests(capture: CaptureSize, config: EngineConfig) -> CaptureInputs:
    """Faulty: captures `max_num_seqs` requests, some of them without a token."""
    inputs = inputs_017(capture, config)
    return inputs._replace(num_reqs=config.max_num_seqs)


@pytest.mark.parametrize("make", [inputs_004, inputs_017], ids=["source-004", "0.17"])
def test_the_tails_of_capture_inputs_are_inert(make: Make) -> None:
    holds(lambda one: inert(one, make), captures())


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (starts_go_on, "I-CG-11: query starts"),
        (lengths_stay, "I-CG-11: no length"),
        (all_requests, "every request has a token"),
    ],
)
def test_a_tail_that_is_not_is_found(make: Make, says: str) -> None:
    breaks(lambda one: inert(one, make), captures(), says)


def test_page_004_and_release_0_17_fill_capture_inputs_differently() -> None:
    """Spec chapter 5.6 (capture order): source page 004 fills requests by q tokens; release 0.17 divides the tokens
    evenly.
    """
    config = EngineConfig(max_num_seqs=4, num_speculative_tokens=1)
    decodes = CaptureSize(5, FULL, True)
    assert inputs_004(decodes, config) == CaptureInputs(3, (0, 2, 4, 5, 5), (5, 5, 5, 0))
    assert inputs_017(decodes, config) == CaptureInputs(3, (0, 1, 2, 5, 5), (1, 1, 3, 0))
    mixed = CaptureSize(6, PIECEWISE, False)
    assert inputs_004(mixed, config) == CaptureInputs(4, (0, 1, 2, 3, 6), (6, 6, 6, 6))
    assert inputs_017(mixed, config) == CaptureInputs(4, (0, 1, 2, 3, 6), (1, 1, 1, 3))


def test_a_capture_runs_a_warm_up_and_the_captured_forward() -> None:
    """A capture runs a warm-up in mode NONE and then the captured forward, and needs no collective for the token
    counts.

    A PIECEWISE capture has no attention metadata.
    """
    warm_up, capture = forwards(CaptureSize(8, PIECEWISE, False), ranks=2)
    assert warm_up == (NONE, 8, True, (8, 8), None)
    assert capture == (PIECEWISE, 8, False, (8, 8), Descriptor(8))
    assert forwards(CaptureSize(8, FULL, True), ranks=1) == ((NONE, 8, True, None, None),) * 2
