"""Tests missing decisions. A member that omits a decision disagrees. A member that begins later or ends earlier does
not.
"""

from __future__ import annotations

import pytest

from dpsim.contract.interface import Rank
from dpsim.contract.ops import DECISION_LOCAL
from dpsim.trace.form import canonical, decode, encode
from tests.programs import Script, explored, judged, world_of
from tests.records import raw

Plan = dict[int, list[tuple[int, int]]]
"""Maps each rank to its decisions: the step and the value."""


@pytest.mark.parametrize(
    ("plan", "culprit"),
    [
        ({0: [(0, 7), (1, 7), (2, 7)], 1: [(0, 7), (2, 7)], 2: [(0, 7), (1, 7), (2, 7)]}, "rank 1, step 1, plan"),
        ({0: [(0, 7)], 1: [(0, 7), (0, 7)], 2: [(0, 7)]}, "rank 1, step 0, plan"),
        ({0: [(0, 7), (2, 7)], 1: [(1, 8), (3, 8)], 2: []}, "None"),
    ],
    ids=["leaves-one-out", "decides-twice", "counts-otherwise"],
)
def test_a_rank_that_decides_less_often_is_a_disagreement(plan: Plan, culprit: str) -> None:
    [finding] = judged(world_of(3, ["dp_cpu"]), script(plan))
    assert (finding.klass, str(finding.culprit).partition(" at ")[0]) == ("DISAGREEMENT:PLAN", culprit)
    twice = plan[1] == [(0, 7), (0, 7)]
    assert ("every member has to decide it" in finding.message) == twice
    assert ("even a local one, in each step between its first and its last" in finding.message) == (not twice)


def test_a_gap_in_a_local_label_states_the_rule() -> None:
    """Marking the label as local does not help here, so the message does not suggest it."""
    plan: Plan = {0: [(0, 7), (2, 7)], 1: [(1, 7)]}
    [finding] = judged(world_of(2, ["dp_cpu"]), script(plan, local=True))
    assert "mark it local" not in finding.message
    assert finding.message.endswith("if the value belongs to one request, put the request into the label")


@pytest.mark.parametrize(
    "plan",
    [
        {0: [(0, 7), (1, 7)], 1: [(1, 7), (2, 7)], 2: [(1, 7)]},
        {0: [(0, 7), (1, 7)], 1: [], 2: []},
        {0: [(0, 7), (2, 7)], 1: [(0, 7), (2, 7)], 2: [(0, 7), (2, 7)]},
    ],
    ids=["one-after-the-other", "alone", "all-leave-it-out"],
)
def test_a_member_that_decides_nothing_is_legal(plan: Plan) -> None:
    """A member that does nothing in a step need not decide in it. Members that decide a local label may begin and end
    at different steps.
    """
    assert judged(world_of(3, ["dp_cpu"]), script(plan)) == []
    assert judged(world_of(3, ["dp_cpu"]), script(plan, local=True, busy=True)) == []


def test_members_of_a_step_decide_its_label() -> None:
    plan: Plan = {0: [(0, 7), (1, 7)], 1: [(0, 7), (1, 7)], 2: [(0, 7)]}
    [finding] = judged(world_of(3, ["dp_cpu"]), script(plan, busy=True))
    assert (finding.klass, str(finding.culprit).partition(" at ")[0]) == ("DISAGREEMENT:PLAN", "rank 2, step 1, plan")
    assert finding.message.startswith(
        "rank 2 of dp_cpu did not decide 'plan' in step 1, and rank 0 decided 7 at tests/"
    )
    assert finding.message.endswith("; every member has to decide it, or mark it local")
    assert judged(world_of(3, ["dp_cpu"]), script(plan)) == [], "rank 2 has no step 1"


Labels = dict[int, tuple[str, str]]
"""Maps each rank to the label that it decides, and the communicator."""


def labelled(labels: Labels, until: int = 1) -> Script:
    """Each rank decides its own label in the last step, and `plan` in the steps before."""

    async def decides(rank: Rank) -> None:
        for rank.step in range(until):
            label, kind = labels[rank.rank] if rank.step == until - 1 else ("plan", "dp_cpu")
            rank.decide(label, 7, kind)
            await rank.host("dp_cpu").barrier(site="end")

    return decides


