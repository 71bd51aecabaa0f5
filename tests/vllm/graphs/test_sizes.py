"""Tests the capture sizes of each release against vLLM's stored answers, and what the dispatcher assumes of sizes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st

from dpsim.contract.program import Unsuitable
from dpsim.vllm.config import CUDAGraphMode, EngineConfig
from dpsim.vllm.graphs.sizes import Ladder, Ladder017, Ladder024, Ladder033, ladder
from dpsim.vllm.params.arguments import EngineArguments
from dpsim.vllm.programs.dp_batch import DataParallelBatch
from dpsim_engine.comparison import differing
from dpsim_engine.ladder import LADDER
from dpsim_engine.stored import answers
from tests.properties import breaks, holds

RELEASES: dict[str, type[Ladder]] = {"0.17.0": Ladder017, "0.24.0": Ladder024, "0.33.0": Ladder033}


@pytest.mark.parametrize(("version", "kind"), RELEASES.items(), ids=list(RELEASES))
def test_every_answer_of_the_engine(version: str, kind: type[Ladder]) -> None:
    """Each release's sizes equal all stored rows of that release. The sizes of another release differ in some rows."""
    rows = answers("ladder", version)
    assert differing(LADDER, rows, kind) == []
    for other in set(RELEASES.values()) - {kind}:
        assert differing(LADDER, rows, other)


def test_the_default_ladder() -> None:
    """Spec chapter 5.11: 1, 2, 4, then steps of 8 to 256, then of 16. A maximum between two steps is no size."""
    assert sorted(ladder(300)) == [1, 2, 4, *range(8, 256, 8), 256, 272, 288]
    assert sorted(ladder(20, fine=True)) == list(range(1, 21))
    assert ladder(3) == {1, 2}


# ---- what dispatch assumes of sizes


@st.composite
def configs(draw: st.DrawFn) -> EngineConfig:
    sizes = st.lists(st.integers(1, 600), min_size=1, max_size=6).map(tuple)
    return EngineConfig(
        cudagraph_mode=draw(st.sampled_from(CUDAGraphMode)),
        cudagraph_capture_sizes=draw(st.one_of(st.none(), sizes)),
        max_cudagraph_capture_size=draw(st.one_of(st.none(), st.none(), st.integers(1, 600))),
        num_speculative_tokens=draw(st.integers(0, 8)),
        max_num_seqs=draw(st.integers(1, 300)),
        max_num_batched_tokens=draw(st.integers(309, 2000)),
        performance_mode=draw(st.sampled_from(["balanced", "interactivity"])),
    )


def is_fit_for_dispatch(config: EngineConfig, rungs: Ladder) -> None:
    try:
        sizes = rungs.sizes(config)
    except ValueError:
        return
    assert list(sizes) == sorted(set(sizes)), "ascending, each once"
    assert all(1 <= size <= config.max_num_batched_tokens for size in sizes), "within the token budget"
    assert max(sizes, default=0) <= max(rungs.configured(config), default=0), "no size is above the configured ones"
    if config.cudagraph_mode.separate_routine:
        assert all(size % config.uniform_decode_query_len == 0 for size in sizes), "decode graphs hold whole requests"


class NeverRounds(Ladder017):
    """Faulty: rounds no size up to a multiple of q, the tokens of one decode."""

    def rounds(self, mode: CUDAGraphMode) -> bool:
        return False


class RoundsBeyond(Ladder033):
    """Faulty: rounds sizes up to multiples of q, even above the largest configured size or `max_num_batched_tokens`."""

    def sizes(self, config: EngineConfig) -> tuple[int, ...]:
        q = config.uniform_decode_query_len
        return tuple(sorted({-(-size // q) * q for size in self.configured(config)}))


@pytest.mark.slow
def test_sizes_are_fit_for_dispatch() -> None:
    for rungs in (Ladder017(), Ladder024(), Ladder033(), Ladder033(1024)):
        holds(lambda config, rungs=rungs: is_fit_for_dispatch(config, rungs), configs())  # type: ignore[misc]
    breaks(lambda config: is_fit_for_dispatch(config, NeverRounds()), configs(), "whole requests")
    breaks(lambda config: is_fit_for_dispatch(config, RoundsBeyond()), configs(), "above the configured|token budget")


# ---- what is refused


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (
            {"cudagraph_capture_sizes": [2, 4], "max_cudagraph_capture_size": 8},
            "config: max_cudagraph_capture_size is 8, and the largest of cudagraph_capture_sizes",
        ),
        (
            {"cudagraph_capture_sizes": [2], "num_speculative_tokens": 2},
            r"config: no graph of at most 2 tokens can hold one decode of 3 \(1 \+ num_speculative_tokens\)",
        ),
    ],
)
def test_a_program_refuses_sizes_that_are_none(config: dict[str, Any], says: str) -> None:
    """The program refuses bad sizes in its preparation, with a message of one line."""
    args = EngineArguments(config=config, topology={}, requests=(), step_ns=1, form="source-000")
    with pytest.raises(Unsuitable, match=says):
        DataParallelBatch().prepare(args)
