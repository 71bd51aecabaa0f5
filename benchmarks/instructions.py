"""Instructions a rank-step, where valgrind is installed: what counts of calls do not see, such as a longer loop.

Callgrind runs the benchmark's program for many steps and for few, and the difference are the steps. It takes about a
minute. The seed of hashes is fixed. Addresses differ from run to run, and move the count by up to 2 %.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

from benchmarks.counts import DP, FEW, MANY, PP


def instructions(steps: int) -> int:
    """Of a process that imports the program and runs it."""
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
    """Empty where valgrind is absent."""
    if shutil.which("valgrind") is None:
        print("instructions a rank-step: left out, as valgrind is not installed", file=sys.stderr)
        return {}
    return {"instructions a rank-step": (instructions(MANY) - instructions(FEW)) / (DP * PP * (MANY - FEW))}
