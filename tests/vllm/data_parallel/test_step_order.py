"""Checks find mutants of the order of a step, and bugs of ranks in lockstep, in random worlds without a hint.

A mutant is a variant with one planted mistake. Its smallest world is its exhibit in scenarios/museum/, which
tests/vllm/museum runs. A harmless mutant only makes the run slower, and no check has a finding in random worlds.
"""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.campaign.museum import without_variant
from dpsim.checks import matches
from dpsim.contract.registry import variant, variants
from dpsim.runner import run_scenario
from dpsim.scenario import load_scenario
from dpsim.scenario.locate import scenario_path
from tests.properties import breaks, examples, holds
from tests.vllm.data_parallel.batch_worlds import Drawn, drawn_worlds, pieces

MODULES = "dpsim.vllm.museum.step_order", "dpsim.vllm.museum.lockstep"
NOT_DRAWN = {"M-ES-2", "M-ES-5", "rank-clock-rng"}
"""The random worlds cannot contain these mistakes: they capture no graphs and have no tensor-parallel ranks."""
ALL = {entry.name: entry for entry in variants("dp_batch") if entry.make.__module__ in MODULES}
DRAWN = sorted(ALL.keys() - NOT_DRAWN)


@pytest.mark.slow  # the exhibits of these mutants run in every test run
@pytest.mark.parametrize("name", [name for name in DRAWN if ALL[name].expected is not None])
def test_random_worlds_find_the_mistake(name: str) -> None:
    expected = str(variant(name).expected)

    def not_found(drawn: Drawn) -> None:
        assert not any(matches(klass, expected) for klass in drawn.play(**pieces(name)).classes), "found"

    breaks(not_found, drawn_worlds(more=True), "found", examples=500)


@examples(8, 150, 1_000)
@pytest.mark.parametrize("name", [name for name in DRAWN if ALL[name].expected is None])
def test_is_harmless_everywhere(name: str, examples: int) -> None:
    def nothing_found(drawn: Drawn) -> None:
        assert drawn.play(**pieces(name)).classes == []

    holds(nothing_found, drawn_worlds(), examples)


def test_reading_at_once_takes_longer() -> None:
    """In the exhibit of mutant M-ES-12, a step reads its results at once, which costs what async scheduling saves."""
    wrong = load_scenario(scenario_path("museum/m-es-12"))
    healthy = without_variant(wrong)
    plain = healthy.model_copy(update={"config": healthy.config.model_copy(update=PLAIN)})
    took = [run_scenario(one).run.elapsed_ns for one in (healthy, wrong, plain)]
    assert took[0] < took[1] == took[2]


PLAIN: dict[str, Any] = {"async_scheduling": False, "disable_nccl_for_dp_synchronization": True}
