"""The system on which a process runs, and the process there, by names that no other one has.

    here = machine()                 # "339b60c6-5db7-400f-8345-823b4aaf4fb1 pid:[4026531836]"
    begun_at(4711)                   # 2873941, in ticks since the system began; 0 if there is no such process

The number of a process is valid only in one space of process ids, and until the process ends. Then another process may
get the number, but it began later. Without /proc, both functions return nothing, and no process counts as known.
"""

from __future__ import annotations

import os

ENDED = (b"Z", b"X")
"""States of a process that ended and whose parent has not asked for it."""

STATE, BEGUN = 0, 19
"""Places in /proc/PID/stat behind the name."""


def machine() -> str:
    """The system: its boot, and the space of its process ids. Empty if that is unknown."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def begun_at(pid: int) -> int:
    """When a process began, in ticks since the system did; 0 if it does not exist or has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            words = file.read().rpartition(b")")[2].split()
        return 0 if words[STATE] in ENDED else int(words[BEGUN])
    except (OSError, IndexError, ValueError):
        return 0
