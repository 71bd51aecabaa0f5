"""Writes the results as a table for people (RESULTS.md) and as JSON (results.json).

The conclusions from a profile are written by hand: the report keeps the text in RESULTS.md below its line of dashes.
"""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy
import simpy

from benchmarks.exploring import Explored
from benchmarks.floors import floors
from benchmarks.growth import Growth
from benchmarks.measure import Spread
from benchmarks.tokens import Tokens
from benchmarks.torch_ranks import TorchRanks, rows
from benchmarks.untimed import Untimed

LINE = "\n---\n"


@dataclass(frozen=True)
class Results:
    """All results. `us`: CPU microseconds per rank-step. `times`: the speed as a multiple of the baseline's. `records`:
    per rank-step.

    `startup`: CPU seconds of commands. `counts`: the numbers that have floors.
    """

    repetitions: int
    us: dict[str, Spread]
    times: dict[str, Spread]
    records: float
    growth: Growth
    untimed: Untimed
    explored: Explored
    tokens: list[Tokens]
    startup: dict[str, float]
    torch_ranks: TorchRanks
    counts: dict[str, float]


def machine() -> dict[str, str]:
    """Returns the name of the machine."""
    model = ""
    cpus = Path("/proc/cpuinfo")
    if cpus.exists():
        names = [line.partition(":")[2].strip() for line in cpus.read_text().splitlines() if "model name" in line]
        model = names[0] if names else ""
    return {
        "processor": f"{model or platform.processor() or platform.machine()}, {os.cpu_count()} cores",
        "system": platform.system(),
        "python": platform.python_version(),
        "simpy": simpy.__version__,
        "numpy": numpy.__version__,
    }


def write(results: Results, folder: Path) -> str:
    """Writes RESULTS.md and results.json into the folder, and returns the table of RESULTS.md."""
    text = table(results)
    markdown = folder / "RESULTS.md"
    below = markdown.read_text().partition(LINE)[2] if markdown.exists() else ""
    markdown.write_text(f"{text}{LINE}{below}")
    data = {"machine": machine(), "counts": results.counts, "measured": _plain(asdict(results))}
    (folder / "results.json").write_text(json.dumps(data, indent=1) + "\n")
    return text


def table(results: Results) -> str:
    """Returns the upper part of RESULTS.md."""
    us, times, untimed, growth = results.us, results.times, results.untimed, results.growth
    explored = results.explored
    where = ", ".join(f"{key} {value}" if key != "processor" else value for key, value in machine().items())
    ways = [
        ("baseline: idiomatic SimPy", f"{us['baseline']}", "1"),
        (f"machine, {results.records:.1f} records a rank-step", f"{us['trace']}", f"{times['trace']}"),
        ("machine, all checks on the run", f"{us['checks']}", f"{times['checks']}"),
        ("flattened by hand", f"{us['flattened']}", f"{times['flattened']}"),
    ]
    others = [
        ("growth of a rank-step's cost, 16 to 1,024 ranks: machine", f"{growth.machine}"),
        ("... baseline", f"{growth.baseline}"),
        ("... machine over baseline", f"{growth.relative}"),
        ("growth of the cost of judging a rank-step, 16 to 1,024 ranks", f"{growth.judging}"),
        ("untimed ops a second, over SimPy's bare time-outs a second", f"{untimed.of_simpy}"),
        ("... in thousands a second, of SimPy's", f"{_k(untimed.ops_per_second)} of {_k(untimed.simpy_per_second)}"),
        ("a tiny run of 4 ranks with some 40 records each, untimed, us", f"{untimed.tiny_us}"),
        ("schedules a second, wake world 2x3, DPOR and all checks", f"{explored.schedules}"),
        ("small pipeline worlds a second, each proven", f"{explored.worlds}"),
        ("schedules a second of two processes over one, wall time", f"{explored.speed_up or 'one core only'}"),
    ]
    for one in results.tokens:
        shipped, small = f"pp{one.stages}_free_in_flight", f"small worlds of pp_tokens, {one.stages} stages"
        for what, told in ((shipped, one.scenario), (small, one.small)):
            each = f"{told.records:,.0f} records and {told.ops:,.0f} ops a run"
            others.append((f"proofs a second, a run each: {what}, {each}", f"{told.schedules}"))
    others += [(f"CPU seconds of `dpsim {command}`", f"{took:.2f}") for command, took in results.startup.items()]
    others += rows(results.torch_ranks)
    lowest = floors()
    counts = [(name, _count(is_now), _count(lowest.get(name))) for name, is_now in results.counts.items()]
    return "\n".join(
        [
            "# Results",
            "",
            f"Written by `make bench`: {where}.",
            "",
            "Counts. `make bench` fails on one above its floor, the lowest of this version of Python so far.",
            "",
            *_markdown(("count", "is", "floor"), counts),
            "",
            "Times, which judge nothing: the processor decides on them as well.",
            f"{results.repetitions} turns; median (least to most, quartiles); CPU time; ratios within a turn.",
            "",
            *_markdown(("16 ranks (8 DP x 2 PP)", "us a rank-step", "times the baseline's speed"), ways),
            "",
            *_markdown(("figure", "measured"), others),
            "",
        ]
    )


def _markdown(head: tuple[str, ...], rows: list[Any]) -> list[str]:
    return ["| " + " | ".join(cells) + " |" for cells in (head, ("---",) * len(head), *rows)]


def _count(number: float | None) -> str:
    return "none" if number is None else f"{number:,.0f}" if number >= 10_000 else f"{number:.2f}".removesuffix(".00")


def _k(number: float) -> str:
    return f"{number / 1e3:.0f}"


def _plain(value: Any) -> Any:
    """Returns named tuples as plain objects."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return {key: _plain(one) for key, one in value.items()} if isinstance(value, dict) else value
