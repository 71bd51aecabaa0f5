"""Tests of the mutants of specification 1.12 in worlds other than their exhibits.

A mutant is a variant with one planted mistake. Its exhibit, in scenarios/museum/, is the smallest scenario that shows
it; `tests/vllm/museum` runs the exhibits. This file has worlds in which some mutants show another finding, and random
worlds. A harmless mutant makes the run slower, but no check may report it, neither in its exhibit nor in random worlds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import strategies as st

from dpsim.checks import matches
from dpsim.contract.registry import variants
from dpsim.runner import run_scenario
from dpsim.scenario import load_scenario
from dpsim.scenario.locate import scenario_path
from dpsim.vllm.params.arguments import Request
from tests.properties import breaks, examples, holds, slow_but
from tests.vllm.data_parallel.batch_worlds import (
    Drawn,
    Played,
    decodes,
    drawn_worlds,
    line_up,
    pieces,
    play,
    scenario,
)


@dataclass(frozen=True)
class Small:
    """A small world: the mutant, what it does there, and the class of the first finding, which is in step 0."""

    mutant: str
    shows: str
    shown_as: str
    requests: list[Request]
    config: dict[str, Any]


def world(mutant: str, shows: str, requests: list[Request], shown_as: str, **config: Any) -> Small:
    return Small(mutant, shows, shown_as, requests, config)


EAGER = {"force_eager": True}
SPLIT = {"enable_dbo": True, "dbo_decode_token_threshold": 2, "dbo_prefill_token_threshold": 2}

WORLDS = [
    world(
        "M-DP-1",
        "each rank is idle once: the two calls pair up, and no rank hangs",
        [Request(0, 1, 1), Request(20_000_000, 1, 1)],
        shown_as="MISMATCH:COLLECTIVE:STEP",
    ),
    world("M-DP-3", "modes differ", line_up(decodes(1), decodes(1, **EAGER)), shown_as="DISAGREEMENT:MODE"),
    world(
        "M-DP-5",
        "both split, and one has nothing real in its second half",
        line_up(decodes(2), decodes(4)),
        cudagraph_capture_sizes=(2, 4),
        shown_as="CRASH:ASSERTIONERROR",
        **SPLIT,
    ),
    world(
        "M-DP-9",
        "agreed over NCCL",
        line_up(decodes(1), decodes(1)),
        shown_as="HANG:COLLECTIVE:ORDER_ACROSS_GROUPS",
    ),
    world("M-DP-11", "with decodes", line_up(decodes(2), []), shown_as="CRASH:ASSERTIONERROR"),
    world(
        "M-DP-16",
        "no rank has PIECEWISE graphs",
        line_up(decodes(2), decodes(2)),
        cudagraph_mode="FULL_DECODE_ONLY",
        shown_as="CRASH:ASSERTIONERROR",
        **SPLIT,
    ),
]

CAPTURED = "dpsim.vllm.museum.captures", "dpsim.vllm.museum.offloading", "dpsim.vllm.museum.graph_bugs"
"""The variants in these modules need captured graphs; test_captured_mutants.py tests them."""
ELSEWHERE = (
    *CAPTURED,
    "dpsim.vllm.museum.batch_v2",
    "dpsim.vllm.museum.experts",
    "dpsim.vllm.museum.step_order",
    "dpsim.vllm.museum.lockstep",
)
"""Other tests run the variants in these modules: test_scenarios_v2.py, test_expert_balance.py and test_step_order.py.
"""
SHIPPED = [entry for entry in variants("dp_batch") if entry.make.__module__.startswith("dpsim.")]
REGISTERED = {entry.name: entry for entry in SHIPPED if entry.make.__module__ not in ELSEWHERE}
OF_FLOW = [name for name, entry in REGISTERED.items() if entry.make.__module__ == "dpsim.vllm.museum.flow"]
HARMLESS = [name for name, entry in REGISTERED.items() if entry.expected is None]


def run(small: Small, variant: str | None = None) -> list[tuple[str, int]]:
    """Returns the classes of the findings and their steps, the primary finding first."""
    result = run_scenario(scenario(small.requests, variant=variant, **small.config))
    return [(finding.klass, finding.position[0]) for finding in result.findings]


@pytest.mark.parametrize("small", WORLDS, ids=lambda small: f"{small.mutant}: {small.shows}")
def test_a_mutant_is_found(small: Small) -> None:
    """A mutant shows the expected class in its small world, and the healthy twin shows nothing."""
    found = run(small, small.mutant)
    assert found, "nothing was found"
    assert found[0] == (small.shown_as, 0), found
    assert run(small) == [], "its healthy twin holds in the same world"


@pytest.mark.parametrize("mutant", HARMLESS)
def test_a_harmless_mutant_makes_a_difference_in_its_exhibit(mutant: str) -> None:
    """A harmless mutant has no finding in its exhibit, but the ranks decide other plans than without it."""
    exhibit = load_scenario(scenario_path(f"museum/{mutant.lower()}"))
    ranks, config = exhibit.topology.data_parallel_size, exhibit.config.model_dump()
    wrong, healthy = (play(exhibit.requests(), ranks=ranks, **config, **how) for how in (pieces(mutant), {}))
    assert wrong.findings == healthy.findings == []
    assert plans(wrong) != plans(healthy)


@examples(20, 250, 1_000)
@pytest.mark.parametrize("mutant", HARMLESS)
def test_a_harmless_mutant_is_harmless_everywhere(mutant: str, examples: int) -> None:
    """No check reports a finding for a harmless mutant in random worlds."""

    def nothing_found(drawn: Drawn) -> None:
        assert drawn.play(**pieces(mutant)).classes == []

    holds(nothing_found, worlds_for(mutant), examples)


RARE = ("M-CG-5", "M-DP-5", "M-DP-8", "M-DP-16", "M-UB-4", "M-UB-10")
"""Checks find these mutants in few random worlds, so their tests are slow. Their exhibits run in every test run."""
HARMFUL = [name for name, entry in REGISTERED.items() if entry.expected is not None]


@pytest.mark.parametrize("mutant", slow_but(HARMFUL, lambda name: name not in RARE))
def test_random_worlds_find_the_mutant(mutant: str) -> None:
    """In one of a few hundred random worlds, a check finds the mutant; the test gives no hint where to look."""
    expected = str(REGISTERED[mutant].expected)

    def not_found(drawn: Drawn) -> None:
        assert not any(matches(klass, expected) for klass in drawn.play(**pieces(mutant)).classes), "found"

    breaks(not_found, worlds_for(mutant), "found", examples=500)


def plans(played: Played) -> list[Any]:
    return [played.decided(label, rank) for rank in played.ranks for label in ("plan", "draft.plan")]


def worlds_for(mutant: str) -> st.SearchStrategy[Drawn]:
    return drawn_worlds(force_eager=True, more=mutant in OF_FLOW)


def test_no_mutant_is_left_out() -> None:
    """The tests cover all mutants that a step of the V1 runner can run.

    These are the V1 mutants of specification 1.12, two that drop tokens, and those of 3.10 that a step can run. Others
    plant a mistake in what a rank decides by itself.
    """
    assert {name for name in REGISTERED if name.startswith("M-DP-")} == {
        f"M-DP-{number}" for number in (*range(1, 12), 15, 16, 17, 18)
    }
    assert {name for name in REGISTERED if name.startswith("M-UB-")} == {f"M-UB-{number}" for number in (1, 3, 4, 10)}
    assert set(OF_FLOW) == {
        "M-ES-4",
        "M-ES-6",
        "M-UB-10",
        "dp-full-forbidden-late",
        "dp-implicit-agreement",
        "dp-implicit-on-dummies",
        "dp-padding-wish",
        "dp-sequence-parallel-late",
        "dp-veto-late",
    }
