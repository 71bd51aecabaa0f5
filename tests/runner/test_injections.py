"""Tests that a run fails with a report if no rank reaches the call at which a scenario plants a fault or a delay."""

from __future__ import annotations

from typing import Any

import pytest

import tests.agreeing  # noqa: F401 - registers
from dpsim.runner import Result, run_scenario
from dpsim.scenario import scenario_from


def run(ranks: int = 3, **more: Any) -> Result:
    protocol = {"name": "t_agrees", "params": {"ranks": ranks}}
    return run_scenario(scenario_from({"name": "t", "protocol": protocol, **more}))


def at(site: str, ordinal: int) -> dict[str, Any]:
    return {"site": site, "ordinal": ordinal}


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ({"kind": "skip", "rank": 1, "at": at("dp.agre", 2)}, "did you mean dp.agree?"),
        ({"kind": "skip", "rank": 1, "at": at("dp.agree", 5000)}, "its last visit was dp.agree[5]"),
        ({"kind": "skip", "rank": 1, "at": at("attention", 2)}, "there it changes nothing"),
        ({"kind": "skip", "rank": 1, "at": {"communicator": "world", "seq": 99}}, "it made 6 collectives on world"),
        ({"kind": "alter", "rank": 1, "at": at("dp.agree", 2), "change": {"root": 0}}, "there it changes nothing"),
        ({"kind": "alter", "rank": 1, "at": at("dp.agree", 2), "change": {"dtype": "int32"}}, "changes nothing"),
        (
            {"kind": "alter", "rank": 0, "at": {"communicator": "world", "seq": 1}, "change": {"op": "all_reduce"}},
            "nothing",
        ),
    ],
)
def test_a_fault_that_is_never_applied_is_not_met(fault: dict[str, Any], why: str) -> None:
    result = run(faults=[fault])
    assert result.verdict == "held"
    assert not result.met
    assert why in str(result.unmet)


@pytest.mark.parametrize(
    "delay",
    [
        {"rank": 1, "by": "1ms"},
        {"rank": 1, "by": "1ms", "at": {"site": "attention"}},
        {"rank": 1, "by": "1ms", "at": {"communicator": "world", "seq": 1}},
        {"rank": 1, "by": "1ms", "at": at("experts.read", 2)},
    ],
)
def test_a_delay_that_happens(delay: dict[str, Any]) -> None:
    result = run(delays=[delay])
    assert result.met
    assert result.run.elapsed_ns > run().run.elapsed_ns


@pytest.mark.parametrize("site", ["plan", "experts.buffer", "nowhere"])
def test_a_delay_where_nothing_can_be_late(site: str) -> None:
    assert not run(delays=[{"rank": 1, "by": "1ms", "at": {"site": site}}]).met


def test_a_run_that_stopped_early_need_not_reach_its_second_fault() -> None:
    faults = [{"kind": "skip", "rank": 1, "at": at("dp.agree", n)} for n in (1, 4)]
    result = run(faults=faults, expect={"class": "HANG"})
    assert len(result.never_applied) == 1
    assert result.met


def test_with_one_rank_a_skipped_agreement_does_not_exist() -> None:
    assert not run(ranks=1, faults=[{"kind": "skip", "rank": 0, "at": at("dp.agree", 1)}]).met
    assert "largest plan" not in run(ranks=1).figures, "no plan was agreed on, so none is shown"
