"""Host threads of a rank: which of them goes on, and the flags between them.

Only where a program says that it has threads. Each host thread is a coroutine that runs in a greenlet of its own, so it
can be held up within a plain call as well: before each call of the contract, and before it goes on after a wait, it
stands at its *turn*, an op. All turns of a rank touch one resource, so a search tries them in every order, and whatever
the threads share in Python is in that order, too. Between two turns a thread is alone.

That is more than a search can come to the end of, where there are three threads. A program that says
`ordered_by_flags = True` promises that what its threads share in Python is ordered by flags, starts and joins where the
order matters. Then a turn touches what the call is on: a flag, a thread, or one resource for all the rest. Who draws
a number that others draw, too, says so by a call on a flag.

    main            start u1 | launch a | join u1
    u1                       | starts | launch b | ends           # a before b, or b before a on the stream

The objects of the contract hold the rank's *fronts*: a host and a journal whose fields are always those of the thread
that runs. To let a thread go on is to change them.

A flag is an edge: what waits for it comes after the turn in which it was set. It takes no time.

XX: what a thread does between two calls of the contract is one step. A race of two threads on a Python variable within
such a step is not seen.

Prior art: Shuttle and loom, which run each thread of a test as a coroutine of its own and choose who goes on at each
synchronising call; CHESS (Musuvathi and others, OSDI 2008).
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator, Sequence
from contextlib import suppress
from typing import Any, Literal, TypeVar

import simpy
from greenlet import GreenletExit, getcurrent, greenlet

from dpsim.backend.journal import Journal, RankJournal
from dpsim.backend.misuse import ForeignAwait
from dpsim.backend.threads import JournaledFlag, JournaledThread
from dpsim.backend.work import Outcome
from dpsim.ops import RawRecord
from dpsim.schedule import numbered_label, visit_label
from dpsim.sim.host import Host
from dpsim.sim.machine import Machine
from dpsim.sim.op import Op

T = TypeVar("T")


TOUCHED: dict[str, tuple[tuple[str, Literal["r", "w"]], ...]] = {
    "set": (("state", "w"),),
    "clear": (("state", "w"), ("clear", "w")),
    "query": (("state", "r"),),
    "wait": (("clear", "r"),),
    "start": (("name", "w"),),
    "join": (("name", "r"),),
    "end": (("end", "w"),),
}
"""What a call on a flag or thread touches of it. Whether a wait comes before a set or after it makes no difference, as
long as nobody clears the flag."""


def front_of(original: T) -> T:
    """What has the fields of `original`, until it is given those of another one."""
    front = object.__new__(type(original))
    front.__dict__ = original.__dict__
    return front


class TurningHost(Host):
    """A host thread of a rank that may have several. It really stands still in a plain call."""

    turns = True

    def __init__(
        self, journal: Journal, front: Journal, records: list[RawRecord], machine: Machine, by_object: bool
    ) -> None:
        super().__init__(journal, records, machine)
        self.own_journal = journal
        self.journal = front
        self.by_object = by_object
        self.mortal = self.lives or ()
        self.lives = ((("turns", self.rank), "w"), *self.mortal)
        self._gone_on = self._starts = 0
        self._held_up: Sequence[Op] = ()
        self.last: Op | None = None
        """Its last turn."""
        self.stands = False
        """It stands in a plain call that a limit of the world holds up."""
        journal.looks = True
        journal.turn = self.turn

    def starts(self) -> None:
        """Stand still until it is the turn of this thread to begin."""
        label = numbered_label("starts", self._starts, self.word) if self.machine.visible else ""
        self._pass(self.alone(self.op(label, host=True)))
        self._starts += 1

    def turn(self, site: str, ordinal: int) -> None:
        """Stand still until it is this thread's turn to do something at a site."""
        label = visit_label(self.word, site, ordinal, "comes to")
        op = self.op(label if self.machine.visible else "", host=True)
        kind, name, what = self.own_journal.about
        if self.by_object and kind:
            touched = tuple([((kind, self.rank, name, part), mode) for part, mode in TOUCHED[what]])
            op.footprint = (*touched, *self.mortal)
        self._pass(op)

    def alone(self, op: Op) -> Op:
        """That this thread goes on by itself is nothing to the others, where flags order what they share."""
        if self.by_object:
            op.footprint = ((("thread", self.rank, self.journal.thread, "goes on"), "w"), *self.mortal)
        return op

    def _pass(self, op: Op) -> None:
        """Submit an op of this thread, and stand still until it has fired."""
        machine = self.machine
        if self._held_up:
            self._stand()
            if not machine.timed:
                self.before(op)
        if machine.timed and machine.env.due:
            self._give_way()
        machine.submit(op)
        if op.at < 0:
            stand(machine.until(op, self.waiter))
        if self.killed:
            stand(machine.env.waiter())  # which is never due
        self._learn(op)
        self.last = op

    def _give_way(self) -> None:
        """Timed: let those go on of whom it is noted that they did, before this thread comes to its turn; each once."""
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

    def issue(self) -> None:
        """It stood at its turn."""

    def stand(self, ends: Sequence[Op], records: int) -> None:
        self._held_up = ends
        if records <= len(self.records):  # else the record of this call is yet to come, so it stands before its next
            self._stand()

    def _stand(self) -> None:
        machine, ends, self._held_up = self.machine, self._held_up, ()
        if machine.timed and all(op.at >= 0 for op in ends):
            return
        gate = self.op(numbered_label("gets through", self._gates, self.word) if machine.visible else "", host=True)
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

    def wait(self, op: Op, result: Any = None) -> Generator[Any, Any, Any]:
        machine = self.machine
        if self._held_up:
            self._stand()
        label = numbered_label("goes on", self._gone_on, self.word) if machine.visible else ""
        after = self.alone(self.op(label, host=True))
        self._gone_on += 1
        machine.edge(op, after)
        machine.submit(after)
        if after.at < 0:
            yield machine.until(after, self.waiter)
        if self.killed:
            yield machine.env.waiter()
        self._learn(after)
        self.last = after
        return op.value if result is None else result

    def cut(self) -> bool:
        return self.stands


