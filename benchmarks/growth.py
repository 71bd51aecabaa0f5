"""Measures many ranks: how the cost of a rank-step grows from 16 to 1,024 ranks, compared with the baseline. It also
measures the growth of the cost of the checks, and memory.

Memory is the peak of a process that does nothing else. A process never shrinks, so each measurement needs a new one:

    python -m benchmarks.growth             # prints the peak in MB
    python -m benchmarks.growth judged      # the same, with all checks on the run
"""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import baseline, program
from benchmarks.measure import Spread, spread, turns
from dpsim.checks.judge import judge

FEW, MANY = (8, 2), (512, 2)
"""dp and pp of 16 ranks and of 1,024 ranks."""

STEPS_FEW, STEPS_MANY, STEPS_MEMORY = 200, 6, 100


class Growth(NamedTuple):
    """The factors by which a rank-step costs more with many ranks than with few.

    `relative`: the machine's growth divided by the baseline's. `judging`: the growth of the checks alone, on existing
    runs.
    """

    machine: Spread
    baseline: Spread
    relative: Spread
    judging: Spread


def per_rank_step(
    way: Callable[[int, int, int], Any], size: tuple[int, int], steps: int
) -> tuple[Callable[[], Any], int]:
    """Returns a function that runs `way`, and the number of rank-steps that it runs."""
    return lambda: way(*size, steps), size[0] * size[1] * steps


def judging(dp: int, pp: int, steps: int) -> Callable[[], None]:
    """Returns a function that runs all checks on one run."""
    of, run = program.world(dp, pp), program.simulate(dp, pp, steps)

    def way() -> None:
        found = judge(of, run)
        assert not found, found

    return way


def measure(repetitions: int) -> Growth:
    ways = {
        f"{name} {size[0] * size[1]}": per_rank_step(way, size, steps)
        for size, steps in ((FEW, STEPS_FEW), (MANY, STEPS_MANY))
        for name, way in (("baseline", baseline.run), ("machine", program.simulate))
    }
    for size, steps in ((FEW, STEPS_FEW), (MANY, STEPS_MANY)):
        ranks = size[0] * size[1]
        ways[f"judging {ranks}"] = judging(*size, steps), ranks * steps
    took = turns({name: way for name, (way, _) in ways.items()}, repetitions)
    costs = {name: [one / ways[name][1] for one in seconds] for name, seconds in took.items()}
    grown = {
        name: [many / few for many, few in zip(costs[f"{name} 1024"], costs[f"{name} 16"], strict=True)]
        for name in ("baseline", "machine", "judging")
    }
    relative = [mine / theirs for mine, theirs in zip(grown["machine"], grown["baseline"], strict=True)]
    return Growth(spread(grown["machine"]), spread(grown["baseline"]), spread(relative), spread(grown["judging"]))


def own_peak_mb() -> float:
    """Returns the peak memory of this process in MB. It avoids `ru_maxrss` if possible, because that includes the
    parent's peak before the fork.
    """
    status = Path("/proc/self/status")
    if status.exists():
        [line] = [line for line in status.read_text().splitlines() if line.startswith("VmHWM")]
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def peak_mb(judged: bool = False) -> float:
    """Returns the peak memory in MB of a new process that simulates 1,024 ranks for 100 steps and keeps all journals.

    `judged`: the process also runs all checks.
    """
    what = [sys.executable, "-m", "benchmarks.growth", *(["judged"] if judged else [])]
    return float(subprocess.run(what, check=True, capture_output=True, text=True).stdout)


def main(judged: bool) -> None:
    run = program.simulate(*MANY, STEPS_MEMORY)
    assert run.finished
    if judged:
        found = judge(program.world(*MANY), run)
        assert not found, found
    print(own_peak_mb())


if __name__ == "__main__":
    main(judged=sys.argv[1:] == ["judged"])
