"""Ranks agree over gloo or over NCCL: which of both, that they decide the same, and what each costs (1.4, 10.2).

The flag that chooses is a tri-state: unset, it is what async scheduling is. Over NCCL the table comes back behind all
that the stream still has to do. So the host waits for the forward before, and scheduling ahead is worth nothing. That
is why async scheduling turns gloo on.
"""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.contract.ops import KIND, SITE
from dpsim.vllm.data_parallel.step import DataParallelStep
from tests.properties import breaks, examples, holds
from tests.vllm.data_parallel.batch_worlds import Drawn, Played, decodes, drawn_worlds, line_up, play

WORK = line_up(decodes(3, 6), decodes(2, 6))


def groups_of_agreements(played: Played, rank: int) -> set[str]:
    """Over which groups a rank agreed."""
    records = [raw for raw in played.run.journals[rank] if raw[KIND] == "collective" and raw[SITE] == "dp.agree"]
    return {name for raw in records for name in ("dp", "dp_cpu") if name in raw}


# ---- which of both

RULE = [  # async scheduling, the flag, the group
    (False, None, "dp"),
    (False, False, "dp"),
    (False, True, "dp_cpu"),
    (True, None, "dp_cpu"),
    (True, False, "dp"),
    (True, True, "dp_cpu"),
]


class OnlyTheFlag(DataParallelStep):
    """Unset counts as NCCL, whatever is scheduled how."""

    def syncs_on_host(self) -> bool:
        return bool(self.config.disable_nccl_for_dp_synchronization)


class OnlyTheScheduling(DataParallelStep):
    """No step asks the flag."""

    def syncs_on_host(self) -> bool:
        return self.config.async_scheduling


def by_the_rule(step: type[DataParallelStep]) -> list[bool]:
    """Of each line of the rule whether all ranks went by it."""
    held = []
    for ahead, flag, group in RULE:
        played = play(WORK, step=step, async_scheduling=ahead, disable_nccl_for_dp_synchronization=flag)
        assert played.classes == []
        held.append(all(groups_of_agreements(played, rank) == {group} for rank in played.ranks))
    return held


def test_the_rule() -> None:
    assert by_the_rule(DataParallelStep) == [True] * 6
    assert by_the_rule(OnlyTheFlag) == [True, True, True, False, True, True]
    assert by_the_rule(OnlyTheScheduling) == [True, True, False, True, False, True]


# ---- both decide the same


class SwapsOnTheDevice(DataParallelStep):
    """The table of NCCL has the first two rows in another order."""

    async def gather(self, column: tuple[int, ...]) -> Any:
        table = await super().gather(column)
        return table if self.syncs_on_host() else table[[1, 0, *range(2, self.form.rows)]]


def same_decisions(drawn: Drawn, step: type[DataParallelStep] = DataParallelStep) -> None:
    """Plans and modes over gloo and over NCCL; what came out of the forwards is looked at by each rank."""
    both = [drawn.play(step=step, disable_nccl_for_dp_synchronization=flag) for flag in (True, False)]
    assert [played.classes for played in both] == [[], []], "a finding"
    for label in ("plan", "mode", "draft.plan"):
        host, device = ([played.decided(label, rank) for rank in played.ranks] for played in both)
        assert host == device, f"the ranks decide another {label} over NCCL"


@examples(15, 125, 500)
def test_both_paths_come_to_the_same(examples: int) -> None:
    holds(same_decisions, drawn_worlds(more=True), examples)


def test_a_path_that_differs_is_found() -> None:
    breaks(lambda drawn: same_decisions(drawn, SwapsOnTheDevice), drawn_worlds(), "another plan|a finding")


# ---- what scheduling ahead is worth


@pytest.mark.parametrize("on_host", [True, False])
def test_over_nccl_nothing_is_gained_by_scheduling_ahead(on_host: bool) -> None:
    """Over gloo the host goes on while the device still computes, over NCCL it waits for it in each step."""
    plain, ahead = (
        play(WORK, async_scheduling=ahead, disable_nccl_for_dp_synchronization=on_host).run.elapsed_ns
        for ahead in (False, True)
    )
    assert (ahead < plain) is on_host
    assert ahead <= plain
