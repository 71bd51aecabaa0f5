"""Traces: writes the trace of a judged run, with its scenario, its verdict, and the versions of dpsim and Python.

    write_judged(Path("x.jsonl"), result.run, result.scenario, klass="HANG:COLLECTIVE:MISSING_RANK")

All commands write traces by this, so that `dpsim replay` and `dpsim compare` find the same header.
"""

from __future__ import annotations

import platform
from pathlib import Path

from dpsim.contract.world import Run
from dpsim.scenario import Scenario
from dpsim.trace import Schedule, write_trace
from dpsim.trace.header import Header
from dpsim.version import version


def write_judged(
    path: Path, run: Run, scenario: Scenario, klass: str | None, schedule: Schedule | None = None
) -> Header:
    """Writes a trace. `klass`: the class of the primary finding; None without one. Raises like `write_trace`."""
    return write_trace(
        path,
        run,
        scenario=scenario.model_dump(mode="json", by_alias=True),
        verdict="lost" if run.lost else "held" if klass is None else "violated",
        klass=klass,
        versions={"dpsim": version(), "python": platform.python_version()},
        schedule=schedule,
    )
