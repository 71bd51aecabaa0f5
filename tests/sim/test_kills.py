"""Tests ranks that die between two ops: the first op at which a rank may die, and what happens to its messages. The
tests compare the explored results with all schedules, which brute force enumerates.
"""

from __future__ import annotations

import numpy as np
import pytest

from dpsim.contract.interface import Rank
from dpsim.contract.ops import KIND, ORDINAL, SITE
from dpsim.contract.world import At, End, Kill, Run, World
from dpsim.diagnose.injected import never_applied
from tests.programs import explored, run, set_to, world_of
from tests.soundness.worlds import all_ends
from tests.worlds.brute import schedules
from tests.worlds.explored import missed
from tests.worlds.test_machine_gaps import case_of

STEPS = 3


async def agrees_in_steps(rank: Rank) -> None:
    for step in range(STEPS):
        rank.step = step
        await rank.host("h").all_reduce(np.ones(1, np.int32), site="agree")


def agreements(done: Run, rank: int) -> int:
    """Returns how often the rank completed an agreement."""
    return sum(raw[KIND] == "learned" and raw[SITE] == "agree" for raw in done.journals[rank])


def world_with_kills(*kills: Kill) -> World:
    return world_of(2, ["h"], kills=kills)


def every(world: World) -> list[Run]:
    return [done for _, done in schedules(case_of(world, agrees_in_steps))]


# ---- the first op at which a rank may die

ADDRESSES = [At("agree", 2), At(communicator="h", seq=2)]


@pytest.mark.parametrize("at", ADDRESSES, ids=str)
def test_a_rank_dies_no_earlier_than_it_reaches_the_op(at: At) -> None:
    dead = [done for done in every(world_with_kills(Kill(1, at=at))) if done.ends[1] == "died"]
    assert {agreements(done, 1) for done in dead} == {2}
    anywhere = [done for done in every(world_with_kills(Kill(1))) if done.ends[1] == "died"]
    assert {agreements(done, 1) for done in anywhere} == {0, 1, 2}, "the twin"


@pytest.mark.parametrize("at", [None, *ADDRESSES], ids=str)
def test_exploring_misses_no_death(at: At | None) -> None:
    assert missed(case_of(world_with_kills(Kill(1, at=at)), agrees_in_steps)) == (0, 0, 0)


@pytest.mark.parametrize("at", ADDRESSES, ids=str)
def test_a_run_with_time_counts_from_that_op(at: At) -> None:
    """In a timed run the delay of a kill counts from the named op. The rank has joined the collective when it dies, so
    its peer completes.
    """
    done = run(world_with_kills(Kill(1, 0, at)), agrees_in_steps)
    assert done.ends == ["finished", "died"]
    assert agreements(done, 1) == 2
    assert run(world_with_kills(Kill(1, 10**9, at)), agrees_in_steps).finished


def test_a_rank_that_is_killed_at_once_does_nothing() -> None:
    done = run(world_with_kills(Kill(1)), agrees_in_steps)
    assert (done.ends, [raw[KIND] for raw in done.journals[1]]) == (["blocked", "died"], ["injected"])


def test_the_journal_says_after_which_op_the_rank_was_killed() -> None:
    world = world_with_kills(Kill(1, at=At("agree", 1)))
    last = run(world, agrees_in_steps).journals[1][-1]
    assert (last[KIND], last[SITE], last[ORDINAL]) == ("injected", "agree", 1)


@pytest.mark.parametrize(
    ("kill", "why"),
    [
        (Kill(1, 10**9), "kill: rank 1 had ended before it died"),
        (Kill(1, 0, At("agree", 3)), "kill: rank 1 never reached agree[3]; its last visit was agree[2]"),
        (Kill(1, 10**9, At("agree", 0)), "kill: rank 1 had ended before it died"),
        (Kill(1, 0, At("agree", 0, thread="t")), "kill: rank 1 has no host thread 't'; it has main"),
    ],
)
def test_a_kill_without_a_victim_is_reported(kill: Kill, why: str) -> None:
    world = world_with_kills(kill)
    assert never_applied(world, run(world, agrees_in_steps)) == [why]


