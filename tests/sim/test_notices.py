"""Tests notices that an actor (a rank or service) has ended. A watcher gets one notice, after the actor's messages, at
some time after its end. No run waits for an end that never happens. The tests compare with brute force.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpsim.checks.judge import judge
from dpsim.contract.interface import Rank
from dpsim.contract.world import At, Fault, Kill, World
from tests.programs import Script, explored, run, world_of
from tests.worlds.explored import missed
from tests.worlds.test_machine_gaps import case_of, learned, runs

THREE = world_of(3, ["own"])


def all_that_rank_0_learns(world: World, script: Script) -> set[tuple[Any, ...]]:
    """Returns what rank 0 learns, over all schedules."""
    return {tuple(learned(one, 0)) for one in runs(world, script)}


async def two_ends(rank: Rank) -> None:
    if rank.rank == 0:
        for peer in (1, 2):
            rank.watch(peer, "deaths", "watch")
        for _ in range(2):
            await rank.mailbox("deaths").get("told")


def test_ends_are_reported_in_any_order() -> None:
    assert all_that_rank_0_learns(THREE, two_ends) == {(("gone", 1), ("gone", 2)), (("gone", 2), ("gone", 1))}
    assert missed(case_of(THREE, two_ends)) == (0, 0, 0)
    assert run(THREE, two_ends).ends == ["finished"] * 3


async def last_words(rank: Rank) -> None:
    if rank.rank == 0:
        rank.watch(1, "in", "watch")
        for _ in range(2):
            await rank.mailbox("in").get("told")
    if rank.rank == 1:
        rank.send(0, "in", "last words", "say")


async def words_elsewhere(rank: Rank) -> None:
    """Rank 1 sends its last message to another mailbox than that of the notice. So the message may arrive after the
    notice.
    """
    if rank.rank == 0:
        rank.watch(1, "deaths", "watch")
        await rank.mailbox("deaths").get("told")
        await rank.mailbox("in").poll("look")
    if rank.rank == 1:
        rank.send(0, "in", "last words", "say")


def test_a_notice_follows_the_messages_of_the_dead_rank() -> None:
    assert all_that_rank_0_learns(THREE, last_words) == {("last words", ("gone", 1))}
    assert all_that_rank_0_learns(THREE, words_elsewhere) == {(("gone", 1), "last words"), (("gone", 1), None)}


def test_a_lost_message_of_a_dead_rank_does_not_delay_its_notice() -> None:
    world = world_of(2, kills=(Kill(1, loses_mail=True),))

    async def hears(rank: Rank) -> None:
        if rank.rank == 0:
            rank.watch(1, "in", "watch")
            while await rank.mailbox("in").get("told") != ("gone", 1):
                pass
        else:
            rank.send(0, "in", "last words", "say")

    assert all_that_rank_0_learns(world, hears) == {("last words", ("gone", 1)), (("gone", 1),)}
    assert missed(case_of(world, hears)) == (0, 0, 0)


async def one_end(rank: Rank) -> Any:
    if rank.rank == 0:
        rank.watch(1, "deaths", "watch")
        return await rank.mailbox("deaths").get("told")
    await rank.sleep(5, "nap")
    if rank.rank == 1:
        raise ValueError("this is the end")
    return None


FAULT, KILL = Fault("die", 1, At("nap", 0)), Kill(1, ns=2)


@pytest.mark.parametrize("more", [{}, {"faults": (FAULT,)}, {"kills": (KILL,)}])
def test_a_rank_that_raised_or_died_is_gone(more: Any) -> None:
    world = replace(THREE, **more)
    done = run(world, one_end)
    assert (done.ends[0], learned(done, 0)) == ("finished", [("gone", 1)])
    assert all_that_rank_0_learns(world, one_end) == {(("gone", 1),)}


async def late(rank: Rank) -> None:
    """Rank 0 watches an actor that has ended, twice."""
    if rank.rank == 0:
        await rank.sleep(1_000_000, "late")
        for _ in range(2):
            rank.watch(1, "deaths", "watch")
            await rank.mailbox("deaths").get("told")


def test_a_late_watch_is_notified_at_once() -> None:
    assert all_that_rank_0_learns(THREE, late) == {(None, ("gone", 1), ("gone", 1))}


async def waits_for_ever(rank: Rank) -> None:
    if rank.rank == 0:
        rank.watch(1, "deaths", "watch")
    await rank.mailbox("deaths").get("told", idle=True)


def test_a_watcher_of_an_idle_rank_gets_no_notice() -> None:
    """A rank that waits in an idle get at the end of the run has not ended, so its watcher gets no notice."""
    done = run(world_of(2), waits_for_ever)
    assert (done.ends, learned(done, 0)) == (["finished"] * 2, [])
    assert explored(world_of(2), waits_for_ever).verdict == "proven"


def test_a_rank_that_waits_for_a_hung_rank_learns_nothing() -> None:
    async def hangs(rank: Rank) -> None:
        if rank.rank == 0:
            rank.watch(1, "deaths", "watch")
            await rank.mailbox("deaths").get("told")
        else:
            await rank.host("h").barrier()

    world = world_of(3, ["h"])
    assert "HANG:MAILBOX:NO_MESSAGE" in {finding.klass for finding in judge(world, run(world, hangs))}


@pytest.mark.parametrize("actor", [0, 2, -1])
def test_a_rank_cannot_watch_itself_or_an_unknown_actor(actor: int) -> None:
    async def watches(rank: Rank) -> None:
        if rank.rank == 0:
            with pytest.raises(ValueError, match=f"rank 0 watches rank {actor}"):
                rank.watch(actor, "deaths", "watch")

    assert run(world_of(2), watches).finished


def test_a_message_of_a_dead_rank_may_arrive_after_two_notices() -> None:
    """In a chain of three, rank 2 gets the notice of rank 1, which had the notice of rank 0. A message of rank 0 may
    still arrive later.
    """

    async def chain(rank: Rank) -> Any:
        if rank.rank:
            rank.watch(rank.rank - 1, "deaths", "watch")
            await rank.mailbox("deaths").get("told")
        if rank.rank == 0:
            rank.send(2, "in", "first", "say")
        return await rank.mailbox("in").poll("look") if rank.rank == 2 else None

    seen = {tuple(learned(one, 2)) for one in runs(THREE, chain)}
    assert seen == {(("gone", 1), "first"), (("gone", 1), None)}, "a message may be slower than two notices"
    assert missed(case_of(THREE, chain)) == (0, 0, 0)


def test_a_death_within_a_collective_is_reported() -> None:
    async def together(rank: Rank) -> Any:
        if rank.rank == 0:
            rank.watch(1, "deaths", "watch")
        await rank.host("h").all_reduce(np.ones(1, np.int32), site="agree")
        return await rank.mailbox("deaths").get("told") if rank.rank == 0 else None

    world = world_of(2, ["h"], kills=(Kill(1),))
    assert missed(case_of(world, together)) == (0, 0, 0)


async def posts_twice(rank: Rank) -> None:
    if rank.rank == 0:
        rank.watch(1, "in", "watch")
        while await rank.mailbox("in").get("told") != ("gone", 1):
            pass
        return
    for number in range(2):
        rank.send(0, "in", number, "say")


def test_a_send_that_a_dead_rank_never_made_does_not_delay_its_notice() -> None:
    """A killed rank had run ahead to sends that it never made. These do not delay the notice of its end. The
    interpreter of the contract found this bug (tests/interpreter/test_notices.py).
    """
    world = world_of(2, kills=(Kill(1),))
    assert all_that_rank_0_learns(world, posts_twice) == {(*range(sent), ("gone", 1)) for sent in range(3)}
    assert missed(case_of(world, posts_twice)) == (0, 0, 0)
