"""A protocol that opens a fixed port, for two jobs at the same time. The workers import this module by its name.

The environment contains the port, the number of jobs, and the folder into which each job writes its result.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from dpsim.contract.interface import Rank
from dpsim.contract.registry import register_protocol
from tests.protocols import SizedProgram

SECOND = 1_000_000_000


@register_protocol("t_clash")
class Clash(SizedProgram):
    """Rank 0 opens the port, and rank 1 joins its listener. Rank 0 keeps the store open until all jobs have tried."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        port, folder = int(os.environ["CLASH_PORT"]), Path(os.environ["CLASH_FOLDER"])
        if rank.rank == 0:
            store = await rank.open_store(port, "open")
            joined = await rank.mailbox("joined").get("joined")
            (folder / f"tried-{os.getpid()}").write_text(json.dumps([store is not None, joined]))
            (folder / f"tried-{os.getpid()}").rename(folder / f"job-{os.getpid()}")
            while len(list(folder.glob("job-*"))) < int(os.environ["CLASH_JOBS"]):
                time.sleep(0.01)
            rank.send(1, "over", True, "over")
        else:
            found = await rank.join_store(0, port, "join", timeout_ns=60 * SECOND)
            rank.send(0, "joined", found is not None, "tell")
            await rank.mailbox("over").get("over")
