"""When the faults have stopped, a run has to end: a bound on the ops of each actor after that (`World.progress`).

A run that retries without end, with another number each time, neither stands still nor repeats itself. So it is no hang
and no livelock. The bound counts ops, not time: those of each rank or service since the last applied fault, kill or
delay, or since the start. Each of these sets all counts to 0. A time-out that passes does not, because the bound is
there for an actor that tries again after each time-out.

    rank 1 dies                     all counts are 0
    rank 0 gets, in vain, gets      ... more than `World.progress` times: the run is over, and `Run.overdue`

Only a world that asks for it pays anything. The finding is that of `dpsim.checks.progress`. Prior art: bounded liveness
of model checkers, which is a safety property.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dpsim.contract.ops import KIND, RawRecord
from dpsim.sim.graph.machine import Machine
from dpsim.sim.hosts.watch import Endless

NO_OPS = frozenset({"ended", "finished", "free", "fresh", "learned", "probe", "raised", "used"})
"""Kinds of record that tell of no new op of a host."""


class Overdue(Endless):
    """This one has done more than it may since the last fault."""


class OpBound:
    """The counts of one run."""

    def __init__(self, machine: Machine, most: int, journals: list[list[RawRecord]]) -> None:
        self._machine = machine
        self._most = most
        self._journals = journals
        self._counts = [0] * len(journals)

    def append_to(self, rank: int) -> Callable[[RawRecord], Any]:
        """What writes a record into the journal of a rank. Raises Halt where the rank has passed the bound."""
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
