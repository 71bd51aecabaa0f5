"""Tests that a rank reads its own part of the timeline alone."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dpsim.contract.registry import register_variant
from dpsim.diagnose.words import text
from dpsim.runner import run_scenario
from dpsim.scenario import Scenario, scenario_from
from dpsim.vllm.config import RuntimeMode
from dpsim.vllm.data_parallel.batch import LocalBatch, StepPlan
from dpsim.vllm.data_parallel.own_part import OwnPart
from dpsim.vllm.data_parallel.step import DataParallelStep
from dpsim.vllm.data_parallel.timeline import Batches, Timeline
from dpsim.vllm.programs import dp_batch


class Reads(DataParallelStep):
    """Ranks of one token each agree without communication: each one reads whether ranks have tokens."""

    async def run(self, timeline: Batches) -> None:
        self.timeline = timeline
        await super().run(timeline)

    async def agree(self, local: LocalBatch) -> StepPlan:
        assert all(self.counts())
        return StepPlan(False, (1, 1), RuntimeMode.NONE)

    def counts(self) -> Sequence[int]:
        return [batch.num_tokens for batch in self.timeline.batches(self.rank.step)]


@register_variant("t-reads-peers", protocol="dp_batch", form="source-000", expected="CRASH:PEERBATCH")
class ReadsPeers(Reads):
    """Reads the batches of all ranks."""


@register_variant("t-reads-next", protocol="dp_batch", form="source-000", expected="CRASH:PEERBATCH")
class ReadsNext(Reads):
    """Reads the batch of the next rank, also through the witness of the results."""

    def counts(self) -> Sequence[int]:
        return [self.witness.timeline.batches(self.rank.step)[self.dp_index - 1].num_tokens]


@register_variant("t-reads-own", protocol="dp_batch", form="source-000", expected=None, reason="no agreement is needed")
class ReadsOwn(Reads):
    """The healthy twin reads its own batch."""

    def counts(self) -> Sequence[int]:
        return [self.timeline.batches(self.rank.step)[self.dp_index].num_tokens]


def world(variant: str) -> Scenario:
    """Two ranks with one token each."""
    requests = [{"prompt_tokens": 1, "output_tokens": 2}] * 2
    given = {"topology": {"data_parallel_size": 2}, "workload": {"requests": requests}}
    return scenario_from({"name": "reads", "protocol": {"name": "dp_batch", "variant": variant}, **given})


@pytest.mark.parametrize("variant", ["t-reads-peers", "t-reads-next"])
def test_a_rank_that_reads_the_batch_of_a_peer_is_found(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the whole timeline, dpsim would not notice it."""
    primary = run_scenario(world(variant)).primary
    assert primary is not None
    assert (primary.klass, "reads the batch of dp_index" in text(primary.message)) == ("CRASH:PEERBATCH", True)
    monkeypatch.setattr(dp_batch, "OwnPart", lambda timeline, dp_index: timeline)
    assert run_scenario(world(variant)).primary is None


def test_a_rank_may_read_its_own_batch() -> None:
    assert run_scenario(world("t-reads-own")).primary is None


def test_a_slice_or_a_negative_index_reads_the_same_batches() -> None:
    whole: Timeline = dp_batch.DataParallelBatch().prepare(world("t-reads-own").arguments()).timeline
    own = OwnPart(whole, 1).batches(0)
    assert (own[1], own[-1], list(own[1:])) == (whole.batches(0)[1], whole.batches(0)[1], [whole.batches(0)[1]])
    for refused in (0, -2, slice(0, 2)):
        with pytest.raises(AssertionError, match="reads the batch of dp_index 0 in step 0"):
            own[refused]
