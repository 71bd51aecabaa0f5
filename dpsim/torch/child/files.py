"""Finds the files that a rank writes, makes or renames. Ranks share a disk, and no schedule orders their accesses to
files.

Code in C++ opens files without an audit event. `torch.save` is such code, so a call of it with a name counts as one.
"""

from __future__ import annotations

import os
import sys
from functools import wraps
from typing import Any

import torch

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
MADE = {"os.rename": 1, "os.link": 1, "os.symlink": 1, "os.mkdir": 0, "sqlite3.connect": 0}
"""The audit events that make a file, and which of their arguments names it."""
MOST = 20
_written: dict[str, None] = {}


def watch() -> None:
    """Starts an audit hook that notes the name of each file that the process writes, makes or renames."""
    sys.addaudithook(_hook)
    save = torch.save

    @wraps(save)
    def noted(obj: Any, f: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(f, str | os.PathLike):
            _note(os.fspath(f))
        return save(obj, f, *args, **kwargs)

    torch.save = noted


def written() -> list[str]:
    """Returns the names of the files, at most `MOST`, without devices and compiled Python files."""
    return list(_written)[:MOST]


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if event in MADE:
        _note(args[MADE[event]])
    elif event == "open" and len(args) >= 3:
        path, mode, flags = args[:3]
        if any(one in mode for one in "wax+") if isinstance(mode, str) else (flags or 0) & WRITES:
            _note(path)


def _note(path: Any) -> None:
    if isinstance(path, str | bytes):
        name = os.fsdecode(path)
        if not name.startswith(("/dev/", "/proc/")) and not name.endswith((".pyc",)) and "__pycache__" not in name:
            _written.setdefault(name)
