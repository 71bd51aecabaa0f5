"""Measures the cost of Ray itself, in percent of the CPU time of the search. It needs the extra `ray`.

    python -m benchmarks.ray_cost

A local Ray cluster with two workers proves a world. The search consists of *units*, and a task of Ray does some of
them. Each task notes the CPU seconds of its process before and after its units. So the difference between two tasks is
the cost of the worker. The daemons of Ray always use CPU. The exploring process also merges results without Ray.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.ways import ENGINES, REQUEST, descendants
from dpsim.campaign.processes import explore_all
from dpsim.campaign.ray_cluster import RayCluster
from dpsim.campaign.ray_units import RayUnits
from dpsim.campaign.remote import Source, do_all_there
from dpsim.campaign.subject import Subject
from dpsim.campaign.units import Unit
from dpsim.scenario import parse_scenario
from tests import ROOT

NOTES = "DPSIM_RAY_COST"
"""The environment variable with the name of the file, which has a line per task."""


def noting(seconds: float | None, units: Sequence[Unit], *sources: Source) -> Any:
    """Replaces `do_all_there` in a worker, and notes the CPU seconds."""
    before = time.process_time()
    answers = do_all_there(seconds, units, *sources)
    with Path(os.environ[NOTES]).open("a") as file:
        file.write(f"{os.getpid()} {before} {time.process_time()} {len(units)}\n")
    return answers


def in_tasks(notes: Path) -> tuple[float, float, int, int, set[int]]:
    """Returns the CPU seconds within tasks and between them, the number of tasks and of units, and the workers."""
    of_workers = defaultdict[int, list[tuple[float, float, int]]](list)
    for line in notes.read_text().splitlines():
        worker, before, after, units = line.split()
        of_workers[int(worker)].append((float(before), float(after), int(units)))
    tasks = [one for own in of_workers.values() for one in own]
    within = sum(after - before for before, after, _ in tasks)
    between = sum(later[0] - one[1] for own in of_workers.values() for one, later in pairwise(own))
    return within, between, len(tasks), sum(units for *_, units in tasks), {*of_workers}


def main() -> None:
    """Prints a line for each part of the cost."""
    os.environ |= {"PYTHONPATH": str(ROOT), "RAY_worker_niceness": "0"}
    vars(sys.modules[RayUnits.__module__])["do_all_there"] = noting  # the function that Ray sends to its workers
    scenario = parse_scenario(ENGINES + 3 * REQUEST)
    with tempfile.NamedTemporaryFile() as notes, RayCluster.at("auto", 2) as cluster:
        os.environ[NOTES] = notes.name
        there = cluster.on([Source.of(scenario, None)])
        before, own = dict(descendants(os.getpid())), time.process_time()
        explore_all([Subject.of(scenario)], "dpor", schedules=10**7, elsewhere=there)
        own, cpu = time.process_time() - own, dict(descendants(os.getpid()))
        within, between, tasks, units, workers = in_tasks(Path(notes.name))
    others = {*cpu} - workers - {os.getpid()}
    daemons = sum(cpu[number] - before[number] for number in others & {*before})
    print(f"{units} units in {tasks} tasks, {within:.1f} s of CPU; beside these, in seconds and in % of them:")
    for what, took in (("workers between tasks", between), ("daemons", daemons), ("the exploring process", own)):
        print(f"{what}: {took:.2f} s, {100 * took / within:.1f} %")


if __name__ == "__main__":
    main()
