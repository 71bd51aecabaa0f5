"""Trouble of the machine, made by hand, and what it leaves behind.

with later(0.3, lambda: os.kill(worker, signal.SIGKILL)):
    ...

before = Left.now(folder)
...
assert Left.now(folder) == before
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple


@contextmanager
def later(seconds: float, act: Callable[[], object]) -> Iterator[None]:
    """Do something after so long, in this thread, whatever it does then. No thread: processes are forked here."""

    def handler(number: int, frame: object) -> None:
        act()

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-4))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def from_outside(number: int) -> None:
    """Have another process send this one a signal, as the out-of-memory killer does."""
    subprocess.run(["kill", f"-{int(number)}", str(os.getpid())], check=False)


def children(process: int) -> list[int]:
    """The processes that one has started and that have not been waited for."""
    found = []
    for task in Path(f"/proc/{process}/task").iterdir():
        found += [int(child) for child in (task / "children").read_text().split()]
    return found


class Left(NamedTuple):
    """What a process holds: descriptors, processes, shared memory of torch, and files in the folder where its temporary
    ones are. Other tests that run now have other folders.
    """

    descriptors: int
    processes: int
    shared: int
    files: tuple[str, ...]

    @staticmethod
    def now(folder: Path) -> Left:
        gc.collect()  # connections of processes that are gone, in cycles
        return Left(
            len(os.listdir("/proc/self/fd")),
            len(children(os.getpid())),
            len(list(Path("/dev/shm").glob("torch_*"))),
            tuple(sorted(str(file.relative_to(folder)) for file in folder.rglob("*"))),
        )
