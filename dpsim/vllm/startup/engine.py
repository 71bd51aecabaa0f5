"""Engine cores: one for each data-parallel rank, each with its workers. The steps of its start (specification 9.2):

    4   HELLO, INIT: the engine writes the front end's values into its configuration, and sends hash and fields
    5   the engine DP group, before any worker: its port is popped first (I-ST-5)
    6   spawn the workers, each with a copy of the remaining ports
    15  the free memory of their devices; 16  number of blocks = the smallest; with elastic EP, of all replicas
    17  warm-up and capture
    19  subscribe to the coordinator, and wait for its READY; 20  READY(hash), and serve

Sources: specification 8.3, 8.5 and 9.2.
"""

from __future__ import annotations

from typing import Any

from dpsim.contract.interface import Frozen, Rank, Store
from dpsim.vllm.config import EngineConfig, InitPorts, ParallelConfig
from dpsim.vllm.config.kv_memory import UNKNOWN, offer, reduced
from dpsim.vllm.startup.compared import Compared
from dpsim.vllm.startup.conversation import Child
from dpsim.vllm.startup.errors import LATE, NobodyCame, Stopped
from dpsim.vllm.startup.layout import (
    COORDINATOR,
    FRONTEND,
    HANDSHAKE_NS,
    WORKERS_NS,
    Layout,
    engine_name,
    frontend_name,
    worker_name,
)
from dpsim.vllm.startup.participant import Participant
from dpsim.vllm.startup.ports import GroupPorts, still_there
from dpsim.vllm.startup.rendezvous import Meeting, come


