"""Tests the program dbo: all schedules of two ranks with two microbatches each, and the six rows of spec chapter 4.9.

Chapter 4.9 lists when a V1 rank runs threads, captures, replays, or runs the model as a whole.
"""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.campaign.museum import LIMIT
from dpsim.contract.program import Unsuitable
from dpsim.vllm.config import EngineConfig
from dpsim.vllm.params.arguments import EngineArguments
from dpsim.vllm.programs.dbo import DualBatchOverlap
from tests.vllm.overlap.dbo_worlds import GRAPHS, explored, forwards, scenario
from tests.vllm.released import FORWARDS

WHOLE = [(2, 1), (2, 1), (2, 1), (2, 1)]
STRADDLING = [(4, 1), (4, 1)]
PADDED = [(2, 1), (2, 1), (2, 1), (1, 1)]


# ---- in all schedules


@pytest.mark.slow
@pytest.mark.parametrize("requests", [WHOLE, STRADDLING, PADDED])
def test_two_ranks_of_two_microbatches(requests: list[tuple[int, int]]) -> None:
    """In all schedules the ranks output all tokens. There are four schedules, because each rank has two orders.

    The two orders are those of the microbatches' exits: one exit clears the event that the other one sets.
    """
    found = explored(scenario(requests))
    assert (found.verdict, found.exploration.runs) == ("proven", 4)


@pytest.mark.nightly
def test_with_the_literal_barrier() -> None:
    """With source page 001's barrier, each rank has 6 orders in which three parties arrive, times 2 orders of exits.

    Two ranks give 12 times 12 schedules.
    """
    found = explored(scenario(WHOLE, form="source-000"))
    assert (found.verdict, found.exploration.runs) == ("proven", 144)


@pytest.mark.slow
def test_captured_in_all_schedules() -> None:
    """A warm-up and a capture run threads and have several orders; replays run no threads and have one."""
    sizes: dict[str, Any] = {"cudagraph_capture_sizes": [2], "max_num_seqs": 2, **GRAPHS}
    found = explored(scenario([(1, 2)] * 4, **sizes))
    assert (found.verdict, found.exploration.runs) == ("proven", 16)


@pytest.mark.slow
def test_low_latency_in_all_schedules() -> None:
    found = explored(scenario(WHOLE, variant="dbo-low-latency"))
    assert found.verdict == "proven"


def test_ranks_that_split_differently_hang_or_mismatch() -> None:
    found = explored(
        scenario([(2, 1)], variant="dbo-dummy-optout", enforce_eager=True, num_speculative_tokens=1), LIMIT
    )
    assert found.failure is not None
    assert found.failure.problem.klass == "DISAGREEMENT:PLAN"
    assert "hang" in found.report().lower() or "MISMATCH" in found.report() or "DISAGREEMENT" in found.report()


# ---- the six rows of spec chapter 4.9


@pytest.mark.parametrize("form", sorted(FORWARDS))
def test_an_eager_step_splits_as_the_table_says(form: str) -> None:
    assert forwards(scenario(WHOLE, form)) == {"threads": 1}
    assert forwards(scenario([(1, 1), (1, 1)], form)) == {"plain": 1}, "below the threshold"
    with_an_empty_one = "threads" if form == "v2-0.33" else "plain"
    assert forwards(scenario([(4, 1), (2, 1)], form)) == {with_an_empty_one: 1}, "the last microbatch would be empty"


def test_a_step_with_graphs_splits_as_the_table_says() -> None:
    """Ranks with two decodes each replay the graph.

    When one rank has one decode left, both run the plain model eagerly.
    """
    sizes: dict[str, Any] = {"cudagraph_capture_sizes": [2], "max_num_seqs": 2, **GRAPHS}
    assert forwards(scenario([(1, 2)] * 4, **sizes)) == {"threads": 1, "capture": 1, "replay": 2}
    assert forwards(scenario([(1, 2), (1, 2), (1, 2)], **sizes)) == {"threads": 1, "capture": 1, "eager": 2}


def test_a_plain_graph_below_the_threshold() -> None:
    """A size below the threshold is never split, so it has an ordinary graph: a warm-up, a capture and a replay."""
    sizes: dict[str, Any] = {"cudagraph_capture_sizes": [1], "max_num_seqs": 1, **GRAPHS}
    assert forwards(scenario([(1, 1), (1, 1)], **sizes)) == {"plain": 1, "graph": 2}


def test_capture_while_serving() -> None:
    """Spec chapter 4.9: a split mixed batch in mode FULL is captured while serving, if its size has no graph yet.

    A capture executes no kernels, so the step outputs no tokens, and a check reports it.
    """
    sizes: dict[str, Any] = {
        "cudagraph_mode": "FULL",
        "capture_graphs": True,
        "cudagraph_capture_sizes": [4],
        "max_num_seqs": 2,
    }
    found = explored(scenario([(2, 1)] * 4, **sizes))
    assert found.failure is not None
    assert found.failure.problem.klass == "STALE:UNWRITTEN"


# ---- configurations that it refuses


def test_overlap_refuses_drafters_and_tensor_parallelism() -> None:
    config = EngineConfig(num_speculative_tokens=1, speculative_method="mtp").model_dump(mode="json")
    args = EngineArguments({"data_parallel_size": 2}, config, (), 1, form="0.33")
    with pytest.raises(Unsuitable, match="has no drafter"):
        DualBatchOverlap().prepare(args)
    args = EngineArguments({"tensor_parallel_size": 2}, EngineConfig().model_dump(mode="json"), (), 1, form="0.33")
    with pytest.raises(Unsuitable, match="tensor_parallel_size"):
        DualBatchOverlap().prepare(args)


# ---- a microbatch that raises


def test_a_microbatch_that_is_refused_leaves_nothing_behind() -> None:
    """If a microbatch raises and the step falls back to the whole batch, eager and captured steps complete.

    The abort woke the sibling thread, and the rank returned its multiprocessors to the compute kernels.
    """
    assert forwards(scenario(WHOLE, variant="dbo-falls-back")) == {"threads": 1, "plain": 1}
    sizes: dict[str, Any] = {"cudagraph_capture_sizes": [2], "max_num_seqs": 2, **GRAPHS}
    ways = forwards(scenario([(1, 1)] * 4, variant="dbo-falls-back", **sizes))
    assert ways == {"threads": 1, "plain": 1, "capture": 2, "graph": 2}, "an abandoned capture leaves no graph"


def test_a_sibling_is_parked_without_an_abort() -> None:
    found = explored(scenario(WHOLE, variant="ubatch-parked-sibling"))
    assert found.failure is not None
    assert found.failure.problem.klass == "HANG:FLAG:THREAD_ENDED"
