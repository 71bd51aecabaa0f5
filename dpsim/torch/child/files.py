"""Files that a rank wrote, by name: ranks share a disk, and a schedule does not order what they do there."""

from __future__ import annotations

import os
import sys
from typing import Any

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
MOST = 20
_written: dict[str, None] = {}


def watch() -> None:
    """Note each file that is opened to be written, from now on."""
    sys.addaudithook(_hook)


def written() -> list[str]:
    """Their names, without those of devices."""
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
