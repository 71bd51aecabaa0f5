"""Compares the small worlds of a model of parameters with those that a nested loop finds."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

import tests.scenario.params.protocols  # noqa: F401 - registers them
from dpsim.scenario import Scenario, ScenarioError, scenario_from
from dpsim.scenario.small.worlds import all_up_to


def base(protocol: str = "t_largest", more: dict[str, Any] | None = None, **params: Any) -> Scenario:
    return scenario_from({"name": "base", "protocol": {"name": protocol, "params": params}, **(more or {})})


def plains(scenario: Scenario, sizes: str) -> list[dict[str, Any]]:
    worlds = all_up_to(scenario, sizes)
    found = [one.protocol.plain_params for one in worlds.worlds()]
    assert worlds.total == len(found)
    return found


def of_ranks(scenario: Scenario) -> tuple[int, list[int]]:
    params: Any = scenario.protocol.params
    return params.steps, [params.seen[rank] for rank in range(scenario.size)]


def test_a_number_takes_the_values_from_its_bound_to_the_size() -> None:
    found = plains(base(steps=4), "ranks=3,steps=2")
    assert sorted((one["ranks"], one["steps"]) for one in found) == sorted(product((1, 2, 3), (1, 2)))
    assert [one["ranks"] + one["steps"] for one in found] == sorted(one["ranks"] + one["steps"] for one in found)


def test_each_rank_has_each_value() -> None:
    found = all_up_to(base(steps=1), "ranks=2,seen=1")
    seen = [[one.protocol.params.seen[rank] for rank in range(one.size)] for one in found.worlds()]
    assert sorted(seen) == sorted([[0], [1], *map(list, product((0, 1), repeat=2))])
    assert found.sizes.summary() == "ranks 2, seen 1; steps as in the scenario"


EVERYTHING = {
    "flag": 2,
    "word": 2,
    "mode": 2,
    "even=4": 3,
    "maybe=2": 4,
    "slots=2,slots.item=1": 1 + 2 + 4,
    "slots=3,slots.item=0": 4,
    "pair=1,pair.item=2": 4,
    "work=1,work.tokens=2": 3,
    "work=1,work.tokens=2,work.mode": 5,
    "first.tokens=3": 3,
    "most=2": 3,
    "even=4,most=2": 6,  # even is 0, 2 or 4, most 0 to 2; the model rejects even > most
}


@pytest.mark.parametrize(("sizes", "count"), EVERYTHING.items())
def test_each_kind_of_parameter_takes_its_values(sizes: str, count: int) -> None:
    found = plains(base("t_everything"), sizes)
    if sizes == "even=4,most=2":
        assert {(one["even"], one["most"]) for one in found} == {(0, 0), (0, 1), (0, 2), (2, 2)}
        return
    assert len(found) == count
    assert len({str(one) for one in found}) == count


def test_faults_of_ranks_that_a_small_world_lacks_are_left_out() -> None:
    at = {"at": {"site": "agree", "ordinal": 0}}
    faults = [{"kind": "die", "rank": 0, **at}, {"kind": "die", "rank": 2, **at}]
    delays = [{"rank": 1, "by": "1us"}]
    expect = {"verdict": "violated", "culprit": {"rank": 2}}
    large = base(
        more={"faults": faults, "delays": delays, "expect": expect}, ranks=3, steps=1, seen={"others": 0, "2": 1}
    )
    found = list(all_up_to(large, "ranks=3").worlds())
    assert [(len(one.faults), len(one.delays)) for one in found] == [(1, 0), (1, 1), (2, 1)]
    assert [one.expect.culprit for one in found] == [None] * 3
    assert [one.protocol.params.seen.ranks for one in found] == [{}, {}, {2: 1}]


WRONG = {
    "rank=2": "--all-up-to: 'rank' is no parameter; did you mean 'ranks'? (there are ranks, steps, seen)",
    "ranks=2,ranks=3": "--all-up-to: ranks is given twice; leave one of them out",
    "ranks=x": "--all-up-to: ranks: expected a number up to 1,000, as in ranks=2, got 'x'",
    "ranks=9": "--all-up-to: ranks=9; expected a number from 1 to 8, as in ranks=8",
    "ranks=0": "--all-up-to: ranks=0; expected a number from 1 to 8, as in ranks=8",
    "": "--all-up-to: '' is no parameter",
    "ranks=8,steps=2,seen=3": "--all-up-to: these are ",
}


@pytest.mark.parametrize(("sizes", "said"), WRONG.items())
def test_a_wrong_size_is_refused(sizes: str, said: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        all_up_to(base(steps=1), sizes)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ("text=2", "text is no whole number, choice or list; give its value in the scenario"),
        ("flag=1", "flag has 2 values and no size; write flag alone"),
        ("slots=1", "slots.item has no size; expected a number from 0 on"),
        ("slots=4,slots.item=0", "slots=4; expected a number from 0 to 3"),
        ("maybe", "maybe has no size"),
    ],
)
def test_a_parameter_without_sizes_is_refused(sizes: str, said: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        all_up_to(base("t_everything"), sizes)
    assert said in str(caught.value)


def test_a_protocol_without_parameters() -> None:
    with pytest.raises(ScenarioError, match="conformance_aborts has no parameters; explore it without"):
        all_up_to(Scenario.model_validate({"name": "x", "protocol": "conformance_aborts"}), "ranks=2")


@pytest.mark.parametrize(
    ("given", "sizes", "contained"),
    [
        ({"ranks": 3, "steps": 2}, "ranks=3,steps=2", True),
        ({"ranks": 3, "steps": 2}, "ranks=3,steps=1", False),
        ({"ranks": 2, "steps": 1, "seen": {"others": 1, 0: 0}}, "ranks=2,seen=1", True),
        ({"ranks": 2, "steps": 1, "seen": {"others": 0, 1: 1}}, "ranks=2,seen=1", True),
        ({"ranks": 2, "steps": 1, "seen": {"others": 0, 1: 2}}, "ranks=2,seen=1", False),
    ],
)
def test_a_set_without_the_scenario_itself_says_so(given: dict[str, Any], sizes: str, contained: bool) -> None:
    worlds = all_up_to(base(**given), sizes)
    assert (worlds.outside == "") == contained
    assert (of_ranks(base(**given)) in map(of_ranks, worlds.worlds())) == contained
