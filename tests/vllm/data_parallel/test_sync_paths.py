"""Tests of the group over which ranks agree, gloo or NCCL: the rule, equal decisions, and the time.

The flag `disable_nccl_for_dp_synchronization` selects the group. If it is unset, ranks agree over gloo exactly if async
scheduling is on (specification 1.4 and 10.2). Over NCCL, the all-reduce runs on the stream, behind the kernels of the
forward before. So the host waits for this forward, and async scheduling saves no time. This is why async scheduling
selects gloo.
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
    """Returns the groups over which a rank agreed."""
    records = [raw for raw in played.run.journals[rank] if raw[KIND] == "collective" and raw[SITE] == "dp.agree"]
    return {name for raw in records for name in ("dp", "dp_cpu") if name in raw}


# ---- the rule that selects gloo or NCCL

RULE = [  # async scheduling, the flag, the group
    (False, None, "dp"),
    (False, False, "dp"),
    (False, True, "dp_cpu"),
    (True, None, "dp_cpu"),
    (True, False, "dp"),
    (True, True, "dp_cpu"),
]


class OnlyTheFlag(DataParallelStep):
    """If the flag is unset, the ranks use NCCL, with and without async scheduling."""

    def syncs_on_host(self) -> bool:
        return bool(self.config.disable_nccl_for_dp_synchronization)


class OnlyTheScheduling(DataParallelStep):
    """The ranks ignore the flag and follow async scheduling only."""

    def syncs_on_host(self) -> bool:
        return self.config.async_scheduling


def by_the_rule(step: type[DataParallelStep]) -> list[bool]:
    """Returns for each line of `RULE` whether all ranks used the group that it names."""
    held = []
    for ahead, flag, group in RULE:
        played = play(WORK, step=step, async_scheduling=ahead, disable_nccl_for_dp_synchronization=flag)
        assert played.classes == []
        held.append(all(groups_of_agreements(played, rank) == {group} for rank in played.ranks))
    return held


def test_ranks_agree_on_the_group_that_the_rule_gives() -> None:
    """Ranks use the group that the rule gives for each pair of settings. Each faulty step breaks at least one line."""
    assert by_the_rule(DataParallelStep) == [True] * 6
    assert by_the_rule(OnlyTheFlag) == [True, True, True, False, True, True]
    assert by_the_rule(OnlyTheScheduling) == [True, True, False, True, False, True]


# ---- both groups give the same decisions


class SwapsOnTheDevice(DataParallelStep):
    """Over NCCL, the first two rows of the table are exchanged."""

    async def gather(self, column: tuple[int, ...]) -> Any:
        table = await super().gather(column)
        return table if self.syncs_on_host() else table[[1, 0, *range(2, self.form.rows)]]


def same_decisions(drawn: Drawn, step: type[DataParallelStep] = DataParallelStep) -> None:
    """Ranks decide the same plans and modes over gloo and over NCCL. The witness of each rank checks the forwards."""
    both = [drawn.play(step=step, disable_nccl_for_dp_synchronization=flag) for flag in (True, False)]
    assert [played.classes for played in both] == [[], []], "a finding"
    for label in ("plan", "mode", "draft.plan"):
        host, device = ([played.decided(label, rank) for rank in played.ranks] for played in both)
        assert host == device, f"the ranks decide another {label} over NCCL"


@examples(15, 125, 500)
def test_both_paths_give_the_same_decisions(examples: int) -> None:
    holds(same_decisions, drawn_worlds(more=True), examples)


def test_a_path_that_differs_is_found() -> None:
    breaks(lambda drawn: same_decisions(drawn, SwapsOnTheDevice), drawn_worlds(), "another plan|a finding")


# ---- the time that async scheduling saves


@pytest.mark.parametrize("on_host", [True, False])
def test_async_scheduling_does_not_speed_up_nccl(on_host: bool) -> None:
    """Async scheduling makes the run faster over gloo, but not over NCCL.

    Over gloo, the host continues while the device computes. Over NCCL, the host waits for the device in each step.
    """
    plain, ahead = (
        play(WORK, async_scheduling=ahead, disable_nccl_for_dp_synchronization=on_host).run.elapsed_ns
        for ahead in (False, True)
    )
    assert (ahead < plain) is on_host
    assert ahead <= plain
