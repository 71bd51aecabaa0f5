"""Tests of programs of torch whose result depends on the schedule: which rank sends first, whether a Work is over,
which groups exist.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dpsim.scenario.errors import ScenarioError
from tests.torch.runs import PROGRAMS, blamed, explored

pytest.importorskip("torch")

LINES = (PROGRAMS / "choices.py").read_text().splitlines()
ASSUMED = "a loop that asks whether a call is over waits for it"


def line(text: str) -> str:
    number = next(number for number, one in enumerate(LINES, 1) if text in one)
    return f"{Path('tests/torch/programs/choices.py')}:{number}"


@pytest.mark.slow
def test_any_source_and_its_twin() -> None:
    assert explored("choices.py:collects", 3).verdict == "proven"
    twin = explored("choices.py:takes_rank_1_first", 3)
    assert blamed(twin) == ("CRASH:ASSERTIONERROR", (0,), line("assert tensor[0] == 1"))


@pytest.mark.slow
def test_any_source_in_a_group_and_with_a_tag() -> None:
    assert explored("choices.py:collects_in_a_group", 4).verdict == "proven"


@pytest.mark.slow
def test_nccl_receives_from_no_any_source() -> None:
    with pytest.raises(ScenarioError, match=r"choices.py:\d+: recv from any source: NCCL has none"):
        explored("choices.py:collects", 3, order="nccl")


@pytest.mark.slow
@pytest.mark.parametrize("order", ["gloo", "nccl"])
def test_a_query_of_a_work_is_a_choice(order: str) -> None:
    found = explored("choices.py:looks_once", 2, order=order)
    assert (found.verdict, found.exploration.runs) == ("proven", 4)
    twin = explored("choices.py:counts_on_it", 2, order=order)
    assert blamed(twin)[0] == "CRASH:ASSERTIONERROR"
    assert blamed(twin)[2] == line("assert work.is_completed()")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["polls", "polls_while_it_works"])
def test_a_loop_of_looks_is_bounded_and_the_verdict_says_so(name: str) -> None:
    found = explored(f"choices.py:{name}", 2)
    assert found.verdict == "proven"
    assert ASSUMED in found.assumes


@pytest.mark.slow
def test_a_schedule_may_decide_which_group_there_is() -> None:
    assert explored("choices.py:makes_the_group_of_the_first_message", 3).verdict == "proven"


@pytest.mark.slow
def test_members_that_name_other_ranks_are_found_at_their_line() -> None:
    twin = explored("choices.py:names_other_ranks", 3)
    assert blamed(twin) == ("MISMATCH:GROUP:RANKS", (2,), line("dist.new_group(ranks)"))
