"""Host threads of a rank, of which one runs at a time.

This module serves programs that declare threads. Each host thread is a coroutine that runs in its own greenlet, so a
plain call can suspend it as well. Before each call of the contract, and before it continues after a wait, it waits for
its *turn*. A turn is one scheduler step of a thread (`dpsim.sim.hosts.turns`). Between two turns no other thread runs.

    main            start u1 | launch a | join u1
    u1                       | starts | launch b | ends           # a before b, or b before a on the stream

The objects of the contract refer to the rank's *fronts*: a host and a journal whose fields are always those of the
running thread. The scheduler changes these fields before it resumes a thread.

XX: the code of a thread between two calls of the contract is one step. So dpsim misses a race of two threads on a
Python variable within such a step.

Prior art: Shuttle and loom run each thread of a test as a separate coroutine and choose which one goes on at each
synchronising call. See also CHESS (Musuvathi and others, OSDI 2008).
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from contextlib import suppress
from typing import Any

import simpy
from greenlet import GreenletExit, getcurrent, greenlet

from dpsim.backend.hosts.threads import JournaledThread, front_of
from dpsim.backend.hosts.work import Outcome
from dpsim.backend.journal.journal import RankJournal
from dpsim.backend.journal.misuse import ForeignAwait
from dpsim.contract.ops import RawRecord
from dpsim.sim.graph.machine import Machine
from dpsim.sim.graph.op import Op
from dpsim.sim.hosts.shared import SharedWatch
from dpsim.sim.hosts.turns import Promise, TurningHost, stand


class HostThread:
    """A thread that goes on whenever what it stood at has happened, as a `CoroutineThread` of the environment does."""

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
        if threads.watch is None:
            event = self._greenlet.switch()
        else:
            event = threads.watch.within(self.host.seen, self._greenlet.switch)
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
        self,
        shared: RankJournal,
        records: list[RawRecord],
        machine: Machine,
        promise: Promise = "",
        watch: SharedWatch | None = None,
    ) -> None:
        self.shared = shared
        self.records = records
        self.machine = machine
        self.hub = getcurrent()
        self.over = self._main_is_over = False
        journal = shared.thread()
        self.journal = shared.front = front_of(journal)
        self.promise = promise
        self.main = TurningHost(journal, self.journal, records, machine, promise)
        self.watch = watch
        if watch is not None:
            self.main.watch(watch.order)
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
            host = TurningHost(self.shared.thread(name), self.journal, self.records, self.machine, self.promise)
            self._hosts[name] = host
            if self.watch is not None:
                host.watch(self.watch.order)
        host.own_journal.step = self.journal.step
        host.seen_marks |= starter.seen_marks
        host.causes |= starter.causes
        host.error, host._failed = starter.error, starter._failed
        return host

    @property
    def hosts(self) -> list[TurningHost]:
        return [self.main, *self._hosts.values()]

    def all_over(self) -> Generator[Any, Any, SimThread | None]:
        """Wait until all have ended. Returns one that raised and that no thread has joined."""
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
        """The run is over; drop all references, so that it leaves no cycles behind."""
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
        """It has ended, in this turn."""
        if by.chained:
            by.before(self.ended)
        self._threads.machine.submit(self.ended)

    @property
    def over(self) -> bool:
        return self.ended.at >= 0

    def _join(self) -> Outcome:
        def outcome() -> Generator[Any, Any, str | None]:
            yield from self._threads.host.wait(self.ended, joined=self.name)
            self.heard = True
            return self.message or None

        return outcome
