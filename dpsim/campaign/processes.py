"""Exploration over processes: units of work, workers that may die, results merged by what they show.

    found = explore_all(subjects, jobs=2, seconds=60)        # one `Explored` for each subject

A *unit* is some schedules of one subject under one strategy. DPOR's units follow one another, each beginning where
the last one ended, and are as long as makes the work quick; a sampling strategy's units have seeds of their own, so
that no two run the same schedule, and all have one size, so that the same seed gives the same schedules on every
machine. The portfolio takes turns between DPOR's units and sampling, each up to the limit of schedules, in one process
as in many; when DPOR comes to its end, the subject is done.

Guarantees. What a worker has finished is kept, whatever happens to it later: a worker that is killed or stopped loses
the unit it was at, another one takes its place, and the unit is given out again, once. With a unit that ends two
workers its subject is *lost*: what was found of it before is kept, there is no verdict, and the other subjects are
explored all the same. So it is where there is no memory for a run; where there is none for a process, there are fewer
of them. When the time is up, the runs that were begun are finished, and nothing else.
Classes are compared by their labels and failures by what failed, so it does not matter which worker saw them.

Prior art: Simsa, Bryant, Gibson and Hickey, "Scalable dynamic partial order reduction" (RV 2012) split the tree of one
DPOR; here whole units are enough, since worlds that can be proven are small, and there are many of them.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from typing import Any

from dpsim.backend.journal.trouble import is_stopped, limit
from dpsim.campaign.explored import Explored, concluded
from dpsim.campaign.subject import Subject
from dpsim.campaign.units import Unit, UnitResult, do, lost_by, merge, portable
from dpsim.contract.words import counted
from dpsim.contract.world import Lost
from dpsim.explore import Exploration, search
from dpsim.explore.strategies.portfolio import ALONE

UNIT_SECONDS = 0.4
SAMPLED = 16
TOLD_EVERY_S = 0.2
SAMPLERS = ("pos", "random", "pct")


LOOK_SECONDS = 1.0
"""So often it is looked whether a process was stopped, while none of them says anything."""

LATE_SECONDS = 60.0
"""A process that has not answered so long after the time was up does not end its run, and is lost."""


class Plan:
    """What is still to be done for one subject."""

    def __init__(self, number: int, strategy: str, schedules: int, seed: int, stop_at_first: bool) -> None:
        self.number = number
        self.strategy = strategy
        self._most = schedules
        self.left = {True: schedules, False: schedules}  # of DPOR, of sampling
        self.stop_at_first = stop_at_first
        self.exploration = Exploration()
        self.done = False
        self._proving = strategy in ("portfolio", "dpor")
        self._samplers = SAMPLERS if strategy == "portfolio" else () if strategy == "dpor" else (strategy,)
        self._busy = False
        self._turn = True
        self._state: Any = None
        self._seed = seed * 1_000_003
        self._size = 1
        self._again: list[Unit] = []

    def next(self, only_proving: bool) -> Unit | None:
        """A unit to give out; None if there is none now. `only_proving`: not if it is sampling's turn."""
        if self.done:
            return None
        if self._again:
            return self._again.pop()
        for proving in (True,) if only_proving and self._turn else () if only_proving else (self._turn, not self._turn):
            size = min(self._size if proving else SAMPLED, self.left[proving])
            if size <= 0 or not (self._proving and not self._busy if proving else self._samplers):
                continue
            if not proving and self._proving and self._state is None:
                continue  # many worlds are proven by one run
            self.left[proving] -= size
            self._turn = not proving or self._most - self.left[True] < ALONE
            if proving:
                self._busy = True
                return Unit(self.number, "dpor", 0, size, self.stop_at_first, self._state)
            self._seed += 1
            name = self._samplers[self._seed % len(self._samplers)]
            return Unit(self.number, name, self._seed, size, self.stop_at_first)
        return None

    def again(self, unit: Unit) -> None:
        """The unit was given out, and not begun."""
        self._again.append(unit)

    def lost(self, unit: Unit, how: str) -> None:
        """The worker ended in that way. If it was the second, nothing more is tried."""
        unit.lost += 1
        if unit.lost > 1:
            self.give_up(
                f"two processes ended over the same {counted(unit.schedules, 'schedule')} ({unit.strategy}), the last "
                f"{how}. Out of memory? Try fewer --jobs, or a smaller world"
            )
        else:
            self._again.append(unit)

    def give_up(self, why: str) -> None:
        """The machine took away what a run needs."""
        self.done = True
        self.exploration.lost, self.exploration.verdict = why, "lost"

    def take(self, result: UnitResult) -> None:
        """A unit was done."""
        merge(self.exploration, result)
        self.left[result.unit.strategy == "dpor"] += result.unit.schedules - result.exploration.runs
        if result.unit.strategy == "dpor":
            self._busy, self._state = False, result.state
            self._size = max(1, int(result.exploration.runs * UNIT_SECONDS / max(result.seconds, 0.001)))
        if self.exploration.lost:
            self.give_up(self.exploration.lost)
            return
        if result.over or result.exhausted or result.bounded or (self.exploration.failures and self.stop_at_first):
            self.done = True
        if self.exploration.failures:
            self.exploration.verdict = "violated"
        elif self.exploration.vacuous:
            self.exploration.verdict = "vacuous"
        elif result.exhausted:
            self.exploration.verdict = "proven"
        elif result.bounded:
            self.exploration.verdict = "bounded"


