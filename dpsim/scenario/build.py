"""From a scenario to what a backend is told: a world, the name of a program, and plain data for it.

    told = world(scenario)
    args = program_args(scenario, requests(scenario, Path("scenarios")))
    run = backend.run(told, scenario.protocol.name, args)

The results are plain data and can be sent to worker processes. Nothing is decided here: defaults were filled in by
the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpsim.protocol.scheduler import Request
from dpsim.scenario.groups import communicators
from dpsim.scenario.model import Scenario
from dpsim.scenario.workload import requests
from dpsim.world import World

__all__ = ["program_args", "requests", "world"]


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


def program_args(scenario: Scenario, requests: Sequence[Request]) -> dict[str, Any]:
    """The arguments of `dpsim.protocol.step.DataParallelBatch`, as its docstring gives them: JSON-like data and
    tuples.
    """
    return {
        "topology": scenario.topology.model_dump(mode="json"),
        "config": scenario.config.model_dump(mode="json"),
        "requests": [tuple(request) for request in requests],
        "step_ns": scenario.workload.step_duration,
        "form": scenario.protocol.resolved_form,
        "variant": scenario.protocol.variant,
    }
