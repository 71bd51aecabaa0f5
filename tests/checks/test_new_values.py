"""Other steps prove nothing about a step in which the ranks received a new value: a rank may have missed the change."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from dpsim.checks.finding import Finding
from dpsim.contract.interface import Rank
from dpsim.diagnose.words import text
from tests.checks.blame.innocent import ONE, first
from tests.programs import Script

AT = 2
"""The step in which rank 1 makes its mistake."""

CONSTANT, CHANGED, COUNTED = (5, 5, 5, 5), (5, 5, 6, 5), (5, 6, 7, 8)
"""What rank 0 tells in each step. Only in the second row is the value of step 2 new."""


async def _told(rank: Rank, value: int, way: str) -> None:
    h = rank.host("h")
    if way == "result":
        await h.broadcast(np.array([value], np.int32), 0, site="plan")
    elif way == "message":
        if rank.rank == 0:
            for to in h.ranks:
                rank.send(to, "plan", value, "tell")
        await rank.mailbox("plan").get("plan")
    elif rank.rank == 0:
        await h.send(np.array([value], np.int32), 1, site="tell")
    else:
        await h.recv(1, "int32", 0, site="plan")


async def _acted(rank: Rank, mistake: bool, what: str) -> None:
    h = rank.host("h")
    if what == "skips":
        for _ in range(2 - mistake):
            await h.all_reduce(ONE, site="sum")
    elif what == "dtype":
        await h.all_reduce(np.ones(1, np.int64 if mistake else np.int32), site="sum")
    elif what == "transfer" and rank.rank == 0:
        await h.send(ONE, 1, site="hand")
    elif what == "transfer" and not mistake:
        await h.recv(1, "int32", 0, site="take")
    elif what == "wake" and rank.rank == 0:
        for _ in range(1 - (rank.step == AT)):
            rank.send(1, "go", 1, "go")
    elif what == "wake":
        await rank.mailbox("go").get("hear")


def program(told: Sequence[int], way: str, what: str) -> Script:
    async def script(rank: Rank) -> None:
        for rank.step, value in enumerate(told):
            await _told(rank, value, way)
            await _acted(rank, rank.rank == 1 and rank.step == AT, what)
            await rank.host("h").barrier(site="end")

    return script


def found(told: Sequence[int], way: str, what: str) -> Finding:
    return first(2, program(told, way, what))


@pytest.mark.parametrize("what", ["skips", "dtype", "transfer"])
@pytest.mark.parametrize("way", ["result", "message", "transfer"])
@pytest.mark.parametrize("told", [CONSTANT, CHANGED, COUNTED])
def test_other_steps_prove_nothing_if_a_value_was_new(told: Sequence[int], way: str, what: str) -> None:
    one = found(told, way, what)
    if told == CHANGED:
        assert one.culprit is None
        assert "received at plan in step 2 is new: other steps prove nothing" in text(one.why)
    else:
        assert one.culprit is not None
        assert (one.culprit.rank, one.culprit.step) == (1, AT)


@pytest.mark.parametrize("told", [CONSTANT, CHANGED])
def test_a_value_behind_the_mistake_is_no_reason(told: Sequence[int]) -> None:
    """The mistake comes first, and may have changed the value."""

    async def script(rank: Rank) -> None:
        for rank.step, value in enumerate(told):
            await _acted(rank, rank.rank == 1 and rank.step == AT, "dtype")
            await _told(rank, value, "result")

    one = first(2, script)
    assert one.culprit is not None
    assert (one.culprit.rank, one.culprit.step) == (1, AT)


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize(("told", "culprit"), [((5, 6, 5, 6), 1), (CHANGED, None)])
def test_an_equal_result_before_decides_nothing_if_a_message_was_new(
    ranks: int, told: Sequence[int], culprit: int | None
) -> None:
    """Each decides the value of its message, and rank 1 keeps to the step before. `sum` has an earlier result."""

    async def script(rank: Rank) -> None:
        for rank.step, value in enumerate(told):
            await _told(rank, value, "message")
            own = 6 if rank.step % 2 else 5
            await rank.host("h").all_reduce(np.array([own], np.int32), op="max", site="sum")
            stale = rank.rank == 1 and rank.step == AT
            rank.decide("mode", told[rank.step - stale], "h")

    one = first(ranks, script)
    assert (None if one.culprit is None else one.culprit.rank) == culprit


@pytest.mark.parametrize("varies", [True, False])
def test_a_constant_result_decides_no_disagreement_of_two_ranks(varies: bool) -> None:
    """Rank 1 departs in step 2. Its result `sum` shows that only if it differs in another step."""

    async def script(rank: Rank) -> None:
        for rank.step in range(3):
            own = 6 if rank.step == 1 and varies else 5
            await rank.host("h").all_reduce(np.array([own], np.int32), op="max", site="sum")
            rank.decide("mode", 9 if rank.rank == 1 and rank.step == AT else own, "h")

    one = first(2, script)
    assert (None if one.culprit is None else one.culprit.rank) == (1 if varies else None)
