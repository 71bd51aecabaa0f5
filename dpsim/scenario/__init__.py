"""Scenarios: what is run, what goes wrong, and what must come out.

    scenario = load_scenario("scenarios/quickstart.yaml")        # or scenario_from({...})

    model.py           the scenario: its sections, and the rules that span several of them
    parameters.py      what the parameters of a program add to it
    params/            parameters from a pydantic model: Program.Params
    kinds.py           which class reads a scenario: its protocol decides
    small/             every small world like a scenario
    protocol.py        which program it runs, in which form
    expect.py          what must come out
    faults.py          its faults and delays, and the addresses of ops
    messages.py        what mailboxes receive from outside
    machine.py         the machine it runs on: what is finite, which other programs listen on ports
    base.py            what all models have in common: strict, frozen, a broken rule with its path
    duration.py        "20ms" in a file, nanoseconds everywhere else
    edit.py            scenarios made and changed in Python
    yaml/              scenarios as files: reading with the place of every value, and writing
    errors.py          what is wrong with a scenario, as one exception
    estimate.py        how large a run would be, and which one is refused
    to_world.py        what a backend receives: a world, a program, its arguments
    locate.py          from what a user types to a file
    modules.py         from what a user types to the modules that register protocols
    schema.py          JSON Schema for editors
    descriptions.py    what the fields mean, from the docstrings below them
    swarm.py           scenarios like a given one, with other kinds of fault possible in each

The names below are those that other rooms use most; what else there is is imported from its file.
"""

from dpsim.scenario.edit import scenario_from
from dpsim.scenario.errors import FileMissing, ScenarioError
from dpsim.scenario.expect import Expect
from dpsim.scenario.faults import KillSpec, Skip
from dpsim.scenario.machine import Limits
from dpsim.scenario.model import Scenario
from dpsim.scenario.to_world import prepare, world
from dpsim.scenario.yaml.reader import load_scenario, parse_scenario
from dpsim.scenario.yaml.writer import dump_scenario, excerpt

__all__ = [
    "Expect",
    "FileMissing",
    "KillSpec",
    "Limits",
    "Scenario",
    "ScenarioError",
    "Skip",
    "dump_scenario",
    "excerpt",
    "load_scenario",
    "parse_scenario",
    "prepare",
    "scenario_from",
    "world",
]
