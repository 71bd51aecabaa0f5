"""The program `whole_engine_dp`: data-parallel engines of one worker each, with a complete data-parallel step.

    protocol: {name: whole_engine_dp, form: current}
    config: {capture_graphs: true, enable_dbo: true, dp_sync_interval: 4}

The coordinator, the front ends, waves, pause and resume are those of the program `engine`. The forwards are those of
`dp_batch`, or those of `dbo` if ranks split batches (`enable_dbo`). Requests arrive as messages, so no rank can foresee
which rank schedules which request.

A form is one of two named combinations of releases, without pipelines (specification 10.0):

    current   the loop of release 0.33 on its V2 runner; microbatches use the V1 runner without `pieces: {runner: v2}`
    source    the loop of source page 003, the agreement of page 000, the microbatches of page 001
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

from dpsim.contract.interface import Rank
from dpsim.contract.ops import DECISION_VALUE, KIND, SITE, STEP, Domain, RawRecord
from dpsim.contract.pieces import with_variant
from dpsim.contract.program import Estimate, Program, Unsuitable
from dpsim.contract.registry import register_protocol
from dpsim.vllm.capture.session import refused
from dpsim.vllm.config import EngineConfig, RuntimeMode, Topology
from dpsim.vllm.data_parallel.async_balance import AsyncBalance
from dpsim.vllm.data_parallel.batch import BatchForm
from dpsim.vllm.data_parallel.captured import CapturedForward
from dpsim.vllm.data_parallel.drafter import Drafter
from dpsim.vllm.data_parallel.expert_balance import ExpertBalance
from dpsim.vllm.data_parallel.flow import BatchFlow
from dpsim.vllm.data_parallel.live import OwnBatches
from dpsim.vllm.data_parallel.step import DataParallelStep
from dpsim.vllm.engine.frontend import Plan
from dpsim.vllm.engine.pause import Control
from dpsim.vllm.engine.request_counts import RequestCounts
from dpsim.vllm.engine.waves import EngineWaves
from dpsim.vllm.overlap.forms import OverlapStep
from dpsim.vllm.params.arguments import EngineArguments, Request
from dpsim.vllm.params.estimate import estimate_of
from dpsim.vllm.programs.engine import Engine, EngineSetup
from dpsim.vllm.programs.modes import OVERLAP_ROWS, STEP_MODES, chosen_graphs
from dpsim.vllm.programs.pieces import FORMS, AgreementV1
from dpsim.vllm.programs.stacks import Pieces, forms_used, resolve_arguments
from dpsim.vllm.releases import PLACES, Absent, named, there
from dpsim.vllm.whole.batch_queue import QueuedLoop
from dpsim.vllm.whole.rank_engine import LiveRankScheduler, RankWorker

ENGINE = Engine()


class WholeRankSetup(NamedTuple):
    """What all share. `engine`: loop, coordinator and front ends. `flow`: the decisions of a rank alone."""

    engine: EngineSetup
    requests: tuple[Request, ...]
    flow: BatchFlow
    pieces: Mapping[type[Any], type[Any]]


@register_protocol("whole_engine_dp", forms=PLACES["stack"].names)
class WholeEngineDp(Program[WholeRankSetup]):
    """Data-parallel engines, each with a complete step: agreement, graphs, microbatches, drafter.

    A variant replaces a piece of the loop (`QueuedLoop`, `EngineWaves`, the coordinator, a front end) or of the step
    (`DataParallelStep`, `BatchFlow`, the captured forward). It may also replace a piece that connects loop and step.
    """

    heeds = ("abort_ns", "stop_after", "lora", "force_eager", "prefix", "encoder_inputs", "drafts", "enable_eplb")
    pieces: ClassVar[Mapping[str, tuple[str, ...]]] = FORMS
    modes = STEP_MODES
    rows = OVERLAP_ROWS
    probes: tuple[str, ...] = (*Engine.probes, "dp.microbatched", "dp.padded_further", "dp.lower_mode")

    def forms_of_pieces(self, args: EngineArguments) -> Mapping[str, str]:
        return forms_used(args)

    def estimate(self, args: EngineArguments) -> Estimate:
        return estimate_of(args)

    def prepare(self, args: EngineArguments) -> WholeRankSetup:
        topology = Topology.model_validate(args.topology)
        if topology.replica_size > 1:
            raise Unsuitable(
                f"topology: {topology.replica_size} ranks a replica; expected one, as an engine is its only worker "
                "here; whole_engine has pipelines"
            )
        stack = resolve_arguments(
            args, dict.fromkeys(("tokens", "transfer"), "an engine of one worker has no pipeline")
        )
        engine = ENGINE.prepared(replace(args, variant=None), stack.lockstep)
        config = engine.config
        if engine.offline:
            raise Unsuitable(
                "config.distributed_executor_backend: external_launcher; remove it, as these engines need front ends"
            )
        if config.num_gpu_blocks_override is not None:
            raise Unsuitable(
                "config.num_gpu_blocks_override: whole_engine_dp models no limit of the KV cache; remove it"
            )
        form, flow, graphs = decides_alone(stack)
        drafter = Drafter if stack.v2 is None else there(stack.v2.drafter, "protocol.pieces.runner: v2")
        pieces: dict[type[Any], type[Any]] = {**engine.pieces, BatchForm: form, BatchFlow: flow, Drafter: drafter}
        pieces |= {one: one for one in (QueuedLoop, LiveRankScheduler, RankWorker)}
        refuse_of_v2(config, stack)
        pieces |= self.forward(config, stack) | self.experts(config, stack)
        pieces = with_variant(self, args, pieces)
        plan = pieces[Plan](args.requests, engine.layout.frontends)
        try:
            decides = pieces[BatchFlow](config, pieces[BatchForm](), graphs)
        except ValueError as error:
            raise Unsuitable(f"config: {error}") from error
        return WholeRankSetup(engine._replace(pieces=pieces, plan=plan), args.requests, decides, pieces)

    def forward(self, config: EngineConfig, stack: Pieces) -> dict[type[Any], type[Any]]:
        """The step, and its forward for graphs or microbatches; without both, a stand-in of one layer.

        Raises Unsuitable for settings that do not fit.
        """
        if config.use_ubatching:
            if config.has_drafter:
                raise Unsuitable(
                    "config.speculative_method: microbatches have no drafter; set it to ngram, or remove it"
                )
            self.threaded = self.ordered_by_flags = True
            split = OverlapStep if stack.v2 is None else there(stack.v2.overlap_step, "protocol.pieces.runner: v2")
            return {DataParallelStep: split, CapturedForward: stack.microbatches}
        step = DataParallelStep if stack.v2 is None else stack.v2.step
        if not config.capture_graphs:
            return {DataParallelStep: step}
        if (reason := refused(config)) is not None:
            raise Unsuitable(reason)
        captured = CapturedForward if stack.v2 is None else there(stack.v2.captured, "protocol.pieces.runner: v2")
        return {DataParallelStep: step, CapturedForward: captured}

    def experts(self, config: EngineConfig, stack: Pieces) -> dict[type[Any], type[Any]]:
        """Experts move between two steps, or in a thread during steps (`eplb_config.use_async`)."""
        if not config.enable_eplb:
            return {}
        if not config.eplb_config.use_async:
            return {ExpertBalance: stack.experts}
        self.threaded = self.ordered_by_flags = True
        moves = named("experts", stack.names["experts"])[0].async_balance
        return {ExpertBalance: AsyncBalance if isinstance(moves, Absent) else moves}

    def assumes(self, did: Collection[tuple[Any, ...]], prepared: WholeRankSetup) -> Sequence[str]:
        """That workers choose graphs and capture none, unless the configuration says otherwise."""
        return chosen_graphs(prepared.engine.config, prepared.flow.dispatcher.sizes)

    def services(self, prepared: WholeRankSetup) -> tuple[str, ...]:
        return ENGINE.services(prepared.engine)

    def groups(self, prepared: WholeRankSetup) -> Sequence[tuple[str, Domain, Sequence[tuple[int, ...]]]]:
        experts = prepared.engine.topology.expert_groups() if prepared.engine.config.enable_eplb else []
        return *ENGINE.groups(prepared.engine), ("eplb", "device", experts), ("eplb_cpu", "host", experts)

    async def run(self, rank: Rank, prepared: WholeRankSetup) -> None:
        pieces, layout, config = prepared.pieces, prepared.engine.layout, prepared.engine.config
        index = layout.engine(rank.rank)
        waves = pieces[EngineWaves](index, layout.size, layout.coordinated, prepared.engine.interval)
        scheduler = pieces[LiveRankScheduler](prepared.requests, config)
        batches = OwnBatches(prepared.requests, index, layout.size, config)
        own = pieces[Drafter], pieces.get(CapturedForward), pieces.get(ExpertBalance)
        step = pieces[DataParallelStep](rank, index, prepared.flow, *own)
        worker = pieces[RankWorker](rank, step, batches)
        depth = 1 + config.async_scheduling
        given = scheduler, worker, pieces[Control], pieces[RequestCounts], depth
        await pieces[QueuedLoop](rank, layout, waves, *given).run()

    async def serve(self, rank: Rank, prepared: WholeRankSetup) -> None:
        await ENGINE.serve(rank, prepared.engine)

    def figures(self, prepared: WholeRankSetup, journals: Sequence[Sequence[RawRecord]]) -> dict[str, Any]:
        """Returns forwards and waves, and the graph modes of rank 0's forwards."""
        decided = (raw for raw in journals[0] if raw[KIND] == "decision" and raw[SITE] == "mode" and raw[STEP] >= 0)
        modes = Counter(raw[DECISION_VALUE] for raw in decided)
        by_mode = {mode.name: modes[mode.name, False] + modes[mode.name, True] for mode in RuntimeMode}
        split = sum(count for (_, microbatched), count in modes.items() if microbatched)
        return {
            **ENGINE.figures(prepared.engine, journals),
            "forwards by graph mode": by_mode,
            "microbatched forwards": split,
        }


