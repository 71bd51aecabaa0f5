"""Tests of estimates: dpsim refuses a run that needs too much memory before it prepares it, and announces a large
one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from dpsim.contract.interface import Rank
from dpsim.contract.program import Arguments, Estimate, Program
from dpsim.contract.registry import register_protocol
from dpsim.runner import run_scenario
from dpsim.scenario import ScenarioError, scenario_from
from dpsim.scenario.estimate import LARGE, MOST, allow, parse_memory


class Sizes(BaseModel):
    megabytes: int = 1


@register_protocol("t_large")
class Large(Program[Arguments[Sizes]]):
    """A program whose estimate is its parameter, in megabytes. Its `prepare` records the sizes that dpsim has
    accepted.
    """

    Params = Sizes
    asked: set[int] = set()  # noqa: RUF012  # of the class

    @staticmethod
    def ranks(params: Sizes) -> int:
        return 2

    def estimate(self, args: Arguments[Sizes]) -> Estimate | None:
        return Estimate(3, 30, args.params.megabytes * 10**6) if args.params.megabytes else None

    def prepare(self, args: Arguments[Sizes]) -> Arguments[Sizes]:
        Large.asked.add(args.params.megabytes)
        return args

    async def run(self, rank: Rank, args: Arguments[Sizes]) -> None:
        rank.step = 0
        await rank.host("world").barrier(site="meet")


@pytest.fixture(autouse=True)
def _usual_limit() -> Iterator[None]:
    Large.asked.clear()
    yield
    allow(None)


def run(megabytes: int) -> None:
    params = {"megabytes": megabytes}
    assert run_scenario(scenario_from({"name": "big", "protocol": {"name": "t_large", "params": params}})).met


def test_a_scenario_that_is_too_large_is_refused_before_prepare() -> None:
    said = r"big: about 3 steps, 30 records, 9 GB; expected at most 8 GB: make it smaller, or allow more with --memory"
    with pytest.raises(ScenarioError, match=said):
        run(9_000)
    assert Large.asked == set()
    allow(10 * 10**9)
    run(9_000)
    assert Large.asked == {9_000}


def test_a_program_that_does_not_know_is_not_bounded() -> None:
    run(0)
    assert Large.asked == {0}


def test_a_large_run_is_announced_before_it_begins() -> None:
    told: list[Any] = []
    allow(None, lambda text: told.append((text, sorted(Large.asked))))
    run(LARGE // 10**6)
    assert told == []
    run(LARGE // 10**6 + 1)
    assert told == [("big: about 3 steps, 30 records, 0.501 GB", [500])]


def test_a_size_of_memory_is_read_with_its_unit() -> None:
    assert (parse_memory("8GB"), parse_memory(" 250 MB ")) == (MOST, 250_000_000)
    for wrong in ("", "8", "8 TB", "-1GB", "8GB\n8GB", "1e3MB", "9" * 5_000 + "GB"):
        with pytest.raises(ValueError, match="is no size of memory"):
            parse_memory(wrong)
