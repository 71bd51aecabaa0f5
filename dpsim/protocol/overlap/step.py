"""The program `dbo`: data-parallel steps whose forwards run as microbatches where the ranks agreed to split them.

A step is that of `dp_batch`: dispatch, agree, dispatch again, run, and a witness that looks at the rows that came out.
What runs is a model with experts on all ranks, eager or captured (`config.capture_graphs`).

    protocol: {name: dbo, form: source-000}
    config: {enable_dbo: true, dbo_decode_token_threshold: 2, dbo_prefill_token_threshold: 2}

A form is a release: its agreement, how it cuts batches, under which keys it keeps graphs, and how many parties its
ready barrier has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from dpsim.config import EngineConfig, Topology
from dpsim.interface import HostArray, Rank
from dpsim.ops import DECISION_VALUE, KIND, SITE, RawRecord
from dpsim.program import Arguments, Program, Unsuitable
from dpsim.protocol.data_parallel.batch import BatchForm
from dpsim.protocol.data_parallel.flow import RELEASES, BatchFlow
from dpsim.protocol.data_parallel.forward import Microbatch
from dpsim.protocol.data_parallel.microbatch import Slicing, Slicing033
from dpsim.protocol.data_parallel.step import DataParallelStep
from dpsim.protocol.data_parallel.timeline import Timeline
from dpsim.protocol.overlap.barrier import ReadyBarrier
from dpsim.protocol.overlap.forward import OverlapForward
from dpsim.protocol.overlap.graph_keys import GraphKeys, Keys033
from dpsim.registry import register_protocol, with_variant


class Forward014(OverlapForward):
    """0.14: a party for each microbatch."""

    barrier: type[ReadyBarrier] = ReadyBarrier


class Forward033(Forward014):
    """0.33: lists of boundaries, and one key for all that is stored and looked up."""

    slicing: type[Slicing] = Slicing033
    graph_keys: type[GraphKeys] = Keys033


FORWARDS: dict[str, type[OverlapForward]] = {
    "source-000": OverlapForward,
    "0.14": Forward014,
    "0.33": Forward033,
}
"""What each release runs; its graph keys are 001's where nothing else is said."""

ACTIONS = ("plain", "eager", "graph", "threads", "capture", "replay")


class OverlapStep(DataParallelStep):
    """The step of one rank."""

    async def came(self, part: Microbatch, model: str = "") -> HostArray:
        """Wait for a forward. Returns this rank's rows, which nobody else has."""
        buffer, mine = part
        result = await buffer.read("rows.read")
        buffer.free()
        return result[mine]


class OverlapSetup(NamedTuple):
    """What all ranks share, and the pieces of the protocol: any may be a variant's."""

    topology: Topology
    timeline: Timeline
    flow: BatchFlow
    step: type[OverlapStep]
    forward: type[OverlapForward]


@register_protocol("dbo", forms=tuple(FORWARDS))
class DualBatchOverlap(Program[OverlapSetup]):
    """Data-parallel steps with microbatches in threads.

    A variant replaces the form of the agreement, what a rank decides alone (`BatchFlow`), the step, or the forward,
    which names the classes of all that it is made of.
    """

    threaded = True
    ordered_by_flags = True
    heeds = ("abort_ns", "stop_after", "lora", "force_eager", "prefix", "encoder_inputs")
    probes = ("dp.dummy_batch", "dp.microbatched", "dp.not_microbatched", "dp.padded_further", "dp.lower_mode")

    def prepare(self, args: Arguments) -> OverlapSetup:
        config = EngineConfig.model_validate(args.config)
        topology = Topology.model_validate(args.topology)
        if config.num_gpu_blocks_override is not None:
            raise Unsuitable("config.num_gpu_blocks_override: dbo has no KV cache to be too small; remove it")
        if config.has_drafter:
            raise Unsuitable("config.speculative_method: dbo has no drafter; set it to ngram, or remove it")
        if topology.tensor_parallel_size > 1:
            raise Unsuitable(
                "topology.tensor_parallel_size: the experts of dbo are one a data-parallel rank; remove it"
            )
        timeline = Timeline(args.requests, topology.data_parallel_size, config, args.step_ns)
        form, flow = RELEASES[args.form]
        pieces: dict[type[Any], type[Any]] = {BatchForm: form, BatchFlow: flow, OverlapStep: OverlapStep}
        pieces = with_variant(self, args, pieces | {OverlapForward: FORWARDS[args.form]})
        try:
            decides = pieces[BatchFlow](config, pieces[BatchForm](), topology.tensor_parallel_size)
        except ValueError as error:
            raise Unsuitable(f"config: {error}") from error
        return OverlapSetup(topology, timeline, decides, pieces[OverlapStep], pieces[OverlapForward])

    def steps(self, prepared: OverlapSetup) -> int:
        return prepared.timeline.steps

    def figures(self, prepared: OverlapSetup, journals: Sequence[Sequence[RawRecord]]) -> dict[str, Any]:
        """How often the forwards of rank 0 ran in which way, captures among them."""
        ways = Counter(raw[DECISION_VALUE] for raw in journals[0] if raw[KIND] == "decision" and raw[SITE] == "overlap")
        return {"forwards": {way: ways[way] for way in ACTIONS}}

    async def run(self, rank: Rank, prepared: OverlapSetup) -> None:
        dp_index, _, _ = prepared.topology.coordinates(rank.rank)
        step = prepared.step(rank, dp_index, prepared.flow, captured=prepared.forward)
        await step.run(prepared.timeline)


__all__ = ["ACTIONS", "FORWARDS", "DualBatchOverlap", "OverlapSetup", "OverlapStep"]
