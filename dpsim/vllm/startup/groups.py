"""The process groups and communicators of the workers, which all workers create in one order.

For every member list of every kind, all workers create a device group and then a gloo group, whether they are members
or not. Each creation is a barrier of all workers (`dpsim.vllm.startup.rendezvous`). Right after it, each member
connects its device communicator. The first rank, by its *global* number, broadcasts the unique id over gloo, then all
reduce one element. Without this all-reduce, a worker would connect the communicator later, perhaps in a capture.

    world; tp (0, 1), (2, 3); dcp ...; pp ...; dp (0, 2), (1, 3); ep (0, 1, 2, 3); and last the siblings of pp

Each worker records each creation as a decision (`group`), because the barrier does not notice different groups.

Sources: specification 9.2 (steps 8 to 13) and 9.4; invariants I-ST-1 to I-ST-4 and I-ST-7.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from dpsim.contract.interface import Rank
from dpsim.contract.ops import Domain
from dpsim.vllm.config import EngineConfig, Topology
from dpsim.vllm.startup.memory import COMMUNICATOR, DeviceMemory
from dpsim.vllm.startup.rendezvous import Meeting

Members: TypeAlias = tuple[int, ...]
Kind: TypeAlias = tuple[str, Sequence[Members]]

WORLD = "world"
SIBLING = "pp_broadcast"
UNIQUE_ID = 32
"""The elements of a unique id: 128 bytes, as int32."""


class Kinds:
    """The kinds of a topology and their member lists. The lists of each kind partition the workers
    (invariant I-ST-2).
    """

    def __init__(self, topology: Topology, config: EngineConfig) -> None:
        self.topology = topology
        self.config = config

    def in_order(self) -> list[Kind]:
        """The kinds of step 10, in the order of their creation."""
        topology = self.topology
        kinds: list[Kind] = [
            ("tp", topology.groups("tp")),
            ("dcp", topology.decode_context_groups()),
            ("pcp", topology.groups("pcp")),
            ("pp", topology.groups("pp")),
            ("dp", topology.dp_groups()),
        ]
        if self.config.is_moe_model is not False:
            kinds.append(("ep", topology.expert_groups()))
        if self.config.enable_eplb:
            kinds += self.of_moving_experts()
        return kinds

    def of_moving_experts(self) -> list[Kind]:
        """The groups in which experts move (expert load balancing). They are separate from the groups of the
        experts.
        """
        return [("eplb", self.topology.expert_groups())]

    def siblings(self) -> list[Members]:
        """The member lists of step 13: a second communicator for each pipeline, which carries sampled tokens."""
        return self.topology.groups("pp") if self.topology.pipeline_parallel_size > 1 else []

    def communicators(self) -> list[tuple[str, Domain, Sequence[Members]]]:
        """The communicators that the simulated machine provides. A kind whose groups all have one member needs none."""
        world = [tuple(range(self.topology.world_size))]
        kinds = [(WORLD, world), *self.in_order(), (SIBLING, self.siblings())]
        found: list[tuple[str, Domain, Sequence[Members]]] = []
        for kind, lists in kinds:
            if kind == WORLD or any(len(members) > 1 for members in lists):
                found += [(kind, "device", lists), (f"{kind}_cpu", "host", lists)]
        return found


class Kinds014(Kinds):
    """0.14: experts move in their own groups, and a pipeline has no second communicator (specification 9.4)."""

    def of_moving_experts(self) -> list[Kind]:
        return []

    def siblings(self) -> list[Members]:
        return []


class Groups:
    """The groups that one worker creates."""

    def __init__(self, rank: Rank, world: Meeting, kinds: Kinds, memory: DeviceMemory) -> None:
        self.rank = rank
        self.world = world
        self.kinds = kinds
        self.memory = memory
        self.own: dict[str, Members] = {}

    async def create_world(self) -> None:
        """Step 8: create the groups of all workers, and count the nodes."""
        self.rank.step = 8
        everybody = tuple(range(self.kinds.topology.world_size))
        await self.create(WORLD, everybody)
        nodes = np.zeros(len(everybody), np.int32)
        nodes[self.rank.rank] = self.rank.node
        nodes = await self.rank.host(f"{WORLD}_cpu").all_reduce(nodes, site="world.nodes")
        self.rank.decide("nodes", int(nodes.max()) + 1, f"{WORLD}_cpu")

    async def create_all(self) -> None:
        """Steps 10 and 11: create all groups, and connect the communicators of this worker."""
        for kind, lists in self.in_order():
            self.rank.step = 10
            for members in lists:
                await self.create(kind, members)
            if len(self.own.get(kind, ())) > 1:
                self.rank.step = 11
                await self.connect(kind)

    def in_order(self) -> list[Kind]:
        """The kinds of step 10, in the same order on every worker (invariant I-ST-1)."""
        return self.kinds.in_order()

    async def create_siblings(self) -> None:
        """Step 13: create the second groups of the pipelines."""
        self.rank.step = 13
        for members in self.kinds.siblings():
            await self.create(SIBLING, members)

    async def create(self, kind: str, members: Members) -> None:
        """Create a device group and a gloo group, together with all workers."""
        for name in (kind, f"{kind}_cpu"):
            self.rank.decide("group", (name, members), f"{WORLD}_cpu")
            await self.world.barrier(name)
        if self.rank.rank in members:
            self.own[kind] = members

    async def connect(self, kind: str) -> None:
        """Connect the device communicator of this worker's group."""
        rank, members = self.rank, self.own[kind]
        group = rank.host(f"{kind}_cpu")
        unique = np.zeros(UNIQUE_ID, np.int32)
        if rank.rank == members[0]:
            unique[:] = 1 + rank.rank
        unique = await group.broadcast(unique, self.root(members), site=f"{kind}.unique_id")
        rank.decide("unique_id", int(unique[0]), f"{kind}_cpu")
        self.memory.take(COMMUNICATOR, "communicators")
        await self.warm_up(kind)

    def root(self, members: Members) -> int:
        """The rank that broadcasts the unique id: the first global rank of the group (invariant I-ST-3)."""
        return members[0]

    async def warm_up(self, kind: str) -> None:
        """Use the communicator for the first time, on all its members (invariant I-ST-7)."""
        main = self.rank.stream("main")
        one = main.alloc(1, "int32", f"{kind}.one")
        main.launch(f"{kind}.fill", ones, writes=[one], cost=0)
        self.rank.device(kind).all_reduce(one, main, site=f"{kind}.warm_up")
        total = await one.read(f"{kind}.warmed_up")
        one.free()
        self.rank.decide("warm_up", int(total[0]), f"{kind}_cpu")


def ones(out: Any) -> None:
    """Kernel: write 1 into all elements."""
    out[:] = 1
