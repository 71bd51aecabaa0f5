"""Tests of the finish sync, by which engines in lockstep agree whether the group continues (specification 2.4).

The tests cover the examples of the specification for 2, 3 and 6 ranks, all small tables, and the sync points.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import pytest

from dpsim.vllm.engine.finish_sync import FinishFlag, FinishSync, Numbers, PauseVotes, PauseVotes033, Verdict
from dpsim_engine.waves import reduced

Rank = tuple[bool, bool]
"""One rank: whether it has unfinished work, and whether it has a pause pending."""

IDLE: Rank = (False, False)
WORKS: Rank = (True, False)
PAUSES: Rank = (False, True)
BOTH: Rank = (True, True)


def verdict_of(kind: type[FinishSync], ranks: Sequence[Rank]) -> Verdict:
    """Returns the verdict of the ranks' reduced numbers."""
    sync = kind(len(ranks), 16)
    return sync.verdict(reduced(sync.op, [sync.contribution(*rank) for rank in ranks]))


@pytest.mark.parametrize("size", [2, 3, 6])
@pytest.mark.parametrize("kind", [PauseVotes, PauseVotes033])
def test_tables_that_the_engine_was_asked(kind: type[FinishSync], size: int) -> None:
    """The verdicts equal those of vLLM's own function over gloo (specification 2.4, example A-23)."""
    tables = {
        "work on one": [WORKS] + [IDLE] * (size - 1),
        "none": [IDLE] * size,
        "one pause": [PAUSES] + [IDLE] * (size - 1),
        "all pause": [PAUSES] * size,
        "work and all pause": [BOTH] + [PAUSES] * (size - 1),
    }
    assert {name: tuple(verdict_of(kind, ranks)) for name, ranks in tables.items()} == {
        "work on one": (True, False),
        "none": (False, False),
        "one pause": (True, False),
        "all pause": (False, True),
        "work and all pause": (True, True),
    }


# ---- all tables


def wrong_tables(kind: type[FinishSync]) -> list[tuple[Rank, ...]]:
    """Returns the tables of up to four ranks that have a wrong verdict.

    The expected verdict is computed from single ranks, not from sums. A group continues if any rank has work (invariant
    I-EL-6), or if some but not all ranks have a pause (I-EL-9).
    """
    wrong = []
    states = [IDLE, WORKS, PAUSES, BOTH] if kind.op == "sum" else [IDLE, WORKS]
    for size in (2, 3, 4):
        for ranks in product(states, repeat=size):
            works, pauses = [rank[0] for rank in ranks], [rank[1] for rank in ranks]
            some_wait = any(pauses) and not all(pauses)
            if verdict_of(kind, ranks) != (any(works) or some_wait, all(pauses)):
                wrong.append(ranks)
    return wrong


@pytest.mark.parametrize("kind", [FinishFlag, PauseVotes, PauseVotes033])
def test_all_small_tables(kind: type[FinishSync]) -> None:
    assert wrong_tables(kind) == []


class OnlyIfAllWork(FinishFlag):
    """Mutant M-EL-5: ranks reduce with the minimum, so a wave ends while a rank has work."""

    def contribution(self, unfinished: bool, pending_pause: bool) -> Numbers:
        return (-int(unfinished),)

    def verdict(self, total: Numbers) -> Verdict:
        return super().verdict((-total[0],))


class PausesAtOnce(PauseVotes033):
    """If only some ranks have a pause, the group stops (breaks invariant I-EL-9)."""

    def verdict(self, total: Numbers) -> Verdict:
        return Verdict(total[0] > 0, total[1] == self.size)


class StopsAtWork(PauseVotes033):
    """If all ranks have a pause, the group stops although some ranks have work."""

    def verdict(self, total: Numbers) -> Verdict:
        running, consensus = super().verdict(total)
        return Verdict(running and not consensus, consensus)


class ConsensusOfOne(PauseVotes033):
    """A pause on one rank counts as a pause of all ranks."""

    def verdict(self, total: Numbers) -> Verdict:
        return Verdict(super().verdict(total).running, total[1] > 0)


class WorkHidesPause(PauseVotes033):
    """A rank with work does not report its pause, so a pause that waits for the work is never agreed."""

    def contribution(self, unfinished: bool, pending_pause: bool) -> Numbers:
        return (int(unfinished), int(pending_pause and not unfinished))


@pytest.mark.parametrize("twin", [OnlyIfAllWork, PausesAtOnce, StopsAtWork, ConsensusOfOne, WorkHidesPause])
def test_a_wrong_verdict_is_found(twin: type[FinishSync]) -> None:
    assert wrong_tables(twin)


# ---- the cadence


def sync_points(kind: type[FinishSync], interval: int | None = None) -> list[int]:
    """Returns the steps below 100 that are sync points."""
    sync = kind(3, interval or kind.INTERVAL)
    return [step for step in range(1, 100) if sync.due(step)]


def test_each_release_synchronizes_at_its_steps() -> None:
    assert sync_points(FinishFlag) == sync_points(PauseVotes) == [32, 64, 96]
    assert sync_points(PauseVotes033) == [1, 16, 32, 48, 64, 80, 96]
    assert sync_points(PauseVotes033, 1) == sync_points(FinishFlag, 1) == list(range(1, 100))


@pytest.mark.parametrize("kind", [FinishFlag, PauseVotes, PauseVotes033])
@pytest.mark.parametrize("interval", [1, 2, 3, 16])
def test_idling_is_bounded(kind: type[FinishSync], interval: int) -> None:
    """Two sync points are at most N steps apart, so a group without work runs at most N - 1 more steps (I-EL-10)."""
    points = sync_points(kind, interval)
    gaps = [after - before for before, after in zip([0, *points], points, strict=False)]
    assert max(gaps) == interval
