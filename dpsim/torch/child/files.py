"""Finds the files that a rank writes, makes or renames. Ranks share a disk, and no schedule orders their accesses to
files. The same is true of shared memory with a name, and of the processes that a rank starts.

Code in C++ opens files without an audit event. `torch.save` is such code, so a call of it with a name counts as one.
"""

from __future__ import annotations

import _posixshmem  # type: ignore[import-not-found]
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch

from dpsim.torch.child.outside import touched_through
from dpsim.torch.child.unbound import Unbound

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
MADE = {"os.rename": 1, "os.link": 1, "os.symlink": 1, "os.mkdir": 0, "sqlite3.connect": 0}
"""The audit events that make a file, and which of their arguments names it."""
STARTED = ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system")
IN_CPP: dict[tuple[Any, str], Callable[..., Any]] = {
    (torch, "save"): lambda obj, f, *_, **more: f,
    (torch.jit, "save"): lambda m, f, *_, **more: f,
    (torch, "from_file"): lambda filename, shared=False, *_, **more: shared and filename,
    (torch.UntypedStorage, "from_file"): lambda filename, shared, *_, **more: shared and filename,
    (_posixshmem, "shm_open"): lambda path, *_, **more: f"/dev/shm{path}",
}
"""The functions that write a file without an audit event, each with the argument that names the file."""
MOST = 20
_written: dict[str, None] = {}


def watch() -> None:
    """Starts an audit hook that notes each file that the process writes, and the lines that start a process."""
    sys.addaudithook(_hook)
    for (owner, name), named in IN_CPP.items():
        original = getattr(owner, name)
        setattr(owner, name, Unbound(_noting(original, named), original))


def _noting(function: Any, named: Callable[..., Any]) -> Any:
    def noted(*args: Any, **more: Any) -> Any:
        with suppress(TypeError):  # the function itself refuses the arguments
            path = named(*args, **more)
            if isinstance(path, str | os.PathLike):
                _written.setdefault(os.fspath(path))
        return function(*args, **more)

    return noted


def written() -> list[str]:
    """Returns the names of the files, at most `MOST`, without devices and compiled Python files."""
    return list(_written)[:MOST]


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if event in STARTED:
        touched_through("process")
    elif event in MADE:
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
