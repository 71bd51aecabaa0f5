"""Tests that a step finds an agreement that fits no CUDA graph, also if the run captures no graphs.

Two variants break invariants I-DP-3 (the mode) and I-DP-4 (equal counts), and a third one is healthy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from dpsim.campaign.assumptions.graphs import CHOSEN
from dpsim.campaign.explored import explore_subject
from dpsim.campaign.subject import Subject
from dpsim.contract.registry import register_variant
from dpsim.runner import run_scenario
from dpsim.scenario import Scenario, scenario_from
from dpsim.vllm.config import RuntimeMode
from dpsim.vllm.data_parallel.batch import Source000, StepPlan
from dpsim.vllm.data_parallel.one_graph import UnequalCounts, refuse_unequal_counts

FULL, PIECEWISE, NONE = RuntimeMode.FULL, RuntimeMode.PIECEWISE, RuntimeMode.NONE


@register_variant("t-pad-never", protocol="dp_batch", form="source-000", expected="CRASH:UNEQUALCOUNTS")
class PadNever(Source000):
    """Each rank keeps its own padded count, also in a graph (breaks invariant I-DP-4)."""

    def padded_tokens(self, padded: Sequence[int], pad: bool) -> tuple[int, ...]:
        return tuple(padded)


@register_variant("t-pad-all", protocol="dp_batch", form="source-000", expected="CRASH:OTHERMODE")
class PadOnlyFull(Source000):
    """Ranks use graphs only if all of them sent FULL, so no session can capture a PIECEWISE graph (breaks I-DP-3)."""

    def agreed_mode(self, modes: Sequence[int]) -> RuntimeMode:
        return FULL if min(modes) == FULL else NONE


@register_variant("t-same-mode", protocol="dp_batch", form="source-000", expected=None, reason="fewer graphs")
class SameModeOrNone(Source000):
    """Ranks use graphs only if all of them sent the same mode. This is slower, but healthy."""

    def agreed_mode(self, modes: Sequence[int]) -> RuntimeMode:
        return RuntimeMode(min(modes)) if min(modes) == max(modes) else NONE


def world(variant: str | None, **config: Any) -> Scenario:
    """Two ranks: one has a prefill of two tokens (PIECEWISE), and one a decode (FULL)."""
    requests = [{"prompt_tokens": 2, "output_tokens": 3}, {"prompt_tokens": 1, "output_tokens": 2}]
    given = {"topology": {"data_parallel_size": 2}, "workload": {"requests": requests}, "config": config}
    return scenario_from({"name": "fits", "protocol": {"name": "dp_batch", "variant": variant}, **given})


SMALL = {"cudagraph_capture_sizes": [1, 2, 4], "max_num_seqs": 4}


@pytest.mark.parametrize(
    ("variant", "config", "klass"),
    [
        ("t-pad-never", {}, "CRASH:UNEQUALCOUNTS"),
        ("t-pad-all", {}, "CRASH:OTHERMODE"),
        ("t-pad-all", {"cudagraph_mode": "FULL_DECODE_ONLY"}, None),  # no PIECEWISE graph to capture
        ("t-pad-never", {"cudagraph_mode": "NONE"}, None),
        ("t-same-mode", {}, None),
        ("t-same-mode", {"capture_graphs": True, **SMALL}, None),
        ("t-pad-never", {"capture_graphs": True, **SMALL}, "CRASH:UNEQUALCOUNTS"),
        ("t-pad-all", {"capture_graphs": True, **SMALL}, "CRASH:OTHERMODE"),
    ],
)
def test_an_agreement_that_fits_no_graph_is_found(variant: str, config: dict[str, Any], klass: str | None) -> None:
    """A step raises if the agreement fits no graph, with captures and without."""
    primary = run_scenario(world(variant, **config)).primary
    assert (primary and primary.klass) == klass


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        (StepPlan(False, (4, 2), NONE), ""),
        (StepPlan(False, None, FULL), ""),
        (StepPlan(False, (4, 4), FULL), ""),
        (StepPlan(False, (4, 2), PIECEWISE), "to run in a PIECEWISE graph, with 4, 2 tokens each"),
        (StepPlan(True, (4, 2), NONE), "to run in microbatches, with 4, 2 tokens each"),
    ],
)
def test_graphs_and_microbatches_need_equal_counts(plan: StepPlan, says: str) -> None:
    """Ranks with different counts may run neither a graph nor microbatches."""
    if says:
        with pytest.raises(UnequalCounts, match=says):
            refuse_unequal_counts(plan.num_tokens, plan.mode, plan.microbatched)
    else:
        refuse_unequal_counts(plan.num_tokens, plan.mode, plan.microbatched)


@pytest.mark.parametrize(
    ("config", "says"), [({}, True), ({"cudagraph_mode": "NONE"}, False), ({"capture_graphs": True, **SMALL}, False)]
)
def test_a_proof_without_captures_says_so(config: dict[str, Any], says: bool) -> None:
    """If ranks choose graphs that they do not capture, the proof lists this as an assumption."""
    explored = explore_subject(Subject.of(world(None, **config)))
    assert explored.verdict == "proven"
    assert (CHOSEN in explored.assumes) == says
