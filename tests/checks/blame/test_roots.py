"""Tests the root of a hang: an actor that died, raised or stopped between two ops. The finding blames it, not the
actors that wait for it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dpsim.contract.interface import Rank
from dpsim.contract.ops import KIND
from dpsim.contract.world import At, CommunicatorSpec, Fault
from tests.checks.handmade import Made
from tests.judged import judge
from tests.programs import run, world_of

DEAD, SILENT = "HANG:MAILBOX:DEAD_RANK", "HANG:MAILBOX:NO_MESSAGE"


def waits_on(made: Made, rank: int, sender: int, how: str = "get") -> None:
    """`sender` posted one message, which `rank` took; `rank` waits for the next one."""
    made[sender].post(rank, "one")
    made[rank].learned(made[rank].take(how), "one")
    made[rank].take(how)


def found(made: Made, *ends: Any) -> tuple[str, int | None]:
    """Returns the class of the first finding, and the rank of its culprit, if any."""
    first = made.findings(*ends)[0]
    return first.klass, None if first.culprit is None else first.culprit.rank


@pytest.mark.parametrize(("end", "expected"), [("died", (DEAD, 0)), ("finished", (SILENT, None))])
def test_a_dead_rank_that_sent_earlier_messages_is_blamed(end: str, expected: tuple[str, int | None]) -> None:
    made = Made(2)
    waits_on(made, 1, 0)
    assert found(made, end, "blocked") == expected


def test_a_rank_that_died_after_a_request_is_blamed_for_the_missing_answer() -> None:
    made = Made(2)
    made[1].post(0, "please")
    made[1].take()
    assert found(made, "died", "blocked") == (DEAD, 0)


@pytest.mark.parametrize(("end", "expected"), [("died", (DEAD, 2)), ("finished", (SILENT, None))])
def test_a_dead_rank_is_blamed_before_waiting_ranks(end: str, expected: tuple[str, int | None]) -> None:
    made = Made(3)
    waits_on(made, 1, 0)
    assert found(made, "finished", "blocked", end) == expected


@pytest.mark.parametrize(("box", "expected"), [("box", 0), ("other", None)])
def test_posts_decide_which_dead_rank_is_blamed(box: str, expected: int | None) -> None:
    """Of two dead ranks, the one that posted to this mailbox is blamed. A message to another mailbox blames none."""
    made = Made(3)
    made[0].post(1, "one", box)
    made[1].take()
    first = made.findings("died", "blocked", "died")[0]
    assert (first.culprit and first.culprit.rank) == expected


def test_the_chain_of_waits_contains_only_waiting_ranks() -> None:
    made = Made(3)
    waits_on(made, 2, 1)
    waits_on(made, 1, 0, "idle")
    first = made.findings("died", "finished", "blocked")[0]
    assert first.klass == DEAD
    assert first.message.endswith("behind it is rank 0, which died")
    assert first.waits == ("rank 2 -> rank 1 (box)", "rank 1 -> rank 0 (box)", "rank 0 died")
    assert first.ground == ("rank 0 died; no other actor died or stopped between two ops",)
    made[1].learned(("idle", 1), "two")  # rank 1 got its message, and ended
    assert made.findings("died", "finished", "blocked")[0].waits == ("rank 0 died",)


def test_the_nearest_one_is_blamed() -> None:
    made = Made(4)
    waits_on(made, 3, 1)
    waits_on(made, 1, 0, "idle")
    made[2].post(3, "two")
    assert found(made, "died", "finished", "died", "blocked") == (DEAD, 2)


@pytest.mark.parametrize("work", ["none", "kernel", "collective"])
def test_a_rank_outside_any_op_is_the_root(work: str) -> None:
    """Rank 0 stopped between two ops, so it is blamed. If its last op is a collective that did not end, its device may
    block it, so it is not.
    """
    made = Made(3)
    if work == "kernel":
        made[0].launch("kernel", "main")
    elif work == "collective":
        made[0].collective("dp", "main")
    waits_on(made, 1, 0)
    found = made.findings("blocked", "blocked", "finished")
    stood = [one for one in found if one.culprit is not None and one.culprit.rank == 0]
    assert [one.klass for one in stood] == ([] if work == "collective" else [SILENT])


@pytest.mark.parametrize(("end", "culprit"), [("died", 2), ("finished", 1)])
def test_a_member_that_is_asleep_left_nothing_out_where_another_has_gone(end: str, culprit: int) -> None:
    """Rank 1 sleeps until rank 2 wakes it for the collective. If rank 2 died, it is blamed."""
    made = Made(3)
    made[1].take("idle")
    made[0].collective("dp", "main")
    if end == "finished":
        made[2].collective("dp", "main")
    klass = "HANG:COLLECTIVE:DEAD_RANK" if end == "died" else "HANG:COLLECTIVE:MISSING_RANK"
    assert found(made, "blocked", "finished", end) == (klass, culprit)


def test_the_one_behind_a_member_that_is_asleep_need_not_be_a_member() -> None:
    made = Made(3)
    made.world = replace(made.world, communicators=(CommunicatorSpec("dp", "dp", "device", (0, 1)),))
    waits_on(made, 1, 2, "idle")
    made[0].collective("dp", "main")
    assert found(made, "blocked", "finished", "died") == ("HANG:COLLECTIVE:DEAD_RANK", 2)


def test_a_member_that_died_in_its_sleep_is_not_asleep() -> None:
    made = Made(2)
    made[1].take("idle")
    made[0].collective("dp", "main")
    assert found(made, "blocked", "died") == ("HANG:COLLECTIVE:DEAD_RANK", 1)


@pytest.mark.parametrize(("ends", "culprit"), [(("died", "finished"), 2), (("died", "died"), 1)])
def test_the_only_dead_rank_is_blamed_beside_a_sleeping_one(ends: tuple[Any, Any], culprit: int) -> None:
    """Rank 1 sleeps and no message came. The only dead rank is blamed. Of two dead ranks no record shows which would
    have sent the message.
    """
    made = Made(4)
    made.world = replace(made.world, communicators=(CommunicatorSpec("dp", "dp", "device", (0, 1)),))
    made[1].take("idle")
    made[0].collective("dp", "main")
    assert found(made, "blocked", "finished", *ends)[1] == culprit


@pytest.mark.parametrize(("box", "said"), [("box", ("rank 0 last took ('REFUSED', 'no') from box",)), ("other", ())])
def test_the_last_message_of_the_mailbox_is_reported(box: str, said: tuple[str, ...]) -> None:
    """The details name the last message that the rank took, which may be the error that ended the exchange. An empty
    poll does not count.
    """
    made = Made(1)
    for letter in (("ANSWERED",), ("REFUSED", "no")):
        made[0].learned(made[0].take("get", box), letter)
    made[0].learned(made[0].take("poll", box), None)
    made[0].take()
    assert made.findings("blocked")[0].details == said


@pytest.mark.parametrize(
    ("steps_set", "expected"),
    [((1, 2), (2, "after launch")), ((1, 1), (1, "cpu.all_reduce")), ((), (1, "cpu.all_reduce"))],
)
def test_a_rank_that_set_a_step_and_died_is_blamed_in_that_step(
    steps_set: tuple[int, ...], expected: tuple[int, str]
) -> None:
    made = Made(2)
    for hand in made.hands:
        for hand.step in range(2):
            hand.launch("launch", "main")
            if hand.step < 1 or hand.rank == 0:
                work = hand.collective("cpu", None)
                if hand.step < 1:
                    hand.learned(work)
    [found] = judge(made.world, replace(made.run("blocked", "died"), steps_set=steps_set))
    assert found.klass == "HANG:COLLECTIVE:DEAD_RANK"
    assert found.culprit is not None
    assert (found.culprit.rank, found.culprit.step, found.culprit.site) == (1, *expected)


def test_the_simulation_knows_the_step_that_a_rank_set_before_it_died() -> None:
    async def script(rank: Rank) -> None:
        for rank.step in range(3):
            await rank.host("h").barrier(site="meet")

    done = run(world_of(2, ["h"], faults=(Fault("die", 1, At("meet", 2)),)), script)
    assert done.steps_set == (2, 2)
    stripped = [[raw for raw in own if raw[KIND] != "injected"] for own in done.journals]
    [found] = judge(world_of(2, ["h"]), replace(done, journals=stripped))
    assert found.culprit is not None
    assert (found.culprit.rank, found.culprit.step, found.culprit.site) == (1, 2, "meet")
