"""Processes: explores several programs with several worker processes, some of which may die.

    found = explore_all(subjects, jobs=2, seconds=60)        # one `Explored` for each subject

The work consists of *units* in an order that is the same for any number of processes (`plans`, `in_order`). With a
`store`, each result is on disk before it counts, and a known unit is not repeated (`dpsim.campaign.work`).

If a worker dies, another one repeats its present unit, once. If two workers die during one unit, its program is *lost*:
it gets no verdict, but earlier results count, and the other programs are explored. The same is true if a run needs more
memory than there is. If the machine cannot start a process, fewer processes run. When the time is used up, workers
finish the present runs. A failure that two workers find counts once.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from multiprocessing.connection import wait
from typing import Protocol, TypeAlias

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
"""If no worker reports for this time, the exploring process looks whether one was stopped."""


Tick: TypeAlias = Callable[[Counter[int]], None]
"""Receives the number of runs in unfinished units, by the number of their program."""


class Keeper(Protocol):
    """A store of results beyond this process."""

    def known(self, unit: Unit) -> UnitResult | None:
        """Returns the result of a unit from an earlier exploration, or None."""

    def keep(self, result: UnitResult) -> None:
        """Writes a result, which is on disk when this returns."""


class OtherMachines(Protocol):
    """Executes units on other machines."""

    def results(
        self,
        next_unit: Callable[[], Unit | None],
        plans: Sequence[InOrder],
        end: float | None,
        tick: Tick,
    ) -> Iterator[UnitResult]:
        """Executes units until there are none, and yields the results."""


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
    watch: Callable[[HowFar], None] = lambda how_far: None,
    elsewhere: OtherMachines | None = None,
) -> list[Explored]:
    """Explores programs: at most `schedules` schedules of each, and for at most `seconds` in all. `progress` receives
    the number of schedules, and `watch` the progress in units. `store` keeps results. `elsewhere` executes the units in
    place of local processes. Raises ValueError for an unknown strategy. A KeyboardInterrupt carries what was done
    (`dpsim.campaign.interrupts`).
    """
    search(strategy)
    subjects = [replace(one, make=one.fresh()) for one in subjects]  # before the first run
    plans = [InOrder(Plan(number, strategy, schedules, seed, stop_at_first)) for number in range(len(subjects))]
    start = time.monotonic()
    end = None if seconds is None else start + seconds

    begun = Counter[int]()

    def tick(under_way: Counter[int]) -> None:
        nonlocal begun
        begun = under_way
        progress(sum(one.runs for one in plans) + begun.total())
        watch(_how_far(plans, begun.total(), time.monotonic() - start))

    try:
        for result in _results(plans, subjects, jobs, end, tick, store, elsewhere):
            plans[result.unit.subject].take(result)
            begun = Counter() if jobs == 1 else begun
            watch(_how_far(plans, begun.total(), time.monotonic() - start))
    except KeyboardInterrupt as error:
        for one in plans:
            one.close()
        found = [one.plan.exploration for one in plans]
        polls = next((one.polls for one in found if one.polls), "")
        runs, failures = sum(one.runs for one in found) + begun.total(), sum(len(one.failures) for one in found)
        took = time.monotonic() - start
        so_far = [
            Explored(subject, one.plan.exploration, how_far=_how_far([one], begun[number], took))
            for number, (subject, one) in enumerate(zip(subjects, plans, strict=True))
        ]
        with_done(error, Done(runs, failures, polls=polls, explored=so_far))
        raise
    for one in plans:
        one.close()
    took = time.monotonic() - start
    all_explored = []
    for subject, one in zip(subjects, plans, strict=True):
        all_explored.append(concluded(subject, one.plan.exploration, one.plan.seconds))
        all_explored[-1].how_far = _how_far([one], 0, took)
    return all_explored


def _how_far(plans: Sequence[InOrder], under_way: int, seconds: float) -> HowFar:
    """Returns the progress of all plans together. Only a single plan has an estimate."""
    estimate = plans[0].plan.estimate if len(plans) == 1 else None
    schedules = sum(one.runs for one in plans) + under_way
    done, left = sum(one.done for one in plans), sum(one.open for one in plans)
    polls = next((one.plan.exploration.polls for one in plans if one.plan.exploration.polls), "")
    return HowFar(schedules, done, left, seconds, estimate, polls, sum(one.finished for one in plans))


def _results(
    plans: Sequence[InOrder],
    subjects: Sequence[Subject],
    jobs: int,
    end: float | None,
    tick: Tick,
    store: Keeper | None,
    elsewhere: OtherMachines | None,
) -> Iterator[UnitResult]:
    """Yields results until there are no units or the time is used up. Results in the store are taken at once."""

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
    tick: Tick,
) -> Iterator[UnitResult]:
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
                    jobs = len(workers)  # no further process can start
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
                tick(_under_way(workers))
    finally:
        for worker in workers:
            worker.stop()


def _done_here(
    next_unit: Callable[[], Unit | None],
    plans: Sequence[InOrder],
    subjects: Sequence[Subject],
    end: float | None,
    tick: Tick,
) -> Iterator[UnitResult]:
    while (unit := next_unit()) is not None:
        try:
            result = do(unit, subjects[unit.subject], end, partial(_tick_of_unit, tick, unit))
        except Exception as error:
            lost = lost_by(error)
            if lost is None:
                raise
            plans[unit.subject].give_up(str(lost))
        else:
            yield result


def _under_way(workers: Iterable[UnitProcess]) -> Counter[int]:
    runs = Counter[int]()
    for worker in workers:
        if worker.unit is not None:
            runs[worker.unit.subject] += worker.runs
    return runs


def _tick_of_unit(tick: Tick, unit: Unit, runs: int) -> None:
    tick(Counter({unit.subject: runs}))


def _silent(workers: Iterable[UnitProcess], end: float | None) -> list[UnitProcess]:
    late = end is not None and time.monotonic() > end + LATE_SECONDS
    return [worker for worker in workers if late or is_stopped(worker.process.pid or 0)]
