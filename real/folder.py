"""The folder of a pool, with the sockets of mailboxes and the journals of jobs. It is removed with the pool, or at the
start of the next pool.

A parent that is killed cannot remove its folder, and its workers end with it. So the parent holds a lock on the folder,
which the kernel releases when the parent ends, however it ends. Then the fork server removes the folder. If that was
killed as well, the next start of a pool removes it. The parent locks a new folder before it gives the folder the name
by which other processes find it. So none of them removes it in between.

    folder = PoolFolder()
    folder.path                 # /dev/shm/dpsim-pool-k3xq8u7e
    folder.remove()

If the system has a folder in memory (/dev/shm) with enough room, the pool uses it; otherwise the folder for temporary
files. On a disk, the kernel tracks writes to each page of a mapped file. So the first store to a page is a page fault
within some op of a rank. So is the first store after the kernel wrote the page to the disk. The parent reads all
journals into its own memory anyway, where they take several times as much.

Prior art: pytest's numbered temporary folders with lock files, which expire by age. Ray and PyTorch leave POSIX shared
memory to a helper process. A lock needs neither a clock nor a process.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

PREFIX = "dpsim-pool-"

MEMORY = Path("/dev/shm")
"""The folder in which Linux stores files in memory."""

ROOM = 2 << 30
"""The number of bytes that have to be free there. Containers often have 64 MiB, which NCCL needs itself."""


class PoolFolder:
    """A new folder, which this process holds locked."""

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
    """Removes the folders whose parents have ended."""
    for parent in (MEMORY, Path(tempfile.gettempdir())):
        for stale in parent.glob(f"{PREFIX}*"):
            _remove_if_stale(stale)


def has_room(folder: Path) -> bool:
    """Whether this process may use a folder, and that much room is free in it."""
    try:
        there = os.statvfs(folder)
    except OSError:
        return False
    return there.f_bavail * there.f_frsize >= ROOM and os.access(folder, os.W_OK | os.X_OK)


def _lock(folder: Path) -> int | None:
    """Returns a descriptor that holds the lock until it is closed; None without lock or permission."""
    import fcntl  # imported here, since systems without it must still import the backends

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
