"""Exploration over processes: units of work, workers that may die, results merged by what they show.

    found = explore_all(subjects, jobs=2, seconds=60)        # one `Explored` for each subject

A *unit* is some schedules of one subject under one strategy; which units there are is in `dpsim.campaign.plans`. Their
order is the same for any number of processes (`dpsim.campaign.in_order`). With a `store` each result is on disk before
it counts, and a unit whose result is there is not done (`dpsim.campaign.work`).

A worker's finished units are kept, whatever happens to it later. A worker that is killed or stopped loses its present
unit; another worker takes its place and does the unit again, once. If a unit ends two workers, its subject is *lost*.
What was found of it before is kept, there is no verdict, and the other subjects are explored all the same. The same
holds if there is no memory for a run. If there is none for a process, fewer processes run. When the time is up, the
runs that were begun are finished, and nothing else. Classes are compared by their labels and failures by what failed,
so it does not matter which worker saw them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from multiprocessing.connection import wait
from typing import Protocol

from dpsim.backend.journal.trouble import is_stopped
from dpsim.campaign.explored import Explored, concluded
from dpsim.campaign.how_far import HowFar
from dpsim.campaign.in_order import InOrder
from dpsim.campaign.interrupts import Done, with_done
from dpsim.campaign.plans import Plan
from dpsim.campaign.subject import Subject
from dpsim.campaign.unit_process import LATE_SECONDS, UnitProcess
from dpsim.campaign.units import Unit, UnitResult, do, lost_by
from dpsim.contract.world import Lost
from dpsim.explore import search

LOOK_SECONDS = 1.0
"""So often it is looked whether a process was stopped, while none of them says anything."""


class Keeper(Protocol):
    """Where results are kept beyond this process."""

    def known(self, unit: Unit) -> UnitResult | None:
        """The result of a unit that was done before."""

    def keep(self, result: UnitResult) -> None:
        """When this returns, the result is on disk."""


class OtherMachines(Protocol):
    """Where units are done on other machines."""

    def results(
        self,
        next_unit: Callable[[], Unit | None],
        plans: Sequence[InOrder],
        end: float | None,
        tick: Callable[[int], None],
    ) -> Iterator[UnitResult]:
        """Give out units until there are none."""


def explore_all(
    subjects: Sequence[Subject],
    strategy: str = "portfolio",
    *,
    jobs: int = 1,
    schedules: int = 1_000,
    seconds: float | None = None,
    seed: int = 0,
    stop_at_first: bool = True,
    progress: Callable[[int], None] = lambda runs: None,
    store: Keeper | None = None,
    watch: Callable[[HowFar], None] = lambda standing: None,
    elsewhere: OtherMachines | None = None,
) -> list[Explored]:
    """Explore each subject: at most `schedules` schedules of each, and all of them for at most `seconds`. `progress`
    receives now and then the number of schedules that were run, and `watch` the standing. `store`: of results.
    `elsewhere`: does the units in place of processes here.

    Raises ValueError for an unknown strategy. A KeyboardInterrupt carries what was done (`dpsim.campaign.interrupts`).
    """
    search(strategy)
    subjects = [replace(one, make=one.fresh()) for one in subjects]  # before the first run of any unit
    plans = [InOrder(Plan(number, strategy, schedules, seed, stop_at_first)) for number in range(len(subjects))]
    start = time.monotonic()
    end = None if seconds is None else start + seconds

    begun = 0

    def tick(under_way: int) -> None:
        nonlocal begun
        begun = under_way
        progress(sum(one.runs for one in plans) + under_way)
        watch(_standing(plans, under_way, time.monotonic() - start))

    try:
        for result in _results(plans, subjects, jobs, end, tick, store, elsewhere):
            plans[result.unit.subject].take(result)
            begun = 0 if jobs == 1 else begun
    except KeyboardInterrupt as error:
        for one in plans:
            one.close()
        found = [one.plan.exploration for one in plans]
        polls = next((one.polls for one in found if one.polls), "")
        runs, failures = sum(one.runs for one in found) + begun, sum(len(one.failures) for one in found)
        with_done(error, Done(runs, failures, polls=polls))
        raise
    for one in plans:
        one.close()
    took = time.monotonic() - start
    all_explored = []
    for subject, one in zip(subjects, plans, strict=True):
        all_explored.append(concluded(subject, one.plan.exploration, one.plan.seconds))
        all_explored[-1].standing = _standing([one], 0, took)
    return all_explored


def _standing(plans: Sequence[InOrder], under_way: int, seconds: float) -> HowFar:
    """How far all are together. There is an estimate of one tree alone."""
    estimate = plans[0].plan.estimate if len(plans) == 1 else None
    schedules = sum(one.runs for one in plans) + under_way
    done, left = sum(one.done for one in plans), sum(one.open for one in plans)
    polls = next((one.plan.exploration.polls for one in plans if one.plan.exploration.polls), "")
    return HowFar(schedules, done, left, seconds, estimate, polls)


def _results(
    plans: Sequence[InOrder],
    subjects: Sequence[Subject],
    jobs: int,
    end: float | None,
    tick: Callable[[int], None],
    store: Keeper | None,
    elsewhere: OtherMachines | None,
) -> Iterator[UnitResult]:
    """Give out units until there are none, or it is time to end. `tick` receives the runs of units under way. The
    results of the store are taken at once.
    """

    def next_unit() -> Unit | None:
        while end is None or time.monotonic() <= end:
            units = (plan.next(only_proving) for only_proving in (True, False) for plan in plans)
            unit = next((unit for unit in units if unit is not None), None)
            known = None if unit is None or store is None else store.known(unit)
            if known is None:
                return unit
            plans[known.unit.subject].take(known)
        return None

    if elsewhere is not None:
        results = elsewhere.results(next_unit, plans, end, tick)
    elif jobs == 1:
        results = _done_here(next_unit, plans, subjects, end, tick)
    else:
        results = _done_there(next_unit, plans, subjects, jobs, end, tick)
    for result in results:
        if store is not None and result.whole:
            store.keep(result)
        yield result


def _done_there(
    next_unit: Callable[[], Unit | None],
    plans: Sequence[InOrder],
    subjects: Sequence[Subject],
    jobs: int,
    end: float | None,
    tick: Callable[[int], None],
) -> Iterator[UnitResult]:
    """Do the units in other processes."""
    workers: list[UnitProcess] = []
    try:
        while True:
            for worker in workers:
                if worker.unit is None and (unit := next_unit()) is not None:
                    worker.give(unit)
            while len(workers) < jobs and (unit := next_unit()) is not None:
                try:
                    workers.append(UnitProcess(subjects, end))
                except (MemoryError, OSError) as error:
                    plans[unit.subject].again(unit)
                    jobs = len(workers)  # as many as there could be
                    if not jobs:
                        for plan in plans:
                            if not plan.plan.done:
                                plan.give_up(f"no process could be started: {error}")
                else:
                    workers[-1].give(unit)
            busy = {worker.connection: worker for worker in workers if worker.unit is not None}
            if not busy or all(one.plan.done for one in plans):
                return
            spoke = [busy[one] for one in wait(list(busy), LOOK_SECONDS)]  # type: ignore[index]
            for worker in spoke or _silent(busy.values(), end):
                unit = worker.unit
                assert unit is not None
                try:
                    answer = worker.connection.recv() if worker in spoke else None
                except (EOFError, OSError):
                    answer = None
                if answer is None:
                    workers.remove(worker)
                    stopped = "was stopped and did not go on" if worker not in spoke else ""
                    worker.stop()
                    plans[unit.subject].lost(unit, stopped or worker.how_it_ended())
                    continue
                worker.answered(answer)
                if isinstance(answer, Lost):
                    plans[unit.subject].give_up(str(answer))
                elif isinstance(answer, Exception):
                    raise answer
                elif isinstance(answer, UnitResult):
                    yield answer
                tick(sum(worker.runs for worker in workers))
    finally:
        for worker in workers:
            worker.stop()


def _done_here(
    next_unit: Callable[[], Unit | None],
    plans: Sequence[InOrder],
    subjects: Sequence[Subject],
    end: float | None,
    tick: Callable[[int], None],
) -> Iterator[UnitResult]:
    """Do the units in this process."""
    while (unit := next_unit()) is not None:
        try:
            result = do(unit, subjects[unit.subject], end, tick)
        except Exception as error:
            lost = lost_by(error)
            if lost is None:
                raise
            plans[unit.subject].give_up(str(lost))
        else:
            yield result


def _silent(workers: Iterable[UnitProcess], end: float | None) -> list[UnitProcess]:
    """Of those that have not said anything for a while, those that will not."""
    late = end is not None and time.monotonic() > end + LATE_SECONDS
    return [worker for worker in workers if late or is_stopped(worker.process.pid or 0)]
