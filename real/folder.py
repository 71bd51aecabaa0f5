"""The folder of a pool: sockets of mailboxes, journals of jobs. It goes with its pool, or with the next one's start.

A parent that is killed cannot remove its folder, and its workers die with it. So the parent holds a lock on the folder,
which the kernel takes away when the parent ends, however it does; whoever makes a folder removes those that nobody
holds. A new folder gets the name under which it can be found only after it has been locked, so that nobody removes it
in between.

    folder = PoolFolder()
    folder.path                 # /tmp/dpsim-pool-k3xq8u7e
    folder.remove()

Prior art: pytest's numbered temporary folders with their lock files, which go by age; POSIX shared memory in Ray and
PyTorch, which is left to a helper process. A lock needs neither a clock nor a process.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

PREFIX = "dpsim-pool-"


class PoolFolder:
    """A new folder that this process holds."""

    def __init__(self) -> None:
        made = Path(tempfile.mkdtemp(prefix="dpsim-new-"))
        for stale in made.parent.glob(f"{PREFIX}*"):
            _remove_if_stale(stale)
        held = _lock(made)
        assert held is not None, "nobody else knows of it"
        self._held = held
        self.path = made.rename(made.with_name(made.name.replace("dpsim-new-", PREFIX, 1)))

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._held)


def _lock(folder: Path) -> int | None:
    """A descriptor that holds the folder until it is closed; None if another one does, or it is not ours to touch."""
    import fcntl  # not above: importing the backends must work where there is none

    try:
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    with contextlib.suppress(OSError):
        if os.fstat(held).st_uid == os.getuid():
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return held
    os.close(held)
    return None


def _remove_if_stale(folder: Path) -> None:
    held = _lock(folder)
    if held is not None:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)
