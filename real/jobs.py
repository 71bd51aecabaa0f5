"""How a worker finds the program of a job, or reports why it cannot; and how the worker ends with its parent."""

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
    """Returns the message that this worker cannot continue. For trouble of the machine it has no traceback."""
    lacked = trouble(error)
    return Refused(number, "lost", lacked) if lacked else Refused(number, stage, traceback.format_exc())


def resolve(job: Job) -> tuple[Program[Any], Any]:
    """Returns the program, and what its `prepare` returned for the arguments."""
    sys.path[:] = job.path
    failed = []
    for module in job.modules:
        try:
            importlib.import_module(module)
        except Exception as error:  # its import may have failed, which explains a missing name
            failed.append(f"{module}: {type(error).__name__}: {error}")
    try:
        return registry.prepared(job.program, job.args)
    except registry.UnknownName as error:
        if "__main__" in job.modules:
            failed.append("__main__: a worker has another one; put the protocol into a separate module")
        raise registry.UnknownName("; ".join([str(error), *failed])) from None


def die_with_parent(lifeline: int) -> None:
    """Lets the kernel kill this process when the other end of the pipe closes."""
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    if hasattr(fcntl, "F_SETSIG"):  # Linux; elsewhere the signal is SIGIO, which also ends a process
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([lifeline], [], [], 0)[0]:  # the pipe is closed already
        os._exit(0)
