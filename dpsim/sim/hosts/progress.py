"""Faults stop, and then a run has to come to its end: a bound on what anybody may still do (`World.progress`).

A run that retries for ever, with another number each time, neither stands still nor repeats itself, so it is no hang
and no livelock. The bound is one of ops, not of time: those of each rank or service since the last fault, kill or delay
that was applied to anybody, or since the start. Each of these makes all counts begin anew. A time-out that passes does
not: who tries again after each of his time-outs is the one that is looked for.

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