class EngineCore(Participant):
    """The engine of the data-parallel rank `engine`."""

    group: Meeting | None = None
    coordination: Store | None = None

    def __init__(
        self,
        rank: Rank,
        layout: Layout,
        engine: int,
        config: EngineConfig,
        parallel: ParallelConfig,
        compared: Compared,
        group_ports: type[GroupPorts],
    ) -> None:
        super().__init__(rank, layout)
        self.engine = engine
        self.config = config
        self.parallel = parallel
        self.compared = compared
        self.group_ports = group_ports

    async def come_up(self) -> None:
        head = await self.handshake()
        self.rank.step = 5
        ports = self.own_ports()
        workers = await self.open(0, "store_of_engine")
        await self.start(ports, workers)
        parent = self.lines_at(workers)
        names = [worker_name(worker) for worker in self.layout.workers(self.engine)]
        self.rank.step = 15
        free = await parent.receive_all(names, "profiled", WORKERS_NS)
        self.rank.step = 16
        blocks = await self.blocks([one for one in free if isinstance(one, int)])
        assert blocks > 0, f"{self.name} has {blocks} blocks for its KV cache"
        parent.call("blocks", blocks)
        self.rank.step = 17
        await parent.receive_all(names, "warm", WORKERS_NS)
        await self.be_ready(head)
        parent.call("serve")
        for child in self.parents:
            if child is not head:
                child.report(True, "outcome")

    # ---- steps 4 to 6

    async def handshake(self) -> Child:
        """Send HELLO, process INIT, and send the configuration. Returns the line to the first front end."""
        node, port = await self.spawned()
        self.rank.step = 4
        own = frontend_name(self.rank.node)
        head = await self.child_of(own, node, port)
        if own != FRONTEND:
            head = await self.child_of(FRONTEND, 0, self.parallel.data_parallel_rpc_port)
        head.report(True, "hello")
        self.written(*await self.receive_init(head))
        head.report(self.fields_to_send(), "config")
        await head.obey("agreed")
        return head

    async def receive_init(self, head: Child) -> tuple[Frozen, ...]:
        """Wait for INIT, which has the front end's addresses and ports. Raises NobodyCame and Stopped.

        The port comes from a command line, so another program may listen there and never answer. The time-out is long,
        because the front end waits for the HELLO of each engine before it sends INIT.
        """
        store, patience = head.store, (1 + self.layout.engines) * HANDSHAKE_NS
        init = await store.get(f"init/{self.engine}", "obey.init", timeout_ns=patience)
        if init is None:
            if await self.rank.join_store(store.node, store.port, "front_end.listens", timeout_ns=0) is None:
                raise Stopped
            where = f"to answer at port {store.port} of node {store.node}"
            raise NobodyCame(self.name, FRONTEND, where, patience, "another program listens there")
        assert isinstance(init, tuple)
        return init

    def written(self, coordinator: Any, node: Any, master: Any, ports: Any, store: Any, size: Any) -> None:
        """Write the values of INIT into the configuration, without completing it again. A second completion would take
        one more port (invariant I-CF-9).
        """
        fields = {"data_parallel_master_port": master, "data_parallel_master_port_list": tuple(ports)}
        self.parallel = self.parallel.model_copy(update={**fields, "data_parallel_size": size})
        self.coordinator: tuple[int, int] = coordinator
        self.coordination_port = int(store)
        self.master_node = int(node)

    def fields_to_send(self) -> Frozen:
        """Hash and fields of the configuration after INIT."""
        return self.compared.fields_to_send(self.config, self.parallel).frozen

    def own_ports(self) -> InitPorts:
        """This process's copy of the port list. A single replica has no list, and its workers meet at the master
        port.
        """
        if self.layout.engines == 1:
            return InitPorts([], self.parallel.master_port)
        return InitPorts.of(self.parallel)

    async def start(self, ports: InitPorts, workers: Store) -> None:
        """Make the engine DP group, then start the workers."""
        await self.make_group(ports)
        self.spawn(ports, workers)

    async def make_group(self, ports: InitPorts) -> None:
        """Step 5: make the engine DP group."""
        if self.layout.engines == 1:
            return
        self.rank.step = 5
        if self.coordination_port:
            self.coordination = await self.join(self.master_node, self.coordination_port, FRONTEND, "coordination")
        finds = self.group_ports(self.rank, self.name, ports, self.coordination, self.master_node)
        names = [engine_name(engine) for engine in range(self.layout.engines)]
        self.group = await come(finds, "engine_dp_group", names, self.engine)
        self.stores.insert(0, self.group.store)
        self.groups.append(self.group)
        await self.group.barrier("members")

    def spawn(self, ports: InitPorts, workers: Store) -> None:
        """Step 6: start the workers, each with a copy of the remaining ports."""
        self.rank.step = 6
        left = tuple(ports.ports), ports.master_port, self.master_node, self.coordination_port
        for worker in self.layout.workers(self.engine):
            self.rank.send(worker, "spawn", (workers.node, workers.port, *left), f"spawn.worker.{worker}")

    # ---- steps 16 to 20

    async def blocks(self, free: list[int]) -> int:
        """The blocks of the KV cache: those of the smallest worker; with elastic EP, those of the smallest replica."""
        own = min(free)
        if not self.syncs():
            return own
        assert self.group is not None
        agreed = await self.group.reduce(self.offer(own), self.reduced, "kv_cache_memory")
        assert isinstance(agreed, int)
        return agreed

    def syncs(self) -> bool:
        """Whether the caches of all replicas must have equal sizes. This is only so if users may add ranks later
        (elastic EP).
        """
        return self.group is not None and self.config.enable_elastic_ep

    def offer(self, own: int) -> int:
        """The blocks that this replica offers. A replica on an added node takes the size of the others."""
        return offer(UNKNOWN if self.rank.node else own)

    def reduced(self, offers: list[int]) -> int:
        return reduced(offers)

    async def be_ready(self, head: Child) -> None:
        """Steps 19 and 20: subscribe to the coordinator, then report READY."""
        if self.layout.engines > 1:
            store = await self.subscribe()
            await self.all_subscribed(store)
        self.send_ready(head)
        await head.obey("serve")

    async def subscribe(self) -> Store:
        """Step 19: subscribe. Returns the coordinator's store."""
        self.rank.step = 19
        store = await self.join(*self.coordinator, COORDINATOR, "coordinator")
        self.rank.send(self.rank.service(COORDINATOR), "events", ("subscribe", self.engine), "subscribe")
        return store

    async def all_subscribed(self, store: Store) -> None:
        """Wait for the coordinator's READY (invariant I-ST-9). Raises NobodyCame, and OneFailed if the coordinator has
        left.
        """
        if await store.get("ready", "coordinator.ready", timeout_ns=WORKERS_NS) is None:
            await still_there(self.rank, store, COORDINATOR, "the start", "coordinator.listens")
            raise NobodyCame(self.name, await self.unsubscribed(store), "to subscribe", WORKERS_NS, LATE)

    async def unsubscribed(self, store: Store) -> str:
        """The engines that have not subscribed, as text. The coordinator waits for them before READY."""
        subscribed = await store.get("subscribed", "coordinator.subscribed", timeout_ns=0)
        there = subscribed if isinstance(subscribed, tuple) else ()
        missing = [self.layout.title(engine) for engine in range(self.layout.engines) if engine not in there]
        return " and ".join(missing) or COORDINATOR

    def send_ready(self, head: Child) -> None:
        self.rank.step = 20
        head.report((self.compared.hash(self.parallel), self.seed()), "ready")

    def seed(self) -> int:
        """Step 18: the seed of the engine's workers. It is the index of the replica, which is unique for a dense model,
        too.
        """
        return self.parallel.data_parallel_index

    async def serve(self) -> None:
        """Wait for the START of the first wave, as all engines do."""
        if self.layout.engines > 1:
            self.take_start(await self.rank.mailbox("start").get("wait_for_start"))

    def take_start(self, start: Frozen) -> None:
        """Process START. Here it has no effect."""