def stand(at: simpy.Event) -> None:
    """The running thread stands still within a plain call."""
    hub = getcurrent().parent
    assert hub is not None
    hub.switch(at)


class HostThread:
    """A thread that goes on whenever what it stood at has happened; see `dpsim.sim.environment.Thread`."""

    def __init__(self, threads: Threads, host: TurningHost, program: Coroutine[Any, Any, None]) -> None:
        self._threads = threads
        self.host = host
        self._program = program
        self._greenlet = greenlet(self._run, threads.hub)
        start = simpy.Event(threads.machine.env)
        start._ok, start._value, start.callbacks = True, None, [self.go_on]
        threads.machine.env.schedule(start)

    def _run(self) -> None:
        program = self._program
        try:
            while True:
                event = program.send(None)
                while type(event) is not simpy.Event:
                    event = program.throw(ForeignAwait())
                stand(event)
        except StopIteration:
            return

    def go_on(self, _: simpy.Event) -> None:
        threads = self._threads
        if threads.over:
            return
        threads.enter(self.host)
        event = self._greenlet.switch()
        if event is not None:
            event.callbacks.append(self.go_on)

    def close(self) -> None:
        """The run is over: nothing of it goes on."""
        self._threads.enter(self.host)
        with suppress(GreenletExit):
            if not self._greenlet.dead:
                self._greenlet.throw(GreenletExit)
            self._program.close()
        self.host.waiter.callbacks = []  # else they know this thread


