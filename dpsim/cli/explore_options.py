"""The options that only `dpsim explore` has."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpsim.cli import completers

Scenarios = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SCENARIO...",
        autocompletion=completers.scenarios,
        help="YAML files, or names that `dpsim list` shows.",
    ),
]
Strategy = Annotated[
    str,
    typer.Option(
        autocompletion=completers.strategies, help="How to choose schedules: portfolio, dpor, random, pct, pos, fifo."
    ),
]
Schedules = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="At most this number of schedules of each scenario; the portfolio tries this number by DPOR and this "
        "number of samples. 1000 if left out, and no bound where --budget bounds dpor.",
    ),
]
Budget = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Stop all after this time, also within a run, e.g. 60s or 5m."),
]
Jobs = Annotated[int, typer.Option(metavar="N", min=1, max=256, help="The number of processes that explore.")]
Seed = Annotated[int, typer.Option(metavar="N", help="The seed of strategies that draw random numbers.")]
KeepGoing = Annotated[bool, typer.Option("--keep-going", help="Look for more failures after the first.")]
AllUpTo = Annotated[
    str | None,
    typer.Option(
        metavar="SIZES",
        help="Explore every world with parameters up to these sizes instead, e.g. interval=3,slots=2.",
    ),
]
Full = Annotated[
    bool,
    typer.Option(
        "--full",
        help="Print all of a failure: figures, last ops, all waits, other findings, its schedule. Of a set of worlds, "
        "name each one that a limit cut short.",
    ),
]
Worlds = Annotated[
    str | None,
    typer.Option(
        metavar="N[:KIND,...]",
        help="N worlds like this instead, each with at most two faults. They are of a random choice of the kinds "
        "(die, kill, delay; also skip, repeat, timeout).",
    ),
]
Save = Annotated[Path, typer.Option(metavar="FOLDER", help="The folder for traces of failures.")]
Work = Annotated[Path | None, typer.Option(metavar="FOLDER", help="Keep each result in this new folder, for --resume.")]
Resume = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="Continue the search that --work kept in this folder.")
]
Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Explore on a cluster of Ray: ray://HOST:PORT, or auto for that of RAY_ADDRESS, else Ray here.",
    ),
]
Coverage = Annotated[
    bool,
    typer.Option(
        "--coverage", help="Print which probes, modes, orders of two sites and rows of tables no schedule reached."
    ),
]
Against = Annotated[
    str | None,
    typer.Option(
        metavar="BACKEND [N]",
        help="Then run each world N times on this backend, 5 if left out. What ranks learn there must be in some "
        "schedule. E.g. gloo 40.",
    ),
]
Preemptions = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=0,
        max=1_000_000,
        help="Explore all schedules with at most N preemptions, first those with none.",
    ),
]
LateDeliveries = Annotated[
    int | None,
    typer.Option(metavar="N", min=0, max=1_000_000, help="Explore all schedules with at most N late messages."),
]
Deaths = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=0, max=1_000_000, help="Explore all schedules with at most N of the faults kill and die."
    ),
]
EarlyTimeouts = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=0, max=1_000_000, help="Explore all schedules with at most N time-outs that pass early."
    ),
]
