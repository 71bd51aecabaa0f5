"""Measures the speed-up of several processes from the CPU seconds of each unit, so a busy machine has no effect.

    python -m benchmarks.speed_up               # prints a table after a minute or two

A search consists of *units* of work. One process does all units of a proof and notes the CPU seconds of each. Then a
simulation gives the same units to virtual workers with a core each. A worker waits if no unit is open, and a unit may
wait for the results of earlier units. So the table shows the loss by scheduling, but not that by memory or pipes.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.ways import ENGINES, REQUEST
from dpsim.campaign.in_order import InOrder
from dpsim.campaign.plans import Plan
from dpsim.campaign.subject import Subject
from dpsim.campaign.units import Unit, UnitResult, do
from dpsim.scenario import parse_scenario

WORKERS = (1, 2, 4, 8, 16, 32)
MANY = 10**7


class Noted(NamedTuple):
    """What a unit returned, and its CPU seconds."""

    result: UnitResult
    cpu: float


def plan_of(strategy: str) -> InOrder:
    return InOrder(Plan(0, strategy, MANY, 0, True))


def noted(subject: Subject, strategy: str) -> tuple[list[Noted], float]:
    """Returns each unit by its number, and the CPU seconds of the exploring process for all of them."""
    plan, done, own = plan_of(strategy), dict[int, Noted](), 0.0
    while True:
        before = time.process_time()
        unit = plan.next()
        own += time.process_time() - before
        if unit is None:
            return [done[number] for number in sorted(done)], own
        before = time.process_time()
        result = do(unit, subject)
        done[unit.number] = Noted(result, time.process_time() - before)
        before = time.process_time()
        plan.take(result)
        own += time.process_time() - before


def makespan(units: Sequence[Noted], strategy: str, workers: int) -> float:
    """Returns the seconds until the last result, if each worker has a core."""
    plan, now = plan_of(strategy), 0.0
    under_way: list[tuple[float, int, Unit]] = []
    while True:
        while len(under_way) < workers and (unit := plan.next()) is not None:
            heapq.heappush(under_way, (now + units[unit.number].cpu, unit.number, unit))
        if not under_way:
            assert plan.plan.done
            return now
        now, number, _ = heapq.heappop(under_way)
        plan.take(units[number].result)


def main() -> None:
    """Prints a table for a proof by DPOR, and one for a search within a bound."""
    worlds = (("dpor", 3), ("within late_deliveries=1", 2))
    for strategy, requests in worlds:
        subject = Subject.of(parse_scenario(ENGINES + requests * REQUEST))
        units, own = noted(subject, strategy)
        total = sum(one.cpu for one in units)
        longest = max(one.cpu for one in units)
        print(f"\ntwo engines, {requests} requests, {strategy}: {len(units)} units, {total:.1f} s of CPU,")
        print(f"the longest {longest:.2f} s; the exploring process {own:.2f} s\n")
        print("| workers | times one | idle |\n| --- | --- | --- |")
        for workers in WORKERS:
            speed_up = total / makespan(units, strategy, workers)
            print(f"| {workers} | {speed_up:.2f} | {100 - 100 * speed_up / workers:.0f} % |", flush=True)


if __name__ == "__main__":
    main()
