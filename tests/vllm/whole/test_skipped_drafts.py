"""Steps whose drafts all replicas skip: the vote drives the third broadcast, alike on all stages (6.5, 6.6)."""

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
    """One request a replica. `drafts`: of its decodes."""
    every = [request(1, 3) | ({} if one is None else {"drafts": list(one)}) for one in drafts]
    return run(whole(every, **WORLD | more))


def receives(seen: Seen, rank: int) -> int:
    """Drafts that a first stage receives."""
    return sum(raw[KIND] == "collective" and raw[SITE] == "drafts.receive" for raw in seen.run.journals[rank])


FIRST_STAGES = (0, 2)


@pytest.mark.parametrize(
    ("drafts", "drafted"),
    [
        ([[0], [0]], 0),  # all may skip: no step drafts
        ([[0], None], 1),  # the peer needs drafts: both draft
        ([[0, 1], [0, 1]], 1),  # after the prompt all skip, after the first decode no replica does
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
    """Each replica goes by its own batch there: only the second one drafts."""
    seen = drafting([0], None, form="source", interval=4)
    assert seen.classes == []
    assert [max(seen.decided("drafts", rank)) for rank in FIRST_STAGES] == [0, 1]


class SkipsOnOneStage(StageWorker):
    """The last stage drafts as its replicas agreed; the first one goes by its own batch, and posts no receive."""

    def skips_drafts(self, batch: Batch) -> bool:
        return super().skips_drafts(batch) if self.is_last else batch.drafts == 0


def test_one_stage_that_goes_by_its_own_batch_is_found() -> None:
    every = [request(1, 3) | {"drafts": [0]}, request(1, 3)]
    seen = run(whole(every, pieces={StageWorker: SkipsOnOneStage}, **WORLD))
    assert seen.classes[:1] == ["DISAGREEMENT:DRAFTS"]
    assert any(klass.startswith("HANG:") for klass in seen.classes)
