"""The folder of a pool: sockets of mailboxes, journals of jobs. It goes with its pool, or with the next one's start.

A parent that is killed cannot remove its folder, and its workers die with it. So the parent holds a lock on the folder,
which the kernel takes away when the parent ends, however it does. What forks the workers then removes the folder, and
if that was killed as well, the next start of a pool does. A new folder is locked before it gets the name under which it
can be found, so that no other process removes it in between.

    folder = PoolFolder()
    folder.path                 # /dev/shm/dpsim-pool-k3xq8u7e
    folder.remove()

The folder is in memory if the system has such a folder (/dev/shm) with enough room, and otherwise in the folder for
temporary files. On a disk, the kernel tracks writes to each page of a mapped file. The first store to a page is then a
page fault within some op of a rank. So is the first store after the kernel wrote the page to the disk. The parent reads
all journals into its own memory anyway, where they take several times as much.

Prior art: pytest's numbered temporary folders with their lock files, which go by age. POSIX shared memory in Ray and
PyTorch is left to a helper process. A lock needs neither a clock nor a process.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

PREFIX = "dpsim-pool-"

MEMORY = Path("/dev/shm")
"""Where Linux has files in memory."""

ROOM = 2 << 30
"""Bytes that have to be free there. Containers often give it 64 MiB, which NCCL needs for itself."""


class PoolFolder:
    """A new folder that this process holds."""

    def __init__(self) -> None:
        remove_stale()
        temporary = Path(tempfile.gettempdir())
        made = Path(tempfile.mkdtemp(prefix="dpsim-new-", dir=MEMORY if has_room(MEMORY) else temporary))
        held = _lock(made)
        assert held is not None, "no other process knows of it"
        self._held = held
        self.path = made.rename(made.with_name(made.name.replace("dpsim-new-", PREFIX, 1)))

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._held)


def remove_stale() -> None:
    """Remove the folders whose parents have ended."""
    for parent in (MEMORY, Path(tempfile.gettempdir())):
        for stale in parent.glob(f"{PREFIX}*"):
            _remove_if_stale(stale)


def has_room(folder: Path) -> bool:
    """Whether this process may use a folder, and the folder has that much room."""
    try:
        there = os.statvfs(folder)
    except OSError:
        return False
    return there.f_bavail * there.f_frsize >= ROOM and os.access(folder, os.W_OK | os.X_OK)


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
