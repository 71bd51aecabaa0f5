"""Variants of CUDA graph capture and replay: each class is the healthy program with one planted mistake.

Most change the forward (mutants of section 5.12) that the program `dp_batch` captures. Others change code that follows
source page 004 (the V2 runner's `cudagraph_utils.py`), which the program `pp_tokens` runs. If a mistake needs more,
such as offloaded weights, a healthy variant adds the code and is the twin of the faulty one.
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

HEALTHY = "healthy: the program with additional code, the twin of"


def mutant(
    name: str, expected: str | None, reason: str = "", protocol: str = "dp_batch", twin: str = ""
) -> Callable[[type[Any]], type[Any]]:
    form = "source-000" if protocol == "dp_batch" else "source-002"
    return register_variant(name, protocol=protocol, form=form, expected=expected, reason=reason, twin=twin)


# ---- dispatch


@mutant("M-CG-8", "CRASH:WRONG*")
class LongestDecides(Flow017):
    """A rank treats a batch as uniform decodes if its longest request has the length of a decode.

    The other requests may be shorter. But the decode graph assumes that all requests have that length, so its attention
    kernel reads their tokens from wrong positions.
    """

    def uniform(self, batch: Batch) -> bool:
        return batch.forced_uniform or batch.max_query_len == self.q


@mutant(
    "M-CG-9",
    None,
    "performance only: the ranks send different modes, and all run in the smallest, for which each rank has a graph",
)
class OneTokenIsPrefill(DataParallelStep):
    """One rank treats a prompt of one token as a prefill, while the others treat it as a decode."""

    async def step(self, batch: Batch) -> None:
        prefills = any(first == 0 for _, _, first in batch.scheduled)
        last = self.host.index == self.host.size - 1
        await super().step(batch._replace(max_query_len=0) if prefills and last else batch)


@mutant("M-CG-15-replay", "MISMATCH:COLLECTIVE:COUNT")
class OwnCount(CapturedForward):
    """A rank runs the graph for its local token count instead of the larger agreed count (vllm pull request 25906)."""

    def graph_key(self, batch: Batch, agreed: Agreed) -> Descriptor:
        own = self.flow.padded(batch.num_tokens)
        return self.flow.dispatch(batch, own, frozenset({agreed.mode}))[1]


@mutant("M-CG-16", "CRASH:WRONG*")
class PadsRequests(CapturedForward):
    """In mode PIECEWISE, attention between two graphs receives one request for each token of the graph.

    The requests behind the real ones are left over from an earlier step. So the attention kernel overwrites their KV
    cache rows with wrong values.
    """

    def written_requests(self, num_reqs: int, mode: RuntimeMode, key: Descriptor) -> int:
        if mode is RuntimeMode.PIECEWISE:
            return min(key.num_tokens, self.config.max_num_seqs)
        return super().written_requests(num_reqs, mode, key)


# ---- capture


@mutant("M-CG-2", "CRASH:INDEXERROR", protocol="pp_tokens")
class SmallestFirst(CapturedLayers):
    """The session captures the smallest size first, so the output buffer has room for that size only.

    Source page 004 (`cudagraph_utils.py`) allocates the output buffer in its first capture.
    """

    class SmallFirst(ManagedSession):
        def order(self, targets: Iterable[Target]) -> list[Target]:
            return sorted(targets, key=lambda target: target.key.num_tokens)

    session = SmallFirst


@mutant("M-CG-3", "CRASH:CAPTUREERROR")
class NoWarmUp(CapturedForward):
    """A rank captures a graph without a warm-up run, so a kernel that initializes at its first use does so in the
    capture.
    """

    class Cold(CaptureSession):
        warm_ups = 0

    session = Cold


@mutant("cg-partial", None, f"{HEALTHY} M-CG-4", protocol="pp_tokens")
class CapturesLargest(CapturedLayers):
    """A rank captures only the largest FULL graph, as if memory ran out, and runs batches of other sizes eagerly."""

    def wanted(self) -> list[CaptureSize]:
        found = super().wanted()
        largest = max([one.num_tokens for one in found], default=0)
        return [one for one in found if one.mode is not RuntimeMode.FULL or one.num_tokens == largest]


class AllCaptured(GraphManager):
    """A graph manager that selects a FULL graph without a check whether the rank captured it."""

    def runtime_mode(self, num_reqs: int, num_tokens: int, max_query_len: int) -> tuple[RuntimeMode, int | None]:
        captured, self.captured = self.captured, set(self.sizes.values())
        chosen = super().runtime_mode(num_reqs, num_tokens, max_query_len)
        self.captured = captured
        return chosen


@mutant("M-CG-4", "CRASH:ASSERTIONERROR", protocol="pp_tokens", twin="cg-partial")
class ReplaysUncaptured(CapturesLargest):
    """The last stage selects a FULL graph that it never captured, and raises.

    The other stages continue, or wait for it.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        if self.layers[-1] + 1 == LAYERS:
            self.graphs = AllCaptured(self.config)


