"""The program `startup`: front ends, coordinator, engine cores and workers start together, or all of them fail.

In the program `startup_watched`, the participants also notice the death of any process (`dpsim.vllm.startup.watched`).

    protocol: {name: startup, form: "0.33"}

Front ends, the coordinator and engine cores are services; workers are the ranks of the topology. `config_by_rank`
contains the command line of a rank's node. An engine core uses that of its first worker, and the front end uses the
common `config`. The program does not use requests: a run is complete when the group has started.

All releases compare a hash of the configuration when engines are ready. With `pieces: {compared: fields}` the front end
compares more fields, and earlier (`dpsim.vllm.startup.compared`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

from pydantic import ValidationError

from dpsim.contract.interface import Rank
from dpsim.contract.ops import KIND, SITE, Domain, RawRecord
from dpsim.contract.pieces import with_variant
from dpsim.contract.program import Program, Unsuitable
from dpsim.contract.registry import register_protocol
from dpsim.vllm.config import EngineConfig, ParallelConfig, Surroundings, Topology
from dpsim.vllm.params.arguments import EngineArguments
from dpsim.vllm.releases import PLACES, named, there
from dpsim.vllm.releases.protects import protects_of, says_unprotected, shows_of, unprotected_of
from dpsim.vllm.startup.compared import COMPARED, Compared
from dpsim.vllm.startup.coordinator import Coordinator
from dpsim.vllm.startup.engine import EngineCore
from dpsim.vllm.startup.forwards import Forwards
from dpsim.vllm.startup.frontend import FrontEnd, NodeFrontEnd
from dpsim.vllm.startup.groups import Groups, Kinds
from dpsim.vllm.startup.layout import COORDINATOR, FRONTEND, Layout
from dpsim.vllm.startup.participant import FAILED, SERVES, STOPPED, Participant
from dpsim.vllm.startup.ports import GroupPorts
from dpsim.vllm.startup.watched import (
    WatchedCoordinator,
    WatchedWorker,
    WatchingEngine,
    WatchingFrontEnd,
    WatchingNodeFrontEnd,
)
from dpsim.vllm.startup.worker import StartupWorker


class StartupSetup(NamedTuple):
    """What all share. `configs`: of each rank. `engines`: the parallel configuration of each engine."""

    layout: Layout
    config: EngineConfig
    parallel: ParallelConfig
    configs: Mapping[int, EngineConfig]
    engines: tuple[ParallelConfig, ...]
    kinds: Kinds
    pieces: Mapping[type[Any], type[Any]]


@register_protocol("startup", forms=PLACES["startup"].names)
class Startup(Program[StartupSetup]):
    """The start of a group of engines: handshake, ports, groups and warm-up. All participants start, or none does."""

    heeds = ("enable_eplb",)
    honours_config_by_rank = True
    pieces: ClassVar[Mapping[str, tuple[str, ...]]] = {"compared": tuple(COMPARED)}
    probes: tuple[str, ...] = (SERVES,)

    def forms_of_pieces(self, args: EngineArguments) -> Mapping[str, str]:
        return {"compared": "hash", **args.pieces}

    replaced: Mapping[type[Any], type[Any]] = {}
    """The pieces that a subclass, such as a variant, replaces."""

    def prepare(self, args: EngineArguments) -> StartupSetup:
        topology = Topology.model_validate(args.topology)
        config = EngineConfig.model_validate(args.config)
        configs = {
            rank: EngineConfig.model_validate(args.config_of(rank)) if rank in args.config_by_rank else config
            for rank in range(topology.world_size)
        }
        own = there(named("startup", args.form)[0].startup, f"protocol.form: {args.form}")
        given: dict[type[Any], type[Any]] = {GroupPorts: own.ports}
        given |= {one: one for one in (FrontEnd, NodeFrontEnd, Coordinator, EngineCore, StartupWorker)}
        given |= {Kinds: own.groups, Groups: Groups, Forwards: Forwards}
        given[Compared] = COMPARED[args.pieces.get("compared", "hash")]
        pieces = with_variant(self, args, {**given, **self.replaced})
        layout = Layout(topology, replicas_of_a_node(config, topology))
        firsts = [layout.workers(engine)[0] for engine in range(layout.engines)]
        engines = [_parallel(configs[first], topology, engine) for engine, first in enumerate(firsts)]
        kinds = pieces[Kinds](topology, config)
        return StartupSetup(layout, config, _parallel(config, topology, 0), configs, tuple(engines), kinds, pieces)

    def services(self, prepared: StartupSetup) -> tuple[str, ...]:
        return prepared.layout.services

    def nodes(self, prepared: StartupSetup) -> tuple[int, ...]:
        return prepared.layout.nodes

    def groups(self, prepared: StartupSetup) -> Sequence[tuple[str, Domain, Sequence[tuple[int, ...]]]]:
        return prepared.kinds.communicators()

    async def run(self, rank: Rank, prepared: StartupSetup) -> None:
        layout, pieces = prepared.layout, prepared.pieces
        first = layout.workers(layout.engine_of(rank.rank))[0]
        own = pieces[GroupPorts], pieces[Groups], pieces[Forwards]
        configs = prepared.configs[first], prepared.configs[rank.rank]
        await pieces[StartupWorker](rank, layout, *configs, prepared.kinds, own).run()

    async def serve(self, rank: Rank, prepared: StartupSetup) -> None:
        await self.participant(rank, prepared).run()

    def participant(self, rank: Rank, prepared: StartupSetup) -> Participant:
        """Returns the participant that runs the service `rank.name`."""
        layout, pieces, compared = prepared.layout, prepared.pieces, prepared.pieces[Compared]()
        made: Participant
        if rank.name == FRONTEND:
            coordinated = pieces[GroupPorts].coordinated
            made = pieces[FrontEnd](rank, layout, prepared.config, prepared.parallel, compared, coordinated)
        elif rank.name == COORDINATOR:
            made = pieces[Coordinator](rank, layout)
        elif rank.name.startswith(FRONTEND):
            made = pieces[NodeFrontEnd](rank, layout)
        else:
            engine = int(rank.name.rpartition(".")[2])
            config, parallel = prepared.configs[layout.workers(engine)[0]], prepared.engines[engine]
            made = pieces[EngineCore](rank, layout, engine, config, parallel, compared, pieces[GroupPorts])
        return made

    def figures(self, prepared: StartupSetup, journals: Sequence[Sequence[RawRecord]]) -> dict[str, Any]:
        """Returns how many participants serve, and how many of the others stopped or failed."""
        ends = [raw[SITE] for journal in journals for raw in journal if raw[KIND] == "probe"]
        labels = {"serve": SERVES, "stopped": STOPPED, "failed": FAILED}
        counts = {word: ends.count(label) for word, label in labels.items()}
        return {word: count for word, count in counts.items() if count or word == "serve"}


@register_protocol("startup_watched", forms=PLACES["startup"].names)
@says_unprotected
class StartupWatched(Startup):
    """The program `startup`, in which each process notices the death of a process for which it waits."""

    protects = protects_of("startup_watched")
    unprotected = unprotected_of("startup_watched")
    shows = shows_of("startup_watched")

    threaded = True
    aborts = True
    replaced: Mapping[type[Any], type[Any]] = MappingProxyType(
        {
            FrontEnd: WatchingFrontEnd,
            NodeFrontEnd: WatchingNodeFrontEnd,
            Coordinator: WatchedCoordinator,
            EngineCore: WatchingEngine,
            StartupWorker: WatchedWorker,
        }
    )


def replicas_of_a_node(config: EngineConfig, topology: Topology) -> int:
    """From `nnodes` above 1, else from `data_parallel_size_local` above its default 1; else all.

    Raises Unsuitable if the replicas do not divide evenly among the nodes.
    """
    replicas, nodes = topology.data_parallel_size, config.nnodes
    if nodes > 1:
        if replicas % nodes:
            raise Unsuitable(f"config.nnodes: {nodes} nodes for {replicas} replicas; expected a divisor of {replicas}")
        return replicas // nodes
    local = config.data_parallel_size_local
    return local if 1 < local < replicas and replicas % local == 0 else replicas


def _parallel(config: EngineConfig, topology: Topology, engine: int) -> ParallelConfig:
    """An external launcher identifies an engine by the rank of its first worker."""
    around = Surroundings.of_rank(topology.rank(engine))
    try:
        return config.parallel_config(topology, around, engine)
    except (ValidationError, ValueError) as error:
        raise Unsuitable(f"config: {error}") from None
