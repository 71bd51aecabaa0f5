"""Notes for a run or a search without findings: what the checks could not see, as the program does not record it.

    HELD  in 1 schedule: 2 steps on 2 ranks (sim)
    note: no rank calls rank.decide, so no check compares values; ...

One check compares the values of ranks, but only those of `rank.decide`. So a program that only prints a wrong result
passes. A note is no finding and changes no verdict. A second note says that no schedule reached any declared probe.
Only programs that declare a class `Params` have notes: first protocols of users do, and should have steps and
decisions.
"""

from __future__ import annotations

import time
from types import FunctionType
from typing import TYPE_CHECKING

from dpsim.contract.ops import KIND, STEP
from dpsim.contract.registry import protocol
from dpsim.contract.words import ranks_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpsim.campaign.explored import Explored
    from dpsim.contract.world import CommunicatorSpec, World
    from dpsim.runner import Result
    from dpsim.scenario import Scenario

NO_DECISION = "no rank calls rank.decide, so no check compares values; write "
NO_MARK = 'no rank calls mark.decide, so no check compares values; write mark.decide("label", value)'
NO_STEP_SET = "no rank sets rank.step, so reports name no step; write `for rank.step in range(n)`"
NO_PROBE = "no schedule reached a probe that the program declares, so the verdict covers nothing that they mark: "
TIME_SLEEP = "calls time.sleep, for which no simulated time passes; write `await rank.sleep(ns, site)`"

RECORDED = "recorded"
"""The program of `dpsim import`. Its calls are those of a job, and no user can add a decision to it."""
TORCH = "torch"
"""The program of `--torch`. It decides by `dpsim.mark`, and its rounds of a loop are its steps."""


def unchecked(result: Result) -> list[str]:
    """Returns a note for each omission; none with findings, without `Params`, or for an imported job."""
    own = result.scenario.protocol
    if result.verdict != "held" or own.plain_params is None or own.name == RECORDED:
        return []
    records = [raw for journal in result.run.journals for raw in journal]
    notes = []
    if not any(raw[KIND] == "decision" for raw in records):
        notes.append(_no_decision(own.name, result.world))
    if all(raw[STEP] == -1 for raw in records):
        notes.append(NO_STEP_SET)
    program = protocol(result.scenario.protocol.name).program
    notes += [f"{place} {TIME_SLEEP}" for place in _sleepers(program)]
    return [f"note: {note}" for note in notes]


def unchecked_schedules(explored: Explored, scenario: Scenario) -> list[str]:
    """Returns the notes for a search: no schedule has a decision, or none reached a probe."""
    found, world, own = explored.exploration, explored.subject.world, scenario.protocol
    silent = explored.failure is not None or found.lost or found.runs == found.cut
    if silent or own.plain_params is None or own.name == RECORDED:
        return []
    notes = []
    if ("decision",) not in found.did:
        notes.append(_no_decision(own.name, world))
    probes = explored.subject.probes
    if probes and not any(found.probes[probe] for probe in probes):
        notes.append(NO_PROBE + ", ".join(probes))
    return [f"note: {note}" for note in notes]


def _no_decision(protocol: str, world: World) -> str:
    if protocol == TORCH:
        return NO_MARK
    return NO_DECISION + decision_of(world.communicators, range(world.size))


def decision_of(communicators: Sequence[CommunicatorSpec], ranks: range) -> str:
    """Returns a call of `rank.decide` that works in this world: a rank can name only a kind of which it is a member.

    The call names a communicator of all `ranks`, or else a kind whose communicators together contain all of them. If
    no kind does, the call names the largest communicator, and the text lists its members.

    >>> decision_of((), range(2))
    'rank.decide("label", value, kind) with a communicator that `groups` defines; this program has none'
    """
    sets = [(one.kind, {*one.ranks} & {*ranks}) for one in communicators]
    by_kind: dict[str, set[int]] = {}
    for kind, members in sets:
        by_kind.setdefault(kind, set()).update(members)
    sets += by_kind.items()
    if not any(members for _, members in sets):
        return 'rank.decide("label", value, kind) with a communicator that `groups` defines; this program has none'
    kind, members = max(sets, key=lambda one: (len(one[1]), one[0] == "world"))
    call = f'rank.decide("label", value, "{kind}")'
    return call if len(members) == len(ranks) else f"{call} on {ranks_text(sorted(members))}"


def _sleepers(program: type) -> list[str]:
    """Returns the methods of a class that call `time.sleep`. It does not search functions that these methods call."""
    methods = [one for one in vars(program).values() if isinstance(one, FunctionType)]
    return [
        one.__qualname__
        for one in methods
        if one.__globals__.get("time") is time and {"time", "sleep"} <= {*one.__code__.co_names}
    ]
