"""A run that holds says what its program keeps from the checks, and a program that keeps nothing gets no note."""

from __future__ import annotations

import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from dpsim.cli.unchecked import NO_DECISION, NO_STEP_SET, TIME_SLEEP, unchecked
from dpsim.contract.interface import Rank
from dpsim.contract.program import Arguments, Program
from dpsim.contract.registry import register_protocol
from dpsim.runner import Result, run_scenario
from dpsim.scenario import scenario_from


class How(BaseModel):
    """The mistake."""

    how: Literal["healthy", "silent", "stepless", "crash"]


class Unchecked(Program[Arguments[How]]):
    """Two ranks meet."""

    Params = How

    @staticmethod
    def ranks(params: How) -> int:
        return 2

    async def run(self, rank: Rank, args: Arguments[How]) -> None:
        how = args.params.how
        if how != "stepless":
            rank.step = 0
        await rank.host("world").barrier(site="meet")
        if how != "silent":
            rank.decide("met", True, "world")
        if how == "crash":
            raise ValueError(how)


@register_protocol("unchecked")
class Awake(Unchecked):
    """Without a sleep."""


@register_protocol("unchecked_sleeper")
class Sleeper(Unchecked):
    """It sleeps by the clock of the host, in a method that `run` does not name."""

    def pause(self) -> None:
        time.sleep(0)


def ran(protocol: str, how: str) -> Result:
    params: dict[str, Any] = {"name": protocol, "params": {"how": how}}
    return run_scenario(scenario_from({"name": "tested", "protocol": params}))


@pytest.mark.parametrize(
    ("how", "says"),
    [("healthy", []), ("silent", [f"note: {NO_DECISION}"]), ("stepless", [f"note: {NO_STEP_SET}"]), ("crash", [])],
)
def test_what_a_program_keeps_from_the_checks(how: str, says: list[str]) -> None:
    """A run that does not hold has a report, and no note."""
    assert unchecked(ran("unchecked", how)) == says


def test_a_sleep_by_the_clock() -> None:
    assert unchecked(ran("unchecked_sleeper", "healthy")) == [f"note: Sleeper.pause {TIME_SLEEP}"]


def test_a_program_without_params_gets_no_note() -> None:
    """Its ranks may decide nothing, as in a start-up."""
    result = ran("unchecked", "silent")
    scenario: Any = SimpleNamespace(protocol=SimpleNamespace(name="unchecked", plain_params=None))
    assert unchecked(replace(result, scenario=scenario)) == []
