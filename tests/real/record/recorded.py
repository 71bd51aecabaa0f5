"""Runs torch programs in several processes, with a recorder in each."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from dpsim.cli.record import variables
from tests import ROOT


def environment(folder: Path | None, quiet: float = 1.0) -> dict[str, str]:
    """Returns the environment of a job, which records into the folder, if given."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    found = {**os.environ, "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    found["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
    if folder is not None:
        recorded = variables(folder, 4_096, quiet)
        recorded["PYTHONPATH"] = os.pathsep.join((recorded["PYTHONPATH"], found["PYTHONPATH"]))
        found |= recorded
    return found


def started(words: Sequence[str], size: int, told: dict[str, str]) -> list[subprocess.Popen[str]]:
    """Starts one process for each rank."""
    return [
        subprocess.Popen(
            [sys.executable, *words],
            env={**told, "RANK": str(rank), "WORLD_SIZE": str(size)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]


def finished(processes: Sequence[subprocess.Popen[str]]) -> list[str]:
    """Returns what each process printed. Raises AssertionError if one fails."""
    try:
        printed = [process.communicate(timeout=120) for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process, (_, errors) in zip(processes, printed, strict=True):
        assert process.returncode == 0, errors
    return [out for out, _ in printed]
