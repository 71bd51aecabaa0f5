"""Start-up: CPU seconds of a whole process that runs one command, its median. Bytecode is there already."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys

COMMANDS = ("--help", "list", "schema", "run quickstart", "explore quickstart")


def cpu_seconds(command: str) -> float:
    """User and system time of the process, and of what it has waited for."""
    what = [sys.executable, "-m", "dpsim.cli", *command.split()]
    with subprocess.Popen(what, stdout=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return used.ru_utime + used.ru_stime


def measure(repetitions: int) -> dict[str, float]:
    """For each command the median; one run before goes uncounted."""
    for command in COMMANDS:
        cpu_seconds(command)
    took: dict[str, list[float]] = {command: [] for command in COMMANDS}
    for _ in range(repetitions):
        for command in COMMANDS:
            took[command].append(cpu_seconds(command))
    return {command: statistics.median(seconds) for command, seconds in took.items()}