class Worker:
    """A process that does units."""

    def __init__(self, subjects: Sequence[Subject], end: float | None) -> None:
        context = multiprocessing.get_context("fork")  # programs need not be picklable
        self.connection, theirs = context.Pipe()
        limit(self.connection.fileno(), LATE_SECONDS)
        self.process = context.Process(target=_serve, args=(theirs, self.connection, subjects, end), daemon=True)
        self.process.start()
        theirs.close()
        self.unit: Unit | None = None
        self.runs = 0

    def how_it_ended(self) -> str:
        """Once it was stopped."""
        code = self.process.exitcode or 0
        return f"by signal {-code}" if code < 0 else f"with exit code {code}"

    def give(self, unit: Unit) -> None:
        self.unit = unit
        with suppress(OSError):  # dead: seen when its end of the connection is read
            self.connection.send(unit)

    def stop(self) -> None:
        self.process.kill()
        self.process.join(LATE_SECONDS)
        self.connection.close()


def _serve(connection: Connection, parents: Connection, subjects: Sequence[Subject], end: float | None) -> None:
    parents.close()
    told = time.monotonic()

    def tick(runs: int) -> None:
        nonlocal told
        if time.monotonic() - told > TOLD_EVERY_S:
            told = time.monotonic()
            connection.send(runs)

    with suppress(EOFError, OSError, KeyboardInterrupt):
        while True:
            unit = connection.recv()
            try:
                answer: Any = do(unit, subjects[unit.subject], end, tick)
            except Exception as error:  # dealt with where the units are given out
                answer = lost_by(error) or portable(error)
            connection.send(answer)


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
) -> list[Explored]:
    """Explore each subject, at most so many schedules of each, and all of them at most so many seconds. `progress` is
    told now and then how many schedules were run.

    Raises ValueError for an unknown strategy.
    """
    search(strategy)
    subjects = [replace(one, make=one.fresh()) for one in subjects]  # before the first run of any unit
    plans = [Plan(number, strategy, schedules, seed, stop_at_first) for number in range(len(subjects))]
    end = None if seconds is None else time.monotonic() + seconds

    def tick(under_way: int) -> None:
        progress(sum(plan.exploration.runs for plan in plans) + under_way)

    for result in _results(plans, subjects, jobs, end, tick):
        plans[result.unit.subject].take(result)
    return [concluded(subject, plan.exploration) for subject, plan in zip(subjects, plans, strict=True)]


def _results(
    plans: Sequence[Plan], subjects: Sequence[Subject], jobs: int, end: float | None, tick: Callable[[int], None]
) -> Iterator[UnitResult]:
    """Give out units until there are none, or it is time to end. `tick` is told the runs of units under way."""

    def next_unit() -> Unit | None:
        if end is not None and time.monotonic() > end:
            return None
        units = (plan.next(only_proving) for only_proving in (True, False) for plan in plans)
        return next((unit for unit in units if unit is not None), None)

    if jobs == 1:
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
        return
    workers: list[Worker] = []
    try:
        while True:
            for worker in workers:
                if worker.unit is None and (unit := next_unit()) is not None:
                    worker.give(unit)
            while len(workers) < jobs and (unit := next_unit()) is not None:
                try:
                    workers.append(Worker(subjects, end))
                except (MemoryError, OSError) as error:
                    plans[unit.subject].again(unit)
                    jobs = len(workers)  # as many as there could be
                    if not jobs:
                        for plan in plans:
                            if not plan.done:
                                plan.give_up(f"no process could be started: {error}")
                else:
                    workers[-1].give(unit)
            busy = {worker.connection: worker for worker in workers if worker.unit is not None}
            if not busy:
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
                if isinstance(answer, int):
                    worker.runs = answer
                else:
                    worker.unit, worker.runs = None, 0
                    if isinstance(answer, Lost):
                        plans[unit.subject].give_up(str(answer))
                    elif isinstance(answer, Exception):
                        raise answer
                    else:
                        yield answer
                tick(sum(worker.runs for worker in workers))
    finally:
        for worker in workers:
            worker.stop()


def _silent(workers: Iterable[Worker], end: float | None) -> list[Worker]:
    """Of those that have not said anything for a while, those that will not."""
    late = end is not None and time.monotonic() > end + LATE_SECONDS
    return [worker for worker in workers if late or is_stopped(worker.process.pid or 0)]