class Threads:
    """All host threads of a rank. `host` and `journal`: the fronts. `over`: the rank has ended, no thread goes on."""

    def __init__(
        self, shared: RankJournal, records: list[RawRecord], machine: Machine, by_object: bool = False
    ) -> None:
        self.shared = shared
        self.records = records
        self.machine = machine
        self.hub = getcurrent()
        self.over = self._main_is_over = False
        journal = shared.thread()
        self.journal = shared.front = front_of(journal)
        self.by_object = by_object
        self.main = TurningHost(journal, self.journal, records, machine, by_object)
        self.host: TurningHost = front_of(self.main)
        self._running: list[HostThread] = []
        self.started: list[SimThread] = []
        self._hosts: dict[str, TurningHost] = {}

    def enter(self, host: TurningHost) -> None:
        """The thread of that host runs now."""
        self.host.__dict__ = host.__dict__
        self.journal.__dict__ = host.own_journal.__dict__

    def begin(self, host: TurningHost, program: Coroutine[Any, Any, None]) -> None:
        self._running.append(HostThread(self, host, program))

    def host_of(self, name: str) -> TurningHost:
        """The host of a thread that is started now, and knows what its starter knows."""
        starter = self.host
        host = self._hosts.get(name)
        if host is None:
            host = TurningHost(self.shared.thread(name), self.journal, self.records, self.machine, self.by_object)
            self._hosts[name] = host
        host.own_journal.step = self.journal.step
        host.seen_marks |= starter.seen_marks
        host.causes |= starter.causes
        host.error, host._failed = starter.error, starter._failed
        return host

    @property
    def hosts(self) -> list[TurningHost]:
        return [self.main, *self._hosts.values()]

    def all_over(self) -> Generator[Any, Any, SimThread | None]:
        """Wait until all have ended. The answer is one that raised, which nobody has joined."""
        self._main_is_over = True
        for thread in self.started:  # which may grow
            if not thread.heard:
                yield from self.main.wait(thread.ended)
        return next((one for one in self.started if one.error is not None and not one.heard), None)

    def died(self) -> None:
        """The rank was killed."""
        for host in self.hosts:
            host.killed = True
        self.enter(self.main)
        self.main.died()

    def idle(self) -> bool:
        """Whether all that have not ended stand in an idle get, and there is one."""
        if self._main_is_over and all(one.over for one in self.started):
            return False
        return (self.main.idle or self._main_is_over) and all(one.over or one.host.idle for one in self.started)

    def close(self) -> None:
        """The run is over: take the threads down."""
        self.over = True
        for journal in self.shared.threads.values():
            journal.turn = _refuse
        for thread in self._running:
            thread.close()
        self._running.clear()

    def forget(self) -> None:
        """Nobody asks for anything any more; a run leaves no cycles behind."""
        self.started.clear()
        self._hosts.clear()
        self.shared.front = None


def _refuse(_: str, __: int) -> None:
    """What a thread does when it is taken down is not a part of the run."""
    raise GreenletExit


class SimThread(JournaledThread):
    """A host thread that the program has started. `error`: what it raised."""

    __slots__ = ("_threads", "ended", "error", "host", "message")

    def __init__(self, threads: Threads, name: str, host: TurningHost) -> None:
        super().__init__(threads.journal, name)
        self._threads = threads
        self.host = host
        self.error: BaseException | None = None
        self.message = ""
        self.ended = Op("", life=~host.rank)
        threads.started.append(self)

    def end(self, by: TurningHost) -> None:
        """It has come to its end, in this turn."""
        if by.chained:
            by.before(self.ended)
        self._threads.machine.submit(self.ended)

    @property
    def over(self) -> bool:
        return self.ended.at >= 0

    def _join(self) -> Outcome:
        def outcome() -> Generator[Any, Any, str | None]:
            yield from self._threads.host.wait(self.ended)
            self.heard = True
            return self.message or None

        return outcome


class SimFlag(JournaledFlag):
    """A flag: the turn in which it was set, and who waits for that."""

    __slots__ = ("_by", "_host", "_set_now", "_waiting")

    def __init__(self, host: Host, name: str) -> None:
        super().__init__(host.journal, name)
        self._host = host
        self._set_now = False
        self._by: Op | None = None  # None: nothing that anybody need come after
        self._waiting: list[Op] = []

    def _set(self) -> None:
        host = self._host
        if not self._set_now:
            self._set_now = True
            self._by = host.last if isinstance(host, TurningHost) else None
        waiting, self._waiting = self._waiting, []
        for op in waiting:
            host.machine.edge(self._by, op)
            host.machine.submit(op)

    def _clear(self) -> None:
        self._set_now, self._by = False, None

    def _wait(self) -> Outcome:
        host = self._host

        def outcome() -> Generator[Any, Any, None]:
            if self._set_now and self._by is None:
                return
            op = Op(host.address("passes"), life=~host.rank)
            if host.chained:
                host.before(op)
            if self._set_now:
                host.machine.edge(self._by, op)
                host.machine.submit(op)
            else:
                self._waiting.append(op)
            yield from host.wait(op)

        return outcome

    def _query(self) -> Outcome:
        host = self._host

        def outcome() -> Generator[Any, Any, bool]:
            if self._set_now and isinstance(host, TurningHost) and self._by is not None:
                host._learn(self._by)
            yes = self._set_now
            if not yes and host.machine.timed:
                yield from host.spin()
            return yes

        return outcome
