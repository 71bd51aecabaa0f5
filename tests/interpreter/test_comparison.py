"""Compares dpsim with the interpreter on random scripts: dpsim must miss no outcome and invent none.

If the two differ, the test prints the smallest script that shows the difference. Read the contract
(`dpsim/contract/interface.py`) to decide which of the two is wrong.
"""

from __future__ import annotations

import pytest

from tests.interpreter.campaign import Tally, campaign, smallest
from tests.interpreter.comparison import compare
from tests.interpreter.generator import random_script
from tests.interpreter.language import Instruction, Script
from tests.properties import nightly_but

FEW = 40
MANY = 2_500
BLOCK = 100


def check(tally: Tally, known: float) -> None:
    for seed, difference in tally.differences.items():
        raise AssertionError(f"seed {seed}, {difference}:\n{smallest(random_script(seed)).words()}\n{tally}")
    assert len(tally.unknown) <= (1 - known) * tally.scripts, tally


POST = ("post", 0, "p")
START, AWAIT = ("start", "w", "h", "all_reduce", (1,)), ("await", "w")


def assumed(reason: str) -> pytest.MarkDecorator:
    """Marks a test that has to fail: the contract allows more than dpsim explores. Each verdict states this as an
    assumption (`dpsim.campaign.explored`).
    """
    return pytest.mark.xfail(strict=True, raises=AssertionError, reason=reason)


@pytest.mark.parametrize(
    "said", [(POST,), (POST, POST), (("poll", "q"), POST, POST)], ids=["at the start", "twice", "after a poll"]
)
def test_a_rank_may_die_before_any_call_that_others_notice(said: tuple[Instruction, ...]) -> None:
    takes = (("idle", "p"),) * said.count(POST)
    assert compare(Script((takes, said), mortal=(1,))).difference == ""


@assumed("host ops of a dead rank complete")
def test_a_rank_that_dies_in_a_host_collective_may_take_all_with_it() -> None:
    script = Script(((("get", "p"), START, AWAIT), (START, POST, AWAIT)), (("h", (0, 1)),), mortal=(1,))
    assert compare(script).difference == ""


def test_a_collective_reads_the_input_of_a_member_when_it_joins() -> None:
    """Runs a script in which the collective c of rank 1 can start on stream t before stream s has written its input x.
    c cannot end before that, but the read of x is a race. Without the race, stream t joins s first.
    """
    x, y = ("x", 0, 1), ("y", 0, 1)

    def script(*between: Instruction) -> Script:
        buffers = (("alloc", "x", "s", 1), ("alloc", "y", "s", 1), ("fill", "s", x), ("fill", "s", y))
        meet = ("device", "d", "s", "all_reduce", (1,), (y,))
        both = tuple(
            (*buffers, meet, *rest, ("device", "c", on, "all_reduce", (1,), (x,)))
            for on, rest in zip("st", ((), between), strict=True)
        )
        return Script(both, devices=(("c", (0, 1)), ("d", (0, 1))))

    assert not compare(script(("join", "t", "s"))).least.bad
    assert compare(script()).least.races
    assert compare(script()).difference == ""


def test_the_two_agree_on_random_scripts() -> None:
    check(campaign(range(FEW), states=2_000, schedules=100), known=0.85)


@pytest.mark.parametrize("first", nightly_but(range(0, MANY, BLOCK), lambda first: first == 0))
def test_the_two_agree_on_many_random_scripts(first: int) -> None:
    """Compares blocks of scripts. With the nightly blocks, at least 2,000 scripts are compared completely."""
    tally = campaign(range(first, first + BLOCK))
    check(tally, known=0.95)
    for what in ("of more than one outcome", "that may hang", "with kills", "with slots", "with a race", "with group"):
        assert tally.had[what] >= BLOCK // 50, f"too few {what}: {tally}"
