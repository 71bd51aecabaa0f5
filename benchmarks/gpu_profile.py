"""`python benchmarks/gpu_profile.py [--out FILE] [--turns N] [--processes N]`: measures the time of `benchmarks.gpu` by
part.

The command measures a coordination step and 20 launches, part by part, on two GPUs, in plain torch and with dpsim. The
variants of dpsim (`gpu_parts`) differ in where the journal goes, and one takes the slower code path. So the differences
show the reason of a missed limit:

    contract - plain    the cost of dpsim
    memory - none       the cost of the journal
    disk - memory       the cost of the disk
    shared - memory     the calls that the fused ops save
    polled - plain      the cost of a host that never blocks

Figures are microseconds: medians over turns and processes, with the tenth percentile in brackets. `times plain` is a
ratio within a turn. The command writes FILE, or prints its text, after each process. A machine without two GPUs
measures gloo, which only shows that the command runs.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any, TypeAlias

if not __package__:  # because Python runs this as a file
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.gpu import RANKS, world
from benchmarks.gpu_parts import PARTS, PROGRAM
from dpsim.contract.ops import DECISION_VALUE, KIND, SITE, STEP, RawRecord
from real.backend import GlooBackend, NcclBackend, TorchBackend
from real.folder import MEMORY, has_room

Turns: TypeAlias = dict[tuple[int, int], tuple[Any, ...]]
"""Maps process and turn to the figures of one variant of one loop."""


def measure(kind: type[TorchBackend], turns: int) -> tuple[list[RawRecord], dict[str, str]]:
    """Returns rank 0's journal of a new worker pool, and the versions of libraries there."""
    backend = kind()
    try:
        run = backend.run(world(), PROGRAM, {"turns": turns})
    finally:
        backend.close()
    if not run.finished:
        raise SystemExit(f"no figures: {run.observed} {run.lost}")
    return run.journals[0], run.versions


def add(found: dict[str, Turns], process: int, journal: list[RawRecord]) -> None:
    for record in journal:
        if record[KIND] == "decision":
            found.setdefault(record[SITE], {})[process, record[STEP]] = record[DECISION_VALUE]


def table(found: dict[str, Turns], loop: str) -> list[str]:
    """Returns the table of one loop, with a row for each variant."""
    heads = ("variant", "whole", "times plain", *PARTS[loop], "page faults")
    plain = found[f"{loop}/plain"]
    rows = [heads, ("---",) * len(heads)]
    for name, turns in found.items():
        if name.partition("/")[0] != loop:
            continue
        medians, tenths, wholes, faults = zip(*turns.values(), strict=True)
        ratios = sorted(one[2] / plain[turn][2] for turn, one in turns.items() if turn in plain)
        quarter = len(ratios) // 4
        parts = [
            f"{statistics.median(median):.1f} ({statistics.median(tenth):.1f})"
            for median, tenth in zip(zip(*medians, strict=True), zip(*tenths, strict=True), strict=True)
        ]
        ratio = f"{statistics.median(ratios):.2f} ({ratios[quarter]:.2f} to {ratios[-1 - quarter]:.2f})"
        rows.append((name.partition("/")[2], f"{statistics.median(wholes):.1f}", ratio, *parts, f"{max(faults):.2f}"))
    return [f"| {' | '.join(cells)} |" for cells in rows]


def text(found: dict[str, Turns], machine: dict[str, str], processes: int, turns: int) -> str:
    where = ", ".join(f"{name} {version}" for name, version in machine.items())
    usual = MEMORY if has_room(MEMORY) else tempfile.gettempdir()
    lines = [
        f"{RANKS} ranks; {where}; {processes} processes of {turns} turns; journals usually lie in {usual}; us",
        "",
    ]
    for loop in PARTS:
        lines += [loop, "", *table(found, loop), ""]
    return "\n".join(lines)


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python benchmarks/gpu_profile.py", description="Where the time goes.")
    parser.add_argument("--out", type=Path, metavar="FILE", help="where the tables go, too")
    parser.add_argument("--turns", type=int, default=11, metavar="N", help="in each process (default 11)")
    parser.add_argument("--processes", type=int, default=3, metavar="N", help="(default 3)")
    given = parser.parse_args(words)
    if given.turns < 1 or given.processes < 1:
        parser.error("one turn in one process is needed")
    lacking = NcclBackend().unavailable(RANKS)
    if lacking is not None:
        print(f"gloo is measured, which says nothing of GPUs: {lacking}", file=sys.stderr)
    found: dict[str, Turns] = {}
    tables = ""
    for process in range(given.processes):
        journal, machine = measure(GlooBackend if lacking else NcclBackend, given.turns)
        add(found, process, journal)
        tables = text(found, machine, process + 1, given.turns)
        if given.out is not None:
            given.out.write_text(tables)
    print(tables)
    return 0


if __name__ == "__main__":
    sys.exit(main())
