"""Unit process: a worker process that executes units (some schedules each), and reports its number of runs.

worker = UnitProcess(subjects, end=None)
worker.give(unit)
worker.connection.recv()        # runs so far; at last a UnitResult, or what was raised
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from dpsim.backend.journal.trouble import limit
from dpsim.campaign.subject import Subject
from dpsim.campaign.units import Unit, do, lost_by, portable

REPORT_EVERY_S = 0.2

LATE_SECONDS = 60.0
"""A process that does not answer for this time after the end of the exploration is lost."""


class UnitProcess:
    """A worker process, seen from the exploring process."""

    def __init__(self, subjects: Sequence[Subject], end: float | None) -> None:
        context = multiprocessing.get_context("fork")  # programs need not be picklable
        self.connection, theirs = context.Pipe()
        limit(self.connection.fileno(), LATE_SECONDS)
        self.process = context.Process(target=_serve, args=(theirs, self.connection, subjects, end), daemon=True)
        self.process.start()
        theirs.close()
        self.unit: Unit | None = None
        self.runs = 0

    def how_it_ended(self) -> str:
        """Returns how the stopped process ended, in words."""
        code = self.process.exitcode or 0
        return f"by signal {-code}" if code < 0 else f"with exit code {code}"

    def give(self, unit: Unit) -> None:
        self.unit = unit
        with suppress(OSError):  # it is dead, which reading the connection will show
            self.connection.send(unit)

    def answered(self, answer: object) -> None:
        """Handles an answer: a number of runs, or the end of its unit."""
        if isinstance(answer, int):
            self.runs = answer
        else:
            self.unit, self.runs = None, 0

    def stop(self) -> None:
        self.process.kill()
        self.process.join(LATE_SECONDS)
        self.connection.close()


def _serve(connection: Connection, parents: Connection, subjects: Sequence[Subject], end: float | None) -> None:
    parents.close()
    reported = time.monotonic()

    def tick(runs: int) -> None:
        nonlocal reported
        if time.monotonic() - reported > REPORT_EVERY_S:
            reported = time.monotonic()
            connection.send(runs)

    with suppress(EOFError, OSError, KeyboardInterrupt):
        while True:
            unit = connection.recv()
            try:
                answer: Any = do(unit, subjects[unit.subject], end, tick)
            except Exception as error:  # the exploring process handles it
                answer = lost_by(error) or portable(error)
            connection.send(answer)
