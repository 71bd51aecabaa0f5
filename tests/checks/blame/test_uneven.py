"""Tests a call that one side of a pair leaves out or makes twice. The checks find it by that side's other steps,
however late the hang or error appears.
"""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.checks.blame.uneven import name_the_odd_side
from dpsim.checks.finding import Culprit, Finding
from dpsim.checks.run_index import RunIndex
from dpsim.diagnose.words import text
from tests.checks.blame.lines import left_out, lines, primary, stages, twice
from tests.checks.handmade import Made
from tests.judged import said

SITES = [(0, "hidden.send"), (0, "rest.send"), (1, "hidden.receive"), (1, "rest.receive")]

EQUAL = [8] * 5
"""Equal counts: each transfer fits whichever transfer it meets, so counts give no evidence."""


@pytest.mark.parametrize(("rank", "site"), SITES)
@pytest.mark.parametrize("step", [0, 1, 3])
def test_a_call_that_is_left_out(step: int, rank: int, site: str) -> None:
    found, culprit = primary(stages(EQUAL, left_out(step, site)))
    assert (culprit.rank, culprit.step, culprit.site) == (rank, step, site)
    assert said(found, "left_out") == {"ranks": (rank,), "call": site, "step": step}
    assert found.ground[0] == f"rank {rank} made {site} once in 3 of 3 other steps"  # the last step is not complete
    assert f"step {step} of its peer, rank {1 - rank}, matches its other steps" in found.ground


@pytest.mark.parametrize(("rank", "site"), SITES)
@pytest.mark.parametrize("step", [0, 1, 3])
def test_a_call_that_is_made_twice(step: int, rank: int, site: str) -> None:
    found, culprit = primary(stages(EQUAL, twice(step, site)))
    assert (culprit.rank, culprit.step, culprit.site) == (rank, step, site)
    assert text(found.message).startswith(f"rank {rank} made {site} twice in step {step}; ")


def test_the_ground_counts_later_pairs_of_different_steps() -> None:
    found, _ = primary(stages(EQUAL, left_out(1, "hidden.send")))
    assert "step tags of the two sides differ in 3 of 6 later pairs" in found.ground


def raised(made: Made, step: int) -> Made:
    for hand in made.hands:
        hand.step = step
        hand.add("raised", "WrongToken", where="here.py:9", message="a token")
    return made


def test_a_later_exception_of_all_ranks_has_an_earlier_cause() -> None:
    found, culprit = primary(raised(stages(EQUAL, twice(2, "rest.send")), 5), "raised", "raised")
    assert (found.klass, culprit.rank, culprit.step, culprit.ranks) == ("CRASH:WRONGTOKEN", 0, 2, ())


def test_an_earlier_exception_of_all_ranks_keeps_its_own_culprit() -> None:
    made = stages(EQUAL, twice(2, "rest.send"))
    for hand in made.hands:
        hand.journal.insert(0, raised(Made(2), 0)[hand.rank].journal[0])
    assert made.findings("raised", "raised")[0].culprit == Culprit(
        0, 0, "WrongToken", "here.py:9", ranks=(0, 1), every=True
    )


def test_a_race_keeps_its_own_culprit() -> None:
    """A missing transfer does not explain a race, so the race keeps its own culprit."""
    made = stages(EQUAL, twice(0, "rest.send"))
    made[1].step = 4
    x = made[1].alloc("main", 8)
    made[1].launch("write", "main", writes=[x])
    made[1].launch("use", "side", writes=[x])
    races = [one for one in made.findings("blocked", "blocked") if one.klass == "RACE:BUFFER"]
    assert [one.ground for one in races] == [()]
    assert "rest.send" not in races[0].message


# ---- no evidence, no culprit


def ended(made: Made) -> Made:
    for hand in made.hands:
        hand.add("finished", "end")
    return made


def test_without_another_step_no_rank_is_blamed() -> None:
    [found] = ended(stages([8], left_out(0, "hidden.send"))).findings()
    assert (found.klass, found.culprit) == ("LEFTOVER:RECV", None)


def test_uneven_calls_are_no_ground_if_both_sides_are_odd() -> None:
    def fault(step: int, call: dict[str, Any]) -> list[dict[str, Any]]:
        number = {"hidden.send": 0, "rest.receive": 2}.get(call["site"], 1) if step == 2 else 1
        return [call] * number

    found = stages(EQUAL, fault).findings("blocked", "blocked")
    assert [(one.klass, one.ground) for one in found] == [("HANG:P2P:UNMATCHED_RECV", ())]


