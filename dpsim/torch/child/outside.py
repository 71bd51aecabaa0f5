"""Tells dpsim what the program reads from outside of the simulation: a clock, or entropy. Each line is told once.

    touched("clock")        # ["outside", "clock", "train.py:12"], if a line of the program itself reads the clock

Only the program's own lines count. Reads by installed packages, by torch and by Python's library for its own purposes
(a log record, the name of a temporary file) do not.
"""

from __future__ import annotations

import sys
from types import CodeType
from typing import Any

from dpsim.torch.child import pipe
from dpsim.torch.child.frames import is_installed, is_users, users_place

PASSED = ("random", "secrets", "uuid")
"""Modules of Python's library whose functions return entropy to their caller."""

_told: set[tuple[str, CodeType, int]] = set()
_telling: list[bool] = []


def touched(kind: str) -> None:
    """Tells dpsim once for each line that the program reads `kind`."""
    frame: Any = sys._getframe(1)
    while frame is not None and _passes(frame):
        frame = frame.f_back
    if frame is None or _telling or not is_users(frame.f_code) or is_installed(frame.f_code):
        return
    line = kind, frame.f_code, frame.f_lineno
    if line in _told or not pipe.may_speak():
        return
    _told.add(line)
    _telling.append(True)  # the message may read the clock itself
    try:
        pipe.tell(["outside", kind, users_place()])
    finally:
        _telling.clear()


def _passes(frame: Any) -> bool:
    name = str(frame.f_globals.get("__name__", ""))
    return name.startswith("dpsim.torch.child") or name in PASSED
