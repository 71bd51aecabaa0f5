"""Tests microbatches of the V2 runner, in threads and captured (spec chapter 3.4).

Its last microbatch may be empty, and each size has two graphs: one of the whole batch and one of microbatches. Release
0.33 replays a FULL graph over an empty last microbatch (mutant M-UB-13). In this model all tokens come out even so,
because attention ignores padded rows. The step detects the mistake by inspecting the batch before it replays.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st

from dpsim.checks.judge import judge
from dpsim.scenario.to_world import prepare, world
from dpsim.sim.backend import SimBackend
from dpsim.vllm.data_parallel.microbatch import Slicing, Slicing033
from dpsim.vllm.data_parallel.microbatch_inputs import MetadataCut
from dpsim.vllm.museum.batch_v2 import KeepsHalfEmpty, Repaired
from dpsim.vllm.overlap.forms import ForwardV2, OverlapStepV2
from dpsim.vllm.overlap.graph_keys import GraphKeys, Keys033
from dpsim.vllm.programs.dbo import OverlapSetup
from tests import ROOT
from tests.properties import breaks, examples, holds
from tests.vllm.overlap.dbo_worlds import GRAPHS, explored, forwards, scenario

V2 = "v2-0.33"
CAPTURED: dict[str, Any] = {"cudagraph_capture_sizes": [2, 4], "max_num_seqs": 4, **GRAPHS}

Requests = list[tuple[int, int]]


class RepairedOverlap(Repaired, OverlapStepV2):
    """Release 0.33 without its two defects."""


class KeepsGraph(KeepsHalfEmpty, OverlapStepV2):
    """Mutant M-UB-13: a rank with exactly half of a graph's tokens still replays the graph."""


def classes(
    requests: Requests,
    step: type[OverlapStepV2] = RepairedOverlap,
    forward: type[ForwardV2] = ForwardV2,
    **config: Any,
) -> list[str]:
    """Returns the classes of the findings of one run."""
    one = scenario(requests, V2, **config)
    program, _, prepared = prepare(one, ROOT)
    assert isinstance(prepared, OverlapSetup)
    told = world(one)
    return [
        finding.klass
        for finding in judge(
            told, SimBackend().run_program(told, program, prepared._replace(step=step, forward=forward))
        )
    ]


@pytest.mark.slow
def test_an_empty_last_microbatch_in_all_schedules() -> None:
    """With four tokens on rank 0 and two on rank 1, the second microbatch of rank 1 consists of padding only."""
    found = explored(scenario([(4, 1), (2, 1)], V2))
    assert (found.verdict, found.exploration.runs) == ("proven", 4)


@pytest.mark.slow
def test_captured_in_all_schedules() -> None:
    """One size is captured whole and as microbatches. On each of two ranks, two forwards run threads."""
    found = explored(scenario([(1, 2)] * 4, V2, cudagraph_capture_sizes=[2], max_num_seqs=2, **GRAPHS))
    assert (found.verdict, found.exploration.runs) == ("proven", 16)


def test_a_size_has_two_graphs() -> None:
    """For each of two sizes, a rank warms up and captures the whole batch and the microbatches.

    A step that is not split replays the whole graph. The V1 runner has no such graph and would run the step eagerly.
    """
    captures = {"plain": 2, "graph": 2, "threads": 2, "capture": 2}
    assert forwards(scenario([(1, 2)] * 8, V2, **CAPTURED)) == captures | {"replay": 2}
    assert forwards(scenario([(1, 3)] * 3, V2, **CAPTURED)) == captures | {"graph": 2 + 3}


@pytest.mark.parametrize(("smaller", "found"), [(2, ["CRASH:EMPTYREPLAY"]), (3, [])])
def test_rank_1_with_half_of_the_graphs_tokens_keeps_the_graph_in_033(smaller: int, found: list[str]) -> None:
    """Spec appendix A-19 with small numbers: if rank 1 has exactly half of the graph's four tokens, 0.33 keeps the
    graph.
    """
    requests = [(1, 1)] * (3 + 2 if smaller == 2 else 4 + 3)
    assert classes(requests, OverlapStepV2, **CAPTURED) == found
    assert classes(requests, **CAPTURED) == []


# ---- random worlds


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Requests, dict[str, Any]]:
    """Draws decodes and a few prompts, two or three microbatches, captured or eager."""
    prompts = st.sampled_from([1, 1, 1, 2, 5])
    requests = draw(st.lists(st.tuples(prompts, st.integers(1, 3)), min_size=2, max_size=8))
    parts = draw(st.sampled_from([2, 2, 3]))
    sizes = {"cudagraph_capture_sizes": draw(st.sampled_from([[2, 4], [3, 6], [6]])), "max_num_seqs": 6, **GRAPHS}
    return requests, {"num_ubatches": parts} | draw(st.sampled_from([sizes, sizes, {"enforce_eager": True}]))


Drawn = tuple[Requests, dict[str, Any]]


def nothing_found(
    drawn: Drawn, step: type[OverlapStepV2] = RepairedOverlap, forward: type[ForwardV2] = ForwardV2
) -> None:
    found = classes(drawn[0], step, forward, **drawn[1])
    assert found == [], f"found: {found}"


@examples(2, 60)
def test_random_worlds_of_the_v2_overlap_have_no_finding(examples: int) -> None:
    holds(nothing_found, worlds(), examples)


class RefusesEmpty(ForwardV2):
    """Faulty: cuts metadata as the V1 runner does, which supports no empty microbatch."""

    metadata_cut: type[MetadataCut] = MetadataCut


class NamesMissingRequests(ForwardV2):
    """Faulty: cuts slices as the V1 runner does, so a slice of padding names requests that do not exist."""

    slicing: type[Slicing] = Slicing033


class OneGraphASize(ForwardV2):
    """Looks graphs up as the V1 runner does, so a step that is not split ignores its graph and runs eagerly."""

    graph_keys: type[GraphKeys] = Keys033


@pytest.mark.parametrize(
    ("wrong", "said"), [(RefusesEmpty, "CRASH:ASSERTIONERROR"), (NamesMissingRequests, "CRASH:INDEXERROR")]
)
def test_a_wrong_forward_is_found(wrong: type[ForwardV2], said: str) -> None:
    """Each faulty forward crashes if the second microbatch of rank 1 has no token."""
    requests = [(4, 1), (2, 1)]
    assert said in classes(requests, forward=wrong, enforce_eager=True)
    assert classes(requests, enforce_eager=True) == []


@pytest.mark.slow
@pytest.mark.parametrize(("forward", "step"), [(RefusesEmpty, RepairedOverlap), (ForwardV2, KeepsGraph)])
def test_random_worlds_find_a_wrong_forward(forward: type[ForwardV2], step: type[OverlapStepV2]) -> None:
    breaks(lambda drawn: nothing_found(drawn, step, forward), worlds(), "found: ", examples=200)


def test_keys_of_the_other_runner() -> None:
    """With the V1 runner's keys the results are right, but the last three steps run eagerly."""
    one = scenario([(1, 3)] * 3, V2, **CAPTURED)
    program, _, prepared = prepare(one, ROOT)
    run = SimBackend().run_program(world(one), program, prepared._replace(forward=OneGraphASize))
    assert program.figures(prepared, run.journals)["forwards"]["eager"] == 3