def test_a_kill_that_was_met_is_not_reported() -> None:
    world = world_with_kills(Kill(1, 300_000))
    assert never_applied(world, run(world, agrees_in_steps)) == []


def test_exploring_tells_of_a_kill_that_kills_in_no_schedule() -> None:
    assert explored(world_with_kills(Kill(1)), agrees_in_steps).never_applied() == []
    found = explored(world_with_kills(Kill(1, at=At("agree", 9))), agrees_in_steps)
    assert found.never_applied() == ["kill: rank 1 never reached agree[9]; its last visit was agree[2]"]


def test_a_rank_is_killed_once() -> None:
    with pytest.raises(ValueError, match=r"World.kills: rank 1 is killed twice; expected one kill a rank"):
        world_with_kills(Kill(1), Kill(0), Kill(1, at=At("agree", 1)))
    assert world_with_kills(Kill(1), Kill(0)).kills, "the twin"


# ---- its peers


async def sums(rank: Rank) -> None:
    main = rank.stream("main")
    x = main.alloc(1, "int32", "x")
    main.launch("fill", set_to, writes=[x], args=(1,))
    rank.device("d").all_reduce(x, main)
    await rank.host("h").all_reduce(np.ones(1, np.int32), site="agree")


@pytest.mark.parametrize("partial", [True, False])
def test_exploring_misses_no_peer_that_is_lost(partial: bool) -> None:
    assert missed(case_of(world_of(2, ["h"], ["d"], kills=(Kill(1, partial=partial),)), sums)) == (0, 0, 0)


# ---- its mail


async def writes_to_two_peers(rank: Rank) -> None:
    """Rank 0 sends to rank 1 and then to rank 2, and stays idle."""
    if rank.rank:
        await rank.mailbox("told").get("wait")
        return
    for peer in (1, 2):
        rank.send(peer, "told", True, "tell")
    await rank.mailbox("never").get("stay", idle=True)


@pytest.mark.parametrize("loses", [True, False])
def test_exploring_misses_no_message_that_is_lost(loses: bool) -> None:
    assert missed(case_of(world_of(3, kills=(Kill(0, loses_mail=loses),)), writes_to_two_peers)) == (0, 0, 0)


@pytest.mark.parametrize(("loses", "end"), [(True, "blocked"), (False, "finished")])
def test_mail_on_its_way_is_lost_in_a_run_with_time(loses: bool, end: End) -> None:
    """A message takes 50 us, and its sender dies after 10 us. The message is lost if the kill says so."""
    done = run(world_of(3, kills=(Kill(0, 10_000, loses_mail=loses),)), writes_to_two_peers)
    assert done.ends == ["died", end, end]


def test_mail_that_is_delivered_stays() -> None:
    done = run(world_of(3, kills=(Kill(0, 60_000, loses_mail=True),)), writes_to_two_peers)
    assert done.ends == ["died", "finished", "finished"]


@pytest.mark.parametrize("loses_mail", [True, False])
def test_a_message_may_be_lost_with_its_sender(loses_mail: bool) -> None:
    """With `loses_mail`, rank 1 may lose its message while rank 2 gets the later one, because hardware has a queue per
    peer. Without it, if rank 2's message arrives, then rank 1's earlier message arrives too.
    """
    ends = all_ends(world_of(3, kills=(Kill(0, loses_mail=loses_mail),)), writes_to_two_peers)
    assert (("died", "blocked", "finished") in ends) == loses_mail


def test_a_death_may_come_before_or_between_the_messages() -> None:
    ends = all_ends(world_of(3, kills=(Kill(0, 0),)), writes_to_two_peers)
    assert {("died", "blocked", "blocked"), ("died", "finished", "blocked"), ("died", "finished", "finished")} <= ends
