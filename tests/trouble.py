"""Causes trouble of the machine for tests, and lists what a process has left open.

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
    """Calls `act` after some seconds, in this thread and in the middle of its work. It uses a signal rather than a
    thread, because the tests fork processes.
    """

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
    """Lets another process send a signal to this one, as the out-of-memory killer does."""
    subprocess.run(["kill", f"-{int(number)}", str(os.getpid())], check=False)


def children(process: int) -> list[int]:
    """Returns the child processes that a process has not waited for."""
    found = []
    for task in Path(f"/proc/{process}/task").iterdir():
        found += [int(child) for child in (task / "children").read_text().split()]
    return found


class Left(NamedTuple):
    """What a process has open: descriptors, child processes, shared memory of torch, and files in its folder for
    temporary files. Other tests that run at the same time have other folders.
    """

    descriptors: int
    processes: int
    shared: int
    files: tuple[str, ...]

    @staticmethod
    def now(folder: Path) -> Left:
        gc.collect()  # connections of ended processes, in reference cycles
        return Left(
            len(os.listdir("/proc/self/fd")),
            len(children(os.getpid())),
            len(list(Path("/dev/shm").glob("torch_*"))),
            tuple(sorted(str(file.relative_to(folder)) for file in folder.rglob("*"))),
        )
