"""Tests that the machine section of a scenario reaches the world: nodes, services, ports, and communicators that ranks
create at their first use.
"""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.contract.world import Stranger, World
from dpsim.scenario import Scenario, ScenarioError, parse_scenario, prepare, world
from dpsim.scenario.to_world import only_simulated
from tests.protocols import agreed, served


def made(nodes: int = 1, **sections: Any) -> Scenario:
    return served(4, nodes, **sections)


def world_of_scenario(scenario: Scenario) -> World:
    program, _, prepared = prepare(scenario)
    return world(scenario, program, prepared)


@pytest.mark.parametrize(("nodes", "of_each"), [(1, (0,) * 10), (2, (0, 0, 1, 1, 0, 0, 0, 0, 1, 1))])
def test_nodes_are_those_of_the_program(nodes: int, of_each: tuple[int, ...]) -> None:
    """Checks the nodes of a program: four ranks, the front end, the coordinator, and four engines."""
    assert world_of_scenario(made(nodes)).nodes == of_each


def test_ports_and_lazy_communicators_are_reported() -> None:
    ports = [{"port": 5}, {"port": 6, "node": 1, "late": True}]
    scenario = made(2, ports=ports, limits={"lazy_communicators": True})
    assert world_of_scenario(scenario).strangers == (Stranger(5), Stranger(6, 1, True))
    assert world_of_scenario(scenario).lazy
    assert not world_of_scenario(made()).lazy


def test_a_service_is_named_where_a_rank_is() -> None:
    scenario = made(delays=[{"rank": "engine.1", "by": "1ms"}], faults=[{"kind": "kill", "rank": "coordinator"}])
    assert world_of_scenario(scenario).delays[0].rank == 7
    assert world_of_scenario(scenario).kills[0].rank == 5


def test_an_unknown_service_is_refused() -> None:
    with pytest.raises(ScenarioError, match=r"delays\[0\].rank: no service 'engine.7'.*did you mean 'engine"):
        world_of_scenario(made(delays=[{"rank": "engine.7", "by": "1ms"}]))
    with pytest.raises(ScenarioError, match=r"expected a rank: t_agree has no services"):
        world_of_scenario(agreed(delays=[{"rank": "engine.1", "by": "1ms"}]))
    for expect in ({"culprit": {"rank": "fronted"}}, {"explored": {"culprit": {"rank": "fronted"}}}):
        place = r"culprit\.rank: no service 'fronted'; expected a rank, or one of: frontend, coordinator, engine\.0"
        with pytest.raises(ScenarioError, match=rf"^made: expect\.(explored\.)?{place}.*did you mean 'frontend'"):
            world_of_scenario(made(expect=expect))


def test_an_unknown_node_is_refused() -> None:
    ports = [{"port": 5, "node": 1}, {"port": 5, "node": 2}]
    with pytest.raises(ScenarioError, match=r"^made: ports\[1\]\.node: node 2: this world has 2 nodes, 0 to 1$"):
        world_of_scenario(made(2, ports=ports))
    with pytest.raises(ScenarioError, match="has one node, 0"):
        world_of_scenario(agreed(ports=ports))


def test_a_scenario_with_unknown_services_is_readable() -> None:
    """Reads a file that names an unknown service and a wrong number of nodes. The reader accepts it, because it does
    not know the program's services; making the world raises the error.
    """
    scenario = parse_scenario(
        "name: odd\nprotocol: {name: t_served, params: {ranks: 3, nodes: 2}}\nfaults: [{kind: kill, rank: no_such}]\n"
    )
    with pytest.raises(ScenarioError, match="nodes: 2 nodes for 3 ranks"):
        world_of_scenario(scenario)


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"ports": [{"port": 5, "late": True}]}, "ports[0].late: the gloo backend starts no other program"),
        ({"ports": [{"port": 5}]}, ""),
        ({"limits": {"lazy_communicators": True}}, ""),
        ({}, ""),
    ],
)
def test_real_backends_refuse_sections_that_only_the_simulation_has(sections: dict[str, Any], said: str) -> None:
    refused = only_simulated(made(**sections), "gloo")
    assert said in str(refused or "")
    assert (refused is None) == (not said)


def test_a_world_that_the_program_refuses() -> None:
    with pytest.raises(ScenarioError, match="made: nodes: 2 nodes for 3 ranks; expected whole nodes"):
        world_of_scenario(served(3, 2))
