"""A bound on the ops after the last fault: once the faults have stopped, a run has to end (`World.progress`).

A program that retries without end neither hangs nor repeats itself, so no other check finds it (docs/design/sim.md).
The bound counts the ops of each rank and service since the last applied fault, kill or delay, or since the start. Each
of these sets all counts to 0. A time-out that passes does not: the bound has to find who retries after each time-out.

    rank 1 dies                     all counts are 0
    rank 0 gets, in vain, gets      ... more than `World.progress` times: the run is over, and `Run.overdue`

The count of ops costs time only in worlds that set `World.progress`. The finding is that of `dpsim.checks.progress`.
Prior art: bounded liveness in model checkers, which is a safety property.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dpsim.contract.kinds import ENDS, MEMORY, SHARED
from dpsim.contract.ops import KIND, RawRecord
from dpsim.sim.graph.machine import Machine
from dpsim.sim.hosts.watch import Endless

NO_OPS = ENDS | SHARED | MEMORY - {"alloc"} | {"probe"}
"""Kinds of record that are no new op of a host."""


class Overdue(Endless):
    """A rank or service has issued more ops than the bound allows since the last fault."""


class OpBound:
    """The op counts of one run."""

    def __init__(self, machine: Machine, most: int, journals: list[list[RawRecord]]) -> None:
        self._machine = machine
        self._most = most
        self._journals = journals
        self._counts = [0] * len(journals)

    def append_to(self, rank: int) -> Callable[[RawRecord], Any]:
        """Returns a function that appends to the rank's journal, and raises Halt if the rank passes the bound."""
        append, counts = self._journals[rank].append, self._counts

        def counted(raw: RawRecord) -> None:
            append(raw)
            if raw[KIND] == "injected":
                counts[:] = [0] * len(counts)
            elif raw[KIND] not in NO_OPS:
                counts[rank] += 1
                if counts[rank] > self._most:
                    error = Overdue([rank])
                    raise self._machine.halt(error) from error

        return counted
