"""Tests that drawn worlds of a protocol have one to four ranks if its parameters have no bounds for the number of
ranks.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from dpsim.contract import registry
from dpsim.testing import holds, scenarios
from dpsim.testing.models import params
from dpsim.testing.strategies import rank_fields
from tests.scenario.params.test_models import protocol


class Open(BaseModel):
    """Parameters without any bounds: the number of ranks and an unrelated number."""

    ranks: int = 2
    steps: int = 3


class Least(BaseModel):
    replicas: int = Field(ge=1)
    parts: int = Field(2, ge=2)


class Bounded(BaseModel):
    ranks: int = Field(2, ge=1, le=7)


class Zero(BaseModel):
    ranks: int = Field(2, ge=0, le=3)


class OneLess(BaseModel):
    above: int = Field(1, ge=0, le=0)


def ranks(params: Any) -> int:
    return int(params.ranks)


OPEN = protocol(Open, ranks)
LEAST = protocol(Least, lambda params: params.replicas * params.parts)
BOUNDED = protocol(Bounded, ranks)
ZERO = protocol(Zero, ranks)
ONE_LESS = protocol(OneLess, lambda params: params.above)


@pytest.mark.parametrize(
    ("name", "bounds"),
    [
        (OPEN, {"ranks": (1, 4)}),
        (LEAST, {"replicas": (1, 4), "parts": (2, 4)}),
        (BOUNDED, {}),
        (ZERO, {"ranks": (1, 3)}),
        (ONE_LESS, {}),
    ],
)
def test_the_fields_and_their_bounds(name: str, bounds: dict[str, tuple[int, int]]) -> None:
    assert rank_fields(registry.protocol(name).program) == bounds


@pytest.mark.parametrize(("name", "most"), [(OPEN, 4), (LEAST, 16), (BOUNDED, 7), (ZERO, 3)])
def test_worlds_have_ranks(name: str, most: int) -> None:
    sizes = set()

    @settings(max_examples=60, database=None)
    @given(scenarios(protocol=name, max_faults=0))
    def draws(scenario: Any) -> None:
        sizes.add(scenario.size)

    draws()
    assert min(sizes) >= 1
    assert max(sizes) <= most


def test_the_smallest_world_holds() -> None:
    """Explores drawn worlds. No example is rejected; once the strategy raised an error for 0 ranks."""

    @settings(max_examples=10, database=None)
    @given(scenarios(protocol=OPEN, max_faults=0))
    def each(scenario: Any) -> None:
        assert holds(scenario, schedules=20).verdict in ("proven", "sampled", "vacuous")

    each()


def test_the_faulty_twin_draws_no_rank() -> None:
    """The faulty twin: the model's own strategy, without the bounds, draws 0 ranks and more than 4."""
    drawn = set()

    @settings(max_examples=60, database=None)
    @given(params(Open))
    def draws(values: dict[str, Any]) -> None:
        drawn.add(values["ranks"])

    draws()
    assert min(drawn) == 0
    assert max(drawn) > 4


def test_a_strategy_of_the_user_counts() -> None:
    @settings(max_examples=5, database=None)
    @given(scenarios(protocol=OPEN, params={"ranks": st.just(6)}, max_faults=0))
    def draws(scenario: Any) -> None:
        assert scenario.size == 6

    draws()


def failing(strategy: Any) -> Any:
    @settings(max_examples=5, database=None)
    @given(strategy)
    def draws(scenario: Any) -> None: ...

    return draws


@pytest.mark.parametrize(
    ("name", "more"), [(ONE_LESS, {}), (OPEN, {"params": {"ranks": st.just(0)}})], ids=["function", "strategy"]
)
def test_no_rank_is_one_clear_error(name: str, more: dict[str, Any]) -> None:
    expected = r"\.ranks gave 0 for \{.*\}; expected at least 1 rank: .* Field\(ge=1, le=4\)"
    with pytest.raises(ValueError, match=expected):
        failing(scenarios(protocol=name, max_faults=0, **more))()
