"""The program `whole_engine_dp`: engines in lockstep, each the only worker of itself, with a real data-parallel step.

    protocol: {name: whole_engine_dp, form: current}
    config: {capture_graphs: true, enable_dbo: true, dp_sync_interval: 4}

The coordinator, the front ends, waves, pause and resume are those of `engine`; what a forward runs is what `dp_batch`
runs or, where batches are split (`enable_dbo`), `dbo`: graphs captured before serving, microbatches in threads. Who
schedules what is no longer known beforehand, for requests come as messages.

A form is one of the two stacks of specification 10.0, as far as there is no pipeline:

    current   0.33's loop, on the V2 runner; microbatches are on the V1 runner, unless `pieces: {runner: v2}` asks
    source    the loop of source 003, the agreement of source 000, the microbatches of source 001

What the V2 runner refuses together with microbatches is refused by the rule's name (`dpsim.vllm.whole.rules`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

from dpsim.contract.interface import Rank
from dpsim.contract.ops import DECISION_VALUE, KIND, SITE, STEP, Domain, RawRecord
from dpsim.contract.program import Arguments, Program, Unsuitable
from dpsim.contract.registry import register_protocol, with_variant
from dpsim.vllm.capture.session import refused
from dpsim.vllm.config import EngineConfig, RuntimeMode, Topology
from dpsim.vllm.data_parallel.async_balance import AsyncBalance
from dpsim.vllm.data_parallel.batch import BatchForm
from dpsim.vllm.data_parallel.captured import CapturedForward
from dpsim.vllm.data_parallel.captured_v2 import CapturedForwardV2
from dpsim.vllm.data_parallel.drafter import Drafter
from dpsim.vllm.data_parallel.drafter_v2 import DrafterV2
from dpsim.vllm.data_parallel.expert_balance import ExpertBalance
from dpsim.vllm.data_parallel.flow import BatchFlow
from dpsim.vllm.data_parallel.live import OwnBatches
from dpsim.vllm.data_parallel.step import DataParallelStep
from dpsim.vllm.engine.frontend import Plan
from dpsim.vllm.engine.pause import Control
from dpsim.vllm.engine.program import Engine, EngineSetup
from dpsim.vllm.engine.request_counts import RequestCounts
from dpsim.vllm.engine.waves import EngineWaves
from dpsim.vllm.params.arguments import Request
from dpsim.vllm.whole.batch_queue import QueuedLoop
from dpsim.vllm.whole.pieces import FORMS, V1_AGREEMENTS, AgreementV1
from dpsim.vllm.whole.rank_engine import LiveRankScheduler, RankWorker
from dpsim.vllm.whole.stacks import ENGINES, Pieces, resolve_arguments

ENGINE = Engine()


class WholeRankSetup(NamedTuple):
    """What all share. `engine`: the loop, its coordinator and front ends; `flow`: what a rank decides alone."""

    engine: EngineSetup
    requests: tuple[Request, ...]
    flow: BatchFlow
    pieces: Mapping[type[Any], type[Any]]


@register_protocol("whole_engine_dp", forms=("current", "source"))
class WholeEngineDp(Program[WholeRankSetup]):
    """Engines in lockstep, each with a real data-parallel step: agreement, graphs, microbatches, drafter.

    A variant replaces a piece of the loop (`QueuedLoop`, `EngineWaves`, the coordinator, a front end), of the step
    (`DataParallelStep`, `BatchFlow`, the forward that is captured), or what is between them.
    """

    heeds = ("abort_ns", "stop_after", "lora", "force_eager", "prefix", "encoder_inputs", "enable_eplb")
    pieces: ClassVar[Mapping[str, tuple[str, ...]]] = FORMS
    probes: tuple[str, ...] = (*Engine.probes, "dp.microbatched", "dp.padded_further", "dp.lower_mode")

    def prepare(self, args: Arguments) -> WholeRankSetup:
        topology = Topology.model_validate(args.topology)
        if topology.replica_size > 1:
            raise Unsuitable(
                f"topology: {topology.replica_size} ranks a replica; expected one, as an engine is its only worker "
                "here; whole_engine has pipelines"
            )
        stack = resolve_arguments(args)
        engine = ENGINE.prepare(replace(args, form=ENGINES[stack.finish_sync.release], variant=None))
        config = engine.config
        if engine.offline:
            raise Unsuitable(
                "config.distributed_executor_backend: external_launcher; expected none, as engines are served"
            )
        if config.num_gpu_blocks_override is not None:
            raise Unsuitable("config.num_gpu_blocks_override: a data-parallel step has no KV cache to be too small")
        form, flow, graphs = decides_alone(stack)
        drafter = Drafter if stack.runner == "v1" else DrafterV2
        pieces: dict[type[Any], type[Any]] = {**engine.pieces, BatchForm: form, BatchFlow: flow, Drafter: drafter}
        pieces |= {one: one for one in (QueuedLoop, LiveRankScheduler, RankWorker)}
        refuse_of_v2(config, stack)
        pieces |= self.forward(config, stack) | self.experts(config, stack)
        pieces = with_variant(self, args, pieces)
        plan = pieces[Plan](args.requests, engine.layout.frontends)
        try:
            decides = pieces[BatchFlow](config, pieces[BatchForm](), graphs=graphs)
        except ValueError as error:
            raise Unsuitable(f"config: {error}") from error
        return WholeRankSetup(engine._replace(pieces=pieces, plan=plan), args.requests, decides, pieces)

    def forward(self, config: EngineConfig, stack: Pieces) -> dict[type[Any], type[Any]]:
        """The step, and the forward of it that is more than a stand-in of one layer. Batches are split in threads."""
        if config.use_ubatching:
            if config.has_drafter:
                raise Unsuitable(
                    "config.speculative_method: microbatches have no drafter; set it to ngram, or remove it"
                )
            self.threaded = self.ordered_by_flags = True
            return {DataParallelStep: stack.overlap_step, CapturedForward: stack.microbatches}
        if not config.capture_graphs:
            return {DataParallelStep: stack.step}
        if (reason := refused(config)) is not None:
            raise Unsuitable(reason)
        captured = CapturedForward if stack.runner == "v1" else CapturedForwardV2
        return {DataParallelStep: stack.step, CapturedForward: captured}

    def experts(self, config: EngineConfig, stack: Pieces) -> dict[type[Any], type[Any]]:
        """How experts move: between two steps, or in a thread while steps run (`eplb_config.use_async`)."""
        if not config.enable_eplb:
            return {}
        if not config.eplb_config.use_async:
            return {ExpertBalance: stack.experts}
        self.threaded = self.ordered_by_flags = True
        return {ExpertBalance: AsyncBalance}

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
        """Forwards and waves, and in which modes rank 0 ran them."""
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
    """What a rank decides alone. On the V2 runner that is what a dummy batch and a decode are, of the same release."""
    return stack.agreement if isinstance(stack.agreement, AgreementV1) else AgreementV1(*V1_AGREEMENTS["v1-0.33"], None)


def refuse_of_v2(config: EngineConfig, stack: Pieces) -> None:
    """Raise Unsuitable for what the V2 runner's pieces do not look at here."""
    if stack.runner == "v2":
        for setting, there in {
            "config.enable_lora": config.enable_lora,
            "config.enable_sp": config.enable_sp,
            "config.speculative_max_model_len": config.speculative_max_model_len is not None,
        }.items():
            if there:
                raise Unsuitable(
                    f"{setting}: the V2 runner's pieces do not look at it; remove it, or swap them: "
                    "protocol.pieces: {runner: v1}"
                )
