"""The backends `gloo` and `nccl`, to which the entry points refer.

    backend = GlooBackend()
    backend.unavailable(4) is None                  # torch is installed
    run = backend.run(world, "protocol", args)      # starts 4 processes, seconds; the next run reuses them
    backend.close()                                 # else at the end of this process

As on every backend, a hang or a crash of a rank is a `Run` and no error. An error means that there is no run to judge.
The backend raises BackendUnavailable if the machine cannot run the world. It raises `registry.UnknownName` or
`ProgramRefused` if it cannot find the program, or if the program refuses its arguments. It raises SharedState if the
program changes state that its ranks share in the simulation.
"""

from __future__ import annotations

import importlib.util
import os
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from dpsim.contract.program import Unmodified
from dpsim.contract.registry import protocol
from dpsim.contract.world import BackendUnavailable, Progress, Run, World
from real.cuda_errors import driver
from real.pool import Pool
from real.unmodified import UnmodifiedRanks

NEEDED = ("torch", "msgspec")
"""What the extra `real` installs."""


class TorchBackend:
    """What both backends have in common. Its constructor has no arguments and no effect; the first run starts
    processes.
    """

    name: str
    device: str
    recovery: str

    def __init__(self) -> None:
        self.pool = Pool(self.name, self.device, self.recovery)
        self._unmodified = UnmodifiedRanks()

    def unavailable(self, size: int) -> str | None:
        if os.name != "posix":
            return f"the {self.name} backend needs a POSIX system: its workers get their sockets passed by number"
        for module in NEEDED:
            if importlib.util.find_spec(module) is None:
                cure = "install dpsim again, with its extra `real`"
                return f"the {self.name} backend needs the module {module}, and there is none; {cure}"
        return None

    def run(self, world: World, program: str, args: Any, progress: Progress | None = None) -> Run:
        reason = self.unavailable(world.size) or self._cannot_make(world)
        if reason is not None:
            raise BackendUnavailable(reason)
        protocol(program)  # before any process is started
        return self.pool.run(world, program, args, progress)

    def close(self) -> None:
        self.pool.close()
        self._unmodified.close()

    def run_unmodified(self, target: Unmodified, world: World) -> Run:
        """Runs a program of torch.distributed as torchrun would. Its journals have decisions and ends alone."""
        reason = self.unavailable(world.size)
        if reason is not None:
            raise BackendUnavailable(reason)
        return self._unmodified.run(target, world)

    def _cannot_make(self, world: World) -> str | None:
        """Raises for what only the simulation supports, since to ignore it would run a different experiment."""
        cure = "a GPU has the limits that it has"
        if world.kills:
            kill = world.kills[0]
            what = f"kill rank {kill.rank} at {kill.at or f'{kill.ns} ns'}: it has no clock that all ranks share"
            cure = 'a fault of the kind "die" at an op works everywhere'
        elif world.residency is not None:
            what = f"limit a device to {world.residency} collectives at a time (limits.residency)"
        elif world.launch_queue is not None:
            what = f"limit a launch queue to {world.launch_queue} ops (limits.launch_queue)"
        elif world.alloc_synchronises:
            what = "make allocations wait for the device (limits.alloc_synchronises)"
        elif world.progress is not None:
            what = f"bound the ops after a fault to {world.progress} (limits.progress)"
        elif any(stranger.late for stranger in world.strangers):
            what = "let another program take a port at any time (a stranger that is late)"
            cure = "one that listens from the beginning works everywhere"
        else:
            return None
        return f"the {self.name} backend cannot {what}. Run it on the simulation (--backend sim); {cure}"


class GlooBackend(TorchBackend):
    """Processes on this machine's CPUs."""

    name = "gloo"
    device = "cpu"
    recovery = "kill"


class NcclBackend(TorchBackend):
    """Processes on this machine's GPUs: rank i uses the i-th visible GPU. Services need no GPU."""

    name = "nccl"
    device = "cuda"
    recovery = "abort"

    def unavailable(self, size: int) -> str | None:
        reason = super().unavailable(size)
        if reason is not None:
            return reason
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        among = "" if visible is None else f" (CUDA_VISIBLE_DEVICES={visible})"
        needed = f"the nccl backend needs {size} CUDA device{'s' * (size != 1)}, one for each rank, and "
        # A wheel's version shows that it lacks CUDA, and so does a missing driver: this saves an import of seconds.
        try:
            if version("torch").endswith("+cpu"):
                return f"{needed}torch {version('torch')} is built without CUDA"
        except PackageNotFoundError:
            pass  # perhaps built from source
        try:
            driver()
        except OSError:
            return f"{needed}this machine has no driver of CUDA"
        import torch

        count = torch.cuda.device_count()  # queries the driver's management library: no CUDA context in this process
        return f"{needed}found {count}{among}" if count < size else None
