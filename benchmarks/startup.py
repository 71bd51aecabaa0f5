"""Measures start-up: the median CPU seconds of a process that runs one command, with compiled bytecode."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys

COMMANDS = ("--help", "list", "schema", "run quickstart", "explore quickstart")


def cpu_seconds(command: str) -> float:
    """Returns the user and system time of the process and of its children."""
    what = [sys.executable, "-m", "dpsim.cli", *command.split()]
    with subprocess.Popen(what, stdout=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return used.ru_utime + used.ru_stime


def measure(repetitions: int) -> dict[str, float]:
    """Returns the median for each command. The first run does not count."""
    for command in COMMANDS:
        cpu_seconds(command)
    took: dict[str, list[float]] = {command: [] for command in COMMANDS}
    for _ in range(repetitions):
        for command in COMMANDS:
            took[command].append(cpu_seconds(command))
    return {command: statistics.median(seconds) for command, seconds in took.items()}
