"""Flags between the host threads of a rank.

A set of a flag is an edge: a wait comes after the turn in which a thread set the flag. (A *turn* is one scheduler step
of a thread.) A flag takes no time. A wait begins, and a query looks, when the thread issues it. A search orders that
turn against others. The turns between that call and the await are further turns.

Streams see a flag as a `FlagWord`. It is memory that hosts write and the device reads, each later than the call. It
exists from the first wait of a stream for the flag, with the value that the flag has then.

    u1                 set                    clear        set
    the word                 written                written        written
    stream       ... launch a     looks: goes on                  (had it looked here: goes on with the third write)

A wait of a stream is two ops: a look at the flag, and a continuation. A set before the look and a set after it have the
same effect. A clear before the look has another effect, so a look conflicts with ops that clear the flag.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from dpsim.backend.hosts.threads import JournaledFlag
from dpsim.backend.hosts.work import Outcome
from dpsim.sim.graph.op import Op
from dpsim.sim.hosts.chain import Chain
from dpsim.sim.hosts.host import Host
from dpsim.sim.hosts.turns import TurningHost


class SimFlag(JournaledFlag):
    """A flag: the turn in which it was set, and the waits for that."""

    __slots__ = ("_by", "_host", "_set_now", "_waiting", "_word")

    def __init__(self, host: Host, name: str) -> None:
        super().__init__(host.journal, name)
        self._host = host
        self._set_now = False
        self._by: Op | None = None  # None: nothing that anybody need come after
        self._waiting: list[Op] = []
        self._word: FlagWord | None = None

    def hold(self, chain: Chain) -> None:
        """What is put on a stream from now on waits until the device finds the flag set."""
        if self._word is None:
            self._word = FlagWord(self._host, self.name, self._set_now)
        self._word.hold(chain)

    def _set(self) -> None:
        host = self._host
        if not self._set_now:
            self._set_now = True
            self._by = host.last if isinstance(host, TurningHost) else None
            if self._word is not None:
                self._word.write(True)
        waiting, self._waiting = self._waiting, []
        for op in waiting:
            host.machine.edge(self._by, op)
            host.machine.submit(op)

    def _clear(self) -> None:
        if self._set_now and self._word is not None:
            self._word.write(False)
        self._set_now, self._by = False, None

    def _stand(self, ns: int) -> None:
        self._host.held_up(ns)

    def _wait(self, late_ns: int) -> Outcome:
        host = self._host
        late = host.address("is late for") if late_ns else ""
        op = None
        if not self._set_now or self._by is not None:
            op = Op(host.address("passes"), life=~host.rank)
            if host.chained:
                host.before(op)
            if self._set_now:
                host.machine.edge(self._by, op)
                host.machine.submit(op)
            else:
                self._waiting.append(op)

        def outcome() -> Generator[Any, Any, None]:
            if op is not None:
                yield from host.wait(op)
            if late_ns:
                yield from host.pause(late_ns, late)

        return outcome

    def _query(self, late_ns: int) -> Outcome:
        host, yes, by = self._host, self._set_now, self._by
        late = host.address("is late for") if late_ns else ""

        def outcome() -> Generator[Any, Any, bool]:
            if late_ns:
                yield from host.pause(late_ns, late)
            if by is not None and isinstance(host, TurningHost):
                host._learn(by)
            if not yes and host.machine.timed:
                yield from host.spin()
            return yes

        return outcome


class FlagWord:
    """A flag as the device sees it. `resource`: what a look and a clear of it have in common."""

    __slots__ = ("_by", "_host", "_is_set", "_last", "_waiting", "resource")

    def __init__(self, host: Host, name: str, is_set: bool) -> None:
        self.resource = "flag of streams", host.rank, name
        self._host = host
        self._is_set = is_set
        self._last: Op | None = None  # that was issued to write it
        self._by: Op | None = None  # that has set it
        self._waiting: list[Op] = []

    def write(self, value: bool) -> None:
        """The host sets or clears the flag, and the device sees it some time later: in this order."""
        host, machine = self._host, self._host.machine
        op = host.op(host.address("shows"), 0, host=True)
        op.effect, op.args = self._written, (op, value)
        if not value:
            op.footprint = (*op.touches(), (self.resource, "w"))
        machine.edge(self._last, op)
        self._last = op
        machine.submit(op)

    def _written(self, op: Op, value: bool) -> None:
        self._is_set, self._by = value, op
        if value:
            waiting, self._waiting = self._waiting, []
            for through in waiting:
                self._go_on(through, op)

    def hold(self, chain: Chain) -> None:
        """The stream looks when it reaches this point, not before it can see what was written until now."""
        host = self._host
        look, through = host.op(host.address()), Op("", life=host.rank)
        look.effect, look.args = self._look, (through,)
        look.footprint = (*look.touches(), (self.resource, "r"))
        through.pending += 1  # that the flag is found set
        host.machine.edge(self._last, look)
        chain.append(look)
        chain.append(through)

    def _look(self, through: Op) -> None:
        if self._is_set:
            self._go_on(through, self._by)
        else:
            self._waiting.append(through)

    def _go_on(self, through: Op, by: Op | None) -> None:
        self._host.machine.edge(by, through)
        self._host.machine.submit(through)