def decides_alone(stack: Pieces) -> AgreementV1:
    """On V2, the dummy batch and the test for decodes, from the V1 runner of the same release."""
    if isinstance(stack.agreement, AgreementV1):
        return stack.agreement
    release, wanted = stack.release, f"protocol.pieces.agreement: {stack.names['agreement']}"
    return AgreementV1(there(release.agreement, wanted), there(release.flow, wanted), there(release.dispatcher, wanted))


def refuse_of_v2(config: EngineConfig, stack: Pieces) -> None:
    """Raises Unsuitable for settings that the V2 runner's pieces do not use here."""
    if stack.v2 is None:
        return
    if stack.agreement != (stack.v2.agreement, stack.v2.graphs):
        agreement, graphs = stack.names["agreement"], stack.names["graphs"]
        raise Unsuitable(
            f"protocol.pieces.graphs: {graphs}; expected those of the agreement {agreement}, or whole_engine"
        )
    for setting, given in {
        "config.enable_lora": config.enable_lora,
        "config.enable_sp": config.enable_sp,
        "config.speculative_max_model_len": config.speculative_max_model_len is not None,
    }.items():
        if given:
            raise Unsuitable(
                f"{setting}: the V2 runner's pieces do not use it; remove it, or swap them: "
                "protocol.pieces: {runner: v1}"
            )
