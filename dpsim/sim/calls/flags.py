"""Flags between the host threads of a rank, for which its streams may wait as well.

A *turn* is one scheduler step of a thread. A thread that waits for a flag continues after the turn in which another
thread sets it: an edge of the op graph. A flag costs no time. A wait begins, and a query reads the flag, in the turn in
which the thread makes that call. A search tries that turn before and after turns of other threads. If the program
awaits the call later, turns of other threads may lie between.

If a stream waits for a flag, it reads a copy of the flag in device memory, the `FlagWord`. The host's set or clear
reaches this memory some time after the call. The simulation creates the word at the first wait of any stream for the
flag, with the flag's value at that time.

    u1                 set                    clear        set
    the word                 written                written        written
    stream       ... launch a     reads: continues            (if it reads here: continues at the third write)

A clear before the read changes the result, so the read conflicts with each op that clears the flag. A set does not.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from dpsim.backend.hosts.threads import JournaledFlag
from dpsim.backend.hosts.work import Outcome
from dpsim.contract.events import IS_LATE_FOR, PASSES, SHOWS
from dpsim.sim.graph.op import Op
from dpsim.sim.hosts.chain import Chain
from dpsim.sim.hosts.host import Host
from dpsim.sim.hosts.turns import TurningHost


class SimFlag(JournaledFlag):
    """A flag: whether it is set, by which turn, and which waits are pending."""

    __slots__ = ("_by", "_host", "_set_now", "_waiting", "_word")

    def __init__(self, host: Host, name: str) -> None:
        super().__init__(host.journal, name)
        self._host = host
        self._set_now = False
        self._by: Op | None = None  # None: no wait needs an edge from a turn
        self._waiting: list[Op] = []
        self._word: FlagWord | None = None

    def hold(self, chain: Chain) -> None:
        """Lets the next work on a stream wait until the device reads the flag as set."""
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
        late = host.address(IS_LATE_FOR) if late_ns else ""
        op = None
        if not self._set_now or self._by is not None:
            op = Op(host.address(PASSES), life=~host.rank)
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
        late = host.address(IS_LATE_FOR) if late_ns else ""

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
    """The flag in device memory. `resource`: the name under which reads and clears of it conflict."""

    __slots__ = ("_by", "_host", "_is_set", "_last", "_waiting", "resource")

    def __init__(self, host: Host, name: str, is_set: bool) -> None:
        self.resource = "flag of streams", host.rank, name
        self._host = host
        self._is_set = is_set
        self._last: Op | None = None  # the last op that writes it, in issue order
        self._by: Op | None = None  # the op that set it
        self._waiting: list[Op] = []

    def write(self, value: bool) -> None:
        """Lets the device see a set or a clear some time after the host's call, in the order of these calls."""
        host, machine = self._host, self._host.machine
        op = host.op(host.address(SHOWS), 0, host=True)
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
        """Puts the read of the flag on the stream, after all writes of the flag that the host issued before."""
        host = self._host
        look, through = host.op(host.address()), Op("", life=host.rank)
        look.effect, look.args = self._look, (through,)
        look.footprint = (*look.touches(), (self.resource, "r"))
        through.pending += 1  # it waits until the flag is set
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
