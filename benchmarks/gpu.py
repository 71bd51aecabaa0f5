"""`python -m benchmarks.gpu [--turns N] [--processes N] [--folder FOLDER]`, or `make bench-gpu`: measures the cost of
dpsim on two GPUs, compared with the same work in plain torch (`gpu_ways`).

A figure is the median, over processes, of the median ratio of the turns in a process. The command writes RESULTS_GPU.md
and results_gpu.json to the folder. If a figure exceeds its limit, it prints a line and exits with 1. On a machine
without two GPUs, it measures only the sum over gloo and says so. There it writes only to a folder that the user names.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
from pathlib import Path
from typing import NamedTuple

from benchmarks.gpu_ways import HOST_SUM, PROGRAM
from benchmarks.measure import Spread, ratios, spread
from dpsim.contract.ops import DECISION_VALUE, KIND, SITE, RawRecord
from dpsim.contract.world import CommunicatorSpec, World
from real.backend import GlooBackend, NcclBackend, TorchBackend

RANKS = 2

BARS = {"coordination": 1.45, "launches": 1.6, HOST_SUM: 1.05, "replay": 1.1, "replays": 1.02}
"""The limits, as multiples of plain torch. In `coordination`, reads that wait without blocking the host already cost
1.17.
"""

WORDS = {
    "coordination": "coordination step: fill by five ops, sum, read",
    "launches": "20 launches of one op each, and a read",
    HOST_SUM: "host all_reduce over gloo",
    "broadcast": "broadcast on a side stream, and back",
    "replay": "a graph of 8 layers (kernel, sum), waited for",
    "replays": "20 of them back to back",
}


class Process(NamedTuple):
    """A figure of one process: microseconds of plain torch and of dpsim, and their ratio within a turn."""

    plain_us: Spread
    contract_us: Spread
    ratio: Spread


class Results(NamedTuple):
    """The results of all processes. `figures`: maps a name to a list with one item per process."""

    machine: dict[str, str]
    turns: int
    figures: dict[str, list[Process]]

    @property
    def ratios(self) -> dict[str, float]:
        return {name: statistics.median(one.ratio.median for one in found) for name, found in self.figures.items()}


def world() -> World:
    ranks = tuple(range(RANKS))
    specs = CommunicatorSpec("dp_cpu", "dp_cpu", "host", ranks), CommunicatorSpec("dp", "dp", "device", ranks)
    return World(RANKS, specs, stall_ns=60_000_000_000, deadline_ns=600_000_000_000)


def measure(kind: type[TorchBackend], turns: int, processes: int) -> Results:
    """Runs the program in `processes` separate worker pools, and returns the results."""
    figures: dict[str, list[Process]] = {}
    versions: dict[str, str] = {}
    for _ in range(processes):
        backend = kind()
        try:
            run = backend.run(world(), PROGRAM, {"turns": turns, "gpu": kind is NcclBackend})
        finally:
            backend.close()
        if not run.finished:
            raise SystemExit(f"no figures: {run.observed}")
        versions = run.versions
        for name, took in times(run.journals[0]).items():
            plain, ours = map(list, zip(*took, strict=True))
            figures.setdefault(name, []).append(Process(spread(plain), spread(ours), spread(ratios(ours, plain))))
    return Results({"python": platform.python_version(), **versions}, turns, figures)


def times(journal: list[RawRecord]) -> dict[str, list[tuple[float, float]]]:
    """Returns, for each figure, the pair (plain torch, dpsim) of each turn, in microseconds."""
    found: dict[str, list[tuple[float, float]]] = {}
    for record in journal:
        if record[KIND] == "decision":
            found.setdefault(record[SITE].replace("_", " "), []).append(record[DECISION_VALUE])
    return found


def missed(results: Results) -> list[str]:
    """Returns a line for each figure above its limit.

    >>> launches = Process(spread([100.0] * 3), spread([170.0] * 3), spread([1.7] * 3))
    >>> missed(Results({}, 11, {"launches": [launches] * 3}))
    ['missed: launches takes 1.70 times as long as plain torch, has to be at most 1.6']
    """
    return [
        f"missed: {name} takes {results.ratios[name]:.2f} times as long as plain torch, has to be at most {bar}"
        for name, bar in BARS.items()
        if results.ratios.get(name, 0) > bar
    ]


def table(results: Results) -> str:
    """Returns the text of RESULTS_GPU.md."""
    where = ", ".join(f"{name} {version}" for name, version in results.machine.items())
    lines = [
        "# What the contract costs on GPUs",
        "",
        f"Written by `make bench-gpu`: {RANKS} ranks; {where}.",
        f"Times plain torch in the same worker; median (quartiles) of {results.turns} interleaved turns a process.",
        "",
    ]
    processes = max(map(len, results.figures.values()))
    heads = (
        "figure",
        *(f"process {number + 1}" for number in range(processes)),
        "median",
        "at most",
        "us, plain",
        "us",
    )
    rows = [heads, ("---",) * len(heads)]
    for name, found in results.figures.items():
        each = [f"{one.ratio.median:.2f} ({one.ratio.lower:.2f} to {one.ratio.upper:.2f})" for one in found]
        plain, ours = (
            statistics.median(one.plain_us.median for one in found),
            statistics.median(one.contract_us.median for one in found),
        )
        bar = f"{BARS[name]}" if name in BARS else "-"
        rows.append((WORDS[name], *each, f"{results.ratios[name]:.2f}", bar, f"{plain:.0f}", f"{ours:.0f}"))
    return "\n".join([*lines, *(f"| {' | '.join(cells)} |" for cells in rows), ""])


def write(results: Results, folder: Path) -> None:
    """Writes RESULTS_GPU.md and results_gpu.json into the folder."""
    (folder / "RESULTS_GPU.md").write_text(table(results))
    figures = {
        name: [{key: value._asdict() for key, value in one._asdict().items()} for one in found]
        for name, found in results.figures.items()
    }
    data = {"machine": results.machine, "turns": results.turns, "ratios": results.ratios, "processes": figures}
    (folder / "results_gpu.json").write_text(json.dumps(data, indent=1) + "\n")


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description="Measure the contract on two GPUs.")
    parser.add_argument("--turns", type=int, default=11, metavar="N", help="in each process, 11 or more (default 11)")
    parser.add_argument("--processes", type=int, default=3, metavar="N", help="3 or more (default 3)")
    parser.add_argument("--folder", type=Path, help="where the results go (default: here, if there are GPUs)")
    given = parser.parse_args(words)
    if given.turns < 11 or given.processes < 3:
        parser.error("fewer than 11 turns in 3 processes say nothing of the spread")
    lacking = NcclBackend().unavailable(RANKS)
    if lacking is not None:
        print(f"only the sum over gloo is measured: {lacking}", file=sys.stderr)
    results = measure(GlooBackend if lacking else NcclBackend, given.turns, given.processes)
    folder = given.folder or (None if lacking else Path(__file__).parent)
    if folder is not None:
        write(results, folder)
    print(table(results))
    lines = missed(results)
    print("\n".join(lines), end="\n" * bool(lines), file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
