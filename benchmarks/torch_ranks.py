"""Programs of torch.distributed: start-up, schedules a second, and memory. Four ranks make twenty calls.

python -m benchmarks.torch_ranks
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from dpsim.campaign.subject import Subject
from dpsim.explore.strategies.replay import ScheduleReplay
from dpsim.scenario import scenario_from
from dpsim.torch.nursery import nursery

RANKS, RUNS = 4, 20

PROGRAM = """
import torch
import torch.distributed as dist


def main(rank, size):
    number = torch.ones(4)
    for _ in range(20):
        dist.all_reduce(number)
"""


def main() -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "calls.py"
        file.write_text(PROGRAM)
        begun = time.perf_counter()
        subject = Subject.of(scenario_from({"name": "calls", "torch": {"target": f"{file}:main", "ranks": RANKS}}))
        print(f"start-up, to the end of the first run   {time.perf_counter() - begun:.2f} s")
        for _ in range(2):
            run_once(subject)
        cpu, own, begun = cpu_of_ranks(), time.process_time(), time.perf_counter()
        for _ in range(RUNS):
            run_once(subject)
        wall = (time.perf_counter() - begun) / RUNS
        own, cpu = (time.process_time() - own) / RUNS, (cpu_of_ranks() - cpu) / RUNS
        print(f"a schedule, warm                        {wall * 1e3:.0f} ms, {1 / wall:.1f} a second")
        print(
            f"CPU of a schedule                       {own * 1e3:.0f} ms here, {cpu * 1e3:.0f} ms in parent and ranks"
        )
        print(f"memory of the warm parent               {memory() >> 20} MiB")


def run_once(subject: Subject) -> None:
    """One schedule."""
    follow = ScheduleReplay((), strict=False)
    follow.begin()
    _, findings = subject.run(follow)
    assert not findings


def cpu_of_ranks() -> float:
    """Seconds of the warm parent and of the children that it has seen end."""
    fields = Path(f"/proc/{nursery().process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def memory() -> int:
    """Resident bytes of the warm parent."""
    return int(Path(f"/proc/{nursery().process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main()
