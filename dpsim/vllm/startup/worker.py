"""Workers, which are the ranks. An engine core starts its workers, each with a copy of its ports. The steps of a
worker:

    7   the world: all D * W workers meet at the next port of their copy, or at the published one
    8 to 11   create groups and communicators, in the same order on all workers
    12  measure the memory that communicators leave free; 13  create the second groups of pipelines
    15  profile; 16  the KV cache; 17  warm-up and capture

Source: specification 9.2.
"""

from __future__ import annotations

from dpsim.contract.interface import Rank, Store
from dpsim.vllm.config import EngineConfig, InitPorts
from dpsim.vllm.startup.conversation import Child
from dpsim.vllm.startup.forwards import Forwards
from dpsim.vllm.startup.groups import Groups, Kinds
from dpsim.vllm.startup.layout import FRONTEND, Layout, engine_name, worker_name
from dpsim.vllm.startup.memory import TOTAL, DeviceMemory
from dpsim.vllm.startup.participant import Participant
from dpsim.vllm.startup.ports import GroupPorts
from dpsim.vllm.startup.rendezvous import Meeting, come

MORE = 10
"""Each device has this number of blocks more than the one before, so no two have the same free memory."""
ALL2ALL = 16
"""The blocks that the first large all-to-all allocates."""


class StartupWorker(Participant):
    """A worker. `config`: the configuration of its engine. `own`: the configuration that its own node would have
    parsed.
    """

    def __init__(
        self,
        rank: Rank,
        layout: Layout,
        config: EngineConfig,
        own: EngineConfig,
        kinds: Kinds,
        pieces: tuple[type[GroupPorts], type[Groups], type[Forwards]],
    ) -> None:
        super().__init__(rank, layout)
        self.config = config
        self.own = own
        self.kinds = kinds
        self.group_ports, self.make_groups, self.make_forwards = pieces
        self.memory = DeviceMemory(TOTAL + MORE * rank.rank)

    async def come_up(self) -> None:
        node, port, *left = await self.spawned()
        self.rank.step = 7
        engine = await self.child_of(engine_name(self.layout.engine_of(self.rank.rank)), node, port)
        world = await self.meet_world(*left)  # type: ignore[arg-type]
        groups = self.make_groups(self.rank, world, self.kinds, self.memory)
        free = await self.create_groups(groups)
        forwards = self.make_forwards(self.rank, groups, self.config, self.layout.topology)
        await self.run_forwards(engine, forwards, free)

    async def meet_world(self, ports: tuple[int, ...], master: int, node: int, store_port: int) -> Meeting:
        """Step 7: meet all workers."""
        store: Store | None = None
        if store_port:
            store = await self.join(node, store_port, FRONTEND, "coordination")
        finds = self.group_ports(self.rank, self.name, InitPorts(list(ports), master), store, node)
        names = [worker_name(worker) for worker in range(self.layout.topology.world_size)]
        world = await come(finds, "world", names, self.rank.rank)
        self.stores.append(world.store)
        self.groups.append(world)
        await world.barrier("members")
        return world

    async def create_groups(self, groups: Groups) -> int:
        """Steps 8 to 13: create all groups. Returns the free memory for the KV cache (invariant I-ST-6)."""
        await groups.create_world()
        await groups.create_all()
        self.rank.step = 12
        free = self.memory.free - ALL2ALL
        await groups.create_siblings()
        return free

    async def run_forwards(self, engine: Child, forwards: Forwards, free: int) -> None:
        """Steps 15 to 20: profile, allocate the KV cache, warm up, and wait until the engine serves."""
        await forwards.profile()
        engine.report(free, "profiled")
        blocks = await engine.obey("blocks")
        assert isinstance(blocks, int)
        self.rank.step = 16
        self.memory.take(blocks, "the KV cache")
        await forwards.warm_up()
        self.memory.take(ALL2ALL, "the first large all-to-all")
        engine.report(True, "warm")
        self.rank.step = 20
        await engine.obey("serve")
