"""The program `whole_engine`: data-parallel engines with pipelines of workers, their coordinator and front ends.

    protocol: {name: whole_engine, form: current}
    topology: {data_parallel_size: 2, pipeline_parallel_size: 2}

Engine cores are services, and ranks are workers that execute the calls of their core.

A form is one of two named combinations of releases (specification 10.0):

    current   the loop and the transfer of release 0.33, the agreement of its V2 runner
    source    the loop of source page 003, the agreement of page 000, tokens and transfer of page 002

dpsim refuses a combination that the engine refuses, and names the engine's rule. With `enable_dbo` the V1 runner splits
batches. No engine combines that with the tokens of page 002.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

from dpsim.contract.interface import Rank
from dpsim.contract.ops import DECISION_VALUE, KIND, SITE, STEP, Domain, RawRecord
from dpsim.contract.pieces import with_variant
from dpsim.contract.program import Estimate, Program, Unsuitable
from dpsim.contract.registry import register_protocol
from dpsim.vllm.config import EngineConfig, RuntimeMode, Topology
from dpsim.vllm.engine.coordinator import Coordinator
from dpsim.vllm.engine.forward import DUMMY, REAL
from dpsim.vllm.engine.frontend import FrontEnd, Plan
from dpsim.vllm.engine.layout import Layout
from dpsim.vllm.engine.loop import COMPLETE
from dpsim.vllm.engine.pause import Control
from dpsim.vllm.engine.request_counts import RequestCounts
from dpsim.vllm.engine.watched import WatchedCoordinator, WatchedFrontEnd, requests_text
from dpsim.vllm.engine.waves import EngineWaves
from dpsim.vllm.model.kernels import LAYERS
from dpsim.vllm.params.arguments import EngineArguments, Request
from dpsim.vllm.params.estimate import estimate_of
from dpsim.vllm.pipeline.layers import EagerLayers, Layers
from dpsim.vllm.pipeline.sampled_tokens import SampledTokens
from dpsim.vllm.pipeline.scheduler import PipelineScheduler
from dpsim.vllm.pipeline.transfer import Transfer
from dpsim.vllm.programs.engine import Engine, EngineSetup
from dpsim.vllm.programs.modes import OVERLAP_ROWS, STAGE_MODES, chosen_graphs
from dpsim.vllm.programs.pieces import FORMS, Agreement, AgreementOfV2
from dpsim.vllm.programs.stacks import forms_used, resolve_arguments
from dpsim.vllm.releases import PLACES
from dpsim.vllm.releases.protects import protects_of, says_unprotected, shows_of, unprotected_of
from dpsim.vllm.whole.batch_queue import QueuedLoop
from dpsim.vllm.whole.calls import Executor
from dpsim.vllm.whole.pipeline_engine import LivePipelineScheduler
from dpsim.vllm.whole.split_stage import SPLIT, SplitWorker, split_by
from dpsim.vllm.whole.stage_agreement import AgreementV1 as OfStageV1
from dpsim.vllm.whole.stage_agreement import AgreementV2 as OfStageV2
from dpsim.vllm.whole.stage_agreement import StageAgreement
from dpsim.vllm.whole.stage_worker import StageWorker, Workload, captured_by
from dpsim.vllm.whole.watched import WatchedCore, WatchedExecutor, WatchedWorker

ENGINE = Engine()

CORE = "engine"


class CoreLayout(Layout):
    """The numbers of all participants if engine cores are separate processes: services, numbered after all workers.

        >>> layout = CoreLayout(size=2, workers=2, frontends=1)
        >>> layout.services
        ('engine.0', 'engine.1', 'coordinator', 'frontend.0')
        >>> layout.rank(1), layout.engine(5), layout.frontend(0), layout.others(1)
        (5, 1, 7, (2, 3))
        >>> layout.actor(3), layout.actor(4)
        ('rank 3', 'engine.0')

    `rank` of an engine is the number to which other participants send messages for its core.

    Source: specification chapter 2.1 (actors).
    """

    @property
    def services(self) -> tuple[str, ...]:
        return (*[f"{CORE}.{number}" for number in range(self.size)], *super().services)

    def engine(self, rank: int) -> int:
        """Returns the data-parallel rank of the core with this number."""
        return rank - self.size * self.workers

    def rank(self, engine: int) -> int:
        return self.size * self.workers + engine

    def others(self, engine: int) -> tuple[int, ...]:
        """Returns the ranks of all workers of an engine."""
        return tuple(range(engine * self.workers, (engine + 1) * self.workers))

    def frontend(self, number: int) -> int:
        return self.size + super().frontend(number)

    def actor(self, number: int) -> str:
        return f"rank {number}" if number < self.size * self.workers else super().actor(number)


def of_stage(agreement: Agreement, config: EngineConfig) -> StageAgreement:
    """Returns the agreement of a stage's workers. Raises ValueError if the configuration leaves no graph size."""
    if isinstance(agreement, AgreementOfV2):
        return OfStageV2(agreement.make(config))
    return OfStageV1(agreement.make(config))


