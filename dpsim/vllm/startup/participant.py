"""What all participants of a start have in common: each of them serves in the end, or it fails and reports the failure.

    serves    it has completed its steps of the start (probe startup.serves)
    failed    it raises one error, after it has reported the error to its parent and its groups
    stopped   its parent or another participant failed, so it ends without an error (probe startup.stopped)

A participant that fails or stops closes its stores, the youngest first, and its children notice this. An engine closes
the store of the engine DP group last, because it was the first (invariant I-ST-12). An engine that stops reports it to
the front end of its node, which stops as well: either all serve, or all end. A child waits for its parent as long as
the parent lives. All other waits have a time-out (invariant I-ST-10).

Simplified: if a peer dies in a collective, a worker in this collective waits without end, and the run reports a hang.
In `startup_watched`, the engine ends such a worker. Sources: specification 9.1 and 9.3.
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
"""From this step of the start on, a front end or an engine only waits for others."""
GONE = 21
"""The step number of a participant that ends early."""


class Participant(ABC):
    """One participant of the start. `name`: its name."""

    def __init__(self, rank: Rank, layout: Layout) -> None:
        self.rank = rank
        self.layout = layout
        self.name = layout.name(rank.rank)
        self.stores: list[Store] = []
        self.parents: list[Child] = []
        self.groups: list[Meeting] = []

    async def run(self) -> None:
        """Do the start, then serve. On a failure, report it and end."""
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
                self.rank.step = GONE  # the cause is another participant, in an earlier step or missing
            self.rank.probe(FAILED)
            raise

    def stop(self) -> None:
        """End without an error, because the participant that failed reports it."""
        self.leave()
        self.rank.step = GONE
        self.rank.probe(STOPPED)

    @abstractmethod
    async def come_up(self) -> None:
        """Do everything before serving. Raises StartupError, or Stopped."""

    async def serve(self) -> None:
        """Serve. Most participants do nothing here, because the program ends with the start."""
        return

    def leave(self) -> None:
        """Close all stores that this participant opened or joined."""
        while self.stores:
            self.stores.pop().close("leave")

    # ---- stores

    async def open(self, port: int, what: str) -> Store:
        """Listen at a port with a new store. Raises PortTaken."""
        store = await self.rank.open_store(port, f"{what}.open")
        if store is None:
            raise PortTaken(
                f"{self.name} cannot listen at port {port} of node {self.rank.node}, {what}: another program does; end "
                "it, or choose another port"
            )
        self.stores.append(store)
        return store

    async def join(self, node: int, port: int, who: str, what: str) -> Store:
        """Connect to a store. Raises NobodyCame."""
        store = await self.rank.join_store(node, port, f"{what}.join", timeout_ns=HANDSHAKE_NS)
        if store is None:
            where = f"at port {port} of node {node}, {what}"
            raise NobodyCame(self.name, who, where, HANDSHAKE_NS, "no process listens there")
        self.stores.append(store)
        return store

    async def spawned(self) -> tuple[Frozen, ...]:
        """Wait until a parent starts this process. Returns the parent's message."""
        message = await self.rank.mailbox("spawn").get("spawned", idle=True)
        assert isinstance(message, tuple)
        return message

    async def child_of(self, who: str, node: Frozen, port: Frozen) -> Child:
        """Connect to the parent, which listens already."""
        assert isinstance(node, int)
        assert isinstance(port, int)
        store = await self.join(node, port, who, f"store_of_{who.replace(' ', '_')}")
        self.parents.append(self.line_to(who, store))
        return self.parents[-1]

    def line_to(self, who: str, store: Store) -> Child:
        """The child's side of the line to the parent `who`, which listens at `store`."""
        return Child(store, self.name)

    def lines_at(self, store: Store, **words: Any) -> Parent:
        """The parent's side of the lines to the children that connect to `store`. `words`: arguments of `Parent`."""
        return Parent(store, self.name, **words)
