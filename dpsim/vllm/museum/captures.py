"""Variants of captured CUDA graphs: the mutants of specification 5.12, area 4.

Each is the healthy protocol with one mistake, most of them in the forward that `dp_batch` captures. Mistakes in the
parts of source page 004 are in `pp_tokens`. Mistakes that the batch agreement alone shows are in
`dpsim.vllm.museum.graphs`, historical bugs in `dpsim.vllm.museum.graph_bugs`. Some need a part that the protocol does
not have, such as offloaded weights: a healthy extension has it, and is their twin.

"One rank" is the last of its group.

    protocol: {name: dp_batch, form: source-000, variant: M-CG-3}       config: {capture_graphs: true}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from dpsim.contract.interface import Buffer
from dpsim.contract.registry import register_variant
from dpsim.vllm.capture.session import CaptureSession, Target
from dpsim.vllm.capture.wrapper import CUDAGraphEntry, CUDAGraphWrapper, ForwardContext, Outputs
from dpsim.vllm.config import RuntimeMode
from dpsim.vllm.data_parallel.captured import Agree, Agreed, CapturedForward, Metadata
from dpsim.vllm.data_parallel.flow import Flow017
from dpsim.vllm.data_parallel.step import DataParallelStep
from dpsim.vllm.data_parallel.timeline import Batch
from dpsim.vllm.graphs.capture import CaptureInputs, CaptureSize, inputs_004
from dpsim.vllm.graphs.dispatcher import Descriptor
from dpsim.vllm.graphs.manager import GraphManager
from dpsim.vllm.model.arrays import count
from dpsim.vllm.model.kernels import LAYERS, copy
from dpsim.vllm.pipeline.graphs import CapturedLayers, ManagedSession

HEALTHY = "healthy: an extension of the protocol, the twin of"


def mutant(
    name: str, expected: str | None, reason: str = "", protocol: str = "dp_batch", twin: str = ""
) -> Callable[[type[Any]], type[Any]]:
    form = "source-000" if protocol == "dp_batch" else "source-002"
    return register_variant(name, protocol=protocol, form=form, expected=expected, reason=reason, twin=twin)


# ---- dispatch


@mutant("M-CG-8", "CRASH:WRONG*")
class LongestDecides(Flow017):
    """A batch counts as decodes if its longest request has the tokens of a decode, whatever the others have.

    The decode graph assumes that all requests have this number, and its attention looks for them in wrong places.
    """

    def uniform(self, batch: Batch) -> bool:
        return batch.forced_uniform or batch.max_query_len == self.q


@mutant(
    "M-CG-9",
    None,
    "performance only: the ranks ask for different modes, and run in the smallest, in which both have a graph",
)
class OneTokenIsPrefill(DataParallelStep):
    """One rank takes a prompt of one token for a prefill, while the others take it for a decode."""

    async def step(self, batch: Batch) -> None:
        prefills = any(first == 0 for _, _, first in batch.scheduled)
        last = self.host.index == self.host.size - 1
        await super().step(batch._replace(max_query_len=0) if prefills and last else batch)


@mutant("M-CG-15-replay", "MISMATCH:COLLECTIVE:COUNT")
class OwnCount(CapturedForward):
    """A rank runs the graph of its unpadded count instead of the agreed, larger one (vllm pull request 25906)."""

    def graph_key(self, batch: Batch, agreed: Agreed) -> Descriptor:
        own = self.flow.padded(batch.num_tokens)
        return self.flow.dispatch(batch, own, frozenset({agreed.mode}))[1]


@mutant("M-CG-16", "CRASH:WRONG*")
class PadsRequests(CapturedForward):
    """Eager attention between pieces gets one request for each token of the graph.

    The requests behind the real ones come from an earlier step. Attention writes their rows again, with no content.
    """

    def told_requests(self, num_reqs: int, mode: RuntimeMode, key: Descriptor) -> int:
        if mode is RuntimeMode.PIECEWISE:
            return min(key.num_tokens, self.config.max_num_seqs)
        return super().told_requests(num_reqs, mode, key)


# ---- capture


@mutant("M-CG-2", "CRASH:INDEXERROR", protocol="pp_tokens")
class SmallestFirst(CapturedLayers):
    """The session captures the smallest size first, and the output has room for that one only (source page 004)."""

    class SmallFirst(ManagedSession):
        def order(self, targets: Iterable[Target]) -> list[Target]:
            return sorted(targets, key=lambda target: target.key.num_tokens)

    session = SmallFirst


@mutant("M-CG-3", "CRASH:CAPTUREERROR")
class NoWarmUp(CapturedForward):
    """A rank captures without a warm-up: a kernel that initialises at its first use does so in the capture."""

    class Cold(CaptureSession):
        warm_ups = 0

    session = Cold


@mutant("cg-partial", None, f"{HEALTHY} M-CG-4", protocol="pp_tokens")
class CapturesLargest(CapturedLayers):
    """A rank captures only the largest FULL graph, as memory ran out. Batches of other sizes run eagerly."""

    def wanted(self) -> list[CaptureSize]:
        found = super().wanted()
        largest = max([one.num_tokens for one in found], default=0)
        return [one for one in found if one.mode is not RuntimeMode.FULL or one.num_tokens == largest]


class AllCaptured(GraphManager):
    """It does not check whether a graph exists."""

    def runtime_mode(self, num_reqs: int, num_tokens: int, max_query_len: int) -> tuple[RuntimeMode, int | None]:
        captured, self.captured = self.captured, set(self.sizes.values())
        chosen = super().runtime_mode(num_reqs, num_tokens, max_query_len)
        self.captured = captured
        return chosen


@mutant("M-CG-4", "CRASH:ASSERTIONERROR", protocol="pp_tokens", twin="cg-partial")
class ReplaysUncaptured(CapturesLargest):
    """The last stage chooses a FULL graph that it never captured; the others go on, or wait for it."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        if self.layers[-1] + 1 == LAYERS:
            self.graphs = AllCaptured(self.config)


