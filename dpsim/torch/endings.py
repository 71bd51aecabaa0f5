"""Translates the end of a rank's process into the finding that dpsim reports, unless the program ended normally.

    raised in its program       CRASH with the name and the place of the exception
    sys.exit(3), os._exit(3)    CRASH:EXITED, with the code
    a signal                    CRASH:KILLED, with its name
    nothing for too long        CRASH:SILENT: it computes, or waits for what is not simulated

A signal from outside, for example from the kernel when memory runs out, says nothing about the program. So dpsim raises
`Lost` and gives no verdict for that run. `dpsim.backend.journal.trouble` lists the signals that do count.
"""

from __future__ import annotations

import signal

from dpsim.backend.journal.elsewhere import Elsewhere, raised_elsewhere
from dpsim.backend.journal.trouble import FAULTS
from dpsim.contract.chain import Chain
from dpsim.contract.world import Lost
from dpsim.torch.nursery import HowEnded


def of_process(rank: int, how: HowEnded) -> Elsewhere | None:
    """Returns the error for a process that closed its pipe, or None if it ended with code 0. Raises Lost."""
    name = signal.Signals(how.signal).name if how.signal else ""
    if name and name not in FAULTS:
        raise Lost(f"the process of rank {rank} was ended from outside ({name}); is there memory for all ranks?")
    if name:
        return raised_elsewhere("Killed", f"{name} killed the process of rank {rank}", ())
    return exited(rank, how.code, ()) if how.code else None


def exited(rank: int, code: int, calls: Chain) -> Elsewhere:
    return raised_elsewhere("Exited", f"rank {rank} exited with code {code}", calls)


def silent(rank: int, seconds: float) -> Elsewhere:
    """Returns the error for a process that made no call for `seconds` seconds."""
    message = f"rank {rank} made no call for {seconds:g} s: it computes, or waits for what dpsim does not simulate"
    return raised_elsewhere("Silent", message, ())
