"""Explores all small worlds with captured graphs, and counts in how many of them a planted mistake shows.

A world is a program with fixed parameters. These have two ranks or two stages, with graphs of one token and of two in
both modes. No rank polls, so each world has exactly one schedule.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest

from dpsim.campaign.explored import explore_subject
from dpsim.campaign.subject import Subject
from dpsim.scenario import Scenario, scenario_from
from dpsim.vllm.params.small import scope, small_scenarios
from tests.properties import nightly_but

WORLDS = "requests=2,steps=2,prompt=2,output=2"
ABORTED = f"{WORLDS},abort=1"
RANKS, STAGES = {"data_parallel_size": 2}, {"pipeline_parallel_size": 2}


def base(topology: dict[str, int], variant: str | None = None) -> Scenario:
    name = "dp_batch" if topology is RANKS else "pp_tokens"
    graphs = {"cudagraph_capture_sizes": [1, 2], "capture_graphs": True}
    return scenario_from(
        {
            "name": "captured",
            "protocol": {"name": name, "variant": variant},
            "topology": topology,
            "config": {"max_num_seqs": 2, "max_num_batched_tokens": 4, **graphs},
            "workload": {"requests": [{"prompt_tokens": 1, "output_tokens": 1}]},
        }
    )


def verdicts(scenario: Scenario, sizes: str, first: int = 0, step: int = 1) -> Counter[str]:
    """Explores the world `first` of a scope and each `step`-th after it. Returns the numbers of verdicts."""
    seen: Counter[str] = Counter()
    for one in islice(small_scenarios(scenario, scope(sizes)), first, None, step):
        explored = explore_subject(Subject.of(one), "dpor")
        seen[explored.verdict if explored.failure is None else explored.failure.problem.klass] += 1
        seen["schedules"] += explored.exploration.runs
    return seen


@pytest.mark.slow
def test_all_small_worlds_of_two_ranks_are_healthy() -> None:
    assert verdicts(base(RANKS), WORLDS) == {"proven": 56, "schedules": 56}


@pytest.mark.slow
def test_all_small_worlds_of_two_stages_are_healthy() -> None:
    assert verdicts(base(STAGES), WORLDS) == {"proven": 56, "schedules": 56}


@pytest.mark.slow
def test_a_stale_dummy_shows_in_half_of_them() -> None:
    """Mutant M-CG-13, a dummy that replays over stale inputs, shows in 28 of 56 worlds.

    In these worlds a rank idles after it decoded. A check finds a wrong sum in 16 of them, and a wrong KV cache in 12.
    """
    seen = verdicts(base(RANKS, "M-CG-13"), WORLDS)
    assert seen == {"proven": 28, "CRASH:WRONGSUM": 16, "CRASH:WRONGCACHE": 12, "schedules": 56}


PARTS = 6
ABORTING = [(variant, part) for variant in (None, "cg-partial", "pp-tells") for part in range(PARTS)]


@pytest.mark.parametrize(("variant", "part"), nightly_but(ABORTING, lambda one: one == (None, 0)))
def test_all_of_two_stages_with_aborts(variant: str | None, part: int) -> None:
    """All 324 worlds are proven. A test has a sixth of them."""
    assert verdicts(base(STAGES, variant), ABORTED, part, PARTS) == {"proven": 54, "schedules": 54}
