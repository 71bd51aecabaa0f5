"""Turns a scenario into what a backend receives: a world, the name of a program, and plain arguments.

    program, args, prepared = prepare(scenario, Path("scenarios"))
    told = world(scenario, program, prepared)
    run = backend.run(told, scenario.protocol.name, args)

The world is the machine: ranks, communicators, services and faults. World and arguments are plain data, so they can be
sent to worker processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from operator import index
from pathlib import Path
from typing import Any

from dpsim.contract.program import Program, Unsuitable
from dpsim.contract.registry import prepared, protocol
from dpsim.contract.words import did_you_mean
from dpsim.contract.world import CommunicatorSpec, World
from dpsim.scenario.base import Problem
from dpsim.scenario.errors import ScenarioError, path_text, scenario_error, shown
from dpsim.scenario.estimate import refuse_enormous
from dpsim.scenario.faults import KillSpec
from dpsim.scenario.model import Scenario
from dpsim.scenario.parameters import named


def world(scenario: Scenario, program: Program[Any] | None = None, prepared: Any = None) -> World:
    """Ranks, communicators, services and faults. `prepared`: by `program`, defines services, nodes and groups.

    Raises ScenarioError for services and nodes that the program lacks, and for invalid services, nodes or groups.
    """
    groups = None if program is None else program.groups(prepared)
    services = services_of(program, prepared)
    wrong = [
        f"{scenario.name}: {path_text(path)}: {message}" for path, message in misnamed(scenario, program, prepared)
    ]
    if wrong:
        raise scenario_error(wrong)

    def number(rank: int | str) -> int:
        return rank if isinstance(rank, int) else scenario.size + services.index(rank)

    faults = [(fault, number(fault.rank)) for fault in scenario.faults]
    try:
        return World(
            size=scenario.size,
            communicators=scenario.communicators if groups is None else _named(scenario, groups),
            faults=tuple(fault.fault(rank) for fault, rank in faults if not isinstance(fault, KillSpec)),
            delays=tuple(one.delay(number(one.rank)) for one in scenario.delays),
            kills=tuple(fault.kill(rank) for fault, rank in faults if isinstance(fault, KillSpec)),
            residency=scenario.limits.residency,
            launch_queue=scenario.limits.launch_queue,
            alloc_synchronises=scenario.limits.alloc_synchronises,
            stall_ns=scenario.limits.stall,
            deadline_ns=scenario.limits.deadline,
            services=services,
            nodes=() if program is None else program.nodes(prepared),
            strangers=tuple(one.stranger() for one in scenario.ports),
            progress=scenario.limits.progress,
            early_timeouts=scenario.limits.early_timeouts,
            lazy=scenario.limits.lazy_communicators,
            messages=tuple(one.message(number(one.to), number(one.by)) for one in scenario.messages),
            own_settings=tuple(scenario.differing().items()),
        )
    except ValueError as error:
        raise ScenarioError(f"{scenario.name}: the program of {scenario.protocol.name}: {error}") from None


def services_of(program: Program[Any] | None, prepared: Any) -> tuple[str, ...]:
    """Returns the names of the program's services. Raises ScenarioError for a value that is no tuple of names."""
    services: Any = () if program is None else program.services(prepared)
    if not (isinstance(services, (tuple, list)) and all(isinstance(one, str) for one in services)):
        of = type(program).__qualname__
        raise ScenarioError(f"{of}.services gives {services!r}; expected a tuple of names, such as ('coordinator',)")
    return tuple(services)


