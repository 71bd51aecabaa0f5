"""What a worker makes of a job: its program, or why there is none; and how it ends with its parent."""

from __future__ import annotations

import fcntl
import importlib
import os
import select
import signal
import sys
import traceback
from typing import Any

from dpsim.backend.journal.trouble import trouble
from dpsim.contract import registry
from dpsim.contract.program import Program
from real.messages import Job, Refused


def refused(number: int, stage: str, error: Exception) -> Refused:
    """Why this worker cannot go on. Trouble of the machine has no traceback."""
    lacked = trouble(error)
    return Refused(number, "lost", lacked) if lacked else Refused(number, stage, traceback.format_exc())


def resolve(job: Job) -> tuple[Program[Any], Any]:
    """The program and what its `prepare` made of the arguments."""
    sys.path[:] = job.path
    failed = []
    for module in job.modules:
        try:
            importlib.import_module(module)
        except Exception as error:  # it may have registered something else; but if not, this is why
            failed.append(f"{module}: {type(error).__name__}: {error}")
    try:
        return registry.prepared(job.program, job.args)
    except registry.UnknownName as error:
        if "__main__" in job.modules:
            failed.append("__main__: a worker has another one; put the protocol into a separate module")
        raise registry.UnknownName("; ".join([str(error), *failed])) from None


def die_with_parent(lifeline: int) -> None:
    """Have the kernel kill this process when the other end of the pipe closes."""
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    if hasattr(fcntl, "F_SETSIG"):  # Linux; elsewhere the signal is SIGIO, which ends a process just as well
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([lifeline], [], [], 0)[0]:  # too late: it is closed already
        os._exit(0)
