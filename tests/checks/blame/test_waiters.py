"""Tests that an actor which only waits is not blamed. A finding about a call comes before one about a mailbox, and a
member that waits for another actor left no call out.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpsim.contract.world import CommunicatorSpec
from dpsim.diagnose.words.told import Told
from tests.checks.handmade import Made

LETTERS, MISSING = "HANG:MAILBOX:NO_MESSAGE", "HANG:COLLECTIVE:MISSING_RANK"


def pairs(made: Made) -> None:
    """Makes two groups: "cpu" of ranks 0 and 1, and "pair" of ranks 2 and 3."""
    specs = [("cpu", "host", (0, 1)), ("pair", "host", (2, 3))]
    made.world = replace(
        made.world,
        communicators=tuple(CommunicatorSpec(name, name, domain, ranks) for name, domain, ranks in specs),  # type: ignore[arg-type]
    )


def first(made: Made, *ends: str) -> Told:
    return made.findings(*ends)[0]


@pytest.mark.parametrize("hears", [True, False])
def test_a_hanging_collective_is_reported_before_the_get_that_waits_for_its_member(hears: bool) -> None:
    made = Made(4)
    pairs(made)
    made[2].post(0 if hears else 3, "one", "box" if hears else "other")
    if hears:
        made[0].learned(made[0].take(), "one")
    made[0].take()
    made[2].step = 1
    made[2].collective("pair", None)
    found = first(made, "blocked", "finished", "blocked", "finished")
    assert (found.klass, found.culprit and found.culprit.rank) == ((MISSING, 3) if hears else (LETTERS, None))


@pytest.mark.parametrize("waits", [True, False])
def test_a_member_that_waits_for_one_in_another_call_left_nothing_out(waits: bool) -> None:
    made = Made(4)
    pairs(made)
    made[0].collective("cpu", None)
    if waits:
        made[2].post(1, "one")
        made[1].learned(made[1].take(), "one")
        made[1].take()
    made[2].collective("pair", None)
    of_cpu = next(one for one in made.findings("blocked", "blocked" if waits else "finished", "blocked", "finished"))
    named = of_cpu.culprit and of_cpu.culprit.rank
    assert named != 1 if waits else named == 1


@pytest.mark.parametrize("caller", ["waits", "finished"])
def test_a_member_that_sleeps_left_nothing_out_where_its_caller_waits(caller: str) -> None:
    made = Made(3)
    made[0].collective("cpu", None)
    made[2].post(1, "go")
    made[1].learned(made[1].take("idle"), "go")
    made[1].post(2, "done")
    made[1].take("idle")
    if caller == "waits":
        made[2].learned(made[2].take(), "done")
        made[2].take()
    else:
        made[2].collective("cpu", None)
    found = made.findings("blocked", "finished", "blocked" if caller == "waits" else "finished")
    of_cpu = next(one for one in found if one.klass == MISSING and one.check == "deadlock")
    assert (of_cpu.culprit is None) == (caller == "waits")
    if caller == "waits":
        text = "rank 1 waits itself, and may wait, directly or not, for rank 2, which waits in box"
        assert of_cpu.message.endswith(text)


@pytest.mark.parametrize("stands", [True, False])
def test_a_rank_that_timed_out_and_its_peer_that_waits_for_it_are_both_named(stands: bool) -> None:
    """Rank 0 gives up on a message of rank 1, which waits for rank 0 in a call. The finding names both, without a
    culprit. If rank 1 does not wait, it names no such wait.
    """
    made = Made(2)
    take = made[0].note("take", "hear", mailbox="box", how="get", timeout_ns=5)
    made[0].learned(take, None)
    made[0].note("raised", "Late", message="nothing came")
    if stands:
        made[1].step = 1
        made[1].collective("cpu", None)
    crash = next(
        one for one in made.findings("raised", "blocked" if stands else "finished") if one.klass == "CRASH:LATE"
    )
    assert crash.message.endswith("; rank 1 waits in cpu #0, for rank 0") == stands
    assert (crash.culprit is None) == stands
