"""Tests where the checks place an extra or missing call: at the first call of a step that met a call at another site.
They do not place it at the end of the step.
"""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.diagnose.words.told import Told
from tests.checks.handmade import Made
from tests.judged import said


def called(*plans: str, root: int | None = None) -> Made:
    """Returns equal calls at the given sites. Each plan is that of a rank, with its steps separated by |."""
    made = Made(len(plans))
    for hand, plan in zip(made.hands, plans, strict=True):
        for hand.step, sites in enumerate(plan.split("|")):
            for site in sites.split():
                form: dict[str, Any] = {"dtype": "int32", "root": root, "reduce": None, "sizes": (), "op": "all_reduce"}
                seq = hand.number("seq")
                form |= {"stream": None, "communicator": "cpu", "seq": seq, "count": 8, "reads": (), "writes": ()}
                hand.learned(hand.note("collective", site, **form))
    return made


def first(made: Made) -> Told:
    """Returns the first finding of a run in which the ranks with the most calls hang in their last one."""
    most = max(len(hand.journal) for hand in made.hands)
    longest = [hand for hand in made.hands if len(hand.journal) == most]
    for hand in longest:
        hand.journal.pop()
    return made.findings(*["blocked" if hand in longest else "finished" for hand in made.hands])[0]


PAIR = "first second"


def test_the_surplus_call_is_the_one_that_met_another_site() -> None:
    found = first(called(f"{PAIR}|{PAIR}|{PAIR}", f"{PAIR}|first first second|{PAIR}"))
    assert found.klass == "HANG:COLLECTIVE:EXTRA_CALL"
    assert str(found.culprit) == "rank 1, step 1, first at here.py:6"
    assert found.message == (
        "rank 1 made 3 calls on cpu in step 1, rank 0 2; its first at here.py:6 met second of rank 0 at here.py:6"
    )


@pytest.mark.parametrize(("plan", "site"), [("first third", "second"), ("second third", "first"), (PAIR, "third")])
def test_the_call_that_is_left_out_is_the_one_that_met_another_site(plan: str, site: str) -> None:
    whole = "first second third"
    found = first(called(f"{whole}|{whole}|{whole}", f"{whole}|{whole}|{whole}", f"{whole}|{plan}|{whole}"))
    assert found.klass == "HANG:COLLECTIVE:MISSING_RANK"
    assert (found.culprit and found.culprit.rank, found.culprit and found.culprit.site) == (2, site)
    assert said(found, "left_out") == {"ranks": (2,), "call": f"{site} (all_reduce on cpu)", "step": 1}
    assert said(found, "made")["ranks"] == (0, 1)


def test_two_sites_of_one_call_are_no_wrong_meeting() -> None:
    """Sites a and b are two names of one call, as another step shows, or because no rank calls both. So the extra call
    is c.
    """
    for healthy, other in (("a c", "b c"), ("a", "b")):
        right = f"{healthy}|{healthy}|{healthy}"
        made = called(right, f"{other}|{other} c c|{other}", right)
        found = first(made)
        assert (found.klass, found.culprit and found.culprit.site) == ("HANG:COLLECTIVE:EXTRA_CALL", "c")
        assert " met " not in found.message


def test_sites_that_ranks_swap_by_role_are_no_wrong_meeting() -> None:
    """Sites a and b meet in step 0, in which no rank calls both, and the ranks swap them later. So the finding does not
    say that they met wrongly.
    """
    found = first(called("a|a b|b", "b|b a x|a"))
    assert " met " not in found.message
