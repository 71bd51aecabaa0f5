"""Do ranks share anything in Python? A run that holds is made again, each rank alone in a process (`dpsim.alone`).

    looked = looked_at(subject, seconds=0.3)    # `seconds`: what exploring it took
    looked.finding                              # NONDETERMINISM:SHARED_STATE, or None
    looked.why                                  # why it is not known, in words

One world that is explored by itself is always looked at, along up to EACH schedules that differ. Long runs are looked
at along fewer, but at least two. Of many worlds in one process the first is looked at, along one schedule. More follow
while they take less than a tenth of the time of exploring (`Account`).

A rank that differs names the first record that does, and what the module of the program holds here and not there.
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
"""Schedules of one world by itself. Random walks look for them, twice as often."""
RECORDS = 20_000
"""So long are these runs together; two may be longer."""
SHARE = 0.1
"""Of the time that exploring takes."""


class Account:
    """What this process has spent, in seconds, on exploring and on ranks alone."""

    def __init__(self) -> None:
        self.explored = self.alone = 0.0
        self.looked = 0

    @property
    def allows(self) -> bool:
        """Whether one more of many worlds is looked at."""
        return not self.looked or self.alone < SHARE * self.explored


ACCOUNT = Account()


class Looked(NamedTuple):
    """What came of a look. `runs`: how many runs were made again; none where the account has no time for it."""

    runs: int = 0
    finding: Finding | None = None
    run: SimRun | None = None
    why: str = ""


def looked_at(subject: Subject, seconds: float, schedules: int = 2) -> Looked:
    """Run the ranks of a subject alone, if it is its turn. `schedules`: how many it has."""
    ACCOUNT.explored += seconds
    if subject.program.apart:
        return Looked()
    origin = subject.origin
    if origin is None or subject.make is None:  # or its program is another one by now
        return Looked(why="it was not made from a scenario")
    if not (subject.alone or ACCOUNT.allows):
        return Looked()
    if subject.switched_off and any(switch_off([nondeterminism.of("")], subject.switched_off)[1].values()):
        return Looked()
    ACCOUNT.looked += 1
    begun = time.monotonic()
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
        ACCOUNT.alone += time.monotonic() - begun
    return Looked(runs, why=why)


def _recorded(subject: Subject, most: int) -> Iterator[tuple[SimRun, list[Past]]]:
    """Runs that hold and differ, each with what its ranks have learned and done: in order, and along random walks."""
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
    """Where ranks differ; or why that is not known."""
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
