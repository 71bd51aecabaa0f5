"""Tests offloaded weights with microbatches (spec chapters 4.8, 4.9, 5.9): both microbatches read each layer's weights.

An offloader copies the weights of each layer to a place in device memory before the layer runs. No spec chapter
requires that only the last microbatch frees this place. But if each microbatch frees it, the copy for a later layer
overwrites weights that the next microbatch still has to read.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dpsim.campaign.explored import explore_subject
from dpsim.campaign.subject import Subject
from dpsim.checks.judge import judge
from dpsim.contract.ops import DECISION_VALUE, KIND, SITE
from dpsim.scenario.to_world import prepare, world
from dpsim.sim.backend import SimBackend
from dpsim.vllm.capture.wrapper import CUDAGraphWrapper, ForwardContext
from dpsim.vllm.museum.overlap_graphs import MicrobatchesOffload, ReplaysUnsynced
from dpsim.vllm.overlap.forward import OverlapForward
from dpsim.vllm.programs.dbo import DualBatchOverlap
from tests.vllm.overlap.dbo_worlds import GRAPHS, scenario

EAGER = scenario([(4, 2), (4, 2), (4, 1), (4, 1)])
CAPTURED = scenario([(2, 3)] * 4, **{**GRAPHS, "cudagraph_capture_sizes": [2], "max_num_seqs": 2})


class EachGivesBack(MicrobatchesOffload):
    """Faulty: each microbatch frees the place of a layer and requests the next weights."""

    def through(self) -> bool:
        return True


class NeverJoins(MicrobatchesOffload):
    """Mutant M-CG-7: a capture contains copies for the next forward, and does not join their stream before it ends."""

    class Unjoined(CUDAGraphWrapper):
        def join(self, context: ForwardContext) -> None:
            pass

    wrapper = Unjoined


def found(one: Any, forward: type[OverlapForward]) -> tuple[list[str], set[str]]:
    """Returns the classes of the findings, and in which ways forwards ran."""
    setup = prepare(one, Path())[2]._replace(forward=forward)
    run = SimBackend().run_program(world(one), DualBatchOverlap(), setup)
    ways = {raw[DECISION_VALUE] for raw in run.journals[0] if (raw[KIND], raw[SITE]) == ("decision", "overlap")}
    return [finding.klass for finding in judge(world(one), run)], ways


@pytest.mark.parametrize(
    ("one", "ways"), [(EAGER, {"threads"}), (CAPTURED, {"threads", "capture", "replay"})], ids=["eager", "captured"]
)
def test_weights_are_there_and_stay(one: Any, ways: set[str]) -> None:
    problems, ran = found(one, MicrobatchesOffload)
    assert problems == []
    assert ran >= ways


@pytest.mark.slow
def test_offloading_adds_no_schedules() -> None:
    """Offloading adds no schedules: each rank has two orders, as in `test_dbo`."""
    subject = Subject.of(scenario([(4, 1)] * 2))
    offloads = replace(subject, prepared=subject.prepared._replace(forward=MicrobatchesOffload), make=None)
    seen = explore_subject(offloads, "dpor", schedules=1000)
    assert (seen.verdict, seen.exploration.runs) == ("proven", 4)


@pytest.mark.parametrize(
    ("one", "twin", "klass"),
    [
        (EAGER, EachGivesBack, "RACE:BUFFER"),
        (CAPTURED, ReplaysUnsynced, "RACE:BUFFER"),
        (CAPTURED, NeverJoins, "CRASH:CAPTUREERROR"),
    ],
)
def test_twins_are_found(one: Any, twin: type[OverlapForward], klass: str) -> None:
    assert klass in found(one, twin)[0]