def test_no_rank_is_blamed_where_the_number_of_calls_changes_without_a_pattern() -> None:
    def fault(step: int, call: dict[str, Any]) -> list[dict[str, Any]]:
        return [call] * ([2, 1, 3, 2, 1][step] - (call["site"] == "rest.send" and step == 2))

    [found] = ended(stages(EQUAL, fault, alone=True)).findings()
    assert (found.klass, found.culprit) == ("LEFTOVER:RECV", None)


def test_a_rank_that_stopped_before_the_step_left_nothing_out() -> None:
    """Rank 0 stopped before its third step, so it left no call of that step out."""
    found = stages(EQUAL, until={0: 2}).findings("blocked", "blocked")
    assert [(one.klass, one.ground) for one in found] == [("HANG:P2P:UNMATCHED_RECV", ())]


def test_a_death_is_no_victim() -> None:
    found = stages(EQUAL, left_out(1, "rest.send"), until={0: 3}).findings("died", "blocked")
    assert found[0].ground == ("rank 0 died; no other actor died or stopped between two ops",)
    assert all(one.ground == () for one in found[1:])


def test_no_side_is_odd_if_neither_has_other_steps() -> None:
    made = stages([8, 8, 8], twice(0, "hidden.receive"), until={0: 1, 1: 1})
    [found] = made.findings("blocked", "blocked")
    assert (found.klass, found.culprit) == ("HANG:P2P:UNMATCHED_RECV", None)
    assert found.message.startswith(
        "rank 1 made 3 calls in step 0 and rank 0 2, and no evidence shows which is right; "
    )


def test_an_exception_of_a_victim_does_not_accuse_it() -> None:
    made = stages([8, 8, 8], twice(0, "hidden.send"), until={0: 1, 1: 1})
    made[1].step = 1
    made[1].add("raised", "WrongToken", where="here.py:9", message="a token")
    [found] = made.findings("finished", "raised")
    assert (found.klass, found.culprit) == ("CRASH:WRONGTOKEN", None)


def test_a_receive_that_only_one_side_has_is_the_other_one_s() -> None:
    """In a single step, rank 1 made two receives and rank 0 one send. The finding names rank 0 as the culprit, but
    gives no evidence (ground).
    """
    [found] = stages([8], left_out(0, "rest.send")).findings("finished", "blocked")
    assert (found.culprit and found.culprit.rank, found.ground) == (0, ())


# ---- several pipelines


def test_a_side_without_other_steps_is_held_against_the_sides_of_other_lines() -> None:
    """Rank 3 made one step, and left out a receive that rank 1 of another pipeline makes in each step. So rank 3 is
    odd.
    """
    made = lines(stages(EQUAL), stages([8, 8], left_out(0, "rest.receive"), until={0: 1}))
    made[3].step = 1
    made[3].begin_read("main", (0, 0, 8))
    found, culprit = primary(made, *["finished", "finished", "finished", "blocked"])
    assert (culprit.rank, culprit.step, culprit.site) == (3, 0, "rest.receive")
    assert found.ground[0] == "other ranks made rest.receive once in 5 of 5 steps"


def test_a_side_that_made_no_call_at_all_has_no_usual_number_of_calls() -> None:
    """Rank 2 left out its only sends, which rank 0 of another pipeline makes in each step. It may have another role."""
    made = lines(stages(EQUAL), stages([8], lambda step, call: [] if call.get("op") == "send" else [call]))
    made[2].step = 1
    made[2].launch("layers", "main")
    made[3].begin_read("main", (0, 0, 8))
    found, culprit = primary(made, "finished", "finished", "finished", "blocked")
    assert (culprit.rank, culprit.step) == (2, 0)
    assert not found.ground


def test_the_first_of_two_uneven_lines_is_the_cause() -> None:
    made = lines(stages(EQUAL, left_out(3, "rest.send")), stages(EQUAL, left_out(1, "rest.send")))
    _, culprit = primary(raised(made, 5), *["raised"] * 4)
    assert (culprit.rank, culprit.step) == (2, 1)


