"""Tests steps whose drafts all replicas skip (spec chapters 6.5, 6.6): a vote decides if stages broadcast drafts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from dpsim.contract.ops import KIND, SITE
from dpsim.vllm.pipeline.batches import Batch
from dpsim.vllm.whole.stage_worker import StageWorker
from tests.vllm.whole.whole_worlds import EAGER, Seen, request, run, whole

WORLD: dict[str, Any] = {"protocol": "whole_engine", "pp": 2, "num_speculative_tokens": 1, **EAGER}


def drafting(*drafts: Sequence[int] | None, **more: Any) -> Seen:
    """Runs one request on each replica. `drafts`: the numbers of drafts of its decodes."""
    every = [request(1, 3) | ({} if one is None else {"drafts": list(one)}) for one in drafts]
    return run(whole(every, **WORLD | more))


def receives(seen: Seen, rank: int) -> int:
    """Returns how many draft tensors a first stage receives."""
    return sum(raw[KIND] == "collective" and raw[SITE] == "drafts.receive" for raw in seen.run.journals[rank])


FIRST_STAGES = (0, 2)


@pytest.mark.parametrize(
    ("drafts", "drafted"),
    [
        ([[0], [0]], 0),  # all replicas may skip, so no step drafts
        ([[0], None], 1),  # the peer needs drafts, so both replicas draft
        ([[0, 1], [0, 1]], 1),  # after the prompt all skip; after the first decode none does
    ],
)
def test_drafts_follow_where_a_replica_needs_some(drafts: list[Any], drafted: int) -> None:
    seen = drafting(*drafts)
    assert seen.classes == []
    for first in FIRST_STAGES:
        assert seen.decided("drafts", first) == seen.decided("drafts", first + 1)
        assert max(seen.decided("drafts", first)) == drafted
        assert receives(seen, first) == sum(seen.decided("drafts", first))


def test_the_v1_runner_has_no_vote() -> None:
    """The V1 runner has no vote: each replica decides by its own batch, so only the second one drafts."""
    seen = drafting([0], None, form="source", interval=4)
    assert seen.classes == []
    assert [max(seen.decided("drafts", rank)) for rank in FIRST_STAGES] == [0, 1]


class SkipsOnOneStage(StageWorker):
    """Faulty: the last stage follows the vote, but the first stage decides by its own batch and posts no receive."""

    def skips_drafts(self, batch: Batch) -> bool:
        return super().skips_drafts(batch) if self.is_last else batch.drafts == 0


def test_a_stage_that_skips_drafts_by_its_own_batch_is_found() -> None:
    every = [request(1, 3) | {"drafts": [0]}, request(1, 3)]
    seen = run(whole(every, pieces={StageWorker: SkipsOnOneStage}, **WORLD))
    assert seen.classes[:1] == ["DISAGREEMENT:DRAFTS"]
    assert any(klass.startswith("HANG:") for klass in seen.classes)
