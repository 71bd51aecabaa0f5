"""Of a lost wake, the report blames the rank whose step departs. Without evidence it blames none, and names both."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpsim.campaign.rank_state import state_lines
from dpsim.checks.blame import root_first
from dpsim.checks.blame.lost_wakes import name_the_lost_wake
from dpsim.contract.world import CommunicatorSpec
from dpsim.diagnose.words.told import Told
from tests.checks.blame.wakes import LOST
from tests.checks.handmade import Made
from tests.judged import judge
from tests.programs import run

UNDECIDED = {
    "rounds of two, skips",
    "rounds, skips at first",
    "rounds, forgets at first",
    "rounds, drains",
    "ahead, skips at first",
    "ahead, skips at last",
    "ahead, takes twice",
    "ahead of three, takes twice",
    "keys, asks",
    "sleepers, skips",
    "two sleepers, skips",
}
"""Worlds whose records fit both a sender that owes a wake and a rank that waits once too often."""


def primary(name: str) -> Told:
    world, script, _, _ = LOST[name]
    return judge(world, run(world, script))[0]


def blamed(finding: Told) -> tuple[int, int] | None:
    culprit = finding.culprit
    return None if culprit is None else (culprit.rank, culprit.step)


@pytest.mark.parametrize("name", LOST)
def test_the_rank_that_departs_is_blamed(name: str) -> None:
    found = primary(name)
    assert blamed(found) == (None if name in UNDECIDED else LOST[name].guilty)
    if name in UNDECIDED:
        text = " ".join([found.message, *found.details])
        assert [rank for rank in LOST[name].sides if f"rank {rank}" not in text] == []


def test_without_the_pass_most_reports_blame_a_victim(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin."""
    passes = tuple(one for one in root_first.PASSES if one is not name_the_lost_wake)
    monkeypatch.setattr(root_first, "PASSES", passes)
    wrong = [name for name, lost in LOST.items() if (blamed(primary(name)) or lost.guilty)[0] != lost.guilty[0]]
    assert len(wrong) >= 10


@pytest.mark.parametrize("works", [True, False])
def test_a_rank_that_worked_in_the_step_was_awake(works: bool) -> None:
    """It left out a call behind its kernel; without the kernel, it may have waited for its wake."""
    made = Made(3)
    for rank in (0, 1):
        made[rank].collective("cpu", None)
    made[0].post(2, "go")
    made[2].learned(made[2].take("idle"), "go")
    made[2].journal[:] = made[2].journal if works else []
    if works:
        made[2].launch("kernel", "main")
    made[2].take("idle")
    found = made.findings("blocked", "blocked", "finished")
    missing = next(one for one in found if one.klass == "HANG:COLLECTIVE:MISSING_RANK")
    assert blamed(missing) == ((2, 0) if works else None)


@pytest.mark.parametrize("later", [True, False])
def test_a_step_is_odd_only_between_steps_that_are_alike(later: bool) -> None:
    """Rank 0 posts in steps 0 and 1. A step without a post may be its end."""
    made = Made(2)
    for made[0].step in (0, 1, 2, *[3, 4] * later):
        made[0].launch("kernel", "main")
        if made[0].step != 2:
            made[0].post(1, made[0].step)
    for made[1].step in range(4 if later else 2):
        made[1].learned(made[1].take(), made[1].step)
    made[1].step += 1
    made[1].take()
    assert blamed(made.findings("finished", "blocked")[0]) == ((0, 2) if later else None)


@pytest.mark.parametrize(("before", "equal"), [(True, True), (True, False), (False, True)])
def test_a_sender_is_blamed_only_if_its_messages_to_all_others_are_equal(before: bool, equal: bool) -> None:
    """The waiting rank must have got one before. Otherwise, it may need none."""
    made = Made(4)
    for to in (1, 2, 3) if before else ():
        made[0].post(to, "go")
        made[to].learned(made[to].take(), "go")
    for rank in range(4 * before):
        made[rank].step = 1
    for to in (1, 2):
        made[0].post(to, "go" if equal else to)
        made[to].learned(made[to].take(), "go" if equal else to)
    made[3].take()
    found = made.findings("finished", "finished", "finished", "blocked")[0]
    assert blamed(found) == ((0, 1) if before and equal else None)


@pytest.mark.parametrize(("site", "before"), [("kernel", 1), ("other", 1), ("kernel", 0), ("kernel", 2)])
def test_the_check_compares_only_senders_of_one_role(site: str, before: int) -> None:
    """Ranks 1 and 2 answer rank 0, which posted to all. Rank 3 does not, and may do other work.

    In the step before, it answered once, never or twice.
    """
    made = Made(4)
    for step in (0, 1):
        made[0].step = step
        for rank in (1, 2, 3):
            made[rank].step = step
            made[0].post(rank, rank, "in")
            made[rank].launch("kernel" if rank < 3 else site, "main")
        for rank in (1, 2, *[3] * before * (not step)):
            made[rank].post(0, rank)
            made[0].learned(made[0].take(), rank)
    made[0].take()
    found = made.findings("blocked", "finished", "finished", "finished")[0]
    assert blamed(found) == ((3, 1) if (site, before) == ("kernel", 1) else None)


@pytest.mark.parametrize("grouped", [True, False])
def test_the_counterpart_of_a_sender_is_named(grouped: bool) -> None:
    """Rank 0 posts to rank 1. The groups show that rank 2 should post to rank 3."""
    made = Made(4)
    pairs = [CommunicatorSpec("row", name, "host", ranks) for name, ranks in (("a", (0, 2)), ("b", (1, 3)))]
    made.world = replace(made.world, communicators=(*made.world.communicators, *pairs * grouped))
    made[0].post(1, "run")
    made[1].learned(made[1].take(), "run")
    made[3].take()
    found = made.findings("finished", "finished", "finished", "blocked")[0]
    assert found.culprit is None
    assert ("rank 2 may owe it" in found.message) == grouped


@pytest.mark.parametrize("sender", [0, 1])
def test_no_other_rank_is_named_if_only_the_waiting_rank_sent_to_such_mailboxes(sender: int) -> None:
    """The sender posts one message to each rank, and both ranks take it. Rank 0 takes once more."""
    made = Made(2)
    for rank in (0, 1):
        made[sender].post(rank, "version")
    for rank in (0, 1):
        made[rank].learned(made[rank].take(), "version")
    made[0].take()
    [found] = made.findings("blocked", "finished")
    assert found.culprit is None
    assert found.message.endswith("only rank 0 itself sent to box" if sender == 0 else "rank 1 may owe it")
    assert any("rank 1" in line and "may owe" in line for line in found.details) == (sender == 1)
    words = " ".join(state_lines(made.world, [made[0].journal, made[1].journal]))
    assert ("waits in box, for rank 1" in words) == (sender == 1)
