"""Tests of groups that ranks create during a job: the pool keeps them for the next job. If the members create different
groups, they hang.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dpsim.checks.judge import judge
from dpsim.contract.interface import Rank
from dpsim.contract.program import Program
from dpsim.contract.registry import register_protocol
from dpsim.contract.world import Run
from real.backend import TorchBackend
from tests.real.worlds import make_world

pytest.importorskip("torch")
pytestmark = [pytest.mark.xdist_group("gloo"), pytest.mark.parametrize("backend", ["gloo"], indirect=True)]

STALL_NS = 1_000_000_000


@register_protocol("real_made_groups")
class Groups(Program[Any]):
    """`what` selects the order of the groups: equal on all ranks, or on rank 0 another order or other members."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step, odd = 0, rank.rank == 0 and prepared["what"]
        for name in ("b", "a") if odd == "order" else ("a", "b"):
            group = await rank.group(name, (1, 0) if odd == "ranks" else (0, 1))
            await group.barrier()


def run(backend: TorchBackend, what: str) -> tuple[Run, list[str]]:
    reason = backend.unavailable(2)
    if reason is not None:
        pytest.skip(reason)
    world = make_world(2, stall_ns=STALL_NS if what else 30 * STALL_NS)
    made = backend.run(replace(world, deadline_ns=60 * STALL_NS), "real_made_groups", {"what": what})
    return made, [finding.klass for finding in judge(world, made)]


def test_a_second_job_makes_the_same_groups(backend: TorchBackend) -> None:
    for _ in range(2):
        made, found = run(backend, "")
        assert made.finished, made.observed
        assert found == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "klass"), [("order", "HANG:COLLECTIVE:ORDER_ACROSS_GROUPS"), ("ranks", "MISMATCH:GROUP:RANKS")]
)
def test_members_that_do_not_meet_hang_and_the_next_job_runs(backend: TorchBackend, what: str, klass: str) -> None:
    made, found = run(backend, what)
    assert made.ends == ["blocked", "blocked"]
    assert found[0] == klass
    assert run(backend, "")[0].finished
