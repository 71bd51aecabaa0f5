"""The same messages again: a run on another backend whose looks into mailboxes find what they found in this run.

A look races for the next message. The simulation says of each look which message it took, and that makes a gate for it
(`dpsim.contract.world.Gate`). On every backend a run at these gates takes the same messages. The order in which host
threads of a rank call its flags is another race. Real threads call them in the order of the simulation: a call waits
for the one before it. What else races (who has a port, what an event says) stays as it comes.

    gates_of(run)                                      # of a run of the simulation
    again(scenario, run, "gloo").difference            # the first record of the other run that is not that of this one

A look waits at a gate without end only if the program does something else on the other backend than here. Each message
that a look had was posted before it, by an actor that the look does not hold up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from dpsim.campaign.subject import Subject, kept
from dpsim.contract.ops import ADDRESS, KIND, LEARNED_OUTCOME, RawRecord
from dpsim.contract.schedule import CutOff
from dpsim.contract.world import Address, Gate, Run
from dpsim.explore import search
from dpsim.runner import Result, run_scenario
from dpsim.scenario import Scenario
from dpsim.trace import Difference, Trace, compare


def gates_of(run: Run) -> tuple[Gate, ...]:
    """What each look into a mailbox found that returned, and what each call on a flag came after.

    ValueError for a run that does not say whose message a look took: only those of the simulation do.
    """
    gates = []
    for rank, journal in enumerate(run.journals):
        gates += _turns(rank, journal)
        looks = {raw[ADDRESS] for raw in journal if raw[KIND] == "take"}
        for raw in journal:
            if raw[KIND] != "learned" or raw[ADDRESS] not in looks:
                continue
            at: Address = (rank, *raw[ADDRESS])
            message = run.taken.get(at)
            if message is None and raw[LEARNED_OUTCOME] is not None:
                raise ValueError(f"the run on {run.backend} does not say whose messages it took; take one of sim")
            gates.append(Gate(at, message))
    return tuple(gates)


def _turns(rank: int, journal: Sequence[RawRecord]) -> list[Gate]:
    """Of each call on a flag that it comes after the one before it, where several threads of a rank call flags."""
    calls: list[Address] = [(rank, *raw[ADDRESS]) for raw in journal if raw[KIND] == "flag"]
    if len({thread for _, thread, _, _ in calls}) < 2:
        return []
    return [Gate(call, before) for before, call in pairwise(calls)]


class Again(NamedTuple):
    """A run at the gates of that on the simulation. `difference`: the first record that is not the other's; None if all
    are equal.
    """

    simulated: Run
    result: Result
    difference: Difference | None


def again(scenario: Scenario, run: Run, backend: str, base: Path | None = None) -> Again:
    """Run a scenario on a backend at the gates of a run of it on the simulation, and compare. Raises as `run_scenario`
    does.
    """
    result = run_scenario(scenario, backend, base=base, gates=gates_of(run))
    return Again(run, result, compare(Trace.of(run, "sim"), Trace.of(result.run, backend)))


def runs_of(scenario: Scenario, number: int, seed: int = 0, base: Path | None = None) -> Iterator[Run]:
    """Runs of a scenario on the simulation: one in time, and then `number - 1` without, along random schedules.
    Those that are cut off are left out. Raises ScenarioError for what cannot be run, and Lost.
    """
    yield kept(run_scenario(scenario, base=base).run)
    subject, walk = Subject.of(scenario, base), search("random", seed)
    for _ in range(number - 1):
        walk.begin()
        with suppress(CutOff):
            yield subject.run(walk.current)[0]
        walk.end(True)
