"""Counts instructions per rank-step, if valgrind is installed. They show what calls do not show, such as a longer loop.

Callgrind runs the benchmark's program for many steps and for few, and the difference is the cost of the steps. It takes
about a minute. The hash seed is fixed. But addresses differ between runs, so the count varies by up to 2 %.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

from benchmarks.counts import DP, FEW, MANY, PP


def instructions(steps: int) -> int:
    """Returns the instructions of a process that imports the program and runs it for `steps` steps."""
    code = f"from benchmarks import program; program.simulate({DP}, {PP}, {steps})"
    tool = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    ended = subprocess.run(
        [*tool, sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": "0"},
        check=True,
        capture_output=True,
        text=True,
    )
    return int(re.findall(r"Collected : (\d+)", ended.stderr)[-1])


def counted() -> dict[str, float]:
    """Returns the count, or nothing without valgrind."""
    if shutil.which("valgrind") is None:
        print("instructions a rank-step: left out, as valgrind is not installed", file=sys.stderr)
        return {}
    return {"instructions a rank-step": (instructions(MANY) - instructions(FEW)) / (DP * PP * (MANY - FEW))}