@mutant("cg-constructed", None, "healthy: a capture session computes token counts as source page 004 does")
class Constructed(CapturedForward):
    """The ranks do not agree on token counts during a capture session, because all ranks capture the same list of
    sizes.

    So each rank computes the counts of all ranks from its own list. The dummy batches of the session, too, follow
    source page 004.
    """

    def capture_inputs(self, target: Target) -> CaptureInputs:
        return inputs_004(CaptureSize(target.key.num_tokens, target.mode, target.key.uniform), self.config)

    async def agree_on(self, target: Target, mode: RuntimeMode, inputs: CaptureInputs, agree: Agree) -> Agreed:
        tokens = target.key.num_tokens
        key = Descriptor(tokens) if mode is RuntimeMode.NONE else target.key
        return Agreed(mode, key, (tokens,) * self.ranks)


@mutant("M-CG-5-capture", "DISAGREEMENT:CAPTURE")
class FewerSizes(CapturedForward):
    """One rank captures a shorter list of sizes: it leaves out the largest. No configuration hash covers this list."""

    def targets(self) -> list[Target]:
        found = super().targets()
        largest = max([target.key.num_tokens for target in found], default=0)
        last = self.index == self.ranks - 1
        return [target for target in found if not (last and target.key.num_tokens == largest)]


@mutant("M-CG-10", "CRASH:CAPTUREERROR")
class ActsFromOwnModeOn(CapturedForward):
    """A graph wrapper captures in its own mode and in higher modes.

    So a rank begins PIECEWISE captures inside the FULL capture of the whole forward.
    """

    class AtLeast(CUDAGraphWrapper):
        def acts(self, context: ForwardContext) -> bool:
            return context.mode >= self.mode

    wrapper = AtLeast


@mutant("M-CG-11", None, "memory only: the memory pool of graphs grows with every size, until it is full")
class KeepsOutputs(CapturedForward):
    """A rank never frees the outputs of its graphs, so graphs of different sizes share no memory."""

    class Strong(CUDAGraphWrapper):
        async def capture(self, context: ForwardContext, inputs: tuple[Buffer, ...]) -> Outputs:
            return (await super().capture(context, inputs))._replace(owned=False)

    wrapper = Strong


@mutant("M-CG-11-late", "RACE:REUSED_IN_FLIGHT")
class ReadsLate(CapturedForward):
    """A side stream reads the output of a replay, and the next replay does not wait for the side stream."""

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
    """Kernel: writes 0, 1, ... without values from the host, because CUDA allows no such copy in a capture."""
    slots[:] = count(slots, slots.shape[0])


@mutant("M-CG-12", "CRASH:WRONG*")
class RealBlockTables(CapturedForward):
    """A graph keeps the KV cache rows that requests had at its capture, instead of the rows of the current step."""

    def metadata_buffers(self, context: ForwardContext, num_reqs: int) -> list[Buffer]:
        starts, lengths, slots = super().metadata_buffers(context, num_reqs)
        if context.mode is RuntimeMode.FULL:
            slots = self.main.alloc(num_reqs, "int32", "captured.slots")
            self.main.launch("captured.slots", first_rows, writes=[slots])
        return [starts, lengths, slots]


@mutant("M-CG-13", "CRASH:WRONG*")
class StaleDummy(CapturedForward):
    """A dummy step replays a graph on the metadata of the last real batch, and overwrites KV cache rows of its
    requests.

    This is the museum entry dp-dummy-stale-rows. Vllm pull requests 37728, 39444, 49757 and 56734 repaired four such
    writes.
    """

    def put_metadata(self, metadata: Metadata, into: tuple[Buffer, ...], stream: Any) -> None:
        dummy = set(metadata.slots) == {-1}
        if self.captures.allowed or not dummy:
            super().put_metadata(metadata, into, stream)


@mutant(
    "M-CG-14", None, "memory only: each mode still begins with its largest graph, and the memory pool gets no larger"
)
class FullFirst(CapturedForward):
    """A rank captures its FULL graphs before its PIECEWISE graphs."""

    class Reversed(CaptureSession):
        def order(self, targets: Iterable[Target]) -> list[Target]:
            return sorted(super().order(targets), key=lambda target: -target.mode)

    session = Reversed


# ---- replay


@mutant("M-CG-17", "RACE:BUFFER")
class OtherStream(CapturedForward):
    """A rank replays graphs on another stream than the stream that writes their inputs, and no event orders the two."""

    class Elsewhere(CUDAGraphWrapper):
        def replay(self, context: ForwardContext, entry: CUDAGraphEntry) -> None:
            other = self.captures.rank.stream("replays")
            entry.graph.replay(other, f"{self.name}.replay")
            context.stream.wait_stream(other)

    wrapper = Elsewhere


@mutant("M-CG-18", "GRAPH:UNPAIRED")
class LargerCase(CapturedForward):
    """One rank has more active adapters than any captured graph covers, so it runs eagerly while the others replay.

    NCCL pairs the eager and the replayed collectives anyway. If the host takes part in the collective, it hangs.
    """

    async def run(self, batch: Batch, agreed: Agreed) -> tuple[Buffer, slice]:
        if batch.num_loras and self.index == self.ranks - 1:
            agreed = agreed._replace(mode=RuntimeMode.NONE)
        return await super().run(batch, agreed)
