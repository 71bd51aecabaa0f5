"""Measures programs of torch.distributed: start-up, schedules per second, CPU and memory. Four ranks make twenty calls.

    python -m benchmarks.torch_ranks

Schedules per second use wall time, because ranks and dpsim share the cores. CPU time is that of this process, of the
warm parent, which forks the ranks, and of its ended children.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.measure import Spread, spread
from dpsim.campaign.subject import Subject
from dpsim.explore.strategies.replay import ScheduleReplay
from dpsim.scenario import scenario_from
from dpsim.torch.nursery import close, nursery

RANKS, RUNS = 4, 10

PROGRAM = """
import torch
import torch.distributed as dist


def main(rank, size):
    number = torch.ones(4)
    for _ in range(20):
        dist.all_reduce(number)
"""


class TorchRanks(NamedTuple):
    """The results. `start`: seconds until the first run has ended. `schedules`: per second, afterwards. `own_ms`,
    `ranks_ms`: CPU milliseconds of a schedule in this process and in the ranks. `memory`: MiB of the warm parent.
    """

    start: float
    schedules: Spread
    own_ms: float
    ranks_ms: float
    memory: float


def measure(repetitions: int) -> TorchRanks:
    close()  # ends the warm parent, because its start is part of the measurement
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "calls.py"
        file.write_text(PROGRAM)
        begun = time.perf_counter()
        subject = Subject.of(scenario_from({"name": "calls", "torch": {"target": f"{file}:main", "ranks": RANKS}}))
        start = time.perf_counter() - begun
        runs(subject)
        ranks, own = cpu_of_ranks(), time.process_time()
        took = [runs(subject) for _ in range(repetitions)]
        count = RUNS * repetitions
        own, ranks = (time.process_time() - own) / count, (cpu_of_ranks() - ranks) / count
    return TorchRanks(start, spread([RUNS / one for one in took]), own * 1e3, ranks * 1e3, memory() / 2**20)


def rows(found: TorchRanks) -> list[tuple[str, str]]:
    """Returns the rows of the report."""
    what = f"programs of torch.distributed, {RANKS} ranks with 20 calls"
    return [
        (f"{what}: schedules a second, warm, wall time", f"{found.schedules}"),
        ("... CPU ms of a schedule: here, in ranks and their parent", f"{found.own_ms:.0f}, {found.ranks_ms:.0f}"),
        ("... seconds from a cold start to the end of the first run", f"{found.start:.2f}"),
        ("... MiB of the warm parent", f"{found.memory:.0f}"),
    ]


def runs(subject: Subject) -> float:
    """Returns the wall seconds of `RUNS` schedules."""
    begun = time.perf_counter()
    for _ in range(RUNS):
        follow = ScheduleReplay((), strict=False)
        follow.begin()
        _, findings = subject.run(follow)
        assert not findings
    return time.perf_counter() - begun


def cpu_of_ranks() -> float:
    """Returns the CPU seconds of the warm parent and of its ended children."""
    fields = Path(f"/proc/{nursery().process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def memory() -> int:
    """Returns the resident bytes of the warm parent."""
    return int(Path(f"/proc/{nursery().process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    for name, figure in rows(measure(7)):
        print(f"{name}: {figure}")
