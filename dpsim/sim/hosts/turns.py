"""The turns of a host thread: before each of its calls, the thread waits until the schedule picks it.

A turn is one scheduler step of one thread, and an op of the simulated machine. All turns of a rank write one resource,
so a search tries them in every order. So it also tries all orders in which the threads use shared Python variables.

With three threads such a search rarely finishes, so a program may promise which orders do not matter:

* `ordered_by_objects = True` promises that the order of two calls matters only if both are on one object;
* `ordered_by_flags = True` promises that flags, starts and joins order the shared Python state, where its order
  matters.

If a program makes such a promise, a turn of a thread reads or writes only the object of its call, so fewer turns
conflict. For `ordered_by_objects`, objects are flags, threads, communicators, streams, stores and mailboxes. For
`ordered_by_flags`, they are flags, threads, and communicators that may be aborted; all other calls count as calls on
one shared object. In such a program, a thread that increments a shared counter declares this by a call on a flag.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Literal, TypeAlias

import simpy
from greenlet import getcurrent

from dpsim.backend.journal.journal import Journal
from dpsim.contract.events import BREAKS, GETS_THROUGH, GOES_ON, REACHES, STARTS, numbered_label, visit_label
from dpsim.contract.ops import RawRecord
from dpsim.contract.schedule import Footprint
from dpsim.sim.graph.machine import Machine
from dpsim.sim.graph.op import Op
from dpsim.sim.hosts.host import Host
from dpsim.sim.hosts.turn_order import SeenTurns, TurnOrder

TOUCHED: dict[str, tuple[tuple[str, Literal["r", "w"]], ...]] = {
    "set": (("state", "w"),),
    "clear": (("state", "w"), ("clear", "w")),
    "query": (("state", "r"),),
    "wait": (("clear", "r"),),
    "wait_flag": (("state", "r"),),
    "start": (("name", "w"),),
    "join": (("name", "r"),),
    "end": (("end", "w"),),
    "abort": (("state", "w"),),
    "call": (("state", "r"),),
}
"""The footprint of a call, by kind, on a flag, a thread, or a communicator that ranks may abort. A call on such a
communicator, and a stream's wait for a flag, also count as ordinary calls. A thread's wait has the same effect before
and after a set, as long as no thread clears the flag.
"""

USED: dict[str, tuple[tuple[str, Literal["r", "w"]], ...]] = {
    **TOUCHED,
    "call": (("state", "r"), ("order", "w")),
    "use": (("order", "w"),),
}
"""The same for programs with `ordered_by_objects`: calls on two communicators, streams or stores commute."""

Promise: TypeAlias = Literal["", "flags", "objects"]
"""The promise of a program about the order of its threads: `ordered_by_flags`, `ordered_by_objects`, or none."""


class TurningHost(Host):
    """A host thread of a rank that may have several. In contrast to `Host`, it can wait within a plain call."""

    turns = True

    def __init__(
        self, journal: Journal, front: Journal, records: list[RawRecord], machine: Machine, promise: Promise = ""
    ) -> None:
        super().__init__(journal, records, machine)
        self.own_journal = journal
        self.journal = front
        self.by_object = bool(promise)
        self.touched = USED if promise == "objects" else TOUCHED
        self._shared_calls = ("wait_flag",) if promise == "objects" else ("call", "wait_flag")
        """Kinds of call that also count as ordinary calls."""
        self.lives = ((("turns", self.rank), "w"), *self.mortal)
        if promise:  # an exception of main ends the other threads
            self.mortal = ((("over", self.rank), "r"), *self.mortal)
            self.lives = ((("over", self.rank), "r"), *self.lives)
        self._gone_on = self._starts = 0
        self._held_up: Sequence[Op] = ()
        self.last: Op | None = None
        """The op of its last turn."""
        self.stands = False
        """Whether it waits in a plain call that a limit of the world blocks."""
        self.seen: SeenTurns | None = None
        """Its turns, if `SharedWatch` watches the run."""
        journal.looks = True
        journal.turn = self.turn

    def watch(self, order: TurnOrder) -> None:
        """Records its turns from now on."""
        own = self.own_journal
        self.seen = SeenTurns(own.thread, [], lambda: self.seen_marks, lambda: (own.step, own.site), order)

    def starts(self) -> None:
        """Waits for the turn in which this thread begins."""
        label = numbered_label(STARTS, self._starts, self.word) if self.machine.visible else ""
        self._pass(self.alone(self.op(label, host=True)))
        self._starts += 1
        if self.seen is not None:
            self.seen.begin(())

    def turn(self, site: str, ordinal: int) -> None:
        """Waits for this thread's turn to make a call at a site."""
        label = visit_label(self.word, site, ordinal, REACHES)
        op = self.op(label if self.machine.visible else "", host=True)
        kind, name, what = self.own_journal.about
        touched: Footprint = ()
        if self.by_object and what in self.touched:
            touched = tuple([((kind, self.rank, name, part), mode) for part, mode in self.touched[what]])
            op.footprint = (*touched, *(self.lives or () if what in self._shared_calls else self.mortal))
        if self.own_journal.dies(site, ordinal):
            self._for_all(op)
        self._pass(op)
        self._told = op
        if self.seen is not None:
            self.seen.begin(touched)

    def breaks(self) -> None:
        """Main has raised: waits for the turn in which it ends the rank."""
        if not self.killed:
            op = self.op(numbered_label(BREAKS, 0, self.word) if self.machine.visible else "", host=True)
            self._pass(self._for_all(op))

    def _for_all(self, op: Op) -> Op:
        """Gives `op`, which ends the rank, a footprint that conflicts with all turns of the other threads."""
        if self.by_object:
            op.footprint = ((("over", self.rank), "w"), (("turns", self.rank), "w"), *self.mortal[1:])
        return op

    def alone(self, op: Op, joined: str = "") -> Op:
        """Gives `op`, by which this thread continues, a footprint. With a promise, it conflicts with no turn of another
        thread. But if the thread has `joined` one, it conflicts with a start that uses the same name again.
        """
        if self.by_object:
            op.footprint = ((("thread", self.rank, self.journal.thread, GOES_ON), "w"), *self.mortal)
            if joined:
                op.footprint = ((("thread", self.rank, joined, "name"), "r"), *op.footprint)
        return op

    def _pass(self, op: Op) -> None:
        machine = self.machine
        if self._held_up:
            self._stand()
            if not machine.timed:
                self.before(op)
        if machine.timed and machine.env.due:
            self._give_way()
        if self.seen is not None:
            self.seen.marks.append(machine.mark(op))
        machine.submit(op)
        if op.at < 0:
            stand(machine.until(op, self.waiter))
        if self.killed:
            stand(machine.env.waiter())  # never due: the rank is dead
        self._learn(op)
        self.last = op

    def _give_way(self) -> None:
        """Timed: before its turn, lets each other thread that is due run once."""
        env, waiter = self.machine.env, self.waiter
        env.giving_way.add(waiter)
        first: set[simpy.Event] = set()
        while ahead := {*env.due} - env.giving_way - first:
            first |= ahead
            waiter.callbacks = []
            env.schedule(waiter)
            stand(waiter)
        env.giving_way.discard(waiter)

    def _learn(self, op: Op) -> None:
        if self.machine.timed:
            return
        self.seen_marks |= op.seen_marks
        if op.causes & ~self.causes:
            self.causes |= op.causes
            self.learned.append((self.journal.step, self.causes))

    def issue(self, label: str | None = None) -> None:
        """Does nothing, as the thread has already waited for its turn."""

    def stand(self, ends: Sequence[Op], records: int) -> None:
        self._held_up = ends
        if records <= len(self.records):  # else this call has no record yet, so the thread waits before its next call
            self._stand()

    def _stand(self) -> None:
        machine, ends, self._held_up = self.machine, self._held_up, ()
        if machine.timed and all(op.at >= 0 for op in ends):
            return
        gate = self.op(numbered_label(GETS_THROUGH, self._gates, self.word) if machine.visible else "", host=True)
        self._gates += 1
        machine.edges(ends, gate)
        machine.submit(gate)
        if gate.at < 0:
            self._at_device, self.stands = gate, True
            stand(machine.until(gate, self.waiter))
            self._at_device, self.stands = None, False
            if gate.at < 0 and self.error is not None:
                raise self.error
        self._learn(gate)

    def wait(self, op: Op, result: Any = None, joined: str = "") -> Generator[Any, Any, Any]:
        machine = self.machine
        if self._held_up:
            self._stand()
        label = numbered_label(GOES_ON, self._gone_on, self.word) if machine.visible else ""
        after = self.alone(self.op(label, host=True), joined)
        self._gone_on += 1
        machine.edge(op, after)
        if self.seen is not None:
            self.seen.marks.append(machine.mark(after))
        machine.submit(after)
        if after.at < 0:
            yield machine.until(after, self.waiter)
        if self.killed:
            yield machine.env.waiter()
        self._learn(after)
        self.last, self._told = after, None
        if self.seen is not None:
            self.seen.begin(())
        return op.value if result is None else result

    def cut(self) -> bool:
        return self.stands


def stand(at: simpy.Event) -> None:
    """Makes the running thread wait for an event within a plain call."""
    hub = getcurrent().parent
    assert hub is not None
    hub.switch(at)
