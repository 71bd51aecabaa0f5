"""Tests the shares of right and wrong culprits that the checks have to reach in each family of random worlds."""

from __future__ import annotations

import pytest

from tests.blame.reaches import Reach, missed
from tests.blame.tables import Table
from tests.properties import of_night
from tests.vllm.blame.campaign import rows

SEEDS, ALL = range(5_000, 5_030), range(7_000, 7_450)
MANY = ALL[: of_night(len(ALL))]
REACHES = {
    "dp_batch": Reach(97, 0),
    "pp_tokens": Reach(85, 0.5),
    "engine": Reach(95, 0.5),
    "whole_engine_dp": Reach(93, 0.5),
    "whole_engine": Reach(85, 0.5),
    "dbo": Reach(90, 1),
    "startup": Reach(85, 1),
}


@pytest.mark.slow
@pytest.mark.parametrize("family", REACHES)
def test_of_thirty_worlds_no_rank_is_blamed_wrongly(family: str) -> None:
    table = Table.of(family, list(rows(family, SEEDS)))
    print(table.line())
    assert not missed(table, REACHES[family])


@pytest.mark.nightly
@pytest.mark.parametrize("family", REACHES)
def test_of_many_worlds(family: str) -> None:
    table = Table.of(family, list(rows(family, MANY)))
    print(table.line())
    assert not missed(table, REACHES[family], len(MANY) / len(ALL))
