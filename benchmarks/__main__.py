"""`python -m benchmarks [--lower] [--repetitions N] [--folder FOLDER]`: counts and measures, and writes the results.

It writes RESULTS.md and results.json, and compares the counts with their floors, the lowest counts so far. If a count
is above its floor, it prints a line and exits with 1. `--lower` lowers the floors to the counts.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks import (
    baseline,
    counts,
    exploring,
    flattened,
    growth,
    instructions,
    program,
    startup,
    tokens,
    torch_ranks,
    untimed,
)
from benchmarks.floors import VERSION, above, below, floors, lower
from benchmarks.measure import ratios, spread, turns
from benchmarks.report import Results, write
from dpsim.checks.judge import judge

DP, PP, STEPS = 8, 2, 100


def checked() -> None:
    """Runs the step, and all checks on its journals."""
    found = judge(program.world(DP, PP), program.simulate(DP, PP, STEPS))
    assert not found, found


def measure(repetitions: int) -> Results:
    """Measures everything, in some minutes."""
    expected = baseline.Outcome(30952, 11127)
    assert baseline.run(DP, PP, 50) == expected, "this is not the baseline any more"
    assert {flattened.run(DP, PP, 50).end, program.simulate(DP, PP, 50).elapsed_ns} == {expected.end}
    ways = {
        "baseline": lambda: baseline.run(DP, PP, STEPS),
        "trace": lambda: program.simulate(DP, PP, STEPS),
        "checks": checked,
        "flattened": lambda: flattened.run(DP, PP, STEPS),
    }
    took = turns(ways, repetitions)
    return Results(
        repetitions=repetitions,
        us={name: spread([one / (DP * PP * STEPS) * 1e6 for one in took[name]]) for name in ways},
        times={name: spread(ratios(took["baseline"], took[name])) for name in ways if name != "baseline"},
        records=sum(map(len, program.simulate(DP, PP, STEPS).journals)) / (DP * PP * STEPS),
        growth=growth.measure(max(repetitions // 2, 5)),
        untimed=untimed.measure(repetitions),
        explored=exploring.measure(repetitions),
        tokens=tokens.measure(repetitions),
        startup=startup.measure(repetitions),
        torch_ranks=torch_ranks.measure(repetitions),
        counts=counted(),
    )


def counted() -> dict[str, float]:
    """Counts calls, instructions and memory: the numbers that have floors."""
    memory = {"MB, 1,024 ranks x 100 steps": growth.peak_mb(), "MB, judged": growth.peak_mb(judged=True)}
    return {**counts.in_a_process(), **instructions.counted(), **memory}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure the simulated machine.")
    parser.add_argument("--lower", action="store_true", help="write counts that are lower as the new floors")
    parser.add_argument("--repetitions", type=int, default=7, metavar="N", help="turns, 7 or more (default 7)")
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent, help="where the results go")
    given = parser.parse_args()
    if given.repetitions < 7:
        parser.error("fewer than 7 turns say nothing of the spread")
    results = measure(given.repetitions)
    if given.lower:
        lower(results.counts)
    print(write(results, given.folder))
    return compared(results.counts, floors())


def compared(counts: dict[str, float], known: dict[str, float]) -> int:
    """Returns the exit code, and prints a line for each count above its floor."""
    lines = above(counts, known)
    for line in lines:
        print(f"above its floor: {line}", file=sys.stderr)
    if sinking := below(counts, known):
        cure = "python -m benchmarks --lower writes them"
        print(
            f"lower than the floors of Python {VERSION}, or without one: {'; '.join(sinking)}; {cure}", file=sys.stderr
        )
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
