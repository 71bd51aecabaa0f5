"""Tests of the line that a report names: the program's innermost own line, and no line of Python's own library."""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.diagnose.dumps.stacks import place_of_thread
from dpsim.diagnose.dumps.text import as_text
from tests.diagnose.dumps.made import MadeJob

LIBRARY = "/usr/lib/python3.11"
THREAD = [
    {"name": "run", "filename": f"{LIBRARY}/concurrent/futures/thread.py", "line": 58},
    {"name": "_bootstrap", "filename": f"{LIBRARY}/threading.py", "line": 1002},
]


def report(user: list[dict[str, Any]]) -> list[str]:
    """Returns the report of a job in which rank 2 skips a call. `user`: the frames below those of torch."""
    job = MadeJob(4)
    job.call([0, 1, 2, 3])
    job.call([0, 1, 3])
    for entries in job.entries.values():
        for entry in entries:
            entry["frames"][1:] = user
    return as_text(job.explained()).splitlines()


def test_the_next_step_is_the_programs_own_line() -> None:
    """A pool of threads calls torch for the program. The twin has no own line, so the report names none."""
    own = {"name": "step", "filename": "train.py", "line": 10}
    lines = report([THREAD[0], own, *THREAD])
    assert lines[-1].startswith("next      read train.py:10 as rank 2 runs it")
    assert report(THREAD)[-1].startswith("next      read the code around this call as rank 2 runs it")


@pytest.mark.parametrize("file", ["threading.py", "concurrent/futures/_base.py", f"{LIBRARY}/queue.py"])
def test_the_place_of_a_waiting_thread_is_its_own_line(file: str) -> None:
    """py-spy shortens the files of Python's library. A program's file of the same name in a folder is its own."""
    stack = f'Thread 4711 (idle): "MainThread"\n    wait ({file}:327)\n    step (train.py:42)\n'
    assert place_of_thread(stack, 0).chain == (("step", "train.py:42"),)
    assert place_of_thread(stack.replace(file, "mine/threading.py"), 0).line == "mine/threading.py:327"
