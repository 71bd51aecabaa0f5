"""How the members of a group find the port at which they meet, in two published forms.

Release 0.14: a list of ports is drawn once, and each process removes the last port from its own copy. If another
program has the port, the first member takes the next one, up to five times. The others do not notice this. They wait at
the old port in vain, or connect to the other program.

Release 0.33: the first member binds any free port, keeps it, and publishes its number in a coordination store. No other
program can take the port meanwhile.

    first member                    the others
    0.14   open 20004, else 20003   join 20004
    0.33   open 0, set port         get port, join it

Source: specification 8.3.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from dpsim.contract.interface import Rank, Store
from dpsim.vllm.config import InitPorts
from dpsim.vllm.startup.errors import LATE, LEFT, NobodyCame, OneFailed, PortTaken
from dpsim.vllm.startup.layout import FRONTEND, GROUP_NS

TRIES = 5


async def still_there(rank: Rank, store: Store, who: str, what: str, site: str) -> None:
    """OneFailed if the listener `who` has left, so that its absence is not reported as a time-out."""
    if await rank.join_store(store.node, store.port, site, timeout_ns=0) is None:
        raise OneFailed(who, LEFT, f"it left {what}")


class GroupPorts(ABC):
    """How one process finds the ports of its groups. `ports`: its copy of the list. `name`: the name of the process.

    `store`: the coordination store, if there is one. `node`: the node of the first members.
    """

    coordinated: bool
    """Whether there is a coordination store."""
    cure: str = LATE
    """The hint for the user if the first member waits for the others in vain."""

    def __init__(self, rank: Rank, name: str, ports: InitPorts, store: Store | None, node: int) -> None:
        self.rank = rank
        self.name = name
        self.ports = ports
        self.store = store
        self.node = node

    @abstractmethod
    async def bind(self, group: str) -> Store:
        """Listen as the first member. Raises PortTaken."""

    @abstractmethod
    async def find(self, group: str, first: str) -> Store:
        """Connect as another member. Raises NobodyCame."""

    async def join(self, group: str, first: str, port: int) -> Store:
        store = await self.rank.join_store(self.node, port, f"{group}.join", timeout_ns=GROUP_NS)
        if store is None:
            where = f"at port {port} of node {self.node}, for {group}"
            raise NobodyCame(self.name, first, where, GROUP_NS, "no process listens there")
        return store


class ListedPorts(GroupPorts):
    """Release 0.14: ports from a list."""

    coordinated = False

    async def bind(self, group: str) -> Store:
        tried = []
        for _ in range(TRIES):
            tried.append(self.ports.get_next_dp_init_port())
            store = await self.rank.open_store(tried[-1], f"{group}.open")
            if store is not None:
                self.note(tried)
                return store
        raise PortTaken(
            f"{self.name} found {TRIES} ports of node {self.node} taken by other programs, for {group}: "
            f"{', '.join(map(str, tried))}"
        )

    def note(self, tried: list[int]) -> None:
        """Set a hint for the user if the first port was taken: the other members connect to that port."""
        *taken, port = tried
        if taken:
            others = f"the others connect to port {taken[0]}, where another program listens"
            self.cure = f"{others}. End that program; {self.name} had to use port {port}"

    async def find(self, group: str, first: str) -> Store:
        return await self.join(group, first, self.ports.get_next_dp_init_port())


class PublishedPorts(GroupPorts):
    """Release 0.33: ports that the first member publishes."""

    coordinated = True

    async def bind(self, group: str) -> Store:
        store = await self.rank.open_store(0, f"{group}.open")
        assert store is not None
        assert self.store is not None
        self.store.set(f"port of {group}", store.port, f"{group}.publish")
        return store

    async def find(self, group: str, first: str) -> Store:
        assert self.store is not None
        port = await self.store.get(f"port of {group}", f"{group}.port", timeout_ns=GROUP_NS)
        if port is None:
            await still_there(self.rank, self.store, FRONTEND, "the coordination store", "coordination.listens")
            where = f"in the coordination store, for the port of {group}"
            raise NobodyCame(self.name, first, where, GROUP_NS, "it is late, has died, or failed")
        assert isinstance(port, int)
        return await self.join(group, first, port)