@mutant("cg-constructed", None, "healthy: token counts of a capture session as source page 004 has them")
class Constructed(CapturedForward):
    """Runs of a capture session need no agreement: all ranks have the same count, since all capture the same list.

    Their batches, too, are those of source page 004.
    """

    def capture_inputs(self, target: Target) -> CaptureInputs:
        return inputs_004(CaptureSize(target.key.num_tokens, target.mode, target.key.uniform), self.config)

    async def agree_on(self, target: Target, mode: RuntimeMode, inputs: CaptureInputs, agree: Agree) -> Agreed:
        tokens = target.key.num_tokens
        key = Descriptor(tokens) if mode is RuntimeMode.NONE else target.key
        return Agreed(mode, key, (tokens,) * self.ranks)


@mutant("M-CG-5-capture", "DISAGREEMENT:CAPTURE")
class FewerSizes(CapturedForward):
    """One rank has another list of sizes, which no hash of the configuration covers: it leaves out the largest."""

    def targets(self) -> list[Target]:
        found = super().targets()
        largest = max([target.key.num_tokens for target in found], default=0)
        last = self.index == self.ranks - 1
        return [target for target in found if not (last and target.key.num_tokens == largest)]


@mutant("M-CG-10", "CRASH:CAPTUREERROR")
class ActsFromOwnModeOn(CapturedForward):
    """Wrappers act in their own mode and in higher ones: a rank captures pieces within the capture of the whole."""

    class AtLeast(CUDAGraphWrapper):
        def acts(self, context: ForwardContext) -> bool:
            return context.mode >= self.mode

    wrapper = AtLeast


@mutant("M-CG-11", None, "memory only: the pool of graphs grows with every size, until it is full")
class KeepsOutputs(CapturedForward):
    """A rank never frees outputs of graphs: no two sizes share memory."""

    class Strong(CUDAGraphWrapper):
        async def capture(self, context: ForwardContext, inputs: tuple[Buffer, ...]) -> Outputs:
            return (await super().capture(context, inputs))._replace(owned=False)

    wrapper = Strong


@mutant("M-CG-11-late", "RACE:REUSED_IN_FLIGHT")
class ReadsLate(CapturedForward):
    """A side stream reads the output of a replay, and the next replay does not wait for it."""

    def logits(self, outputs: Outputs) -> Buffer:
        side, [found] = self.rank.stream("logits"), outputs.buffers
        side.wait_stream(self.main)
        logits = side.alloc(found.shape, "int32", "logits")
        side.launch("logits", copy, reads=[found], writes=[logits])
        if outputs.owned:
            self.main.wait_stream(side)
        self.give_back(outputs)
        return logits


def first_rows(slots: Any) -> None:
    """Kernel: write 0, 1, ... without values from the host: CUDA allows no such copy in a capture."""
    slots[:] = count(slots, slots.shape[0])


@mutant("M-CG-12", "CRASH:WRONG*")
class RealBlockTables(CapturedForward):
    """A graph keeps the rows of the cache that requests had at its capture, not those of a step."""

    def told(self, context: ForwardContext, num_reqs: int) -> list[Buffer]:
        starts, lengths, slots = super().told(context, num_reqs)
        if context.mode is RuntimeMode.FULL:
            slots = self.main.alloc(num_reqs, "int32", "captured.slots")
            self.main.launch("captured.slots", first_rows, writes=[slots])
        return [starts, lengths, slots]


@mutant("M-CG-13", "CRASH:WRONG*")
class StaleDummy(CapturedForward):
    """A dummy step replays a graph on the metadata of the last real batch, and writes to the rows of its requests.

    Pull requests 37728, 39444, 49757 and 56734 of vllm, for four ways to write: dp-dummy-stale-rows.
    """

    def put_metadata(self, metadata: Metadata, into: tuple[Buffer, ...], stream: Any) -> None:
        dummy = set(metadata.slots) == {-1}
        if self.captures.allowed or not dummy:
            super().put_metadata(metadata, into, stream)


@mutant("M-CG-14", None, "memory only: each mode still begins with its largest graph, and the pool gets no larger")
class FullFirst(CapturedForward):
    """A rank captures FULL graphs before PIECEWISE ones."""

    class Reversed(CaptureSession):
        def order(self, targets: Iterable[Target]) -> list[Target]:
            return sorted(super().order(targets), key=lambda target: -target.mode)

    session = Reversed


# ---- replay


@mutant("M-CG-17", "RACE:BUFFER")
class OtherStream(CapturedForward):
    """A rank replays graphs on another stream than the one that writes their inputs."""

    class Elsewhere(CUDAGraphWrapper):
        def replay(self, context: ForwardContext, entry: CUDAGraphEntry) -> None:
            other = self.captures.rank.stream("replays")
            entry.graph.replay(other, f"{self.name}.replay")
            context.stream.wait_stream(other)

    wrapper = Elsewhere


@mutant("M-CG-18", "GRAPH:UNPAIRED")
class LargerCase(CapturedForward):
    """One rank has more adapters than any graph was captured for. It finds no graph, and runs eagerly what the others
    replay. NCCL pairs both all the same; if the host has a part in the collective, it hangs.
    """

    async def run(self, batch: Batch, agreed: Agreed) -> tuple[Buffer, slice]:
        if batch.num_loras and self.index == self.ranks - 1:
            agreed = agreed._replace(mode=RuntimeMode.NONE)
        return await super().run(batch, agreed)
