"""The host threads of a rank, of which one runs at a time.

Programs that start threads use this module. Each host thread is a coroutine in a separate greenlet, so that even a
plain call (one without await) can suspend it. Before each call of the contract, and before it continues after a wait, a
thread waits for its *turn*. A turn is one scheduler step of a thread (`dpsim.sim.hosts.turns`). Between two turns no
other thread runs.

    main            start u1 | launch a | join u1
    u1                       | starts | launch b | ends           # a before b, or b before a on the stream

The rank's objects (streams, communicators) refer to a *front*: a host and a journal whose fields are always those of
the running thread. The scheduler swaps these fields before it resumes a thread.

Prior art: Shuttle and loom run each thread of a test as a separate coroutine, and choose at each synchronizing call
which one runs next. See also CHESS (Musuvathi and others, OSDI 2008).
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
from dpsim.sim.hosts.shared import SharedWatch, with_null_trace
from dpsim.sim.hosts.turns import Promise, TurningHost, stand


class HostThread:
    """A thread in a greenlet, which runs when its event happens, like a `CoroutineThread`."""

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
        state = threads.machine.env.state
        if state.active:
            state.enter(self.host.rank)
        if threads.watch is None:
            event = self._greenlet.switch()
        else:
            event = threads.watch.within(self.host.seen, self._greenlet.switch)
        if event is not None:
            event.callbacks.append(self.go_on)

    def close(self) -> None:
        """Ends the thread at the end of a run."""
        self._threads.enter(self.host)
        if self._threads.watch is None:
            self._unwind()
        else:
            with_null_trace(self._unwind)
        self.host.waiter.callbacks = []  # removes the reference to this thread

    def _unwind(self) -> None:
        with suppress(GreenletExit):
            if not self._greenlet.dead:
                self._greenlet.throw(GreenletExit)
            self._program.close()


class Threads:
    """`host`, `journal`: fronts with the fields of the running thread. `over`: the rank has ended, so none runs on."""

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
        """Makes the thread of this host the running one."""
        self.host.__dict__ = host.__dict__
        self.journal.__dict__ = host.own_journal.__dict__

    def begin(self, host: TurningHost, program: Coroutine[Any, Any, None]) -> None:
        self._running.append(HostThread(self, host, program))

    def host_of(self, name: str) -> TurningHost:
        """Returns the host of a thread that starts now. It has learned all that its starter has learned."""
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
        """Waits until all threads have ended. Returns a thread that raised and that no thread has joined, or None."""
        self._main_is_over = True
        for thread in self.started:  # the list may grow meanwhile
            if not thread.noticed:
                yield from self.main.wait(thread.ended)
        return next((one for one in self.started if one.error is not None and not one.noticed), None)

    def died(self) -> None:
        """A kill has ended the rank."""
        for host in self.hosts:
            host.killed = True
        self.enter(self.main)
        self.main.died()

    def idle(self) -> bool:
        """Whether all threads that have not ended wait in an idle get, and there is at least one."""
        if self._main_is_over and all(one.over for one in self.started):
            return False
        return (self.main.idle or self._main_is_over) and all(one.over or one.host.idle for one in self.started)

    def close(self) -> None:
        """Ends all threads at the end of the run."""
        self.over = True
        for journal in self.shared.threads.values():
            journal.turn = _refuse
        for thread in self._running:
            thread.close()
        self._running.clear()

    def forget(self) -> None:
        """Drops all references at the end of the run, so that no reference cycles remain."""
        self.started.clear()
        self._hosts.clear()
        self.shared.front = None


def _refuse(_: str, __: int) -> None:
    """Ends a thread that makes a call while `close` ends it: such a call is no part of the run."""
    raise GreenletExit


class SimThread(JournaledThread):
    """A host thread that the program has started. `error`: the exception with which it ended."""

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
        """The thread ends in its present turn."""
        by.before(self.ended)
        self._threads.machine.submit(self.ended)

    @property
    def over(self) -> bool:
        return self.ended.at >= 0

    def _join(self) -> Outcome:
        def outcome() -> Generator[Any, Any, str | None]:
            yield from self._threads.host.wait(self.ended, joined=self.name)
            self.noticed = True
            return self.message or None

        return outcome
