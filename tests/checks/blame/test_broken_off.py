"""Tests a rank that ended because another actor closed its store. The finding names this actor, not a call that the
rank left out.
"""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.diagnose.words.told import Told
from tests.checks.handmade import Hand, Made
from tests.programs import world_of


def store(hand: Hand, how: str, outcome: Any, key: str = "", patience: int | None = None, port: int = 5) -> None:
    hand.learned(hand.note("store", f"{how}.{key}", how=how, key=key, node=0, port=port, value=patience), outcome)


def found(patience: int | None = 9, answer: Any = None, behind: bool = False) -> Told:
    """Rank 1 waits in a call for rank 0, which was blocked in a get at the store of rank 2. Rank 2 gave up on rank 3
    and closed its store.
    """
    made = Made(4)
    made.world = world_of(4, ["cpu"], [], among=2)
    store(made[2], "open", 5)
    store(made[0], "join", 5)
    store(made[2], "join", 6, port=6)
    made[3].note("store", "set.go", how="set", key="go", node=0, port=6, value=1)
    store(made[2], "get", None, "go", patience, port=6)
    made[2].note("store", "leave", how="close", key="", node=0, port=5, value=None)
    made[2].note("raised", "Late", message="nothing came")
    store(made[0], "get", answer, "blocks")
    if behind:
        made[0].launch("forward", "main")
    made[0].add("finished", "end")
    made[1].step = 1
    made[1].collective("cpu", None)
    return next(
        one
        for one in made.findings("finished", "blocked", "raised", "finished")
        if one.klass == "HANG:COLLECTIVE:MISSING_RANK"
    )


def test_the_rank_that_closed_the_store_is_named() -> None:
    one = found()
    assert one.culprit is None
    said = "; rank 0 was broken off in get.blocks: rank 2 gave up in get.go (key go), for rank 3"
    assert one.message.endswith(said)


@pytest.mark.parametrize(("answer", "behind"), [(970, False), (None, True)])
def test_a_rank_that_got_its_answer_or_continued_left_its_call_out(answer: Any, behind: bool) -> None:
    one = found(answer=answer, behind=behind)
    assert one.culprit is not None
    assert one.culprit.rank == 0


def test_an_unrelated_close_of_a_store_proves_nothing() -> None:
    one = found(patience=None)
    assert one.culprit is not None
    assert one.culprit.rank == 0
