"""Names for a system and a process that no other system or process has.

    here = machine()                 # "339b60c6-5db7-400f-8345-823b4aaf4fb1 pid:[4026531836]"
    begun_at(4711)                   # 2873941, in ticks since the system started; 0 if there is no such process

A process id is unique only within one pid namespace, and only while the process lives. A later process may get the same
id, but it began at another time. Without /proc, both functions return an empty value, and no process can be recognized.
"""

from __future__ import annotations

import os

ENDED = (b"Z", b"X")
"""States in /proc of a process that has ended and whose parent has not waited for it."""

STATE, STARTED = 0, 19
"""Indices of these fields in /proc/PID/stat, counted after the name."""


def machine() -> str:
    """Returns the name of this system: its boot id and its pid namespace. Empty if unknown."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def begun_at(pid: int) -> int:
    """Returns when a process began, in ticks since the system started; 0 if it does not exist or has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            words = file.read().rpartition(b")")[2].split()
        return 0 if words[STATE] in ENDED else int(words[STARTED])
    except (OSError, IndexError, ValueError):
        return 0
