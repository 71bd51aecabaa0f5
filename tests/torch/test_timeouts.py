"""Tests of time-outs that programs of torch give to groups and to waits: what the calls raise, and what reports say."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from dpsim.campaign.explored import explore_subject
from dpsim.campaign.subject import Subject
from dpsim.scenario import scenario_from
from tests.torch.runs import PROGRAMS, blamed, explored

pytest.importorskip("torch")

HOLD = ("in_time", "waits_again", "closes", "hears_nothing", "given_at_the_beginning", "asks_whether_it_is_over")
WRONG = {
    "in_time_twin": ("HANG:COLLECTIVE:MISSING_RANK", (1,), "waited 1000 ms for all_reduce #1 on world"),
    "waits_again_twin": ("CRASH:ASSERTIONERROR", (0,), "waited 1000 ms for all_reduce #0 on world"),
    "closes_twin": ("CRASH:RUNTIMEERROR", (1, 2), "Timed out waiting 1000ms for recv operation to complete"),
    "sleeps_too_long": ("CRASH:RUNTIMEERROR", (0, 2), "waited 1000 ms for all_reduce #0 on world"),
}
"""For each program, the class, the culprits, and a text of the report."""


def sooner(names: Iterable[str], *some: str) -> list[Any]:
    """Marks the tests of the programs in `some` as slow, and the others as nightly."""
    return [pytest.param(one, marks=pytest.mark.slow if one in some else pytest.mark.nightly) for one in names]


@pytest.mark.parametrize("name", sooner(HOLD, "waits_again", "closes"))
def test_a_program_whose_time_outs_do_not_pass_is_proven(name: str) -> None:
    found = explored(f"timeouts.py:{name}", 3)
    assert found.verdict == "proven", found.report()
    assert "no time-out passes early" in found.assumes


@pytest.mark.parametrize("name", sooner(WRONG, "in_time_twin"))
def test_a_twin_whose_time_out_passes_is_found(name: str) -> None:
    found = explored(f"timeouts.py:{name}", 3)
    klass, culprits, said = WRONG[name]
    assert blamed(found)[:2] == (klass, culprits)
    assert said in " ".join(found.report().split())


@pytest.mark.slow
def test_a_time_out_may_pass_early_if_the_scenario_allows_it() -> None:
    """Explores a program whose ranks all call in time. The scenario lets one time-out pass early, so some call
    raises.
    """
    params = {"target": str(PROGRAMS / "timeouts.py:in_time"), "ranks": 2}
    early = scenario_from({"name": "early", "torch": params, "limits": {"early_timeouts": 1}})
    found = explore_subject(Subject.of(early), "dpor", schedules=200)
    assert (found.verdict, blamed(found)[0]) == ("violated", "CRASH:RUNTIMEERROR")


@pytest.mark.nightly
def test_no_time_out_passes_in_the_order_of_nccl() -> None:
    found = explored("timeouts.py:in_time_twin", 2, order="nccl")
    assert blamed(found)[0].startswith("HANG:")
    assert "RuntimeError" not in found.report()


ENDS = ("waits_again", "closes", "hears_nothing", "asks_whether_it_is_over", "in_time")
RAISES = ("in_time_twin", "closes_twin", "sleeps_too_long")
ON_GLOO = [
    pytest.param(ENDS[:1], RAISES[:1], id="some", marks=pytest.mark.slow),
    pytest.param(ENDS, RAISES, id="all", marks=pytest.mark.nightly),
]


@pytest.mark.parametrize(("ends", "raises"), ON_GLOO)
def test_time_outs_end_the_same_on_gloo(ends: Sequence[str], raises: Sequence[str]) -> None:
    command = [sys.executable, str(PROGRAMS / "on_gloo.py"), "3", *ends, *raises]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(said.stdout) == {**dict.fromkeys(ends, "ended"), **dict.fromkeys(raises, "raised")}
