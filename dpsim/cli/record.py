"""`dpsim record`: runs a job, and writes each rank's calls of torch.distributed into a folder meanwhile.

    dpsim record -o FOLDER -- torchrun --nproc-per-node 4 train.py
    dpsim explain FOLDER          # while the job hangs, or afterwards

The process of dpsim becomes the job by exec, so output, signals and exit code are the job's own. dpsim only adds
environment variables, which another launcher can set as well (docs/a-job-hangs.md).
"""

from __future__ import annotations

import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from dpsim.cli.console import BAD_INPUT, fail, note, one_line_errors
from dpsim.contract.recording import HEADER_BYTES, SLOT, SLOTS, TABLE_BYTES


def record(
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND", help="The job, as you start it.")],
    folder: Annotated[Path, typer.Option("-o", "--output", metavar="FOLDER", help="The folder for the recordings.")],
    calls: Annotated[
        int,
        typer.Option(min=16, max=1 << 24, metavar="N", help="How many calls to keep of each process, 64 bytes each."),
    ] = SLOTS,
    quiet: Annotated[
        float,
        typer.Option(
            min=0.5,
            metavar="SECONDS",
            help="Write the current lines of a process that made no call for this number of seconds.",
        ),
    ] = 15.0,
) -> None:
    """Run a job and record what each of its ranks calls: for `dpsim explain`, while it hangs or afterwards."""
    with one_line_errors():
        program = shutil.which(command[0])
        if program is None:
            fail(f"{command[0]}: no such command; expected the job after --, as `-- torchrun train.py`", BAD_INPUT)
        folder.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, **variables(folder.resolve(), calls, quiet)}
        most = (HEADER_BYTES + TABLE_BYTES + calls * SLOT.size) / 1e6
        note(f"dpsim: recording into {folder}, {most:.0f} MB a process; then: dpsim explain {folder}")
        sys.stdout.flush()
        become = getattr(os.execve, "__wrapped__", os.execve)  # without the guard of `ending`: there is no verdict
        become(program, [program, *command[1:]], environment)


def variables(folder: Path, calls: int, quiet: float) -> dict[str, str]:
    """Returns the variables that make the processes of a job record their calls. `calls`: how many each process keeps.
    `quiet`: seconds without a call, after which it writes its stacks.
    """
    found = find_spec("real.record")
    if found is None or not found.submodule_search_locations:
        fail("the recorder is not installed; expected the package `real` beside `dpsim`", BAD_INPUT)
    hook = str(Path(found.submodule_search_locations[0]) / "hook")
    return {
        "PYTHONPATH": os.pathsep.join(filter(None, (hook, os.environ.get("PYTHONPATH", "")))),
        "DPSIM_RECORD": str(folder),
        "DPSIM_RECORD_CALLS": str(calls),
        "DPSIM_RECORD_QUIET": str(quiet),
    }
