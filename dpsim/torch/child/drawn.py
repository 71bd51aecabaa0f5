"""Seeds the random numbers and fixes the names that the system draws anew in each process, so that all runs are equal.

This module seeds `random`, `numpy.random`, `uuid`, `os.urandom` and the names of temporary files. torch itself gives
its generators a fixed seed. All ranks draw the same numbers from `random` and `numpy.random`. From `os.urandom` each
rank draws different bytes. On a cluster, ranks that set no seed draw different numbers from `random`, too. dpsim does
not find a hang that needs such a difference.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import uuid
from typing import Any

import numpy as np

from dpsim.torch.child.frames import is_standard

FIRST_PROCESS = 70_000
"""The process id that rank 0 reads from `os.getpid`. Rank r reads this number plus r."""
ASK_THE_SYSTEM = ("psutil",)


def seed(rank: int) -> None:
    """Seeds all generators of this process for global rank `rank`."""
    random.seed(0)
    np.random.seed(0)
    system = random.Random(rank)

    def urandom(size: int, /) -> bytes:
        return system.randbytes(size)

    os.urandom = urandom
    random._urandom = urandom  # type: ignore[attr-defined]
    uuid.uuid1 = uuid.uuid4 = lambda *_, **__: uuid.UUID(bytes=urandom(16), version=4)  # type: ignore[assignment]
    tempfile._Random = lambda: random.Random(1_000_003 * (rank + 1))  # type: ignore[attr-defined]
    tempfile._name_sequence = None  # type: ignore[attr-defined]
    _fix_process(rank)
    secrets = sys.modules.get("secrets")
    if secrets is not None:
        secrets.token_bytes = lambda size=32: urandom(size)  # type: ignore[attr-defined]


def _fix_process(rank: int) -> None:
    true, kill, fixed = os.getpid, os.kill, FIRST_PROCESS + rank
    own = true()

    def getpid() -> int:
        caller: Any = sys._getframe(1)
        systems = is_standard(caller.f_code) or caller.f_globals.get("__name__", "").startswith(ASK_THE_SYSTEM)
        found = true()
        return found if systems or found != own else fixed

    def kill_process(pid: int, signal: int, /) -> None:
        kill(own if pid == fixed else pid, signal)

    os.getpid, os.kill = getpid, kill_process