def _named(scenario: Scenario, groups: Sequence[Any]) -> tuple[CommunicatorSpec, ...]:
    try:
        made = named(
            [(kind, domain, [tuple(map(index, ranks)) for ranks in members]) for kind, domain, members in groups]
        )
    except (TypeError, ValueError):
        expected = 'expected tuples such as ("dp_cpu", "host", [(0, 1)]): kind, domain, and a list of member tuples'
        problem = f"the program of {scenario.protocol.name}: groups gives {shown(groups)}; {expected}"
        raise ScenarioError(f"{scenario.name}: {problem}") from None
    for one in made:
        if one.domain not in ("device", "host"):
            problem = f"groups: {one.name} has domain {one.domain!r}; expected host or device"
            raise ScenarioError(f"{scenario.name}: the program of {scenario.protocol.name}: {problem}")
    return made


def misnamed(scenario: Scenario, program: Program[Any] | None, prepared: Any = None) -> list[Problem]:
    """Returns a problem for each service that the program lacks, and for each node that it does not use."""
    services = services_of(program, prepared)
    nodes = 1 + max(() if program is None else program.nodes(prepared), default=0)
    known = f", or one of: {', '.join(services)}" if services else f": {scenario.protocol.name} has no services"
    has = f"{nodes} nodes, 0 to {nodes - 1}" if nodes > 1 else "one node, 0"
    return [
        *(
            Problem(path, f"no service {rank!r}; expected a rank{known}{did_you_mean(rank, services)}")
            for path, rank in scenario.named()
            if isinstance(rank, str) and rank not in services
        ),
        *(
            Problem(("ports", i, "node"), f"node {taken.node}: this world has {has}")
            for i, taken in enumerate(scenario.ports)
            if taken.node >= nodes
        ),
    ]


def misnamed_in(scenario: Scenario, base: Path | None = None) -> list[Problem]:
    """The problems of `misnamed`, just after a scenario in folder `base` was read.

    The run reports other errors. The program is only called if the scenario names a service or a node.
    """
    if not any(isinstance(rank, str) for _, rank in scenario.named()) and not any(one.node for one in scenario.ports):
        return []
    with suppress(Exception):  # errors of the user's program, or a missing file
        program, _, made = prepare(scenario, base)
        return misnamed(scenario, program, made)
    return []


class OnlySimulated(ScenarioError):
    """The scenario uses a feature that only the simulation has."""


def only_simulated(scenario: Scenario, backend: str, at_gates: bool = False) -> OnlySimulated | None:
    """The error for a feature that `backend`, a real one, lacks and would silently leave out; or None.

    `at_gates`: each time-out passes where it passed in another run, so early time-outs are possible.
    """
    only = {"residency", "launch_queue", "alloc_synchronises", "progress", *["early_timeouts"] * (not at_gates)}
    limits = scenario.limits.model_dump(include=only)
    keys = [key for key, value in limits.items() if value]
    kills = [index for index, fault in enumerate(scenario.faults) if isinstance(fault, KillSpec)]
    late = [index for index, taken in enumerate(scenario.ports) if taken.late]
    if kills:
        path, what = f"faults[{kills[0]}]", "cannot kill a rank between two ops"
        cure = "take the kind die, which happens at an op and everywhere"
    elif late:
        path, what = f"ports[{late[0]}].late", "starts no other program in the midst of a run"
        cure = "leave late out: the port is taken from the start then"
    elif keys:
        path, what = f"limits.{keys[0]}", "has no such limit"
        cure = "leave it out: a real device has the limits that it has"
    else:
        return None
    where = f"{scenario.name}: {path}: the {backend} backend"
    return OnlySimulated(f"{where} {what}; run it on the simulation (--backend sim), or {cure}")


def prepare(scenario: Scenario, base: Path | None = None) -> tuple[Program[Any], Any, Any]:
    """The program, its arguments, and the result of its `prepare`. `base`: the folder of its files.

    Raises ScenarioError: a file is unreadable, the program refuses, or the run takes too much memory.
    """
    args = scenario.arguments(base)
    try:
        refuse_enormous(scenario.name, protocol(scenario.protocol.name).program, args)
        program, made = prepared(scenario.protocol.name, args)
        return program, args, made
    except Unsuitable as error:
        raise ScenarioError(f"{scenario.name}: {error}") from None
