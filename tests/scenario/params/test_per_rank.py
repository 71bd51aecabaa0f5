"""Tests of `PerRank`, a value for each rank: reading, writing, and the comparison with a dictionary."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from dpsim.scenario.params.per_rank import PerRank


class Inner(BaseModel):
    """A model of which each rank has a value."""

    depth: int = 0


class Model(BaseModel):
    """A model with two parameters that may differ between ranks."""

    number: PerRank[int]
    inner: PerRank[Inner] = PerRank(Inner())
    maybe: PerRank[int | None] | None = None


@given(st.integers(), st.dictionaries(st.integers(0, 20), st.integers()))
def test_values_per_rank_have_a_default_for_other_ranks(others: int, ranks: dict[int, int]) -> None:
    plain = {"others": others, **{str(rank): value for rank, value in ranks.items()}}
    found = Model.model_validate({"number": plain}).number
    assert [found[rank] for rank in range(21)] == [ranks.get(rank, others) for rank in range(21)]
    again = Model.model_validate_json(Model(number=found).model_dump_json(), strict=True)
    assert again.number == found


@given(st.lists(st.integers(0, 2), min_size=1, max_size=6))
def test_values_of_all_ranks_are_kept_for_each_rank(values: list[int]) -> None:
    assert [PerRank.of(values)[rank] for rank in range(len(values))] == values


def test_one_value_counts_for_all_ranks() -> None:
    model = Model.model_validate({"number": 4, "inner": {"depth": 2}, "maybe": {"others": None, "1": 3}})
    assert model.number == PerRank(4)
    assert model.inner[7] == Inner(depth=2)
    assert model.maybe is not None
    assert (model.maybe[0], model.maybe[1]) == (None, 3)
    assert model.model_dump(mode="json") == {
        "number": 4,
        "inner": {"depth": 2},
        "maybe": {"others": None, "1": 3},
    }


@pytest.mark.parametrize(
    "wrong", ["x", {"others": "x"}, {"1": 2}, {"others": 1, "-1": 2}, {"others": 1, "x": 2}, {"others": 1, "01": 3}, {}]
)
def test_wrong_values_per_rank_are_refused(wrong: Any) -> None:
    with pytest.raises(ValidationError):
        Model.model_validate({"number": wrong})


def test_equal_values_per_rank_compare_equal() -> None:
    assert PerRank(1, {2: 3}) == PerRank(1, {2: 3})
    assert PerRank(1, {2: 3}) != PerRank(1, {2: 4})
    assert hash(PerRank(1)) == hash(PerRank(1))
    assert PerRank(1) != 1