# ---- evidence from steps


def test_sides_that_made_as_many_may_miss_different_calls() -> None:
    """Rank 0 left out the first call of step 3, and rank 1 raised after its first one. Both made equally many calls;
    rank 0 is blamed.
    """
    made = stages(EQUAL[:4], left_out(3, "hidden.send"))
    made[1].journal = made[1].journal[:-3]
    made[1].step = 3
    made[1].add("raised", "ValueError", where="here.py:9", message="a text")
    found, culprit = primary(made, "finished", "raised")
    assert (culprit.rank, culprit.step, culprit.site) == (0, 3, "hidden.send")
    assert found.ground[0] == "rank 0 made hidden.send once in 3 of 3 other steps"


def test_a_rank_blocked_before_a_call_did_not_leave_it_out() -> None:
    """Rank 0 is blocked in step 3 before its second send, so it did not leave this send out. If it has finished, it
    did.
    """
    made = stages(EQUAL[:4], left_out(3, "rest.send"))
    made[0].launch("spin", "main")
    assert [one.ground for one in made.findings("blocked", "blocked")] == [()]
    assert made.findings("finished", "blocked")[0].ground


def test_one_broken_rule_of_several_blames_no_rank() -> None:
    """Rank 0 launched a kernel twice, and rank 1's receive is missing, but rank 1 has no other step. The evidence is
    too little to blame a rank.
    """

    def fault(step: int, call: dict[str, Any]) -> list[dict[str, Any]]:
        number = {"norm": 2, "rest.receive": 0}.get(call["site"], 1) if step == 0 else 1
        return [call] * number

    found = stages([8] * 4, fault, until={1: 1}).findings("blocked", "finished")
    assert found
    assert all(one.ground == () for one in found)


def test_rounds_that_change_in_number_are_one_pattern() -> None:
    """Each step has another number of layers, each with a transfer. The missing transfer of one layer breaks the order
    of ops that the other steps keep.
    """
    made = Made(2)
    for step, rounds in enumerate([1, 3, 2, 4]):
        for hand, op in zip(made.hands, ("send", "recv"), strict=True):
            hand.step = step
            for number in range(rounds):
                hand.launch("layer", "main")
                hand.launch("norm", "main")
                if (hand.rank, step, number) != (0, 2, 1):
                    hand.transfer(op, 1 - hand.rank, "main")
    found, culprit = primary(made)
    assert (culprit.rank, culprit.step, culprit.site) == (0, 2, "send")
    assert found.ground[0] == "send is not at its place: step 2 breaks 2 of 2 orders of ops that 2 other steps keep"


def test_a_rank_that_sleeps_left_nothing_out_of_its_last_step() -> None:
    """Rank 0 sleeps within step 3, because no message woke it for the second half. So it left no call out."""
    made = stages(EQUAL[:4], left_out(3, "rest.send"))
    made[0].take("idle")
    found = made.findings("finished", "blocked")
    assert [one.klass for one in found] == ["HANG:P2P:UNMATCHED_RECV"]
    assert [one.ground for one in found] == [()]


def test_a_finding_that_follows_from_no_call_stays() -> None:
    made = stages(EQUAL, twice(0, "rest.send"))
    index = RunIndex.of(made.world, made.run("blocked", "blocked"))
    unpaired = Finding("graph_lint", "GRAPH:UNPAIRED", "", None, (4, 0))
    hang = Finding("deadlock", "HANG:UNDECIDED", "", None, (4, 0))
    stays, follows = name_the_odd_side(index, [unpaired, hang])
    assert stays is unpaired
    assert follows.culprit is not None


@pytest.mark.parametrize(("steps", "blamed"), [(3, None), (2, 0)])
def test_a_rank_that_never_sends_is_not_blamed(steps: int, blamed: int | None) -> None:
    """Rank 0 ends after `steps` steps without a send. Two steps are too few to show that it never sends, so it is
    blamed; three clear it.
    """
    made = Made(2)
    for step in range(steps):
        made[0].step = step
        made[0].launch("layers", "main")
    made[1].transfer("recv", 0, None, communicator="cpu", site="hidden.receive")
    found = made.findings("finished", "blocked")[0]
    assert found.klass == "HANG:P2P:UNMATCHED_RECV"
    assert (found.culprit and found.culprit.rank) == blamed
