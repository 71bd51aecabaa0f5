"""Tests worlds of two ranks, which have no majority. dpsim runs the same world with one more rank, whose majority shows
the culprit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel, Field

from dpsim.campaign.alternatives import with_one_more
from dpsim.contract.interface import Rank
from dpsim.contract.program import Arguments, Program
from dpsim.contract.registry import register_protocol
from dpsim.runner import run_scenario
from dpsim.scenario import scenario_from


class Pair(BaseModel):
    ranks: int = Field(2, ge=1, le=3)
    odd: int = 1


@register_protocol("one_more_pair")
class Pairs(Program[Arguments[Pair]]):
    """One rank contributes another number of elements than the others."""

    Params = Pair

    @staticmethod
    def ranks(params: Pair) -> int:
        return params.ranks

    @staticmethod
    def one_more(params: Pair) -> Any:
        return params.model_copy(update={"ranks": params.ranks + 1})

    async def run(self, rank: Rank, prepared: Arguments[Pair]) -> None:
        rank.step = 0
        mine = 3 if rank.rank == prepared.params.odd else 2
        await rank.host("world").all_reduce(np.zeros(mine, np.int32), site="agree")


@register_protocol("one_more_alone")
class Alone(Pairs):
    """A protocol that offers no larger world."""

    @staticmethod
    def one_more(params: Pair) -> Any:
        return None


def primary(protocol: str, **params: int) -> tuple[Any, Any]:
    scenario = scenario_from({"name": "pair", "protocol": {"name": protocol, "params": params}})
    found = run_scenario(scenario).primary
    assert found is not None
    return found, with_one_more(scenario, found)


def test_the_rank_that_departs_from_both_others_is_named() -> None:
    found, more = primary("one_more_pair", odd=0)
    assert found.culprit is None
    assert (more.klass, more.culprit.rank) == (found.klass, 0)


def test_the_last_rank_of_two_may_be_the_one_that_departs() -> None:
    _, more = primary("one_more_pair", odd=1)  # the third rank agrees with rank 0
    assert more.culprit.rank == 1


@pytest.mark.parametrize(("protocol", "ranks"), [("one_more_alone", 2), ("one_more_pair", 3)])
def test_without_a_larger_world_there_is_no_second_culprit(protocol: str, ranks: int) -> None:
    """Of three ranks the majority already decides, and a larger world does not exist. So there is no second culprit."""
    found, more = primary(protocol, ranks=ranks)
    assert more is None
    assert (found.culprit is None) == (ranks == 2)


def test_a_culprit_is_not_looked_for_twice() -> None:
    scenario = scenario_from({"name": "pair", "protocol": {"name": "one_more_pair", "params": {"ranks": 3}}})
    found = run_scenario(scenario).primary
    assert found is not None
    assert found.culprit is not None
    assert with_one_more(scenario, found) is None
