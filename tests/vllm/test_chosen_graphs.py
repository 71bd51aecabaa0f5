"""Tests the assumption that a proof names if ranks choose graphs but run eagerly, for each program in which they do."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from dpsim.scenario import Scenario, scenario_from
from dpsim.scenario.locate import scenario_path
from dpsim.scenario.to_world import prepare
from dpsim.vllm.programs.modes import CHOSEN, NEITHER, STAGE_MODES, STEP_MODES

PIPELINE = "pp2_free_in_flight"

SCENARIOS = {
    "quickstart": CHOSEN,
    "dbo_small": CHOSEN,
    "eplb_small": CHOSEN,
    "whole_engine_small": CHOSEN,
    "whole_engine_split": CHOSEN,
    "whole_engine_dp": CHOSEN,
    "whole_engine_dp_v2": CHOSEN,
    PIPELINE: NEITHER,
    "engine_watched_small": "",
}
OFF = {"capture_graphs": False, "enforce_eager": False, "cudagraph_mode": "FULL"}


def scenario(name: str, **config: Any) -> Scenario:
    """Returns a bundled scenario in which `config` replaces keys of its configuration."""
    file = scenario_path(name)
    given = yaml.safe_load(file.read_text())
    return scenario_from({**given, "config": {**given.get("config", {}), **config}})


def assumed(name: str, **config: Any) -> tuple[str, ...]:
    program, _, prepared = prepare(scenario(name, **config), scenario_path(name).parent)
    return tuple(program.assumes((), prepared))


@pytest.mark.parametrize("name", SCENARIOS)
def test_ranks_that_choose_and_run_eagerly(name: str) -> None:
    assert assumed(name, **OFF) == tuple(filter(None, [SCENARIOS[name]]))


@pytest.mark.parametrize("config", [{"cudagraph_mode": "NONE"}, {"capture_graphs": True}, {"enforce_eager": True}])
@pytest.mark.parametrize("name", ["dp2_captured", "dbo_small", "whole_engine_small", "whole_engine_dp", PIPELINE])
def test_a_proof_without_chosen_graphs_does_not_name_the_assumption(name: str, config: dict[str, Any]) -> None:
    """Without graphs to choose, or if ranks capture the graphs, no proof names the assumption.

    A faulty program that always names it fails here.
    """
    assert assumed(name, **{**OFF, **config}) == ()


def test_no_program_with_modes_is_forgotten() -> None:
    """`SCENARIOS` lists each program whose ranks choose a mode (`Program.modes`)."""
    from dpsim.contract import registry

    registry.load_all()
    own = [one for one in registry.protocols() if one.program.__module__.startswith("dpsim.vllm.")]
    choosing = {one.name for one in own if one.program.modes in (STEP_MODES, STAGE_MODES)}
    assert len(choosing) > 4
    listed = {scenario(name).protocol.name for name, text in SCENARIOS.items() if text == CHOSEN}
    assert {one.removesuffix("_watched") for one in choosing} <= listed
