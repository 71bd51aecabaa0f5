"""The participants of a start, their nodes, and their time-outs.

Front ends (one a node), coordinator and engine cores are services. Workers are ranks, replica after replica.

    >>> layout = Layout(Topology(data_parallel_size=2, tensor_parallel_size=2), per_node=1)
    >>> layout.services
    ('frontend', 'frontend.1', 'coordinator', 'engine.0', 'engine.1')
    >>> layout.nodes
    (0, 0, 1, 1, 0, 1, 0, 0, 1)
    >>> layout.name(3), layout.workers(1)
    ('worker 3', (2, 3))

Time-outs are nanoseconds. A participant that waits for another one, which itself waits, has the longer time-out. So the
participant nearest to the cause reports first. A child waits for its parent without a time-out: the parent's own waits
have one, and when the parent ends, the child's wait ends. The wait for INIT has a time-out, because the program that
listens at the port of a command line may not be the parent.

Sources: specification 9.1 and 9.2 (rank layout, invariant I-CF-4).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from dpsim.vllm.config import Topology

SECOND = 1_000_000_000
GROUP_NS = 100 * SECOND
"""The time-out for the members of a group."""
COORDINATOR_NS = 120 * SECOND
"""The time-out for the coordinator's address (step 1)."""
HANDSHAKE_NS = 300 * SECOND
"""The time-out for an engine's HELLO, and for a process to listen at its port."""
WORKERS_NS = 900 * SECOND
"""The time-out for workers, which themselves wait for others."""
READY_NS = 3600 * SECOND
"""The time-out for READY of an engine."""

FRONTEND = "frontend"
COORDINATOR = "coordinator"


@dataclass(frozen=True)
class Layout:
    """The participants. `per_node`: the number of replicas on one node."""

    topology: Topology
    per_node: int

    @property
    def engines(self) -> int:
        return self.topology.data_parallel_size

    @property
    def per_engine(self) -> int:
        """The number of workers of an engine."""
        return self.topology.replica_size

    @property
    def num_nodes(self) -> int:
        return -(-self.engines // self.per_node)

    @cached_property
    def services(self) -> tuple[str, ...]:
        """The names of the services, in the order of their numbers."""
        frontends = map(frontend_name, range(self.num_nodes))
        coordinator = [COORDINATOR] * (self.engines > 1)
        return (*frontends, *coordinator, *map(engine_name, range(self.engines)))

    def node_of(self, engine: int) -> int:
        return engine // self.per_node

    def engines_of(self, node: int) -> tuple[int, ...]:
        return tuple(engine for engine in range(self.engines) if self.node_of(engine) == node)

    def engine_of(self, worker: int) -> int:
        """The data-parallel rank of a worker: rank = dp * W + local (invariant I-CF-4)."""
        return worker // self.per_engine

    def workers(self, engine: int) -> tuple[int, ...]:
        return tuple(range(engine * self.per_engine, (engine + 1) * self.per_engine))

    @cached_property
    def nodes(self) -> tuple[int, ...]:
        """The nodes of all ranks, then of all services."""
        ranks = [self.node_of(self.engine_of(worker)) for worker in range(self.topology.world_size)]
        frontends = list(range(self.num_nodes))
        return (*ranks, *frontends, *[0] * (self.engines > 1), *map(self.node_of, range(self.engines)))

    def title(self, engine: int) -> str:
        """The name of an engine in errors. With several front ends, it also names the one that starts the engine."""
        name, node = engine_name(engine), self.node_of(engine)
        return name if self.num_nodes == 1 else f"{name} of node {node} (started by {frontend_name(node)})"

    def name(self, number: int) -> str:
        """The name of a rank or service."""
        size = self.topology.world_size
        return worker_name(number) if number < size else self.services[number - size]

    def number(self, name: str) -> int:
        """The number of the rank or service with this name."""
        return next(number for number in range(len(self.nodes)) if self.name(number) == name)


def engine_name(engine: int) -> str:
    return f"engine.{engine}"


def frontend_name(node: int) -> str:
    """The name of the front end that starts the engines of a node."""
    return f"{FRONTEND}.{node}" if node else FRONTEND


def worker_name(worker: int) -> str:
    return f"worker {worker}"
