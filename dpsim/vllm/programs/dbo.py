"""The program `dbo`: data-parallel steps that run as microbatches in threads, if all ranks agree to split them.

A step is that of the program `dp_batch`. It runs eagerly, or in captured graphs (`config.capture_graphs`).

    protocol: {name: dbo, form: source-000}
    config: {enable_dbo: true, dbo_decode_token_threshold: 2, dbo_prefill_token_threshold: 2}

The form of the program names a release, or a source page (a published file of vLLM). It determines the agreement, the
cut of a batch, the keys of graphs, and the number of threads at the ready barrier (`dpsim.vllm.releases`,
`dpsim.vllm.overlap.forms`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from dpsim.contract.interface import Rank
from dpsim.contract.ops import DECISION_VALUE, KIND, SITE, RawRecord
from dpsim.contract.pieces import with_variant
from dpsim.contract.program import Estimate, Program, Unsuitable
from dpsim.contract.registry import register_protocol
from dpsim.vllm.config import EngineConfig, Topology
from dpsim.vllm.data_parallel.batch import BatchForm
from dpsim.vllm.data_parallel.flow import BatchFlow
from dpsim.vllm.data_parallel.own_part import OwnPart
from dpsim.vllm.data_parallel.timeline import Timeline
from dpsim.vllm.overlap.forms import OverlapStep
from dpsim.vllm.overlap.forward import OverlapForward
from dpsim.vllm.params.arguments import EngineArguments
from dpsim.vllm.params.estimate import estimate_of
from dpsim.vllm.programs.modes import OVERLAP_ROWS, STEP_MODES, chosen_graphs
from dpsim.vllm.releases import PLACES, named, there
from dpsim.vllm.releases.protects import protects_of, says_unprotected, shows_of, unprotected_of

ACTIONS = ("plain", "eager", "graph", "threads", "capture", "replay")


class OverlapSetup(NamedTuple):
    """The values that all ranks share, and the pieces of the program, any of which a variant may replace."""

    topology: Topology
    timeline: Timeline
    flow: BatchFlow
    step: type[OverlapStep]
    forward: type[OverlapForward]


@register_protocol("dbo", forms=PLACES["dbo"].names)
@says_unprotected
class DualBatchOverlap(Program[OverlapSetup]):
    """Data-parallel steps with microbatches in threads.

    A variant replaces one piece: the form of the agreement, the decisions of a rank alone (`BatchFlow`), the step, or
    the forward. The class of the forward names the classes of its parts.
    """

    threaded = True
    ordered_by_flags = True
    protects = protects_of("dbo")
    unprotected = unprotected_of("dbo")
    shows = shows_of("dbo")
    heeds = ("abort_ns", "stop_after", "lora", "force_eager", "prefix", "encoder_inputs")
    modes = STEP_MODES
    rows = OVERLAP_ROWS
    probes = ("dp.dummy_batch", "dp.microbatched", "dp.not_microbatched", "dp.padded_further", "dp.lower_mode")

    def estimate(self, args: EngineArguments) -> Estimate:
        return estimate_of(args)

    def prepare(self, args: EngineArguments) -> OverlapSetup:
        config = EngineConfig.model_validate(args.config)
        topology = Topology.model_validate(args.topology)
        if config.num_gpu_blocks_override is not None:
            raise Unsuitable("config.num_gpu_blocks_override: dbo models no limit of the KV cache; remove it")
        if config.has_drafter:
            raise Unsuitable("config.speculative_method: dbo has no drafter; set it to ngram, or remove it")
        if topology.tensor_parallel_size > 1:
            raise Unsuitable("topology.tensor_parallel_size: each replica of dbo is one rank; remove it")
        timeline = Timeline(args.requests, topology.data_parallel_size, config, args.step_ns)
        (release, runner), form = named("dbo", args.form), f"protocol.form: {args.form}"
        if runner == "v2" and config.enable_lora:
            raise Unsuitable(
                "config.enable_lora: the V2 runner of dbo has no graphs for adapters; remove it, or take another form"
            )
        pieces: dict[type[Any], type[Any]] = {BatchForm: there(release.agreement, form)}
        pieces[BatchFlow] = there(release.flow, form)
        if runner == "v2":
            v2 = there(release.v2, form)
            pieces |= {OverlapStep: there(v2.overlap_step, form), OverlapForward: there(v2.microbatches, form)}
        else:
            pieces |= {OverlapStep: OverlapStep, OverlapForward: there(release.microbatches, form)}
        pieces = with_variant(self, args, pieces)
        graphs, parts = there(release.dispatcher, form), topology.tensor_parallel_size
        try:
            decides = pieces[BatchFlow](config, pieces[BatchForm](), graphs, parts)
        except ValueError as error:
            raise Unsuitable(f"config: {error}") from error
        return OverlapSetup(topology, timeline, decides, pieces[OverlapStep], pieces[OverlapForward])

    def assumes(self, did: Collection[tuple[Any, ...]], prepared: OverlapSetup) -> Sequence[str]:
        """That ranks choose graphs and capture none, unless the configuration says otherwise."""
        return chosen_graphs(prepared.flow.config, prepared.flow.dispatcher.sizes)

    def steps(self, prepared: OverlapSetup) -> int:
        return prepared.timeline.steps

    def figures(self, prepared: OverlapSetup, journals: Sequence[Sequence[RawRecord]]) -> dict[str, Any]:
        """In which ways the forwards of rank 0 ran, captures included, and how often."""
        ways = Counter(raw[DECISION_VALUE] for raw in journals[0] if raw[KIND] == "decision" and raw[SITE] == "overlap")
        return {"forwards": {way: ways[way] for way in ACTIONS}}

    async def run(self, rank: Rank, prepared: OverlapSetup) -> None:
        dp_index, _, _ = prepared.topology.coordinates(rank.rank)
        step = prepared.step(rank, dp_index, prepared.flow, captured=prepared.forward)
        await step.run(OwnPart(prepared.timeline, dp_index))
