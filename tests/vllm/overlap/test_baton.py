"""Tests the baton in all schedules: one microbatch runs at a time, and no wake-up is lost. Twins hang or crash."""

from __future__ import annotations

import pytest

from dpsim.contract.interface import Flag
from dpsim.vllm.overlap.barrier import LiteralBarrier, ReadyBarrier
from dpsim.vllm.overlap.baton import UBatchContext
from tests.vllm.overlap.baton_worlds import Ring, Watched, seen


class KeepsEvent(Watched):
    """Mutant M-BT-2: does not clear its event after it wakes. It also lacks the assertion that the event is clear."""

    def clear_own(self) -> None:
        pass

    async def cpu_yield(self) -> None:
        self.state.give(self.id)
        self.let_go()
        await self.take()
        self.restore()


class SetsOwn(UBatchContext):
    """Mutant M-BT-6: a microbatch hands the baton to itself."""

    def next_event(self) -> Flag:
        return self.wait_event


class ClearsLate(UBatchContext):
    """Faulty: clears its event before it waits, so a wake-up that arrived earlier is lost."""

    async def take(self) -> None:
        self.wait_event.clear("baton.late")
        await super().take()


@pytest.mark.parametrize("yields", [(0, 0), (1, 1), (4, 4), (2, 1), (2, 2, 2), (3, 2, 2)])
def test_one_microbatch_runs_at_a_time_in_all_schedules(yields: tuple[int, ...]) -> None:
    verdict, runs = seen(Ring(yields, Watched))
    assert verdict == "proven"
    assert runs < 100


@pytest.mark.parametrize("yields", [(0, 1), (3, 1), (1, 3), (2, 1, 2)])
def test_unequal_yields_hang(yields: tuple[int, ...]) -> None:
    """Mutant M-BT-11: microbatches that yield unequally often deadlock (invariant I-BT-6).

    One more yield of the first of two is harmless, because the exit of the second one wakes it.
    """
    assert seen(Ring(yields))[0].startswith("HANG:")


@pytest.mark.slow
def test_events_are_new_in_every_step() -> None:
    """An event that the last exit of a step leaves set is clear in the next step."""
    assert seen(Ring((1, 1), Watched, steps=2))[0] == "proven"


def test_two_run_where_an_event_is_not_cleared() -> None:
    assert seen(Ring((2, 2), KeepsEvent))[0] == "CRASH:ASSERTIONERROR"


def test_lost_wake_ups() -> None:
    assert seen(Ring((1, 1), SetsOwn))[0].startswith("HANG:")
    assert seen(Ring((1, 1), ClearsLate))[0].startswith("HANG:")


# ---- the barrier


@pytest.mark.slow
def test_the_literal_barrier_is_for_two() -> None:
    """The barrier of source page 001 has exactly three parties: with two microbatches it works, with three one waits
    forever.
    """
    assert seen(Ring((1, 1), barrier=LiteralBarrier))[0] == "proven"
    assert seen(Ring((1, 1), barrier=ReadyBarrier, steps=3))[0] == "proven"
    assert seen(Ring((1, 1), barrier=LiteralBarrier, steps=2))[0] == "proven"
    assert seen(Ring((1, 1, 1), barrier=LiteralBarrier))[0].startswith("HANG:")
