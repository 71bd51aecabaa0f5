"""Tests that one more data-parallel rank leaves the batches of all other ranks unchanged."""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.runner import run_scenario
from dpsim.scenario import scenario_from
from dpsim.scenario.to_world import prepare

OUTPUTS = [(0, 3), (40, 2), (0, 5), (0, 1), (20, 4)]
"""Arrival in ms and output tokens of each request."""


def engine(**more: Any) -> Any:
    requests = [{"arrival": f"{when}ms", "prompt_tokens": 1, "output_tokens": tokens} for when, tokens in OUTPUTS]
    return scenario_from({"name": "w", "protocol": "dp_batch", "workload": {"requests": requests}, **more})


def batches(scenario: Any) -> list[tuple[Any, ...]]:
    """Returns the tokens and requests of each step, one pair for each rank."""
    timeline = prepare(scenario)[2].timeline
    steps = map(timeline.batches, range(timeline.steps))
    return [tuple((batch.num_tokens, batch.num_reqs) for batch in step) for step in steps]


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_old_ranks_keep_their_batches_and_the_new_one_has_those_of_the_last(ranks: int) -> None:
    two = engine(topology={"data_parallel_size": ranks})
    more = two.one_more()
    assert more is not None
    assert more.size == ranks + 1
    for before, after in zip(batches(two), batches(more), strict=True):
        assert after[:-1] == before
        assert after[-1] == before[-1]


def test_settings_of_the_last_rank_are_those_of_the_new_one() -> None:
    two = engine(
        topology={"data_parallel_size": 2, "tensor_parallel_size": 2}, config_by_rank={"3": {"max_num_seqs": 7}}
    )
    more = two.one_more()
    assert more is not None
    assert sorted(more.config_by_rank) == [3, 5]


def test_requests_that_are_not_written_out_have_no_larger_world() -> None:
    synthetic = {"requests": 2, "prompt_tokens": {"min": 1, "max": 2}, "output_tokens": {"min": 1, "max": 2}, "rate": 1}
    assert engine(workload={"synthetic": synthetic}).one_more() is None


def test_a_healthy_world_is_healthy_with_one_more() -> None:
    more = engine(topology={"data_parallel_size": 2}).one_more()
    assert run_scenario(more).verdict == "held"
