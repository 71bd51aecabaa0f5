"""Finds the files that a rank opens for writing. Ranks share a disk, and no schedule orders their accesses to files."""

from __future__ import annotations

import os
import sys
from typing import Any

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
MOST = 20
_written: dict[str, None] = {}


def watch() -> None:
    """Starts an audit hook that notes the name of each file that the process opens for writing."""
    sys.addaudithook(_hook)


def written() -> list[str]:
    """Returns the names of the files, at most `MOST`, without devices and compiled Python files."""
    return list(_written)[:MOST]


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if event != "open" or len(args) < 3:
        return
    path, mode, flags = args[:3]
    writes = any(one in mode for one in "wax+") if isinstance(mode, str) else bool((flags or 0) & WRITES)
    if writes and isinstance(path, str | bytes):
        name = os.fsdecode(path)
        if not name.startswith(("/dev/", "/proc/")) and not name.endswith((".pyc",)) and "__pycache__" not in name:
            _written.setdefault(name)
