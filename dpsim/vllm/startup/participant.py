"""The common part of all participants: to come up, or to fail and report it.

    up        it has done its part, and serves (probe startup.serves)
    failed    it raises one error, after it has reported it to its parent and its groups
    stopped   its parent gave up or another one failed, and so it ends, without an error (probe startup.stopped)

A participant that fails or stops leaves its stores, the youngest first, so its children learn of it. The engine DP
group, which came first, goes last (I-ST-12). An engine that stops tells the front end of its node, which then stops as
well. So either all come up or all end. A child waits for its parent as long as the parent lives. All other waits have a
time-out (I-ST-10).

XX: if a worker waits in a collective whose peer has died, it waits without end. Nothing ends it from outside, as its
engine does in `startup_watched`, and the run reports a hang. Sources: specification chapters 9.1 and 9.3.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from dpsim.contract.interface import Frozen, Rank, Store
from dpsim.vllm.startup.conversation import Child, Parent
from dpsim.vllm.startup.errors import NobodyCame, OneFailed, PortTaken, Stopped
from dpsim.vllm.startup.layout import HANDSHAKE_NS, Layout
from dpsim.vllm.startup.rendezvous import Meeting

SERVES, STOPPED, FAILED = "startup.serves", "startup.stopped", "startup.failed"

SUPERVISES = 15
"""From this step of the start on, a front end or an engine waits for others, and does nothing itself."""
GONE = 21
"""The step in which a participant ends before its time."""


class Participant(ABC):
    """One participant. `name`: its name."""

    def __init__(self, rank: Rank, layout: Layout) -> None:
        self.rank = rank
        self.layout = layout
        self.name = layout.name(rank.rank)
        self.stores: list[Store] = []
        self.parents: list[Child] = []
        self.groups: list[Meeting] = []

    async def run(self) -> None:
        """Come up, and serve."""
        try:
            await self.come_up()
            self.rank.probe(SERVES)
            await self.serve()
        except Stopped as why:
            for parent in self.parents[:-1]:  # the last one is gone, but not the front end of an engine's node
                parent.fail(why)
            self.stop()
        except Exception as error:
            lines: list[Meeting | Child] = [*self.groups, *self.parents]
            for line in lines:
                line.fail(error)
            if isinstance(error, OneFailed) and self.parents:
                self.stop()
                return
            self.leave()
            if isinstance(error, NobodyCame | OneFailed) and self.rank.step >= SUPERVISES:
                self.rank.step = GONE  # the cause is below it, in an earlier step or a missing one
            self.rank.probe(FAILED)
            raise

    def stop(self) -> None:
        """Leave without an error: the participant that failed reports it."""
        self.leave()
        self.rank.step = GONE
        self.rank.probe(STOPPED)

    @abstractmethod
    async def come_up(self) -> None:
        """Do all before serving. Raises StartupError, or Stopped."""

    async def serve(self) -> None:
        """Serve: no rule of the start depends on this."""
        return

    def leave(self) -> None:
        """Close all stores that it opened or joined."""
        while self.stores:
            self.stores.pop().close("leave")

    # ---- stores

    async def open(self, port: int, what: str) -> Store:
        """Listen. Raises PortTaken."""
        store = await self.rank.open_store(port, f"{what}.open")
        if store is None:
            raise PortTaken(
                f"{self.name} cannot listen at port {port} of node {self.rank.node}, {what}: another program does; end "
                "it, or choose another port"
            )
        self.stores.append(store)
        return store

    async def join(self, node: int, port: int, who: str, what: str) -> Store:
        """Connect. Raises NobodyCame."""
        store = await self.rank.join_store(node, port, f"{what}.join", timeout_ns=HANDSHAKE_NS)
        if store is None:
            where = f"at port {port} of node {node}, {what}"
            raise NobodyCame(self.name, who, where, HANDSHAKE_NS, "no process listens there")
        self.stores.append(store)
        return store

    async def spawned(self) -> tuple[Frozen, ...]:
        """Wait until a parent starts this process. Returns the parent's message. Before that there is no process."""
        told = await self.rank.mailbox("spawn").get("spawned", idle=True)
        assert isinstance(told, tuple)
        return told

    async def child_of(self, who: str, node: Frozen, port: Frozen) -> Child:
        """Connect to its parent, which listens already."""
        assert isinstance(node, int)
        assert isinstance(port, int)
        store = await self.join(node, port, who, f"store_of_{who.replace(' ', '_')}")
        self.parents.append(self.line_to(who, store))
        return self.parents[-1]

    def line_to(self, who: str, store: Store) -> Child:
        """The line to a parent that listens at `store`."""
        return Child(store, self.name)

    def lines_at(self, store: Store, **words: Any) -> Parent:
        """The lines to the children that connect to this participant's `store`. `words`: those of `Parent`."""
        return Parent(store, self.name, **words)
