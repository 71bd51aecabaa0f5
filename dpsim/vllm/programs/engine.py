"""The program `engine`: data-parallel engines that step together, their coordinator and their front ends.

    protocol: {name: engine, form: "0.33"}
    config: {dp_sync_interval: 16, _api_process_count: 2}

Each request takes one step for each output token. There are `_api_process_count` front ends, which get the requests in
turn. Forms (specification 2.11):

    "0.14"   sync every 32 steps, of one flag; front ends wake the engines; no pauses
    "0.24"   sync every 32 steps, of two numbers; front ends wake the engines; pauses in two phases, without device wait
    "0.33"   sync in the first step and every 16; only engines wake engines; pauses wait for the device

By default, front ends balance by the requests that they have sent themselves. With `pieces: {counts: published}` they
balance as vLLM's front ends do: by counts that the engines send to the coordinator. With more than one request, these
messages are too numerous for a search that tries all schedules.

With `distributed_executor_backend: external_launcher`, each rank steps its own engine in a batch job, without
coordinator and front ends. In every form, a `dp_sync_interval` other than the default replaces the interval of the
release. With the true intervals no search can try all schedules.

Source: specification chapter 2 (the engine loop).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

from dpsim.contract.interface import Rank
from dpsim.contract.ops import KIND, SITE, Domain, RawRecord
from dpsim.contract.pieces import with_variant
from dpsim.contract.program import Estimate, Program, Unsuitable
from dpsim.contract.registry import register_protocol
from dpsim.vllm.config import EngineConfig, Topology
from dpsim.vllm.engine.batch_job import OfflineLoop
from dpsim.vllm.engine.client import Balancing, ClientView, engines_of
from dpsim.vllm.engine.coordination import Coordination
from dpsim.vllm.engine.coordinator import Coordinator
from dpsim.vllm.engine.forward import DUMMY, REAL, EngineForward, EngineWorker
from dpsim.vllm.engine.frontend import FrontEnd, Plan
from dpsim.vllm.engine.layout import COORDINATOR, Layout
from dpsim.vllm.engine.loop import COMPLETE, EngineLoop
from dpsim.vllm.engine.pause import Control
from dpsim.vllm.engine.request_counts import COUNTS, RequestCounts, Untold
from dpsim.vllm.engine.scheduler import Scheduler
from dpsim.vllm.engine.watched import WatchedCoordinator, WatchedFrontEnd, WatchedLoop, requests_text
from dpsim.vllm.engine.waves import EngineWaves
from dpsim.vllm.params.arguments import EngineArguments
from dpsim.vllm.params.estimate import estimate_of
from dpsim.vllm.releases import PLACES, Lockstep, named, there
from dpsim.vllm.releases.protects import protects_of, says_unprotected, shows_of, unprotected_of


class EngineSetup(NamedTuple):
    """The values that all ranks and services share. `interval`: the steps from one finish sync to the next."""

    topology: Topology
    config: EngineConfig
    layout: Layout
    interval: int
    plan: Plan
    pieces: Mapping[type[Any], type[Any]]

    @property
    def offline(self) -> bool:
        """Whether an external launcher starts the ranks, and each rank steps its own engine."""
        return self.config.distributed_executor_backend == "external_launcher"

    @property
    def balances(self) -> bool:
        """Whether front ends select among several engines."""
        return self.layout.coordinated and not (self.offline or self.config.data_parallel_external_lb)


@register_protocol("engine", forms=PLACES["engine"].names)
class Engine(Program[EngineSetup]):
    """The loop of engines that step together: waves, finish sync, dummy batches, pause and resume."""

    heeds = ("abort_ns", "stop_after")
    pieces: ClassVar[Mapping[str, tuple[str, ...]]] = {"counts": COUNTS}
    probes: tuple[str, ...] = (REAL, DUMMY)
    replaced: Mapping[type[Any], type[Any]] = {}
    """The pieces that a subclass, such as a variant, replaces."""

    def forms_of_pieces(self, args: EngineArguments) -> Mapping[str, str]:
        return {"counts": COUNTS[0], **args.pieces}

    def estimate(self, args: EngineArguments) -> Estimate:
        return estimate_of(args)

    def prepare(self, args: EngineArguments) -> EngineSetup:
        lockstep = there(named("engine", args.form)[0].lockstep, f"protocol.form: {args.form}")
        return self.prepared(args, lockstep)

    def prepared(self, args: EngineArguments, lockstep: Lockstep) -> EngineSetup:
        """For the engine loop of any release. Raises Unsuitable for settings that engines here do not use."""
        topology = Topology.model_validate(args.topology)
        config = EngineConfig.model_validate(args.config)
        if topology.replica_size > topology.tensor_parallel_size:
            raise Unsuitable(
                f"topology: {topology.replica_size} ranks a replica; expected {topology.tensor_parallel_size}, "
                "those of tensor parallelism: engines have no pipeline and no context parallelism here"
            )
        given: dict[type[Any], type[Any]] = {
            EngineWaves: lockstep.waves,
            Coordination: lockstep.coordination,
            ClientView: lockstep.client,
            Control: lockstep.control,
            RequestCounts: lockstep.counts,
        }
        if args.pieces.get("counts", "own") == "own":
            given[RequestCounts] = Untold
        alike = EngineLoop, OfflineLoop, Scheduler, EngineForward, Coordinator, FrontEnd, Plan
        given |= {one: one for one in alike}
        pieces = with_variant(self, args, {**given, **self.replaced})
        layout = Layout(topology.data_parallel_size, topology.replica_size, config.api_process_count)
        interval: int = pieces[EngineWaves].sync_form.INTERVAL
        if config.dp_sync_interval != EngineConfig.model_fields["dp_sync_interval"].default:
            interval = config.dp_sync_interval
        if config.data_parallel_external_lb and layout.frontends != layout.size:
            raise Unsuitable(
                f"config._api_process_count: {layout.frontends} front ends for {layout.size} engines; "
                "with data_parallel_external_lb each engine has its own"
            )
        plan = pieces[Plan](args.requests, layout.frontends)
        setup = EngineSetup(topology, config, layout, interval, plan, pieces)
        if args.pieces.get("counts") == "published" and not setup.balances:
            raise Unsuitable(
                "protocol.pieces.counts: published; expected own, as front ends do not balance with one engine, "
                "with data_parallel_external_lb, or in a batch job"
            )
        return setup

    def services(self, prepared: EngineSetup) -> tuple[str, ...]:
        return () if prepared.offline else prepared.layout.services

    def groups(self, prepared: EngineSetup) -> Sequence[tuple[str, Domain, Sequence[tuple[int, ...]]]]:
        """Returns the groups of the workers, and the group of the engines for the finish sync."""
        replicas, experts = prepared.topology.dp_groups(), prepared.topology.expert_groups()
        workers = ("dp", "device", replicas), ("dp_cpu", "host", replicas), ("ep", "device", experts)
        return *workers, ("dp_engine", "host", replicas[:1])  # type: ignore[return-value]

    async def run(self, rank: Rank, prepared: EngineSetup) -> None:
        pieces, layout = prepared.pieces, prepared.layout
        index = layout.engine(rank.rank)
        if rank.rank != layout.rank(index):
            await EngineWorker(rank, layout.rank(index), pieces[EngineForward](rank)).run()
            return
        scheduler, forward = (
            pieces[Scheduler](prepared.config.max_num_seqs),
            pieces[EngineForward](rank, layout.others(index)),
        )
        if prepared.offline:
            await pieces[OfflineLoop](rank, scheduler, forward).run(prepared.plan.requests)
            return
        waves = pieces[EngineWaves](index, layout.size, layout.coordinated, prepared.interval)
        given = scheduler, forward, pieces[Control], pieces[RequestCounts]
        await pieces[EngineLoop](rank, layout, waves, *given).run()

    async def serve(self, rank: Rank, prepared: EngineSetup) -> None:
        pieces, layout = prepared.pieces, prepared.layout
        if rank.name == COORDINATOR:
            await pieces[Coordinator](rank, layout, pieces[Coordination](layout.size)).run()
        else:
            index = int(rank.name.rpartition(".")[2])
            given = _view(prepared, index), prepared.plan.of(index), prepared.config.max_num_seqs
            await pieces[FrontEnd](rank, layout, index, *given).run()

    def figures(self, prepared: EngineSetup, journals: Sequence[Sequence[RawRecord]]) -> dict[str, Any]:
        """Returns the number of forwards of each rank, and the number of waves that ended."""
        ranks = journals[: prepared.topology.world_size]
        counts = [Counter(raw[SITE] for raw in journal if raw[KIND] == "probe") for journal in ranks]
        forwards = {f"rank {rank}": f"{count[REAL]} real, {count[DUMMY]} dummy" for rank, count in enumerate(counts)}
        return {"forwards": forwards, "waves": counts[0][COMPLETE]}


@register_protocol("engine_watched", forms=PLACES["engine"].names)
@says_unprotected
class WatchedEngine(Engine):
    """Engines that step together; their peers, front ends and coordinator notice the death of any process."""

    protects = protects_of("engine_watched")
    unprotected = unprotected_of("engine_watched")
    shows = shows_of("engine_watched")

    threaded = True
    aborts = True
    ordered_by_flags = True
    replaced: Mapping[type[Any], type[Any]] = MappingProxyType(
        {EngineLoop: WatchedLoop, Coordinator: WatchedCoordinator, FrontEnd: WatchedFrontEnd}
    )

    def prepare(self, args: EngineArguments) -> EngineSetup:
        setup = super().prepare(args)
        if setup.layout.workers > 1 or setup.offline:
            raise Unsuitable(
                "engine_watched: expected engines of one worker each, and front ends; `engine` runs others"
            )
        return setup

    def figures(self, prepared: EngineSetup, journals: Sequence[Sequence[RawRecord]]) -> dict[str, Any]:
        """Returns the figures of `engine`, and how many requests ended with an answer or with an error."""
        return {**super().figures(prepared, journals), "requests": requests_text(journals)}


def _view(prepared: EngineSetup, frontend: int) -> ClientView:
    config, layout = prepared.config, prepared.layout
    balancing: Balancing = "external" if config.data_parallel_external_lb else "internal"
    balancing = "hybrid" if config.data_parallel_hybrid_lb else balancing
    each = max(layout.size // config.nnodes, 1)
    nodes = [range(first, min(first + each, layout.size)) for first in range(0, layout.size, each)]
    engines = engines_of(balancing, nodes, layout.size * frontend // layout.frontends)
    clients = max(layout.frontends * len(engines) // layout.size, 1)
    view: ClientView = prepared.pieces[ClientView](engines, frontend % clients, clients)
    return view
