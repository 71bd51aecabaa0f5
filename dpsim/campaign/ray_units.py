"""Ray units: executes units of an exploration as tasks on a Ray cluster, and repeats lost ones.

    units = RayUnits(ray, sources, width=4)                 # `ray`: the module, or what pretends to be it
    explore_all(subjects, elsewhere=units)

A task costs Ray ten milliseconds of CPU, so it gets units for some seconds, estimated from earlier ones. Results do not
depend on this choice. A task ends at its first failure, and its other units are issued again.

Ray itself retries no task. Each unit of a lost task is then a task alone, so four losses identify what kills workers.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from math import ceil
from typing import Any, NamedTuple

from dpsim.campaign.in_order import InOrder
from dpsim.campaign.remote import do_all_there
from dpsim.campaign.units import Unit, UnitResult
from dpsim.contract.world import BackendUnavailable, Lost

LOSSES = 3
"""The number of losses after which a unit is still repeated."""

LOOK_SECONDS = 1.0

TASK_SECONDS = 3.0
"""The typical time of a task, if there is work for all workers."""

SHORT_SECONDS = 0.3
"""The shortest typical time of a task, if there is little work. Ray then costs 3 %."""


class Gone(NamedTuple):
    """A task was lost. `how`: the exception of Ray."""

    how: str


def answer_of(ray: Any, ref: Any) -> Any:
    """Returns the result of a task, or `Gone`. Raises BackendUnavailable if the cluster cannot execute such tasks."""
    try:
        return ray.get(ref)
    except ray.exceptions.RuntimeEnvSetupError as error:
        raise BackendUnavailable(f"a node cannot take the program's modules: {error}") from error
    except ray.exceptions.RayTaskError as error:  # a task catches its exceptions, so Ray could not load it
        last_line = str(error).strip().splitlines()[-1]
        message = "a node cannot do a unit; the same version of dpsim has to be installed on each"
        raise BackendUnavailable(f"{message}: {last_line}") from error
    except ray.exceptions.RayError as error:
        return Gone(type(error).__name__)


def cancel(ray: Any, refs: Sequence[Any]) -> None:
    for ref in refs:
        with suppress(Exception):
            ray.cancel(ref, force=True)


class RayUnits:
    """An `OtherMachines` (`dpsim.campaign.processes`). `width`: the number of tasks that run at a time."""

    def __init__(self, ray: Any, sources: Sequence[Any], width: int) -> None:
        self._ray = ray
        self._sources = sources
        self._width = width
        self._most = 2 * width  # a task waits for each that runs
        self._task = ray.remote(do_all_there).options(num_cpus=1, max_retries=0)
        self._under_way: dict[Any, list[Unit]] = {}
        self._took = 0.0  # seconds of all units
        self._asked = 0  # the schedules that these units had

    def results(
        self,
        next_unit: Callable[[], Unit | None],
        plans: Sequence[InOrder],
        end: float | None,
        tick: Callable[[Counter[int]], None],
    ) -> Iterator[UnitResult]:
        """Executes units until there are none. Calls `tick` when a task ends."""
        try:
            while True:
                self._give_out(next_unit, end)
                if not self._under_way or all(one.plan.done for one in plans):
                    return
                ready, _ = self._ray.wait([*self._under_way], num_returns=1, timeout=LOOK_SECONDS)
                for ref in ready:
                    yield from self._answers(ref, plans)
                tick(Counter())
        finally:
            cancel(self._ray, [*self._under_way])
            self._under_way.clear()

    def _give_out(self, next_unit: Callable[[], Unit | None], end: float | None) -> None:
        free = self._most - len(self._under_way)
        units: list[Unit] = []
        expected = 0.0
        while expected < free * TASK_SECONDS and (unit := next_unit()) is not None:
            expected += self._seconds(unit)
            units.append(unit)
        alone = [unit for unit in units if unit.lost]
        others = [unit for unit in units if not unit.lost]
        idle = self._width - len(self._under_way) - len(alone)
        parts = min(max(ceil(expected / TASK_SECONDS), min(idle, int(expected / SHORT_SECONDS))), len(others))
        for part in [*([one] for one in alone), *(others[at::parts] for at in range(parts))]:
            left = None if end is None else max(end - time.monotonic(), 0.0)
            self._under_way[self._task.remote(left, part, *(self._sources[one.subject] for one in part))] = part

    def _seconds(self, unit: Unit) -> float:
        """Returns the expected time of a unit. A unit that was lost counts as a whole task."""
        if unit.lost or not self._asked:
            return TASK_SECONDS
        return min(unit.schedules * self._took / self._asked, TASK_SECONDS)

    def _answers(self, ref: Any, plans: Sequence[InOrder]) -> Iterator[UnitResult]:
        units = self._under_way.pop(ref)
        answers = answer_of(self._ray, ref)
        if isinstance(answers, Gone):
            for unit in units:
                plans[unit.subject].lost(unit, f"with {answers.how}", LOSSES)
            return
        for unit in units[len(answers) :]:
            plans[unit.subject].again(unit)
        for unit, answer in zip(units, answers, strict=False):
            if isinstance(answer, Lost):
                plans[unit.subject].give_up(str(answer))
            elif isinstance(answer, Exception):
                raise answer
            elif isinstance(answer, UnitResult):
                self._took += answer.seconds
                self._asked += unit.schedules
                yield answer


def each(
    ray: Any, function: Callable[..., Any], arguments: Sequence[Any], width: int, end: float | None
) -> Iterator[tuple[int, Any]]:
    """Executes a task for each argument and the remaining seconds, and yields its number and result, in the order of
    the ends. A task that is lost four times yields a `Lost`.
    """
    task = ray.remote(function).options(num_cpus=1, max_retries=0)
    waiting, lost, under_way = [*range(len(arguments))][::-1], [0] * len(arguments), dict[Any, int]()
    try:
        while waiting or under_way:
            while waiting and len(under_way) < 2 * width:
                left = None if end is None else max(end - time.monotonic(), 0.0)
                under_way[task.remote(arguments[waiting[-1]], left)] = waiting[-1]
                waiting.pop()
            ready, _ = ray.wait([*under_way], num_returns=1, timeout=LOOK_SECONDS)
            for ref in ready:
                number, answer = under_way.pop(ref), answer_of(ray, ref)
                if not isinstance(answer, Gone):
                    yield number, answer
                    continue
                lost[number] += 1
                if lost[number] > LOSSES:
                    yield number, Lost(f"{lost[number]} processes ended over it, the last with {answer.how}")
                else:
                    waiting.append(number)
    finally:
        cancel(ray, [*under_way])
