"""`python -m benchmarks [--repetitions N] [--folder FOLDER]`: measure, write RESULTS.md and results.json, compare with
the bars. Exits 1, with a line for each figure below its floor; what is short of its target gets a line, too.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks import baseline, exploring, flattened, growth, program, tokens, untimed
from benchmarks.bars import missed, short
from benchmarks.measure import ratios, spread, turns
from benchmarks.report import Results, write
from dpsim.checks.judge import judge

DP, PP, STEPS = 8, 2, 100


def checked() -> None:
    """The step, and all checks on its journals."""
    found = judge(program.world(DP, PP), program.simulate(DP, PP, STEPS))
    assert not found, found


def measure(repetitions: int) -> Results:
    """Everything; some minutes."""
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
        memory_mb=growth.peak_mb(),
        judged_memory_mb=growth.peak_mb(judged=True),
        untimed=untimed.measure(repetitions),
        explored=exploring.measure(repetitions),
        tokens=tokens.measure(repetitions),
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure the simulated machine.")
    parser.add_argument("--repetitions", type=int, default=11, metavar="N", help="turns, 7 or more (default 11)")
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent, help="where the results go")
    given = parser.parse_args()
    if given.repetitions < 7:
        parser.error("fewer than 7 turns say nothing of the spread")
    results = measure(given.repetitions)
    print(write(results, given.folder))
    lines = missed(results.figures)
    for line in (*lines, *short(results.figures)):
        print(line, file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
