"""Tests that the first screen names the first wrong value, the rank that raised first, and the exception's own name."""

from __future__ import annotations

import pytest

from dpsim.checks.finding import Culprit, Fact, Finding, Part, also, fact
from dpsim.diagnose.evidence import NOTHING, exception_of
from dpsim.diagnose.first_screen import first_screen
from dpsim.diagnose.first_wrong import first_wrong
from tests.checks.handmade import Made


def shifted(left_out: int | None = 1, lag: int = 0) -> Made:
    """Returns journals: rank 0 sends to rank 1 in each step except one, and then rank 1 raises. `lag`: steps from a
    send to its receive.
    """
    made = Made(2)
    for step in range(4):
        for hand in made.hands:
            hand.step = step
        if step != left_out:
            made[0].transfer("send", 1, None)
        made[1].step = step + lag
        made[1].transfer("recv", 0, None)
    made[1].add("raised", "WrongToken", where="here.py:9", message="a token")
    return made


def raised(error: str) -> Fact:
    return fact("raised", thread="", ranks=(1,), error=error, step=3, where="", message="")


def test_the_report_names_the_value_and_the_raising_rank() -> None:
    found = first_wrong(shifted().run("finished", "raised"))
    assert found == [
        "wrong value: rank 1, step 1, recv got send of step 2 from rank 0",
        "raised: step 3, rank 1, WrongToken",
    ]


@pytest.mark.parametrize("made", [shifted(None), shifted(None, lag=1), shifted(0)])
def test_values_of_the_right_step_or_never_of_it_say_nothing(made: Made) -> None:
    """The twin: no send is missing, receives always take an earlier step's send, or no earlier pair of values was
    equal.
    """
    assert first_wrong(made.run("finished", "raised")) == []


def test_the_screen_has_a_line_of_it() -> None:
    made = shifted()
    run = made.run("finished", "raised")
    culprit = Culprit(0, 1, "send", "here.py:3")
    finding = Finding("fault", "CRASH:WRONGTOKEN", also("rank 0 left out send", raised("WrongToken")), culprit, (1, 0))
    verdict, *lines = first_screen(run, [finding], NOTHING)
    assert verdict == "VIOLATED  CRASH:WRONGTOKEN  WRONG TOKEN: the program raised WrongToken"
    [first] = [line for line in lines if line.startswith("first ")]
    assert first.endswith("from rank 0; raised: step 3, rank 1, WrongToken")
    undecided = Finding("fault", "CRASH:WRONGTOKEN", raised("WrongToken"), None, (1, 0))
    assert not any(line.startswith("first ") for line in first_screen(run, [undecided], NOTHING))


@pytest.mark.parametrize(
    ("klass", "site", "message", "name"),
    [
        ("CRASH:KEYERROR", "KeyError", raised("KeyError"), "KeyError"),
        ("CRASH:WRONGTOKEN", "send", also("rank 0 left out send", raised("WrongToken")), "WrongToken"),
        ("CRASH:WRONGTOKEN", "send", "rank 0 left out send", ""),
        ("CRASH:WRONGTOKEN", "WrongToken", "rank 0 left out send", "WrongToken"),  # only the culprit has the name
        ("HANG:JOIN", "join", raised("ValueError"), ""),
    ],
)
def test_an_exception_has_its_own_name_where_the_culprit_is_at_an_op(
    klass: str, site: str, message: Part, name: str
) -> None:
    assert exception_of(Finding("fault", klass, message, Culprit(0, 1, site, ""), (1, 0))) == name
