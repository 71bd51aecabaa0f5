"""Handles the messages of a process whose threads dpsim schedules: each thread of Python is a host thread of the rank.

    ["thread", name, daemon, site]      a thread starts another one
    ["stand", what, ns, site]           it waits for another thread, at most `ns` nanoseconds, or without limit if -1
    ["let", thread, site]               it wakes a waiting thread
    ["choose", name, changes, site]     it uses a lock or queue: the schedule decides which thread is first
    ["joins", thread, site]             it waits for the end of another thread
    ["ended"]                           its function has returned

A thread waits for another one on a new flag of the rank, or with a time-out in a mailbox, which alone has time-outs.

When the main thread ends, a daemon thread that waits for another thread ends too. If it waits in a collective, the rank
first lets everything else happen. Then it aborts the process group, which ends the wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpsim.backend.journal.elsewhere import raised_elsewhere
from dpsim.contract.interface import Rank, Thread
from dpsim.torch.found import ABORTS, CALLS, CHOICES, HOLDS, THREADS, NewGroup, started

if TYPE_CHECKING:
    from dpsim.torch.conversation import RankProcess

AT_END = "end"
LATE_NS = 10**15
"""How long a rank waits for daemon threads in collectives. Each adds its own rank, for a fixed order."""


class HeldThreads:
    """A rank's threads that dpsim schedules. `standing`: where each waits, and whether with a time-out."""

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self.made: dict[str, Thread] = {}
        self.standing: dict[str, tuple[str, bool]] = {}
        self.daemons: set[str] = set()

    async def stand(self, name: str, what: str, ns: int, site: str) -> bool:
        """Blocks a thread until another one wakes it, or `ns` nanoseconds pass. Returns whether a thread woke it."""
        self.standing[name] = what, ns >= 0
        if ns < 0:
            await self.rank.flag(what).wait(site)
            let = True
        else:
            let = await self.rank.mailbox(what).get(site, timeout_ns=ns) is not None
        self.standing.pop(name, None)
        return let

    def let(self, name: str, site: str) -> None:
        """Wakes a waiting thread. Does nothing if its time-out has passed."""
        what, timed = self.standing.get(name, ("", False))
        if timed:
            self.rank.send(self.rank.rank, what, 1, site)
        elif what:
            self.rank.flag(what).set(site)

    def let_all(self) -> None:
        """Wakes all waiting threads, because the main thread has ended: so these threads end too."""
        for name in [*self.standing]:
            self.let(name, AT_END)


class ThreadMessages:
    """The part of a conversation that handles threads."""

    rank: Rank
    process: RankProcess
    threads: HeldThreads
    name: str
    over: bool

    def _answer(self, value: Any, blocks: list[bytes] | None = None) -> None:
        """The conversation implements this method: it sends the answer to the process."""
        raise NotImplementedError

    async def beside(self, name: str) -> None:
        """The conversation implements this method: it runs the conversation with thread `name`."""

    async def on_threads(self) -> None:
        if HOLDS in started:
            raise NewGroup(THREADS, ())

    async def on_second(self) -> None:
        raise NewGroup(THREADS, ())

    async def on_thread(self, name: str, daemon: bool, site: str) -> None:
        if daemon:
            self.threads.daemons.add(name)

        async def run(rank: Rank) -> None:
            await self.beside(name)

        self.threads.made[name] = self.rank.start(name, run, site=site)
        self._answer(True)

    async def on_stand(self, what: str, ns: int, site: str) -> None:
        let = await self.threads.stand(self.name, what, ns, site)
        self._answer(let)

    async def on_let(self, name: str, site: str) -> None:
        self.threads.let(name, site)
        self._answer(True)

    async def on_joins(self, name: str, site: str) -> None:
        raised = await self.threads.made[name].join(site)
        if raised is not None:  # dpsim's host thread raised, and the thread of the process waits without end
            kind, _, text = raised.partition(": ")
            raise raised_elsewhere(kind, text, ())
        self._answer(True)

    async def on_choose(self, name: str, changes: bool, site: str) -> None:
        started.append(CHOICES)
        if self.process.job.ordered:
            self._answer(True)
            return
        flag = self.rank.flag(f"use.{name}")  # no thread waits for this flag: it only makes the two uses conflict
        if changes:
            flag.clear(site)
        else:
            await flag.query(site)
        self._answer(True)

    async def end_daemons(self) -> None:
        """Aborts the groups in whose calls daemon threads wait. The main thread calls it at its end."""
        if self._in_calls():
            await self.rank.mailbox("daemons").get(AT_END, timeout_ns=LATE_NS + self.rank.rank)
        for kind in self._in_calls():
            if not self.process.aborts:
                raise NewGroup(ABORTS, ())
            self.process.calls.abort(kind, AT_END)

    def _in_calls(self) -> list[str]:
        calls = self.process.calls
        threads = [*calls.waiting.items(), *calls.begun_by.values()]
        return sorted({kind for name, kind in threads if name in self.threads.daemons})

    async def on_ended(self) -> None:
        self.over = True

    async def on_lost(self, text: str, chain: list[Any]) -> None:
        """Notes that a thread raised an exception, which ended this thread but not the program."""
        self.rank.probe(f"raised:{self.name}:{text}")

    def calls_beside(self, name: str) -> None:
        """Notes in `started` that a thread other than the main thread made a call. `name`: the message."""
        if self.name != "main" and name in ("start", "group", "store", "set", "open", "join"):
            started.append(CALLS)
