"""Tests of data-parallel replicas of a pipeline: a dummy step changes no queue of tokens and no slot (I-PP-10).

Each replica has its own requests, slots and queue. The replicas only share the experts, in every step. The faulty twins
break invariant I-PP-10. The file test_mutants.py tests that mutant M-PP-16 breaks nothing else.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from dpsim.campaign.subject import Subject
from dpsim.contract.ops import COMMUNICATOR, SITE, STEP
from dpsim.contract.registry import variant
from dpsim.testing import holds as holds_in_every_schedule
from dpsim.vllm.params.arguments import Request
from dpsim.vllm.pipeline.stage import Stage
from dpsim.vllm.programs.pp_tokens import PipelineTokens
from tests.properties import breaks, examples, holds
from tests.vllm.pipeline.token_worlds import EXTREMES, Drawn, Played, drawn_worlds, world_of

SEVERAL = drawn_worlds(stages=(2, 2, 3), most=4, replicas=2)


def all_is_well(drawn: Drawn, played: Played) -> None:
    assert played.findings == [], "; ".join(f"{found.klass} {found.message}" for found in played.findings)


def steps_are_made_together(drawn: Drawn, played: Played) -> None:
    """Every rank of a stage makes the collective of the experts once in every step, with or without tokens."""
    steps = list(range(len(played.prepared.histories[0].calls)))
    for rank in range(played.world.size):
        met = [one[STEP] for one in played.records(rank, "collective") if one[COMMUNICATOR].startswith("ep")]
        assert met == steps, f"rank {rank} met its peers in steps {met} of {len(steps)}"


class Watched(Stage):
    """A stage that asserts that its dummy steps change neither its queue nor its slots."""

    def state_of_step(self) -> Any:
        queue = list(self.tokens.queue) if self.tokens is not None else []
        return queue, dict(self.slots.of), list(self.slots.free), len(self.results)

    async def dummy(self) -> None:
        before = self.state_of_step()
        await super().dummy()
        assert self.state_of_step() == before, "I-PP-10: a dummy step changes no queue and no slot"


def watched(twin: type[Stage] = Stage) -> type[Stage]:
    """Returns a faulty twin with the assertions of `Watched`."""
    return type("WatchedTwin", (Watched, twin), {})


def dummies_leave_no_trace(drawn: Drawn, played: Played) -> None:
    """A dummy step changes no queue (`Watched`); a step without a batch has only ops of the experts (I-PP-10)."""
    all_is_well(drawn, played)
    for rank in range(played.world.size):
        calls = played.prepared.histories[rank // drawn.stages].calls
        alone = {step for step, call in enumerate(calls) if call.batch is None and not call.takes}
        last = len(calls) - 1  # the rank also ends in this step
        sites = {record[SITE] for record in played.run.journals[rank] if record[STEP] in alone - {last}}
        assert sites <= {"pp.dummy_step", "experts.load", "experts.combine"}, sites


@examples(12, 40, 300)
def test_the_invariants_of_pipeline_replicas_hold_in_random_worlds(examples: int) -> None:
    def all_hold(drawn: Drawn) -> None:
        for eager in EXTREMES:
            played = drawn.play(eager, stage=watched())
            for property_ in (all_is_well, steps_are_made_together, dummies_leave_no_trace):
                property_(drawn, played)

    holds(all_hold, SEVERAL, examples)


@pytest.mark.parametrize(
    ("name", "says"),
    [("M-PP-16", "I-PP-10"), ("M-PP-16-push", "I-PP-10"), ("M-PS-7", "HANG")],
)
def test_a_twin_breaks_it(name: str, says: str) -> None:
    twin = watched(variant(name).make)
    breaks(lambda drawn: dummies_leave_no_trace(drawn, drawn.play(stage=twin)), SEVERAL, says)


class NoDummies(Stage):
    """A stage skips dummy steps."""

    async def dummy(self) -> None:
        pass


def test_a_rank_that_skips_dummy_steps_is_found() -> None:
    breaks(lambda drawn: all_is_well(drawn, drawn.play(stage=NoDummies)), SEVERAL, "COLLECTIVE")
    breaks(lambda drawn: steps_are_made_together(drawn, drawn.play(stage=NoDummies)), SEVERAL, "met its peers in steps")


def test_worlds_that_are_drawn_have_dummies_in_them() -> None:
    seen: Counter[str] = Counter()

    def count(drawn: Drawn) -> None:
        for history in drawn.prepared().histories:
            for call in history.calls:
                seen["after a batch without tokens"] += call.dummy and call.batch is not None
                seen["without a batch"] += call.dummy and call.batch is None
                seen["with tokens"] += not call.dummy

    holds(count, SEVERAL, examples=30)
    assert len(seen) == 3, seen


def test_proven_in_one_schedule() -> None:
    drawn = Drawn(2, [Request(0, 1, 2)], {"max_num_seqs": 1, "max_num_batched_tokens": 2}, replicas=2)
    told = holds_in_every_schedule(Subject(world_of(drawn.topology), PipelineTokens(), drawn.prepared()))
    assert (told.verdict, told.exploration.runs) == ("proven", 1)


@pytest.mark.parametrize(
    ("stages", "replicas", "probes"),
    [
        (1, 1, ()),
        (2, 1, ("pp.some_excluded", "pp.all_excluded")),
        (2, 2, ("pp.some_excluded", "pp.all_excluded", "pp.dummy_step")),
    ],
)
def test_a_world_declares_only_probes_that_its_topology_can_reach(
    stages: int, replicas: int, probes: tuple[str, ...]
) -> None:
    """A world declares only the probes that its topology can reach."""
    drawn = Drawn(stages, [Request(0, 1, 2)], {"max_num_seqs": 1, "max_num_batched_tokens": 2}, replicas=replicas)
    assert Subject(world_of(drawn.topology), PipelineTokens(), drawn.prepared()).probes == probes
