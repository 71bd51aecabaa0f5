"""Tests of models as users write them: aliases, unions, wrong defaults, validators that raise, and values that no file
can store.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Literal, Self

import pytest
from hypothesis import given, settings
from pydantic import BaseModel, ConfigDict, Field, RootModel, field_validator, model_validator

from dpsim import PerRank, Program, register_protocol
from dpsim.contract.words import BadInput
from dpsim.scenario import Scenario, ScenarioError, dump_scenario, parse_scenario, prepare, scenario_from
from dpsim.scenario.small.worlds import all_up_to
from dpsim.testing import scenarios


def protocol(model: type[BaseModel], ranks: Callable[[Any], int] = lambda params: 1) -> str:
    """Registers a new protocol with these parameters, and returns its name."""
    name = f"t_{model.__qualname__.rpartition('.')[2].lower()}"

    class Meets(Program):
        """A program with one barrier."""

        async def run(self, rank: Any, args: Any) -> None:
            await rank.host("world").barrier(site="meet")

    Meets.__qualname__ = f"Meets_{name}"
    Meets.Params, Meets.ranks = model, staticmethod(ranks)  # type: ignore[assignment, method-assign]
    register_protocol(name)(Meets)
    return name


def read(name: str, params: Any) -> Scenario:
    return parse_scenario(f"name: x\nprotocol:\n  name: {name}\n  params: {params}\n", "bad")


def refused(name: str, params: Any) -> str:
    with pytest.raises(BadInput) as caught:
        read(name, params)
    assert "\n" not in str(caught.value)
    return str(caught.value)


class Inner(BaseModel):
    """A model that is a field of other parameters."""

    a: int = 0
    pair: tuple[int, int] = (0, 0)


class Spread(BaseModel):
    """A model with values for each rank, of every kind."""

    model: PerRank[Inner] = PerRank(Inner())
    pair: PerRank[tuple[int, int]] = PerRank((1, 2))
    maybe: PerRank[Inner] | None = None
    several: list[PerRank[int]] = []
    lists: PerRank[list[Inner]] = PerRank([])
    waits: PerRank[timedelta] = PerRank(timedelta(seconds=1))


SPREAD = protocol(Spread, lambda params: 4)


@settings(deadline=None, max_examples=25)
@given(scenarios(protocol=SPREAD, max_faults=0))
def test_values_of_each_rank_are_read_as_they_were_written(scenario: Scenario) -> None:
    assert parse_scenario(dump_scenario(scenario)) == scenario
    assert prepare(scenario)[2].params == scenario.protocol.params


@pytest.mark.parametrize(
    ("params", "path"),
    [
        ("{model: {zz: 1}}", "protocol.params.model"),
        ("{model: {others: {a: 1}, 3: {a: 2, zz: 1}}}", "protocol.params.model.3"),
        ("{maybe: {zz: 1}}", "protocol.params.maybe"),
        ("{lists: {others: [], 1: [{zz: 1}]}}", "protocol.params.lists.1[0]"),
    ],
)
def test_a_misspelt_key_in_the_value_of_a_rank(params: str, path: str) -> None:
    assert f"{path}: unknown key 'zz'" in refused(SPREAD, params)


def test_ranks_that_a_small_world_lacks() -> None:
    class Some(BaseModel):
        n: int = Field(default=3, ge=1)
        maybe: PerRank[int] | None = None
        table: dict[str, PerRank[int]] = {}

    name = protocol(Some, lambda params: params.n)
    base = read(name, "{maybe: {others: 0, 2: 1}, table: {a: {others: 0, 1: 4}}}")
    assert [one.protocol.plain_params for one in all_up_to(base, "n=3").worlds()] == [
        {"n": 1, "maybe": {"others": 0}, "table": {"a": {"others": 0}}} | plain
        for plain in (
            {"maybe": 0, "table": {"a": 0}},
            {"n": 2, "maybe": 0, "table": {"a": {"others": 0, "1": 4}}},
            {"n": 3, "maybe": {"others": 0, "2": 1}, "table": {"a": {"others": 0, "1": 4}}},
        )
    ]


def test_a_model_that_looks_at_values_of_ranks_loses_no_world() -> None:
    """Enumerates the small worlds of a model whose validator reads the values of ranks. For smaller worlds the
    validator rejects the scenario's own value, but the enumeration still contains the other values.
    """

    class Seen(BaseModel):
        n: int = Field(default=3, ge=1, le=3)
        sees: PerRank[int] = PerRank(3)

        @model_validator(mode="after")
        def _little(self) -> Self:
            if any(self.sees[rank] > self.n for rank in range(self.n)):
                raise ValueError("sees more than n")
            return self

    name = protocol(Seen, lambda params: params.n)
    for base in (read(name, "{}"), read(name, "{n: 2, sees: 2}")):
        worlds = list(all_up_to(base, "n=2,sees=2").worlds())
        assert len(worlds) == 2 + 9, "2 worlds of n=1 and 9 of n=2"


def test_a_combination_without_ranks_is_no_world() -> None:
    class Empty(BaseModel):
        n: int = Field(default=1, ge=0)

    base = read(protocol(Empty, lambda params: params.n), "{}")
    worlds = all_up_to(base, "n=3")
    assert (worlds.total, len(list(worlds.worlds()))) == (3, 3)


def test_lists_in_lists_and_negative_numbers() -> None:
    class Deep(BaseModel):
        rows: list[list[int]] = []
        below: int = Field(default=-1, ge=-3, le=-1)

    base = read(protocol(Deep), "{}")
    assert all_up_to(base, "rows=1,rows.item=1,rows.item.item=1").total == 1 + 1 + 2
    assert all_up_to(base, "below=-2").total == 2
    with pytest.raises(ScenarioError, match=r"rows\.item has no size"):
        all_up_to(base, "rows=1")


class Mixed(BaseModel):
    """A model with unions, patterns and multiples."""

    word: int | str = 0
    often: int | Literal["auto"] = "auto"
    letter: str = Field(default="a", pattern="^a")
    even: int = Field(default=0, multiple_of=2)


MIXED = protocol(Mixed)


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ("{word: [1]}", "protocol.params.word: Input should be a valid integer or: Input should be a valid string"),
        ("{often: [1]}", "protocol.params.often: Input should be a valid integer or: Input should be 'auto'"),
        ("{letter: b}", "protocol.params.letter: 'b' does not match ^a; expected text that does"),
        ("{even: 3}", "protocol.params.even: 3 is no multiple of 2; expected one"),
    ],
)
def test_each_wrong_parameter_is_one_line_with_its_place(params: str, said: str) -> None:
    assert said in refused(MIXED, params)


def test_a_key_by_its_alias() -> None:
    class Named(BaseModel):
        model_config = ConfigDict(populate_by_name=True)
        k: int = Field(default=1, alias="kay")

    name = protocol(Named)
    scenario = read(name, "{kay: 3}")
    assert scenario == read(name, "{k: 3}")
    assert "params: {kay: 3}" in dump_scenario(scenario)


class Apart(BaseModel):
    k: int = Field(default=1, validation_alias="kay")


class Dropped(BaseModel):
    k: int = Field(default=1, exclude=True)


class Function(BaseModel):
    k: Callable[[], int] = lambda: 1


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (Apart, "the field k is read as 'kay' and written as 'k'; expected one alias for both"),
        (Dropped, "the field k has exclude=True; a saved scenario would lose it"),
        (Function, "has a value that JSON cannot have"),
    ],
)
def test_values_that_no_file_can_keep(model: type[BaseModel], said: str) -> None:
    assert said in refused(protocol(model), "{}")


class Nine(BaseModel):
    n: int = Field(default=9, le=4)


class Bare(BaseModel):
    sees: PerRank[int] = 3  # type: ignore[assignment]


class Raises(BaseModel):
    n: int = 1

    @field_validator("n")
    @classmethod
    def _looks(cls, value: int) -> int:
        return {1: 1}[value]


class Asserts(BaseModel):
    n: int = 1

    @model_validator(mode="after")
    def _one(self) -> Self:
        if self.n != 1:
            raise AssertionError
        return self


class Loses(BaseModel):
    n: int = 1

    @model_validator(mode="after")
    def _nothing(self) -> Any:
        return None


def test_defaults_are_read_as_well() -> None:
    assert "Nine: the default of n, 9: Input should be less than or equal to 4" in refused(protocol(Nine), "{}")
    assert read(protocol(Bare), "{}").protocol.params == Bare(sees=PerRank(3))


@pytest.mark.filterwarnings("ignore:Returning anything other than:UserWarning")
def test_validators_that_go_wrong() -> None:
    assert "protocol.params: Raises raised KeyError: 2" in refused(protocol(Raises), "{n: 2}")
    assert "protocol.params: Assertion failed" in refused(protocol(Asserts), "{n: 2}")
    assert "a validator of Loses returned None; expected the model itself" in refused(protocol(Loses), "{n: 2}")


class Tree(BaseModel):
    kids: list[Tree] = []


class Anything(BaseModel):
    what: Any = None


class Root(RootModel[int]):
    """A root model of a number."""


class Odd(BaseModel):
    """A model with fields that are no number, choice or list."""

    root: Root = Root(1)
    pairs: tuple[Inner, int] = (Inner(), 1)
    table: dict[str, PerRank[int]] = {}
    numbers: dict[int, int] = {}
    fraction: float = 0.5
    waits: timedelta = timedelta(seconds=1)
    tree: Tree = Tree()


@settings(deadline=None, max_examples=25)
@given(scenarios(protocol=protocol(Odd), max_faults=0))
def test_odd_parameters_are_drawn_and_written(scenario: Scenario) -> None:
    assert parse_scenario(dump_scenario(scenario)) == scenario


def test_a_large_number_with_a_fraction() -> None:
    name = protocol(Odd)
    scenario = scenario_from({"name": "x", "protocol": {"name": name, "params": {"fraction": 1.5e30}}})
    assert parse_scenario(dump_scenario(scenario)) == scenario


def test_a_parameter_without_a_strategy_is_named() -> None:
    @given(scenarios(protocol=protocol(Anything)))
    def test(scenario: Scenario) -> None: ...

    with pytest.raises(ValueError, match=r"Anything\.what.*give a strategy: params=\{'what': \.\.\.\}"):
        test()
