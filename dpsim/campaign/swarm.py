"""Swarm: makes variants of a scenario, with random faults at the ops that its healthy run reaches.

worlds = swarm_of(scenario, base, swarm("100"), seed=0)
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from pathlib import Path

from dpsim.campaign.subject import Subject
from dpsim.contract.kinds import IN_TIME, WORK
from dpsim.contract.ops import KIND, MAIN, ORDINAL, SITE, TAKE_TIMEOUT, THREAD
from dpsim.contract.world import World
from dpsim.scenario import Scenario, ScenarioError
from dpsim.scenario.duration import parse_duration
from dpsim.scenario.swarm import MOST_FAULTS, Drawn, Place, Swarm, swarm_scenarios
from dpsim.sim.backend import SimBackend, SimRun

HOST_OPS = WORK | {"post", "take", "sleep", "store"}
"""The kinds of op at which a rank can die."""


def swarm_of(scenario: Scenario, base: Path | None, drawn: Swarm, seed: int = 0, in_time: bool = False) -> list[Drawn]:
    """Returns the variants. `base`: the folder of the scenario's files. `in_time`: the delays of a variant together are
    shorter than each time-out with which the healthy run waits.

    Raises ScenarioError, also if the scenario does not finish without any fault.
    """
    subject = Subject.of(scenario, base)
    run = SimBackend().run_program(subject.world, subject.program, subject.prepared)
    if not run.finished:
        raise ScenarioError(f"{scenario.name}: --swarm plants faults into a run that ends, and this one does not")
    if in_time:
        drawn = drawn._replace(delays=shorter(drawn.delays, run.timeouts))
    return list(swarm_scenarios(scenario, places(subject.world, run), drawn, seed))


def shorter(delays: Sequence[str], timeouts: Collection[int]) -> tuple[str, ...]:
    """Returns the delays of which MOST_FAULTS together are shorter than each of the time-outs in ns. A time-out of 0 is
    a poll and no wait.

    >>> shorter(("1s", "1000s"), {0, 100_000_000_000})
    ('1s',)
    """
    shortest = min(filter(None, timeouts), default=math.inf)
    return tuple(delay for delay in delays if MOST_FAULTS * parse_duration(delay) < shortest)


def places(world: World, run: SimRun) -> list[Place]:
    """Returns the places for faults: the start of each actor, and the ops that a run reached."""
    found: dict[Place, None] = {}
    for number, journal in enumerate(run.journals):
        who = number if number < world.size else world.actor(number)
        found[Place(who, "", 0, MAIN, calls=False, can_be_late=True)] = None
        for raw in journal:
            if raw[KIND] in HOST_OPS:
                calls, late = raw[KIND] == "collective", raw[KIND] not in IN_TIME
                waits = bool(run.timeouts) and (
                    raw[KIND] == "store" or (raw[KIND] == "take" and raw[TAKE_TIMEOUT] is not None)
                )
                found.setdefault(Place(who, raw[SITE], raw[ORDINAL], raw[THREAD], calls, late, waits))
    return list(found)
