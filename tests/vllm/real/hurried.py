"""The program `startup` with short time-outs for groups, for two jobs that start at the same time on one host.

Engine 0 of each job creates a file in the folder HURRIED_FOLDER. All engines wait until it contains HURRIED_JOBS files
before they create a group, so the jobs compete for ports.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from dpsim.contract.registry import register_protocol
from dpsim.vllm.config import InitPorts
from dpsim.vllm.programs.startup import Startup
from dpsim.vllm.releases import PLACES
from dpsim.vllm.startup import ports, rendezvous
from dpsim.vllm.startup.engine import EngineCore

SHORT_NS = 8_000_000_000
ports.GROUP_NS = rendezvous.GROUP_NS = SHORT_NS  # type: ignore[attr-defined]  # each module imports the name


class Together(EngineCore):
    """Waits for engine 0 of each job before it creates a group."""

    async def make_group(self, ports: InitPorts) -> None:
        folder = Path(os.environ["HURRIED_FOLDER"])
        if self.engine == 0:
            (folder / f"{os.getpid()}").touch()
        while len(list(folder.iterdir())) < int(os.environ["HURRIED_JOBS"]):
            time.sleep(0.01)
        await super().make_group(ports)


@register_protocol("t_hurried", forms=PLACES["startup"].names)
class Hurried(Startup):
    """Registers the program, with the forms of `startup`."""

    replaced = {EngineCore: Together}  # noqa: RUF012  # read only
