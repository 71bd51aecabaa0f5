"""Stacks: reads where a process is blocked, from stacks that Python's fault handler or `py-spy dump` wrote.

    Thread 0x00007f8bd4e9a740 (most recent call first):          Thread 4711 (idle): "MainThread"
      File "train.py", line 42 in step                               step (train.py:42)
      File "train.py", line 60 in <module>                           <module> (train.py:60)

Only the main thread counts, and in it only lines of the user's program.
"""

from __future__ import annotations

import re
from pathlib import Path

from dpsim.contract.words import middle_cut
from dpsim.diagnose.dumps.entries import NOWHERE, CallPlace
from dpsim.diagnose.dumps.own_lines import is_of_torch, is_own

LARGEST = 1 << 22
"""The number of bytes of a file that are read."""

FRAMES = 4

RECORDER = "/real/record/"
"""A part of the paths of the recorder's own files."""

_THREAD = re.compile(r"^(?:Current thread|Thread) (?:0x)?([0-9a-fA-F]+)(.*)$")
_FAULT_LINE = re.compile(r'^  File "(.{1,400})", line (\d{1,9}) in (.{1,200})$')
_SPY_LINE = re.compile(r"^\s+(.{1,200}) \((.{1,400}):(\d{1,9})\)$")


def place_of_thread(text: str, main: int) -> CallPlace:
    """Returns the user's lines in the main thread, the innermost first. `main` is the thread's id, or 0 if it is
    unknown.
    """
    threads = _threads(text)
    lines = next((lines for number, said, lines in threads if number == main or "MainThread" in said), [])
    users = [one for one in lines if not is_of_torch(one[1]) and RECORDER not in one[1]]
    users = [one for one in users if is_own(one[1])] or users or lines
    chain = tuple(
        (middle_cut(function, 60), middle_cut(f"{file}:{line}", 160)) for function, file, line in users[:FRAMES]
    )
    return CallPlace(chain[0][1], chain) if chain else NOWHERE


def _threads(text: str) -> list[tuple[int, str, list[tuple[str, str, int]]]]:
    """Returns id, rest of the header, and lines of each thread."""
    found: list[tuple[int, str, list[tuple[str, str, int]]]] = []
    for line in text.splitlines():
        head = _THREAD.match(line)
        if head:
            found.append((int(head[1], 16) if len(head[1]) < 20 else 0, head[2], []))
        elif found:
            fault, spy = _FAULT_LINE.match(line), _SPY_LINE.match(line)
            if fault:
                found[-1][2].append((fault[3], fault[1], int(fault[2])))
            elif spy:
                found[-1][2].append((spy[1], spy[2], int(spy[3])))
    return found


def read_stacks(path: Path, main: int) -> CallPlace:
    """Returns the user's lines in the main thread from a file; NOWHERE without a file or lines."""
    try:
        with path.open("rb") as file:
            return place_of_thread(file.read(LARGEST).decode(errors="replace"), main)
    except FileNotFoundError:
        return NOWHERE
