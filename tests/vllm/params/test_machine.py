"""Tests that the nodes of a world follow from vLLM's settings."""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.contract.world import World
from dpsim.scenario import Scenario, ScenarioError, parse_scenario, prepare, scenario_from, world

REQUEST = {"arrival": "0ms", "prompt_tokens": 1, "output_tokens": 1}


def made(**sections: Any) -> Scenario:
    topology = {"data_parallel_size": 4}
    fixed = {"name": "made", "protocol": "startup", "topology": topology, "workload": {"requests": [REQUEST]}}
    return scenario_from({**fixed, **sections})


def world_of_scenario(scenario: Scenario) -> World:
    program, _, prepared = prepare(scenario)
    return world(scenario, program, prepared)


@pytest.mark.parametrize(
    ("config", "nodes"),
    [
        ({}, (0, 0, 0, 0, 0, 0, 0, 0, 0, 0)),
        ({"nnodes": 2}, (0, 0, 1, 1, 0, 1, 0, 0, 0, 1, 1)),
        ({"data_parallel_size_local": 2}, (0, 0, 1, 1, 0, 1, 0, 0, 0, 1, 1)),
    ],
)
def test_nodes_follow_from_the_configuration(config: dict[str, Any], nodes: tuple[int, ...]) -> None:
    """The world lists the node of each actor: ranks, a front end for each node, the coordinator, and four engines."""
    assert world_of_scenario(made(config=config)).nodes == nodes


def test_an_unknown_node_is_refused() -> None:
    ports = [{"port": 5, "node": 1}, {"port": 5, "node": 2}]
    with pytest.raises(ScenarioError, match=r"^made: ports\[1\]\.node: node 2: this world has 2 nodes, 0 to 1$"):
        world_of_scenario(made(config={"nnodes": 2}, ports=ports))


def test_a_file_is_read_where_its_program_s_services_are_unknown() -> None:
    """The reader accepts a fault at an unknown service if the program cannot list its services.

    Preparing the run then reports the program's own error.
    """
    scenario = parse_scenario(
        "name: odd\nprotocol: startup\ntopology: {data_parallel_size: 3}\nconfig: {nnodes: 2}\n"
        "faults: [{kind: kill, rank: no_such}]\nworkload: {requests: [{prompt_tokens: 1, output_tokens: 1}]}\n"
    )
    with pytest.raises(ScenarioError, match="nnodes: 2 nodes for 3 replicas"):
        world_of_scenario(scenario)


def test_nodes_hold_whole_replicas() -> None:
    with pytest.raises(ScenarioError, match="nnodes"):
        world_of_scenario(made(topology={"data_parallel_size": 3}, config={"nnodes": 2}))
