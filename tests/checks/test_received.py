"""If ranks decide differently because actors sent them different values, no rank is the culprit by majority."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from dpsim.checks import agreement
from dpsim.contract.interface import Rank
from dpsim.diagnose.words.told import Told
from tests.programs import Script, judged, world_of


def routed(sent: Sequence[int], decided: Sequence[int], *, early: bool = False, poll: bool = False) -> Script:
    """Rank 0 sends a value to each other rank in step 1, and each rank decides. `early`: a rank gets the message before
    it sets the number of the step. `poll`: it polls until there is a message.
    """

    async def hear(rank: Rank) -> None:
        if rank.rank and poll:
            while rank.mailbox("box").poll("hear") is None:
                await rank.sleep(1000, site="pause")
        elif rank.rank:
            await rank.mailbox("box").get("hear")

    async def script(rank: Rank) -> None:
        for step in range(2):
            if not early:
                rank.step = step
            for to in range(1, 1 + len(sent)) if rank.rank == 0 else ():
                rank.send(to, "box", sent[to - 1] if step else 1, "tell")
            await hear(rank)
            rank.step = step
            rank.decide("mode", decided[rank.rank] if step else 1, "dp_cpu")
            await rank.host("dp_cpu").all_reduce(np.ones(1, np.int32), site="end")

    return script


def found(script: Script, ranks: int) -> Told:
    return next(one for one in judged(world_of(ranks, ["dp_cpu"]), script) if one.check == "agreement")


@pytest.mark.parametrize("early", [False, True])
def test_a_rank_that_decides_by_another_message_is_not_outvoted(early: bool) -> None:
    finding = found(routed([1, 1, 2], [1, 1, 1, 2], early=early), 4)
    assert finding.culprit is None
    assert finding.message.endswith(
        "at hear, rank 3 received 2 from rank 0 (tell), and ranks 1, 2 received 1 from rank 0 (tell)"
    )


@pytest.mark.parametrize(
    ("sent", "decided"),
    [([1, 1, 1], [1, 1, 1, 2]), ([5, 6, 7], [1, 1, 1, 2])],
    ids=["equal messages", "each rank has its own message"],
)
def test_messages_that_do_not_explain_the_decisions_leave_the_majority_right(
    sent: Sequence[int], decided: Sequence[int]
) -> None:
    finding = found(routed(sent, decided), 4)
    assert finding.culprit is not None
    assert finding.culprit.rank == 3


def test_a_poll_explains_nothing_because_the_rank_chose_its_time() -> None:
    finding = found(routed([1, 1, 2], [1, 1, 1, 2], poll=True), 4)
    assert finding.culprit is not None
    assert finding.culprit.rank == 3


def test_without_the_rule_the_receiver_of_another_value_is_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The faulty twin: majorities alone."""
    monkeypatch.setattr(agreement, "received_apart", lambda *of: "")
    finding = found(routed([1, 1, 2], [1, 1, 1, 2]), 4)
    assert finding.culprit is not None
    assert finding.culprit.rank == 3
