"""Lone ranks: runs each rank again alone in a process (`dpsim.alone`), to find Python objects that ranks share.

    looked = looked_at(subject, seconds=0.3)    # `seconds`: what exploring it took
    looked.finding                              # NONDETERMINISM:SHARED_STATE, or None
    looked.why                                  # why it is not known, in words

The simulation runs all ranks in one Python process, and hardware does not. So a program whose ranks communicate through
a module variable holds in the simulation and fails on hardware. If a rank behaves differently alone, the finding names
the first record that differs. It also names the objects of the program's module that differ.

If a command explores one scenario, its ranks run alone along up to EACH different schedules, or at least two if runs
are long. If a process explores many scenarios, the first one is tested along one schedule. Further ones follow only
while this takes less than a tenth of the exploring time (`Account`).
"""

from __future__ import annotations

import os
import pickle
import sys
import time
from collections.abc import Iterator
from itertools import count, islice
from typing import NamedTuple

from dpsim.alone import client
from dpsim.alone.digest import changed, contents
from dpsim.alone.messages import AloneJob, Differs
from dpsim.alone.past import Past
from dpsim.campaign.pasts import Recording
from dpsim.campaign.subject import Origin, Subject
from dpsim.checks import nondeterminism
from dpsim.checks.finding import Finding
from dpsim.checks.judge import judge, switch_off
from dpsim.contract import registry
from dpsim.contract.schedule import CutOff, Strategy
from dpsim.contract.world import Lost
from dpsim.explore import search
from dpsim.explore.strategies.replay import ScheduleReplay
from dpsim.sim.backend import SimRun

EACH = 8
"""The largest number of schedules of one scenario. Up to twice as many random walks search for them."""
RECORDS = 20_000
"""The largest number of records of these runs together. Two runs may be longer."""
SHARE = 0.1
"""The share of the exploring time that running ranks alone may take."""


class Account:
    """The seconds that this process has spent on exploring and on running ranks alone."""

    def __init__(self) -> None:
        self.explored = self.alone = 0.0
        self.looked = 0

    @property
    def allows(self) -> bool:
        """Whether the ranks of one more of many scenarios run alone."""
        return not self.looked or self.alone < SHARE * self.explored


ACCOUNT = Account()


class Looked(NamedTuple):
    """The result of running ranks alone. `runs`: the number of repeated runs; 0 if there is no time for it."""

    runs: int = 0
    finding: Finding | None = None
    run: SimRun | None = None
    why: str = ""


def looked_at(subject: Subject, seconds: float, schedules: int = 2) -> Looked:
    """Runs the ranks of a subject alone, if the user or the account of time allows it.

    `schedules` is the number of classes of equivalent schedules that exploring saw.
    """
    ACCOUNT.explored += seconds
    if subject.program.apart:
        return Looked()
    origin = subject.origin
    if origin is None or subject.make is None:  # its program may have changed, too
        return Looked(why="it was not made from a scenario")
    if not (subject.alone or ACCOUNT.allows):
        return Looked()
    if subject.switched_off and any(switch_off([nondeterminism.of("")], subject.switched_off)[1].values()):
        return Looked()
    ACCOUNT.looked += 1
    start = time.monotonic()
    runs, why = 0, "no run of it holds to its end"
    try:
        for run, pasts in _recorded(subject, min(schedules, EACH) if subject.alone else 1):
            found = _alone(subject, origin, pasts)
            if isinstance(found, str):
                return Looked(runs, why=found)
            runs, why = runs + 1, ""
            if found:
                first = min(found, key=lambda one: (one.step, one.at, one.rank))
                return Looked(runs, _finding(first, origin, run), run)
    except Lost as error:
        why = str(error)
    finally:
        ACCOUNT.alone += time.monotonic() - start
    return Looked(runs, why=why)


def _recorded(subject: Subject, most: int) -> Iterator[tuple[SimRun, list[Past]]]:
    """Yields runs that hold and differ, each with all results that its ranks received: one in order, others by random
    walks.
    """
    fresh, world, known, records = subject.fresh(), subject.world, set[str](), 0
    for strategy in islice(_strategies(subject), 1 if most == 1 else 2 * EACH):
        program = Recording([fresh() for _ in range(world.actors)], registry.packages())
        try:
            run = subject.backend(strategy).run_program(world, program, None)
        except CutOff:
            continue
        journals = repr(run.journals)
        if journals in known or run.lost or judge(world, run, subject.switched_off):
            continue
        known.add(journals)
        yield run, program.complete(run.journals, run.ends)
        records += sum(map(len, run.journals))
        if len(known) >= most or (len(known) >= 2 and records + records // len(known) > RECORDS):
            return


def _strategies(subject: Subject) -> Iterator[Strategy]:
    straight = ScheduleReplay((), strict=False, longest=subject.longest)
    straight.begin()
    yield straight
    for seed in count(1):
        walk = search("random", seed, subject.longest)
        walk.begin()
        yield walk.current


def _alone(subject: Subject, origin: Origin, pasts: list[Past]) -> list[Differs] | str:
    """Returns where ranks behave differently, or the reason why that is unknown."""
    try:
        args = pickle.dumps(origin.args)
        path = [entry or os.getcwd() for entry in sys.path]
        packages = frozenset(registry.packages())
        job = AloneJob(
            subject.world, origin.protocol, args, pasts, origin.modules(), path, origin.environment, packages
        )
        pickle.dumps(job)
    except Exception as error:
        return f"what its own process needs cannot be pickled: {error}"
    answer = client.ask(job)
    return answer if isinstance(answer, str) else [one for one in answer if one is not None]


def _finding(first: Differs, origin: Origin, run: SimRun) -> Finding:
    modules = origin.modules()
    here = contents([module.name for module in modules])
    there = client.held(modules)
    shared = changed(here, there) + [f"os.environ[{name!r}]" for name in run.variables]
    return nondeterminism.shared_state(first.rank, first.at, first.among, first.alone, shared)
