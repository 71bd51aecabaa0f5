"""A majority proves nothing if all ranks received one result before: ranks of one kind may ignore it together."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pytest

from dpsim.checks import agreed_result, agreement
from dpsim.contract.interface import Rank
from dpsim.diagnose.words.told import Told
from tests.programs import Script, judged, world_of


def agrees(
    wrong: Collection[int], busy: Collection[int] = (0,), *, decides: bool = True, agree: bool = True, steps: int = 1
) -> Script:
    """Each rank sends its work, and all decide mode 0. In the last step, the ranks of `wrong` decide mode 2.

    The ranks of `busy` have different work, the others have none.
    """

    async def script(rank: Rank) -> None:
        group = rank.host("dp_cpu")
        for rank.step in range(steps):
            rank.probe(f"work.{rank.rank}" if rank.rank in busy else "idle")
            if agree:
                await group.all_reduce(np.array([rank.rank in busy], np.int32), site="agree")
            mode = 2 if rank.rank in wrong and rank.step == steps - 1 else 0
            if decides:
                rank.decide("mode", mode, "dp_cpu")
            else:
                await group.all_gather(np.ones(1 + mode, np.int32), site="forward")

    return script


def found(script: Script, ranks: int = 3) -> Told:
    return judged(world_of(ranks, ["dp_cpu"]), script)[0]


def blamed(finding: Told) -> tuple[int, ...]:
    culprit = finding.culprit
    return () if culprit is None else culprit.ranks or (culprit.rank,)


@pytest.mark.parametrize("decides", [True, False])
def test_a_majority_of_idle_ranks_does_not_outvote_the_one_that_follows_the_agreement(decides: bool) -> None:
    """Without an agreement the majority counts, and the rank that stands alone is blamed."""
    idle = {"wrong": (1, 2), "decides": decides}
    assert blamed(found(agrees(**idle))) == ()  # type: ignore[arg-type]
    by_votes = found(agrees(**idle, agree=False))  # type: ignore[arg-type]
    assert blamed(by_votes) == (0,)
    did = "ranks of dp_cpu decided alike" if decides else "ranks made the same call in step 0"
    assert by_votes.grounds == (f"2 of 3 {did}",)


def test_the_message_says_that_the_majority_proves_nothing() -> None:
    assert (
        found(agrees((1, 2), decides=False)).why
        == found(agrees((1, 2))).why
        == "each rank received the same result from agree, so a majority proves nothing"
    )
    two = found(agrees((1,)), 2)
    same = "each rank received the same result from agree, and no other step shows which"
    assert two.why == f"{same} decision is right"
    assert found(agrees((1, 2))).message.endswith(
        "; each rank received the same result from agree, so a majority proves nothing"
    )


@pytest.mark.parametrize("decides", [True, False])
def test_a_call_of_ranks_in_one_state_may_differ_for_another_reason(decides: bool) -> None:
    """All three ranks are idle, so their state does not explain the sides, and the majority counts."""
    assert blamed(found(agrees((1,), (), decides=decides))) == (1,)


@pytest.mark.parametrize("wrong", [(0,), (3, 4)])
def test_members_in_different_states_that_decide_alike_follow_the_agreement(wrong: tuple[int, ...]) -> None:
    """One rank of three departs, or two idle ones of five: the others have different work."""
    busy = (1, 2) if wrong == (0,) else (0, 1, 2)
    assert blamed(found(agrees(wrong, busy), 3 if wrong == (0,) else 5)) == wrong


def test_a_majority_departs_if_only_the_minority_is_mixed() -> None:
    """Ranks 2 to 4 are idle, and more than those that follow the agreement."""
    finding = found(agrees((2, 3, 4), (0, 1)), 5)
    assert blamed(finding) == (2, 3, 4)
    assert finding.ground == ("ranks 0, 1 differ before agree, and act alike after it",)


@pytest.mark.parametrize("same", [True, False])
def test_an_equal_result_in_another_step_shows_what_to_decide(same: bool) -> None:
    finding = found(agrees((1, 2), steps=2 if same else 1))
    assert blamed(finding) == ((1, 2) if same else ())
    if same:
        assert finding.ground == (
            "in step 0, agree gave the same result, and ranks 0 to 2 all decided as rank 0 does now",
        )


def test_a_constant_result_beside_the_agreement_is_no_precedent() -> None:
    """The agreed value decides the branch, and rank 2 ignores it in step 1. Another collective has one result in both
    steps. The twin is step 0 alone, as a precedent for a wrong majority: `unrelated` gave the same result there.
    """

    async def script(rank: Rank) -> None:
        for rank.step in range(2):
            group = rank.host("dp_cpu")
            await group.all_reduce(np.full(1, 1 + rank.step, np.int32), op="max", site="agree")
            await group.all_reduce(np.full(1, 7, np.int32), op="max", site="unrelated")
            rank.decide("branch", 1 if rank.rank == 2 else 1 - rank.step, "dp_cpu")

    assert blamed(found(script)) == (2,)


@pytest.mark.parametrize("before", [(0, 0), (0, 2)])
def test_a_result_that_went_with_other_decisions_decides_nothing(before: tuple[int, int]) -> None:
    """All departed from step 0 in step 1; or two earlier steps already differ. Then neither shows who departs."""

    async def script(rank: Rank) -> None:
        values = (*before, rank.rank + (before == (0, 0)))
        for rank.step in range(3):
            await rank.host("dp_cpu").all_reduce(np.ones(1, np.int32), site="agree")
            rank.decide("mode", values[rank.step], "dp_cpu")

    assert blamed(found(script, 2)) == ()


def test_without_the_rule_the_rank_that_follows_the_agreement_is_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: majorities alone."""
    for module in (agreement, agreed_result):
        monkeypatch.setattr(module, "ruling", lambda *of: None)
    assert blamed(found(agrees((1, 2)))) == (0,)
    assert blamed(found(agrees((1, 2), decides=False))) == (0,)
    assert blamed(found(agrees((2, 3, 4), (0, 1)), 5)) != (2, 3, 4)


@pytest.mark.parametrize("dtype", [np.int64, np.int32])
def test_no_agreement_decides_a_dtype(dtype: type) -> None:
    """Rank 0 alone has work, and gathers another dtype: the majority is right. The faulty twin gathers more elements,
    which may follow from the agreed result.
    """

    async def script(rank: Rank) -> None:
        group, busy = rank.host("dp_cpu"), rank.rank == 0
        rank.step = 0
        rank.probe("work" if busy else "idle")
        await group.all_reduce(np.array([busy], np.int32), site="agree")
        await group.all_gather(np.ones(1 + (busy and dtype is np.int32), dtype if busy else np.int32), site="forward")

    assert blamed(found(script)) == ((0,) if dtype is np.int64 else ())


def test_a_barrier_is_no_agreement() -> None:
    async def script(rank: Rank) -> None:
        rank.step = 0
        await rank.host("dp_cpu").barrier(site="meet")
        rank.decide("mode", int(rank.rank == 1), "dp_cpu")

    assert blamed(found(script)) == (1,)