PLAN, PLNA, OTHER = ("plan", "dp_cpu"), ("plna", "dp_cpu"), ("plan", "other")


@pytest.mark.parametrize(
    ("wrong", "culprit", "hint"),
    [
        (PLNA, "rank 1, step 0, plna", "rank 1 decided 'plna' at {where}: did you mean 'plan'?"),
        (OTHER, "rank 1, step 0, plan", "rank 1 decided 'plan' on other at {where}: did you mean dp_cpu?"),
        (("size", "dp_cpu"), "rank 1, step 0, plan", "every member has to decide it, or mark it local"),
    ],
    ids=["misspelt", "elsewhere", "another"],
)
def test_a_label_that_no_other_member_decides(wrong: tuple[str, str], culprit: str, hint: str) -> None:
    told = world_of(3, ["dp_cpu", "other"])
    found = judged(told, labelled({0: PLAN, 1: wrong, 2: PLAN}))
    assert found[0].klass == "DISAGREEMENT:PLAN"
    assert len(found) == (2 if "mark it" in hint else 1), "two equal findings are reported once"
    who, _, where = str(found[0].culprit).partition(" at ")
    assert who == culprit
    assert hint.format(where=where) in found[0].message
    assert explored(told, labelled({0: PLAN, 1: wrong, 2: PLAN})).verdict == "violated"
    assert explored(told, labelled({0: PLAN, 1: PLAN, 2: PLAN})).verdict == "proven"
    assert explored(told, labelled({0: wrong, 1: wrong, 2: wrong})).verdict == "proven"


@pytest.mark.parametrize("until", [1, 3])
def test_of_two_members_the_one_with_the_new_label_misspelt_it(until: int) -> None:
    """Of two members, the one with a label that no other step has is the culprit. Without other steps no rank is."""
    [found] = judged(world_of(2, ["dp_cpu"]), labelled({0: PLAN, 1: PLNA}, until))
    assert str(found.culprit).partition(" at ")[0] == ("None" if until == 1 else "rank 1, step 2, plna")
    assert "did you mean 'plan'?" in found.message or "did you mean 'plna'?" in found.message


def test_a_rank_that_hangs_before_its_decision_is_no_disagreement() -> None:
    async def hangs(rank: Rank) -> None:
        rank.step = 0
        if rank.rank == 0:
            await rank.mailbox("in").get("never")
        rank.decide("plan", 7, "dp_cpu")

    assert [one.klass for one in judged(world_of(2, ["dp_cpu"]), hangs)] == ["HANG:MAILBOX:NO_MESSAGE"]


def test_a_sleeping_rank_that_may_still_decide_is_no_disagreement() -> None:
    async def sleeps(rank: Rank) -> None:
        for rank.step in range(2):
            await rank.host("dp_cpu").barrier(site="step")
            if rank.rank == 1 and rank.step == 1:
                await rank.mailbox("in").get("in", idle=True)
            rank.decide("plan", 7, "dp_cpu")

    assert judged(world_of(2, ["dp_cpu"]), sleeps) == []


def test_a_trace_does_not_tell_which_labels_are_due() -> None:
    """A trace does not record whether a decision is local. So the checks read each decision of a trace as local."""
    record = raw("decision", "plan", communicator="dp_cpu", value=7)
    rank, back = decode(encode(0, record))
    assert (rank, back) == (0, canonical(record))
    assert back[DECISION_LOCAL] is True
    assert record[DECISION_LOCAL] is False


def test_a_rank_that_raised_before_its_decision_is_no_disagreement() -> None:
    async def breaks_off(rank: Rank) -> None:
        await script({0: [(0, 7), (1, 7), (2, 7)], 1: [(0, 7), (2, 7)]})(rank)
        if rank.rank == 0:
            raise ValueError

    assert [one.klass for one in judged(world_of(2, ["dp_cpu"]), breaks_off)] == ["CRASH:VALUEERROR"]


def script(plan: Plan, local: bool = False, busy: bool = False) -> Script:
    """Returns a script that decides by `plan`. With `busy`, each rank takes part in each of the first four steps."""

    async def decides(rank: Rank) -> None:
        for rank.step in range(4):
            if busy:
                await rank.host("dp_cpu").barrier(site="step")
            for step, value in plan.get(rank.rank, []):
                if step == rank.step:
                    rank.decide("plan", value, "dp_cpu", local=local)

    return decides
