"""Scenarios: a scenario describes a program to run, the faults that dpsim plants in the run, and the expected outcome.

scenario = load_scenario("scenarios/quickstart.yaml")        # or scenario_from({...})

model.py           the class of a scenario: its sections, and the rules that span several of them
parameters.py      the base class of the sections that a program's package adds
params/            parameters of a program from a pydantic model (`Program.Params`)
kinds.py           selects the class for a scenario by its protocol
small/             enumerates all small worlds like a scenario
protocol.py        the section `protocol`: the program, its form and its variant
expect.py          the section `expect`: the expected outcome
faults.py          the sections `faults` and `delays`, and the addresses of ops
inserted.py        the call that the fault `insert` adds
messages.py        the section `messages`: what mailboxes receive from outside
machine.py         the sections `limits` and `ports`
base.py            the base class of all sections, and errors with the path of a value
duration.py        durations: "20ms" in a file, integer nanoseconds in Python
edit.py            creates and changes scenarios in Python
yaml/              reads scenario files with the line of every value, and writes them
errors.py          the exception for all problems of a scenario
estimate.py        estimates the memory of a run, and refuses a run that is too large
to_world.py        turns a scenario into the world and arguments that a backend receives
locate.py          finds the scenario file that a user names
modules.py         imports the modules that register protocols, as a user names them
schema.py          JSON Schema for editors
descriptions.py    reads the meaning of a field from the docstring below it
swarm.py           draws scenarios like a given one, with random faults
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