class WholeSetup(NamedTuple):
    """What all share. `engine`: loop, coordinator, front ends. `workload`: for workers. `agreement`: of a stage."""

    engine: EngineSetup
    topology: Topology
    requests: tuple[Request, ...]
    workload: Workload
    agreement: StageAgreement
    pieces: Mapping[type[Any], type[Any]]


@register_protocol("whole_engine", forms=PLACES["stack"].names)
@says_unprotected
class WholeEngine(Program[WholeSetup]):
    """Data-parallel engines with pipelines: cores, workers, coordinator, front ends.

    A variant replaces a piece of the loop (`QueuedLoop`, `EngineWaves`, the coordinator, a front end) or of the calls
    (`Executor`). It may also replace a piece of a worker (`StageWorker`, `SampledTokens`, `Transfer`, the layers), or
    the scheduler.
    """

    protects = protects_of("whole_engine")
    unprotected = unprotected_of("whole_engine")
    shows = shows_of("whole_engine")

    heeds = ("abort_ns", "stop_after", "drafts", "structured_output")
    pieces: ClassVar[Mapping[str, tuple[str, ...]]] = FORMS
    replaced: Mapping[type[Any], type[Any]] = {}
    """The pieces that a subclass, such as a variant, replaces."""
    modes = STAGE_MODES
    rows = OVERLAP_ROWS
    probes: tuple[str, ...] = (*Engine.probes, "pp.some_excluded", "pp.all_excluded", "pp.dummy_step", SPLIT)

    def reachable(self, prepared: WholeSetup) -> tuple[str, ...]:
        """A run splits batches only if microbatches are configured."""
        return self.probes if prepared.engine.config.use_ubatching else self.probes[:-1]

    def forms_of_pieces(self, args: EngineArguments) -> Mapping[str, str]:
        return forms_used(args)

    def estimate(self, args: EngineArguments) -> Estimate:
        return estimate_of(args, table=True)

    def prepare(self, args: EngineArguments) -> WholeSetup:
        stack, topology = (
            resolve_arguments(args, {"experts": "pipelines move no experts here"}),
            Topology.model_validate(args.topology),
        )
        replicas, stages = topology.data_parallel_size, topology.pipeline_parallel_size
        if not 2 <= stages <= LAYERS or topology.prefill_context_parallel_size > 1:
            raise Unsuitable(
                f"topology: expected pipelines of 2 to {LAYERS} stages, as whole_engine runs them (one stage is "
                f"whole_engine_dp), without prefill context parallelism; got {topology}"
            )
        only_replicas = {"data_parallel_size": replicas}
        engine = ENGINE.prepared(replace(args, variant=None, topology=only_replicas), stack.lockstep)
        config = engine.config
        if engine.offline:
            raise Unsuitable(
                "config.distributed_executor_backend: external_launcher; remove it, as these engines need front ends"
            )
        if config.use_ubatching and isinstance(stack.agreement, AgreementOfV2):
            raise Unsuitable(
                f"protocol.pieces.runner: {stack.runner}; expected v1, as only the V1 runner splits batches here"
            )
        try:
            agreement = of_stage(stack.agreement, config)
        except ValueError as error:
            raise Unsuitable(f"config: {error}") from error
        pieces: dict[type[Any], type[Any]] = {**engine.pieces, Transfer: stack.transfer, SampledTokens: stack.tokens}
        alike = QueuedLoop, LivePipelineScheduler, Executor, StageWorker
        pieces |= {one: one for one in alike} | {PipelineScheduler: stack.scheduler}
        pieces[Layers] = captured_by(agreement) if config.capture_graphs else EagerLayers
        if config.use_ubatching:
            self.threaded = self.ordered_by_flags = True
            pieces |= {Layers: split_by(agreement, stack.microbatches), StageWorker: SplitWorker}
        pieces = with_variant(self, args, {**pieces, **self.replaced})
        plan = pieces[Plan](args.requests, engine.layout.frontends)
        layout = CoreLayout(replicas, topology.replica_size, engine.layout.frontends)
        workload = Workload(args.requests, stages, config)
        engine = engine._replace(layout=layout, pieces=pieces, plan=plan)
        return WholeSetup(engine, topology, args.requests, workload, agreement, pieces)

    def assumes(self, did: Collection[tuple[Any, ...]], prepared: WholeSetup) -> Sequence[str]:
        """That workers choose graphs and capture none, unless the configuration says otherwise."""
        return chosen_graphs(prepared.engine.config, prepared.agreement.captures())

    def services(self, prepared: WholeSetup) -> tuple[str, ...]:
        return ENGINE.services(prepared.engine)

    def groups(self, prepared: WholeSetup) -> Sequence[tuple[str, Domain, Sequence[tuple[int, ...]]]]:
        """Returns the groups of the workers, and the group of the engine cores."""
        topology, layout = prepared.topology, prepared.engine.layout
        pipelines, replicas, experts = topology.groups("pp"), topology.dp_groups(), topology.expert_groups()
        tensor_parallel = topology.groups("tp") if topology.tensor_parallel_size > 1 else []
        return (
            ("tp", "device", tensor_parallel),
            ("pp", "device", pipelines),
            ("pp_cpu", "host", pipelines),
            ("dp", "device", replicas),
            ("dp_cpu", "host", replicas),
            ("ep", "device", experts),
            ("pp_broadcast", "device", pipelines),
            ("dp_engine", "host", [tuple(layout.rank(engine) for engine in range(layout.size))]),
        )

    async def run(self, rank: Rank, prepared: WholeSetup) -> None:
        """Runs a worker."""
        pieces, topology = prepared.pieces, prepared.topology
        replica, stage, peer = topology.coordinates(rank.rank)
        own = pieces[SampledTokens], pieces[Transfer], topology.tensor_parallel_size, pieces[Layers]
        output = (stage, peer) == (topology.pipeline_parallel_size - 1, 0)
        core = prepared.engine.layout, prepared.engine.layout.rank(replica)
        await pieces[StageWorker](rank, prepared.workload, *own, prepared.agreement, *core, output).run()

    async def serve(self, rank: Rank, prepared: WholeSetup) -> None:
        if not rank.name.startswith(CORE):
            await ENGINE.serve(rank, prepared.engine)
            return
        pieces, layout, topology = prepared.pieces, prepared.engine.layout, prepared.topology
        index, stages = layout.engine(rank.rank), topology.pipeline_parallel_size
        waves = pieces[EngineWaves](index, layout.size, layout.coordinated, prepared.engine.interval)
        planner = pieces[PipelineScheduler]
        scheduler = pieces[LivePipelineScheduler](prepared.requests, stages, prepared.engine.config, planner)
        executor = pieces[Executor](rank, layout.others(index), topology.rank(index, stages - 1))
        given = scheduler, executor, pieces[Control], pieces[RequestCounts], scheduler.depth
        await pieces[QueuedLoop](rank, layout, waves, *given).run()

    def figures(self, prepared: WholeSetup, journals: Sequence[Sequence[RawRecord]]) -> dict[str, Any]:
        """Returns the forwards of each engine, the number of ended waves, and the graph modes of rank 0's forwards."""
        layout = prepared.engine.layout
        cores = [journals[layout.rank(engine)] for engine in range(layout.size)]
        counts = [Counter(raw[SITE] for raw in journal if raw[KIND] == "probe") for journal in cores]
        forwards = {f"{CORE}.{number}": f"{one[REAL]} real, {one[DUMMY]} dummy" for number, one in enumerate(counts)}
        decided = (raw for raw in journals[0] if raw[KIND] == "decision" and raw[SITE] == "mode" and raw[STEP] >= 0)
        modes = Counter(raw[DECISION_VALUE] for raw in decided)
        by_mode = {mode.name: modes[mode.name] for mode in RuntimeMode}
        return {"forwards": forwards, "waves": counts[0][COMPLETE], "forwards by graph mode": by_mode}


@register_protocol("whole_engine_watched", forms=PLACES["stack"].names)
@says_unprotected
class WatchedWhole(WholeEngine):
    """Whole engines whose cores, workers, front ends and coordinator notice the death of any process."""

    protects = protects_of("whole_engine_watched")
    unprotected = unprotected_of("whole_engine_watched")
    shows = shows_of("whole_engine_watched")

    threaded = True
    aborts = True
    ordered_by_flags = True
    replaced: Mapping[type[Any], type[Any]] = MappingProxyType(
        {
            QueuedLoop: WatchedCore,
            Executor: WatchedExecutor,
            StageWorker: WatchedWorker,
            Coordinator: WatchedCoordinator,
            FrontEnd: WatchedFrontEnd,
        }
    )

    def figures(self, prepared: WholeSetup, journals: Sequence[Sequence[RawRecord]]) -> dict[str, Any]:
        """Returns the figures of `whole_engine`, and how many requests ended with an answer or with an error."""
        return {**super().figures(prepared, journals), "requests": requests_text(journals)}
