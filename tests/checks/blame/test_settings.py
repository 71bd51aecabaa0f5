"""Tests that a finding about a difference of ranks names the settings that only single ranks have. Other findings do
not.
"""

from __future__ import annotations

from dataclasses import replace

from pydantic import BaseModel

from dpsim.contract.interface import Rank
from dpsim.diagnose.words.told import Told
from dpsim.scenario.params.per_rank import PerRank, differing
from tests.judged import judge
from tests.programs import run, world_of

OWN = (("slots 2 (others: 4)", (1,)), ("fast True (others: False)", (0, 1)))


def found(decided: tuple[int, int], raises: bool = False) -> Told:
    async def script(rank: Rank) -> None:
        rank.decide("plan", decided[rank.rank], "h")
        assert not raises

    healthy = world_of(2, ["h"])
    return judge(replace(healthy, own_settings=OWN), run(healthy, script))[0]


def test_a_disagreement_names_the_settings() -> None:
    said = found((1, 2)).message
    assert said.endswith("; rank 1 alone has slots 2 (others: 4); ranks 0, 1 alone have fast True (others: False)")


def test_an_exception_does_not() -> None:
    assert "slots" not in found((1, 1), raises=True).message


class Params(BaseModel, arbitrary_types_allowed=True):
    slots: PerRank[int]
    steps: int = 3


def test_parameters_of_single_ranks() -> None:
    assert differing(Params(slots=PerRank(4, {0: 4, 1: 2, 3: 2}))) == {"slots 2 (others: 4)": (1, 3)}
    assert differing(Params(slots=PerRank(4))) == {}
