"""Threads of a rank's process, as host threads of the rank: what they say to dpsim besides their calls.

    ["thread", name, daemon, site]      a thread starts another one
    ["stand", what, ns, site]           it waits for another thread: for a lock, say; `ns`: at most so long, or -1
    ["let", thread, site]               it lets another one go on
    ["choose", name, changes, site]     it uses a lock or queue: who does so first is a choice, if one changes it
    ["joins", thread, site]             it waits for the end of another one
    ["ended"]                           its program has ended

A thread that stands waits for its own flag, another one each time. Where its time may be up it takes a message.
A daemon thread that stands so when the main thread ends has ended with it. One that stands in a call then ends when
nothing else can happen: its rank aborts the group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpsim.backend.journal.elsewhere import raised_elsewhere
from dpsim.contract.interface import Rank, Thread
from dpsim.torch.found import ABORTS, CALLS, SAYS, THREADS, NewGroup, started

if TYPE_CHECKING:
    from dpsim.torch.conversation import RankProcess

AT_END = "end"
LATE_NS = 10**15
"""A rank whose daemon threads stand in calls waits for them, each rank longer than the one before."""


class HeldThreads:
    """The threads of one rank that are held. `standing`: by name, for what one stands and whether it has a time.
    `daemons`: the names of daemon threads.
    """

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self.made: dict[str, Thread] = {}
        self.standing: dict[str, tuple[str, bool]] = {}
        self.daemons: set[str] = set()

    async def stand(self, name: str, what: str, ns: int, site: str) -> bool:
        """Whether another thread let this one go on before its time was up."""
        self.standing[name] = what, ns >= 0
        if ns < 0:
            await self.rank.flag(what).wait(site)
            let = True
        else:
            let = await self.rank.mailbox(what).get(site, timeout_ns=ns) is not None
        self.standing.pop(name, None)
        return let

    def let(self, name: str, site: str) -> None:
        """Let a thread go on, if its time was not up before."""
        what, timed = self.standing.get(name, ("", False))
        if timed:
            self.rank.send(self.rank.rank, what, 1, site)
        elif what:
            self.rank.flag(what).set(site)

    def let_all(self) -> None:
        """The main thread has ended: those that wait for another thread end too."""
        for name in [*self.standing]:
            self.let(name, AT_END)


class ThreadMessages:
    """What a conversation hears of threads."""

    rank: Rank
    process: RankProcess
    threads: HeldThreads
    name: str
    over: bool

    def _answer(self, value: Any, blocks: list[bytes] | None = None) -> None:
        """Of the conversation that has these messages."""
        raise NotImplementedError

    async def beside(self, name: str) -> None:
        """The conversation with another thread."""

    async def on_threads(self) -> None:
        started.append(SAYS)

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
        if raised is not None:  # dpsim did, and the thread of the process stands for good
            kind, _, text = raised.partition(": ")
            raise raised_elsewhere(kind, text, ())
        self._answer(True)

    async def on_choose(self, name: str, changes: bool, site: str) -> None:
        flag = self.rank.flag(f"use.{name}")  # nothing waits for it
        if changes:
            flag.clear(site)
        else:
            await flag.query(site)
        self._answer(True)

    async def end_daemons(self) -> None:
        """The main thread has ended: end daemon threads that stand in calls, when nothing else can happen."""
        if self._in_calls():
            await self.rank.mailbox("daemons").get(AT_END, timeout_ns=LATE_NS + self.rank.rank)
        for kind in self._in_calls():
            if not self.process.aborts:
                raise NewGroup(ABORTS, ())
            self.process.calls.abort(kind, AT_END)

    def _in_calls(self) -> list[str]:
        """The groups in whose calls daemon threads stand, or which have calls of theirs under way."""
        calls = self.process.calls
        threads = [*calls.waiting.items(), *calls.begun_by.values()]
        return sorted({kind for name, kind in threads if name in self.threads.daemons})

    async def on_ended(self) -> None:
        self.over = True

    async def on_lost(self, text: str, chain: list[Any]) -> None:
        """A thread raised, and ended by that alone."""
        self.rank.probe(f"raised:{self.name}:{text}")

    def calls_beside(self, name: str) -> None:
        """A message came: note a call of a thread that is not main."""
        if self.name != "main" and name in ("start", "group", "store", "set", "open", "join"):
            started.append(CALLS)
