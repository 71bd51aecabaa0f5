"""Tells dpsim which lines of the program take something from outside of the simulation: a clock, entropy, a thread.

    touched("clock")        # ["outside", "clock", "train.py:12"], if a line of the program itself reads the clock

Only the program's own lines count. Reads by installed packages, by torch and by Python's library for its own purposes
(a log record, the name of a temporary file) do not. Code without a file, as of `eval` and of dataclasses, has the line
that runs it. So has a module of Python's library that returns what it reads.
"""

from __future__ import annotations

import sys
from types import CodeType, FrameType
from typing import Any

from dpsim.torch.child import pipe
from dpsim.torch.child.frames import is_installed, is_standard, is_users, place_of, users_frame

PASSED = ("random", "secrets", "uuid", "statistics", "timeit", "asyncio")
"""Modules of Python's library whose functions return entropy or times to their caller, or act by them."""

_told: set[tuple[str, CodeType, int]] = set()
_telling: list[bool] = []


def touched(kind: str) -> None:
    """Tells dpsim once for each line that the program reads `kind`."""
    frame: Any = sys._getframe(1)
    while frame is not None and _passes(frame):
        frame = frame.f_back
    if frame is not None and is_users(frame.f_code) and not is_installed(frame.f_code):
        _tell(kind, frame)


def touched_through(kind: str) -> None:
    """The same for the innermost line of the program or a package, through a library that starts a thread or draws."""
    frame = users_frame()
    if frame is not None:
        _tell(kind, frame)


def _tell(kind: str, frame: FrameType) -> None:
    line = kind, frame.f_code, frame.f_lineno
    if line in _told or _telling or not pipe.may_speak():
        return
    _told.add(line)
    _telling.append(True)  # the message may read the clock itself
    try:
        pipe.tell(["outside", kind, place_of(frame)])
    finally:
        _telling.clear()


def _passes(frame: Any) -> bool:
    if frame.f_code.co_filename.startswith("<") and not is_standard(frame.f_code):
        return True
    name = str(frame.f_globals.get("__name__", ""))
    return name.startswith("dpsim.torch.child") or name.partition(".")[0] in PASSED
