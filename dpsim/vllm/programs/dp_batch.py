"""The program `dp_batch`: before each step, data-parallel ranks agree on token counts, graph mode and microbatches.

    protocol: {name: dp_batch, form: source-000}

The forms v2-0.17 and v2-0.33 have another step, that of the V2 runner. There, decisions that a rank makes alone follow
the V1 runner of the same release.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, TypeVar

from dpsim.contract.interface import Rank
from dpsim.contract.ops import RawRecord
from dpsim.contract.pieces import with_variant
from dpsim.contract.program import Estimate, Program, Unsuitable
from dpsim.contract.registry import register_protocol
from dpsim.vllm.capture.session import refused
from dpsim.vllm.config import EngineConfig, Topology
from dpsim.vllm.data_parallel.batch import BatchForm
from dpsim.vllm.data_parallel.captured import CapturedForward
from dpsim.vllm.data_parallel.drafter import Drafter
from dpsim.vllm.data_parallel.expert_balance import ExpertBalance
from dpsim.vllm.data_parallel.figures import moves_of_experts, tokens_and_modes
from dpsim.vllm.data_parallel.flow import BatchFlow
from dpsim.vllm.data_parallel.own_part import OwnPart
from dpsim.vllm.data_parallel.step import DataParallelStep
from dpsim.vllm.data_parallel.timeline import Timeline
from dpsim.vllm.params.arguments import EngineArguments
from dpsim.vllm.params.estimate import estimate_of
from dpsim.vllm.programs.modes import STEP_MODES, chosen_graphs
from dpsim.vllm.releases import PLACES, Absent, Choices, Release, RunnerV2, name_of, named, names, there
from dpsim.vllm.releases.protects import protects_of, says_unprotected, shows_of, unprotected_of

Piece = TypeVar("Piece")


class DataParallelSetup(NamedTuple):
    """What all ranks share, and the pieces that a variant may replace. `own`: ranks with a separate configuration."""

    config: EngineConfig
    topology: Topology
    timeline: Timeline
    flow: BatchFlow
    step: type[DataParallelStep]
    drafter: type[Drafter] = Drafter
    captured: type[CapturedForward] | None = None
    own: Mapping[int, BatchFlow] | None = None
    balance: type[ExpertBalance] | None = None


@register_protocol("dp_batch", forms=PLACES["dp_batch"].names)
@says_unprotected
class DataParallelBatch(Program[DataParallelSetup]):
    """Batch agreement of data-parallel ranks, one step after the other.

    A variant replaces the form of the agreement, the decisions of a rank alone (`BatchFlow`), the step, the drafter, or
    the captured forward (with `config.capture_graphs`). A rank with a separate configuration decides by that
    configuration. The configuration of a replica's first rank schedules its requests.
    """

    honours_config_by_rank = True
    protects = protects_of("dp_batch")
    unprotected = unprotected_of("dp_batch")
    shows = shows_of("dp_batch")
    heeds = ("abort_ns", "stop_after", "lora", "force_eager", "prefix", "encoder_inputs", "drafts", "enable_eplb")
    pieces: ClassVar[Mapping[str, tuple[str, ...]]] = Choices(graphs=lambda: names("graphs", "v1"))
    modes = STEP_MODES
    probes: tuple[str, ...] = (
        "dp.dummy_batch",
        "dp.microbatched",
        "dp.not_microbatched",
        "dp.padded_further",
        "dp.lower_mode",
    )

    def forms_of_pieces(self, args: EngineArguments) -> Mapping[str, str]:
        own = name_of("graphs", *named("dp_batch", args.form))
        return {**({} if own is None else {"graphs": own}), **args.pieces}

    def estimate(self, args: EngineArguments) -> Estimate:
        return estimate_of(args)

    def prepare(self, args: EngineArguments) -> DataParallelSetup:
        config = EngineConfig.model_validate(args.config)
        topology = Topology.model_validate(args.topology)
        configs = {rank: EngineConfig.model_validate(args.config_of(rank)) for rank in args.config_by_rank}
        (release, runner), wanted = named("dp_batch", args.form), f"protocol.form: {args.form}"
        v2 = there(release.v2, wanted) if runner == "v2" else None
        pieces: dict[type[Any], type[Any]] = {BatchForm: there(release.agreement, wanted)}
        pieces |= {BatchFlow: there(release.flow, wanted), Drafter: or_else(v2 and v2.drafter, Drafter)}
        pieces[DataParallelStep] = DataParallelStep if v2 is None else v2.step
        for one in (config, *configs.values()):
            refuse_of_v2(v2, release, args, one)
            if one.num_gpu_blocks_override is not None:
                raise Unsuitable("config.num_gpu_blocks_override: dp_batch models no limit of the KV cache; remove it")
            if one.capture_graphs != config.capture_graphs:
                raise Unsuitable("config_by_rank: capture_graphs must be equal on all ranks; remove it")
            if one.capture_graphs:
                if (reason := refused(one)) is not None:
                    raise Unsuitable(reason)
                pieces[CapturedForward] = or_else(v2 and v2.captured, CapturedForward)
            if one.enable_eplb:
                pieces[ExpertBalance] = self.balance_of(release, one)
        replicas = range(topology.data_parallel_size)
        engines = {dp: configs[topology.rank(dp)] for dp in replicas if topology.rank(dp) in configs}
        timeline = Timeline(args.requests, topology.data_parallel_size, config, args.step_ns, engines)
        pieces = with_variant(self, args, pieces)
        form, parts = pieces[BatchForm](), topology.tensor_parallel_size
        swapped = named("graphs", args.pieces["graphs"])[0] if "graphs" in args.pieces else release
        graphs = there(swapped.dispatcher, wanted)
        try:
            flow = pieces[BatchFlow](config, form, graphs, parts)
            own = {rank: pieces[BatchFlow](one, form, graphs, parts) for rank, one in configs.items()}
        except ValueError as error:
            raise Unsuitable(f"config: {error}") from error
        step, drafter, captured = pieces[DataParallelStep], pieces[Drafter], pieces.get(CapturedForward)
        balance = pieces.get(ExpertBalance)
        return DataParallelSetup(config, topology, timeline, flow, step, drafter, captured, own, balance)

    def balance_of(self, release: Release, config: EngineConfig) -> type[ExpertBalance]:
        """The class that moves experts between two steps. Unsuitable if they move during steps."""
        if config.eplb_config.use_async:
            raise Unsuitable(
                "config.eplb_config.use_async: the ranks of dp_batch have no threads that move experts; "
                "remove it, or take the protocol eplb"
            )
        return there(release.balance, "config.enable_eplb")

    def assumes(self, did: Collection[tuple[Any, ...]], prepared: DataParallelSetup) -> Sequence[str]:
        """Returns the assumption that ranks select graphs but capture none, where the configuration has graphs."""
        return chosen_graphs(prepared.config, prepared.flow.dispatcher.sizes)

    def steps(self, prepared: DataParallelSetup) -> int:
        return prepared.timeline.steps

    def figures(self, prepared: DataParallelSetup, journals: Sequence[Sequence[RawRecord]]) -> dict[str, Any]:
        """Returns tokens and modes of the steps, and the moves of experts, from the decisions of rank 0."""
        figures = tokens_and_modes(prepared.timeline, journals[0])
        return figures if prepared.balance is None else {**figures, "moves of experts": moves_of_experts(journals[0])}

    async def run(self, rank: Rank, prepared: DataParallelSetup) -> None:
        dp_index, _, _ = prepared.topology.coordinates(rank.rank)
        flow = (prepared.own or {}).get(rank.rank, prepared.flow)
        if prepared.captured is None and prepared.topology.data_parallel_size > 1:
            flow.rehearse(prepared.topology.data_parallel_size)
        step = prepared.step(rank, dp_index, flow, prepared.drafter, prepared.captured, prepared.balance)
        await step.run(OwnPart(prepared.timeline, dp_index))


def refuse_of_v2(v2: RunnerV2 | None, release: Release, args: EngineArguments, config: EngineConfig) -> None:
    """Raises Unsuitable for a setting that the V2 runner of this program does not use."""
    if v2 is None:
        return
    wrong = {
        "protocol.pieces.graphs": "graphs" in args.pieces,
        "config.enable_lora": config.enable_lora,
        "config.enable_sp": config.enable_sp,
        "config.capture_graphs": config.capture_graphs and isinstance(v2.captured, Absent),
        "config.enable_dbo or config.ubatch_size": config.use_ubatching and isinstance(v2.microbatches, Absent),
        "config.speculative_method": config.has_drafter and isinstance(v2.drafter, Absent),
        "config.speculative_max_model_len": config.speculative_max_model_len is not None,
    }
    other = name_of("dp_batch", release) or PLACES["dp_batch"].names[0]
    for setting in [setting for setting, given in wrong.items() if given]:
        raise Unsuitable(f"{setting}: the form {args.form} does not use it; remove it, or take the form {other}")


def or_else(piece: type[Piece] | Absent | None, default: type[Piece]) -> type[Piece]:
    """Returns a piece of the V2 runner, or the default if there is no V2 runner or the runner lacks the piece."""
    return default if piece is None or isinstance(piece, Absent) else piece
