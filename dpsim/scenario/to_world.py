"""From a scenario to what a backend is told: a world, the name of a program, and plain data for it.

    told = world(scenario)
    program, args, prepared = prepare(scenario, Path("scenarios"))
    run = backend.run(told, scenario.protocol.name, args)

World and arguments are plain data and can be sent to worker processes. Nothing is decided here: defaults were filled in
by the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dpsim.program import Arguments, Program, Request, Unsuitable
from dpsim.registry import protocol
from dpsim.scenario.communicators import communicators
from dpsim.scenario.errors import ScenarioError
from dpsim.scenario.model import Scenario
from dpsim.scenario.workload.requests import requests_of
from dpsim.world import World


def world(scenario: Scenario) -> World:
    """The machine: ranks, communicators, and what to inject."""
    return World(
        size=scenario.topology.world_size,
        communicators=communicators(scenario.topology),
        faults=tuple(fault.fault() for fault in scenario.faults),
        delays=tuple(delay.delay() for delay in scenario.delays),
        stall_ns=scenario.limits.stall,
        deadline_ns=scenario.limits.deadline,
    )


def requests(scenario: Scenario, base_dir: Path | str | None = None) -> list[Request]:
    """The requests of a scenario, in the order of their source.

    `base_dir`: the folder of the scenario file, against which a trace's name is resolved; None: the working folder.

    Raises WorkloadMissing if a trace is not found, ScenarioError if it cannot be read.
    """
    return requests_of(scenario.workload, base_dir)


def program_args(scenario: Scenario, requests: Sequence[Request]) -> Arguments:
    """What the program is handed."""
    return Arguments(
        topology=scenario.topology.model_dump(mode="json"),
        config=scenario.config.model_dump(mode="json"),
        requests=tuple(requests),
        step_ns=scenario.workload.step_duration,
        form=scenario.protocol.resolved_form,
        variant=scenario.protocol.variant,
    )


def prepare(scenario: Scenario, base: Path | None = None) -> tuple[Program[Any], Arguments, Any]:
    """The program, its arguments, and what it makes of them. `base`: the folder of the scenario's files.

    Raises ScenarioError for a workload that cannot be read, and for what the program cannot run.
    """
    program = protocol(scenario.protocol.name).program()
    args = program_args(scenario, requests(scenario, base))
    try:
        return program, args, program.prepare(args)
    except Unsuitable as error:
        raise ScenarioError(f"{scenario.name}: {error}") from None
