"""Scenarios: what is run, what goes wrong, and what must come out.

    scenario = load_scenario("scenarios/quickstart.yaml")        # or scenario_from({...}), or Scenario(...)

The model is in `model`, `faults` and `sources`; YAML in `yaml_reader` and `yaml_writer`; what a backend is told in
`build`; Hypothesis strategies for property tests in `strategies`, which is the one module here that imports
Hypothesis and is not imported by this one.
"""

from dpsim.scenario.edit import scenario_from, with_limit, with_workload
from dpsim.scenario.errors import ScenarioError, WorkloadMissing
from dpsim.scenario.faults import Alter, Change, DelaySpec, Die, OpAddress, Repeat, Skip
from dpsim.scenario.model import Expect, ExpectedCulprit, Limits, ProtocolChoice, Scenario
from dpsim.scenario.to_world import prepare, program_args, requests, world
from dpsim.scenario.workload.model import AzureCsv, Lengths, RequestSpec, Synthetic, Workload
from dpsim.scenario.yaml.reader import load_scenario, parse_scenario
from dpsim.scenario.yaml.writer import dump_scenario

__all__ = [
    "Alter",
    "AzureCsv",
    "Change",
    "DelaySpec",
    "Die",
    "Expect",
    "ExpectedCulprit",
    "Lengths",
    "Limits",
    "OpAddress",
    "ProtocolChoice",
    "Repeat",
    "RequestSpec",
    "Scenario",
    "ScenarioError",
    "Skip",
    "Synthetic",
    "Workload",
    "WorkloadMissing",
    "dump_scenario",
    "load_scenario",
    "parse_scenario",
    "prepare",
    "program_args",
    "requests",
    "scenario_from",
    "with_limit",
    "with_workload",
    "world",
]
