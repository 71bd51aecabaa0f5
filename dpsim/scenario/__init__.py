"""Scenarios: what is run, what goes wrong, and what must come out.

    scenario = load_scenario("scenarios/quickstart.yaml")        # or scenario_from({...}), or Scenario(...)

    model.py           the scenario: its sections, and the rules that span several of them
    expect.py          what must come out
    faults.py          its faults and delays, and the addresses of ops
    messages.py        what comes to mailboxes from outside
    machine.py         the machine it runs on: what is finite, who else listens on ports
    workload/          its requests: written out, made up from a seed, or read from a trace
    base.py            what all models have in common: strict, frozen, a broken rule with its path
    duration.py        "20ms" in a file, nanoseconds everywhere else
    communicators.py   which groups of ranks a topology has, and what they are called
    edit.py            scenarios made and changed in Python
    yaml/              scenarios as files: reading with the place of every value, and writing
    errors.py          what is wrong with a scenario, as one exception
    to_world.py        what a backend is told: a world, a program, its arguments
    locate.py          from what a user types to a file
    modules.py         from what a user types to the modules that register protocols
    schema.py          JSON Schema for editors
    small.py           every small scenario like a given one
    swarm.py           scenarios like a given one, with other kinds of fault possible in each
    strategies.py      Hypothesis strategies: scenarios to draw

The names below are the package's public face. `locate`, `modules`, `schema`, `small`, `swarm` and
`strategies` are imported by name, and only `strategies` imports Hypothesis.
"""

from dpsim.scenario.edit import scenario_from, with_limit, with_workload
from dpsim.scenario.errors import ScenarioError, WorkloadMissing
from dpsim.scenario.expect import Expect, ExpectedCulprit, ExpectExplored
from dpsim.scenario.faults import Alter, Change, DelaySpec, Die, KillSpec, OpAddress, Repeat, Skip
from dpsim.scenario.machine import Limits, TakenPort
from dpsim.scenario.messages import After, MessageSpec
from dpsim.scenario.model import ProtocolChoice, Scenario
from dpsim.scenario.to_world import prepare, program_args, requests, world
from dpsim.scenario.workload.model import AzureCsv, Lengths, RequestSpec, Synthetic, Workload
from dpsim.scenario.yaml.reader import load_scenario, parse_scenario
from dpsim.scenario.yaml.writer import dump_scenario, excerpt

__all__ = [
    "After",
    "Alter",
    "AzureCsv",
    "Change",
    "DelaySpec",
    "Die",
    "Expect",
    "ExpectExplored",
    "ExpectedCulprit",
    "KillSpec",
    "Lengths",
    "Limits",
    "MessageSpec",
    "OpAddress",
    "ProtocolChoice",
    "Repeat",
    "RequestSpec",
    "Scenario",
    "ScenarioError",
    "Skip",
    "Synthetic",
    "TakenPort",
    "Workload",
    "WorkloadMissing",
    "dump_scenario",
    "excerpt",
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
