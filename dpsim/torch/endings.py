"""How a rank's process ends, other than by the end of its program.

    raised in its program       CRASH with the name and the place of the exception
    sys.exit(3), os._exit(3)    CRASH:EXITED, with the code
    a signal                    CRASH:KILLED, with its name
    nothing for too long        CRASH:SILENT: it computes, or waits for what is not simulated

What the machine does to a process is no verdict (`dpsim.backend.journal.trouble`): that run is lost.
"""

from __future__ import annotations

import signal

from dpsim.backend.journal.elsewhere import Elsewhere, raised_elsewhere
from dpsim.backend.journal.trouble import FAULTS
from dpsim.contract.chain import Chain
from dpsim.contract.world import Lost
from dpsim.torch.nursery import HowEnded


def of_process(rank: int, how: HowEnded) -> Elsewhere | None:
    """What a process did whose pipe closed; None if it ended well. Raises Lost."""
    name = signal.Signals(how.signal).name if how.signal else ""
    if name and name not in FAULTS:
        raise Lost(f"the process of rank {rank} was ended from outside ({name}); is there memory for all ranks?")
    if name:
        return raised_elsewhere("Killed", f"{name} killed the process of rank {rank}", ())
    return exited(rank, how.code, ()) if how.code else None


def exited(rank: int, code: int, calls: Chain) -> Elsewhere:
    return raised_elsewhere("Exited", f"rank {rank} exited with code {code}", calls)


def silent(rank: int, seconds: float) -> Elsewhere:
    """A process that made no call for so long."""
    said = f"rank {rank} made no call for {seconds:g} s: it computes, or waits for what dpsim does not simulate"
    return raised_elsewhere("Silent", said, ())
