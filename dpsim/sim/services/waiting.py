"""Waits at ports and stores: a host waits until it has read something, or its time-out passes.

waiting = Waiting(machine, host, timeout_ns, "asks at")
waiting.look(see, touches, after)       # when there is something to read
yield from host.wait(waiting.op)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dpsim.contract.events import WAITS_IN_VAIN
from dpsim.contract.schedule import Footprint
from dpsim.sim.graph.machine import Machine
from dpsim.sim.graph.op import Op
from dpsim.sim.hosts.host import Host

LATER = object()
"""The result of a read that found nothing."""


class Waiting:
    """A host waits for a read or its time-out, whichever is first. With a time-out of 0 ns (`polls`), it reads once."""

    def __init__(
        self, machine: Machine, host: Host, timeout_ns: int | None, verb: str, at: tuple[str, int] | None = None
    ) -> None:
        """`at`: the site and ordinal of the call, by default of the last one that the host issued."""
        self.machine = machine
        self.host = host
        self.op = Op("", life=~host.rank)
        host.before(self.op)
        self.result: Any = None
        self.over = False
        self.looks = 0
        self.verb = verb
        self.site = at or (host.journal.site, host.journal.ordinal)
        self.alarm: Op | None = None
        self.ends: Footprint = ()  # the resource of its time-out and its reads, if either may be first
        self.polls = timeout_ns == 0
        if timeout_ns:
            label = host.label(self.site, WAITS_IN_VAIN)
            self.alarm = Op(label, timeout_ns, self._passes, None, ~host.rank)
            self.ends = ((("waits", label), "w"),) if machine.alarms.most else ()
            machine.alarms.set(self.alarm, timeout_ns, self.op.causes, host.mortal, self.ends)
            machine.alarms.awaited.add(timeout_ns)

    def look(self, see: Callable[[], Any], touches: Footprint, *after: Op | None) -> None:
        """Reads by `see` after the ops of `after`. Without any, reads from the start."""
        if self.over:
            return
        machine, host = self.machine, self.host
        verb = self.verb if not self.looks else f"{self.verb} (look {self.looks + 1})"
        self.looks += 1
        op = Op(host.label(self.site, verb), 0, None, None, ~host.rank)
        host.before(op)
        if machine.visible:  # no turn of a thread: its return from the wait is one
            op.footprint = (*host.mortal, *touches, *self.ends)
        op.effect, op.args = self._looked, (see, op)
        for one in after:
            machine.edge(one, op)
        machine.submit(op)

    def _looked(self, see: Callable[[], Any], op: Op) -> None:
        found = LATER if self.over else see()
        if found is LATER and self.polls:
            found = None
        if found is LATER:
            self.op.causes |= op.causes
            return
        self.end(found, op)

    def end(self, result: Any, by: Op) -> None:
        """Ends the wait with a result, because of the op `by`."""
        self.over = True
        self.result = result
        if self.alarm is not None and self.alarm is not by:
            self.machine.alarms.cancel(self.alarm, by)
        self.op.seen_marks |= by.seen_marks
        self.op.causes |= by.causes
        self.machine.submit(self.op)

    def _passes(self) -> None:
        if not self.over:
            assert self.alarm is not None
            self.end(None, self.alarm)
