"""Tests dpsim's Hypothesis strategies: drawn scenarios are valid, varied and small, and shrink to the simplest one."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from dpsim.scenario import Scenario, ScenarioError, scenario_from, world
from dpsim.scenario.to_world import prepare
from dpsim.vllm.config import CUDAGraphMode, EngineConfig, Topology
from dpsim.vllm.data_parallel.timeline import Timeline
from dpsim.vllm.params import strategies
from dpsim.vllm.params.fault_strategies import delays, faults
from dpsim.vllm.params.strategies import configs, scenarios, topologies, workloads

MANY = settings(max_examples=50)
SHRINK = settings(max_examples=500, database=None, derandomize=True, phases=[Phase.generate, Phase.shrink])
slow = functools.partial(pytest.param, marks=pytest.mark.slow)
ONE = {"name": "drawn", "workload": {"requests": [{"prompt_tokens": 1, "output_tokens": 1}]}}


@MANY
@given(scenarios())
def test_drawn_scenarios_are_valid_and_small(scenario: Scenario) -> None:
    assert scenario_from(scenario.model_dump(mode="json", by_alias=True)) == scenario
    assert world(scenario).size <= 4
    found = scenario.requests()
    assert len(found) <= 6
    steps = Timeline(
        found, scenario.topology.data_parallel_size, scenario.config, scenario.workload.step_duration
    ).steps
    assert steps <= 60


@MANY
@given(configs())
def test_drawn_configs_are_valid(config: EngineConfig) -> None:
    assert EngineConfig.model_validate(config.model_dump()) == config
    assert config.num_ubatches <= 4
    assert config.uniform_decode_query_len <= 4


@given(topologies(max_ranks=6, min_data_parallel=2, max_other=3), st.data())
def test_each_strategy_obeys_its_parameters(topology: Topology, data: st.DataObject) -> None:
    assert 2 <= topology.data_parallel_size <= topology.world_size <= 6
    drawn = data.draw(faults(topology, max_faults=3, sites=("here",), max_ordinal=2, kinds=("die",)))
    late = data.draw(delays(topology, max_delays=3, sites=("here",)))
    workload = data.draw(workloads(max_requests=2, adapters=("a",), aborts=False, force_eager=False))
    assert len(drawn) <= 3
    assert len(late) <= 3
    assert {fault["kind"] for fault in drawn} <= {"die"}
    assert all(request.abort is None and not request.force_eager for request in workload.requests or ())
    parts = {"topology": topology, "faults": drawn, "delays": late, "config": {"enable_lora": True}}
    scenario_from({"name": "x", "workload": workload, **parts})


def test_parts_of_scenarios_are_replaced() -> None:
    two, eager = topologies(min_data_parallel=2, max_ranks=2), EngineConfig(cudagraph_mode=CUDAGraphMode.NONE)
    seen: Counter[str] = Counter()

    @given(
        scenarios(
            topology=two,
            config=st.just(eager),
            workload=workloads(max_requests=1, aborts=False),
            max_faults=2,
            sites=("mine",),
        )
    )
    def draw(scenario: Scenario) -> None:
        assert scenario.topology == Topology(data_parallel_size=2)
        assert scenario.config == eager
        assert [request.abort for request in scenario.workload.requests or ()] == [None]
        seen.update(fault.at.site for fault in scenario.faults if fault.at is not None and fault.at.site is not None)
        seen.update(delay.at.site for delay in scenario.delays if delay.at is not None and delay.at.site is not None)

    draw()
    assert set(seen) == {"mine"}


@pytest.mark.slow
def test_the_strategy_draws_every_kind_of_scenario() -> None:
    seen: Counter[Any] = Counter()

    @settings(max_examples=300, database=None, derandomize=True)
    @given(scenarios(max_faults=2))
    def draw(scenario: Scenario) -> None:
        config = scenario.config
        seen[config.cudagraph_mode] += 1
        seen["ubatches", config.num_ubatches] += 1
        seen["q", config.uniform_decode_query_len] += 1
        seen["host", config.syncs_on_host] += 1
        seen["ranks", scenario.topology.world_size] += 1
        seen["ladder", config.cudagraph_capture_sizes is not None] += 1
        seen["captures", config.capture_graphs] += 1
        for fault in scenario.faults:
            seen[fault.kind] += 1
            seen["by site", fault.at is not None and fault.at.site is not None] += 1
        for request in scenario.workload.requests or ():
            seen["eager", request.force_eager] += 1
            seen["lora", request.lora is not None] += 1
            seen["abort", request.abort is not None] += 1
        for delay in scenario.delays:
            seen["late start", delay.at is None] += 1

    draw()
    wanted = [*CUDAGraphMode, *[("ubatches", n) for n in (0, 2, 3, 4)], *[("q", n) for n in (1, 2, 3, 4)]]
    wanted += [
        ("host", True),
        ("host", False),
        *[("ranks", n) for n in (1, 2, 3, 4)],
        ("ladder", True),
        ("ladder", False),
        ("captures", True),
        ("captures", False),
    ]
    wanted += ["skip", "repeat", "alter", "die", ("by site", True), ("by site", False)]
    wanted += [(what, there) for what in ("eager", "lora", "abort", "late start") for there in (True, False)]
    rare = [what for what in wanted if seen[what] < 3]
    assert not rare


@given(st.data())
def test_a_part_may_be_one_value_for_all_scenarios(data: st.DataObject) -> None:
    config, two = {"capture_graphs": True, "max_num_seqs": 4}, Topology(data_parallel_size=2)
    drawn = data.draw(
        scenarios(config=config, topology=two, workload={"requests": [{"prompt_tokens": 1, "output_tokens": 1}]})
    )
    assert (drawn.config, drawn.topology) == (EngineConfig.model_validate(config), two)
    assert [request.prompt_tokens for request in drawn.workload.requests or ()] == [1]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"config": {"capture_graph": True}}, "config: unknown key 'capture_graph'; did you mean 'capture_graphs'"),
        ({"topology": {"data_parallel_size": 0}}, "topology.data_parallel_size"),
        ({"config": 5}, r"scenarios\(config=5\): expected a strategy, a mapping .*, or EngineConfig"),
        ({"workload": [0] * 90}, r"scenarios\(workload of type list\): expected a strategy"),
    ],
)
def test_a_wrong_part_is_an_error_at_the_call(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises((ScenarioError, TypeError), match=says):
        scenarios(**wrong)


@pytest.mark.slow
def test_forms_without_captures_get_none() -> None:
    drawn = scenarios(form="v2-0.17")
    with pytest.raises(NoSuchExample):
        find(drawn, lambda scenario: scenario.config.capture_graphs, settings=SHRINK)


def test_of_many_faults_the_one_that_matters_is_left() -> None:
    def matters(scenario: Scenario) -> bool:
        return any(fault.kind == "die" and fault.rank == 2 for fault in scenario.faults)

    drawn = scenarios(topology=topologies(3, 3), config=st.just(EngineConfig()), max_faults=3)
    died = {"kind": "die", "rank": 2, "at": {"site": "dp.agree", "ordinal": 0}}
    smallest = {**ONE, "topology": {"data_parallel_size": 3}, "faults": [died]}
    assert find(drawn, matters, settings=SHRINK) == scenario_from(smallest)


@pytest.mark.parametrize(
    ("predicate", "smallest"),
    [
        (lambda scenario: True, {}),
        (lambda scenario: scenario.topology.data_parallel_size >= 3, {"topology": {"data_parallel_size": 3}}),
        slow(lambda scenario: scenario.config.num_ubatches > 2, {"config": {"ubatch_size": 3}}),
        (
            lambda scenario: scenario.faults,
            {"faults": [{"kind": "skip", "rank": 0, "at": {"site": "dp.agree", "ordinal": 0}}]},
        ),
        slow(lambda scenario: scenario.delays, {"delays": [{"rank": 0, "by": "1us"}]}),
        slow(
            lambda scenario: any(request.abort for request in scenario.workload.requests),
            {"workload": {"requests": [{"prompt_tokens": 1, "output_tokens": 1, "abort": "20ms"}]}},
        ),
        slow(
            lambda scenario: len(scenario.workload.requests) == 3,
            {"workload": {"requests": [{"prompt_tokens": 1, "output_tokens": 1}] * 3}},
        ),
    ],
)
def test_shrinks_to_the_smallest(predicate: Callable[[Scenario], object], smallest: dict[str, Any]) -> None:
    found = find(scenarios(), lambda scenario: bool(predicate(scenario)), settings=SHRINK)
    assert found == scenario_from({**ONE, **smallest})


def test_each_example_draws_and_notes_its_possible_kinds_of_faults(capsys: pytest.CaptureFixture[str]) -> None:
    """The strategy first draws which kinds of faults an example may have. A failing example notes these kinds.

    Without this draw, hardly any example would have four faults of one kind.
    """
    alone: Counter[bool] = Counter()
    four = faults(Topology(data_parallel_size=4), max_faults=4, max_ordinal=9, kinds=("skip", "repeat", "die"))

    @settings(max_examples=100, database=None, derandomize=True)
    @given(four.filter(lambda drawn: len(drawn) == 4))
    def draw(drawn: list[dict[str, Any]]) -> None:
        alone[len({fault["kind"] for fault in drawn}) == 1] += 1

    draw()
    assert alone[True] > 20
    assert alone[False] > 20

    @settings(max_examples=50, database=None, derandomize=True)
    @given(four)
    def fails(drawn: list[dict[str, Any]]) -> None:
        assert not any(fault["kind"] == "die" for fault in drawn)

    with pytest.raises(AssertionError) as raised:
        fails()
    noted = "\n".join([capsys.readouterr().out, *getattr(raised.value, "__notes__", ())])
    assert "faults that were possible: die" in noted


def refused(protocol: str) -> list[str]:
    """Returns the errors that a program raises for the scenarios that `scenarios(protocol=...)` draws for it."""
    found = []

    @settings(max_examples=10, database=None, derandomize=True, deadline=None)
    @given(scenarios(protocol=protocol))
    def draw(scenario: Scenario) -> None:
        try:
            prepare(scenario)
        except ScenarioError as error:
            found.append(str(error))

    draw()
    return found


@pytest.mark.parametrize("protocol", ["engine", "startup"])
def test_a_strategy_draws_only_scenarios_that_the_program_accepts(
    protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert refused(protocol) == []
    monkeypatch.setattr(strategies, "reads", lambda *_: True)  # faulty twins: they draw every field and topology
    monkeypatch.setattr(strategies, "accepted", lambda *given: given[-1])
    monkeypatch.setattr(strategies, "is_accepted", lambda _: True)
    assert any("does not use; remove it" in one for one in refused(protocol))


@pytest.mark.parametrize("protocol", ["whole_engine", "whole_engine_dp"])
def test_nothing_that_is_drawn_is_discarded(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The faulty twin draws configurations apart from the topology."""
    monkeypatch.setattr(strategies, "is_accepted", lambda _: True)
    assert refused(protocol) == []
    monkeypatch.setattr(strategies, "accepted_config", lambda *given: given[-1])
    assert refused(protocol) != []


def test_a_strategy_may_draw_mappings_of_a_scenario_file(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = st.fixed_dictionaries({"data_parallel_size": st.just(2)})
    request = {"prompt_tokens": 1, "output_tokens": 1, "lora": "a"}
    parts: dict[str, Any] = {"config": st.just({"enable_lora": True}), "workload": st.just({"requests": [request]})}
    drawn = find(scenarios(topology=sizes, **parts), lambda _: True, settings=SHRINK)
    assert (drawn.topology, drawn.config.enable_lora) == (Topology(data_parallel_size=2), True)
    wrong = st.fixed_dictionaries({"data_parallel_size": st.just(0)})
    with pytest.raises(ScenarioError, match="data_parallel_size"):
        find(scenarios(topology=wrong), lambda _: True, settings=SHRINK)
    with pytest.raises(TypeError, match="expected a strategy, a mapping"):
        find(scenarios(topology=st.just(2)), lambda _: True, settings=SHRINK)
    monkeypatch.setattr(strategies, "validated", lambda _key, _kind, value: value)  # faulty twin: it draws a dict
    with pytest.raises(AttributeError, match="world_size"):
        find(scenarios(topology=sizes), lambda one: bool(one.faults), settings=SHRINK)
