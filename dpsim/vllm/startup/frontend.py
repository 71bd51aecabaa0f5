"""Front ends, one for each node. The first one starts the coordinator, and lets all engines serve when they are ready.

    1  coordinator -> its address                    4  HELLO -> INIT(addresses, ports, D)
    2  coordination store (0.33)                     4  hash and fields of every engine, compared
    3  spawn the engines of its node            20  READY(hash), compared once more; serve

The front end of another node starts its engines, and waits for their outcome. The first front end serves after it has
received READY from every engine, and after every engine has subscribed to the coordinator (invariant I-ST-9). It fails
as soon as it receives a failure, or at a time-out (invariant I-ST-10).

Sources: specification 8.3, 8.4 and 9.2.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsim.contract.interface import Frozen, Rank, Store
from dpsim.vllm.config import EngineConfig, InitPorts, ParallelConfig
from dpsim.vllm.startup.compared import Compared, ConfigFields
from dpsim.vllm.startup.layout import (
    COORDINATOR,
    COORDINATOR_NS,
    HANDSHAKE_NS,
    READY_NS,
    Layout,
    engine_name,
)
from dpsim.vllm.startup.participant import Participant


class SameSeeds(Exception):
    """Several replicas draw the same random numbers (mutant M-ST-13)."""


class FrontEnd(Participant):
    """The front end of the first node. `coordinated`: members find ports in its coordination store."""

    def __init__(
        self,
        rank: Rank,
        layout: Layout,
        config: EngineConfig,
        parallel: ParallelConfig,
        compared: Compared,
        coordinated: bool,
    ) -> None:
        super().__init__(rank, layout)
        self.config = config
        self.parallel = parallel
        self.compared = compared
        self.coordinated = coordinated

    @property
    def engines(self) -> list[str]:
        return [engine_name(engine) for engine in range(self.layout.engines)]

    @property
    def titles(self) -> dict[str, str]:
        """The names of the engines in errors."""
        return {name: self.layout.title(engine) for engine, name in enumerate(self.engines)}

    async def come_up(self) -> None:
        self.rank.step = 1
        store = await self.open(self.handshake_port(), "data_parallel_rpc_port")
        parent = self.lines_at(store, titles=self.titles)
        coordinator: Frozen = ()
        if self.layout.engines > 1:
            self.spawn(COORDINATOR, store)
            coordinator = await parent.receive(COORDINATOR, "address", COORDINATOR_NS)
        self.rank.step = 2
        coordination = await self.open(0, "coordination_store") if self.coordinated else None
        self.rank.step = 3
        for engine in self.layout.engines_of(0):
            self.spawn(engine_name(engine), store)
        self.rank.step = 4
        await parent.receive_all(self.engines, "hello", HANDSHAKE_NS)
        ports = InitPorts.of(self.parallel)
        port = coordination.port if coordination is not None else 0
        for engine in range(self.layout.engines):
            init = coordinator, 0, ports.master_port, tuple(ports.ports), port, self.layout.engines
            parent.call(f"init/{engine}", init)
        self.compare(await parent.receive_all(self.engines, "config", HANDSHAKE_NS))
        parent.call("agreed")
        self.rank.step = 20
        self.check_ready(await parent.receive_all(self.engines, "ready", READY_NS))
        parent.call("serve")

    def handshake_port(self) -> int:
        """The port of the handshake. With several nodes, it is the one on the command line, which engines of other
        nodes also have.

        With one node, the front end takes any free port and passes it to its engines. So two groups can start on one
        host.
        """
        return self.parallel.data_parallel_rpc_port if self.layout.num_nodes > 1 else 0

    def spawn(self, name: str, store: Store) -> None:
        """Start a process, and pass it the address of this front end's store."""
        self.rank.send(self.rank.service(name), "spawn", (store.node, store.port), f"spawn.{name}")

    def compare(self, received: Sequence[Frozen]) -> None:
        """Compare the settings of all engines, if the form compares before the groups. Raises ConfigMismatch."""
        if self.layout.engines > 1 and self.compared.early:
            others = {name: _fields_of(one) for name, one in zip(self.titles.values(), received, strict=True)}
            self.compared.refuse(self.compared.fields_to_send(self.config, self.parallel), others)

    def check_ready(self, ready: Sequence[Frozen]) -> None:
        """Compare the hash in each READY, and check that all engines have different seeds. Raises ConfigMismatch and
        SameSeeds.
        """
        if self.layout.engines > 1:
            own = self.compared.fields_to_send(self.config, self.parallel)
            others = {
                name: own._replace(hash=str(one[0]))
                for name, one in zip(self.titles.values(), ready, strict=True)
                if isinstance(one, tuple)
            }
            if self.compared.coordinated(self.parallel):
                self.compared.refuse(own, others)
            seeds = [one[1] for one in ready if isinstance(one, tuple)]
            if len(set(seeds)) < len(seeds):
                raise SameSeeds(f"engines draw from the seeds {seeds}; expected a different one for each")

    async def serve(self) -> None:
        """Send the first request to the coordinator, which wakes all engines."""
        if self.layout.engines > 1:
            self.rank.send(self.rank.service(COORDINATOR), "events", ("first", 0), "first_request")

    def leave(self) -> None:
        if self.layout.engines > 1:
            self.rank.send(self.rank.service(COORDINATOR), "events", ("stop", 0), "stop")
        super().leave()


class NodeFrontEnd(Participant):
    """The front end of another node: it starts engines, and receives no requests."""

    async def come_up(self) -> None:
        self.rank.step = 3
        store = await self.open(0, "store_of_node")
        parent = self.lines_at(store)
        engines = [engine_name(engine) for engine in self.layout.engines_of(self.rank.node)]
        for name in engines:
            self.rank.send(self.rank.service(name), "spawn", (store.node, store.port), f"spawn.{name}")
        self.rank.step = 20
        await parent.receive_all(engines, "outcome", READY_NS)


def _fields_of(value: Frozen) -> ConfigFields:
    assert isinstance(value, tuple)
    first, fields = value
    assert isinstance(fields, tuple)
    return ConfigFields(str(first), tuple((str(one[0]), str(one[1])) for one in fields if isinstance(one, tuple)))
