"""Microbatches in a pipeline stage: no engine has this combination, but a scenario may ask for it (specification 10.0).

The layers are those of a captured stage (`dpsim.vllm.pipeline.graphs`).

    receive | u0: embed, attention, mix | dispatch, expert, combine | attention, mix ...  | concatenate | send, sample
            | u1:                  embed, attention, mix | dispatch, expert, combine ...  |

Only the forward of a step is split into microbatches. The stage receives and sends the hidden states of all
microbatches in one transfer, and samples their tokens together. A dummy runs all layers, because the other replicas
need its experts in each layer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dpsim.contract.interface import Buffer, Stream
from dpsim.vllm.capture.session import Target
from dpsim.vllm.capture.wrapper import CUDAGraphWrapper, ForwardContext, Outputs
from dpsim.vllm.config import RuntimeMode
from dpsim.vllm.data_parallel.microbatch import wants_microbatching
from dpsim.vllm.graphs.capture import CaptureSize
from dpsim.vllm.graphs.dispatcher import Descriptor
from dpsim.vllm.model.kernels import copy
from dpsim.vllm.overlap.forward import OverlapForward
from dpsim.vllm.overlap.hooks import Dbo
from dpsim.vllm.overlap.routing import expert, mark
from dpsim.vllm.overlap.state import ForwardState, OverlapContext
from dpsim.vllm.overlap.wrapper import UbatchMetadata
from dpsim.vllm.pipeline.batches import InputBatch
from dpsim.vllm.pipeline.graphs import CapturedLayers
from dpsim.vllm.pipeline.layers import Layers
from dpsim.vllm.whole.stage_agreement import Ran, StageAgreement
from dpsim.vllm.whole.stage_worker import AgreedGraphs, StageWorker

SPLIT = "pp.split"
EXPERT_NS = 10_000  # reference: the expert of `dpsim.vllm.overlap.layers`


class SplitLayers(CapturedLayers):
    """The layers of one rank. `form`: the forward of `dpsim.vllm.overlap` whose classes split the batch."""

    form: type[OverlapForward] = OverlapForward

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        form, rank = self.form, self.rank
        self.experts, replicas = rank.device("ep"), rank.host("dp_cpu")
        self.replicas, self.replica = replicas.size, replicas.index
        self.state = ForwardState()
        self.dbo, self.sms = Dbo(rank, self.state), form.sm_control(self.config.enable_expert_parallel)
        self.library = form.library_of(rank)
        shares = self.experts.size // self.replicas
        self.exchange = form.all_to_all(rank, self.state, self.dbo, self.sms, shares)
        self.ubatches = form.wrapper_of(
            rank,
            self.state,
            CUDAGraphWrapper("model", RuntimeMode.FULL, self.all_layers, self.captures),
            self.captures,
            self.library,
            self.sms,
            form.graph_keys(),
            form.barrier(rank),
            form.ubatch_context,
        )
        self.between: dict[tuple[Buffer, int, int], Buffer] = {}

    # ---- the session

    def wanted(self) -> list[CaptureSize]:
        return super().wanted() if self.config.capture_graphs else []

    async def dummy_run(self, target: Target, mode: RuntimeMode, stream: Stream) -> None:
        """As microbatches for decodes that reach the threshold, else as a whole (specification 4.8)."""
        tokens, uniform = target.key.num_tokens, target.key.uniform
        split = target.mode is RuntimeMode.FULL and uniform and wants_microbatching(tokens, True, self.config)
        self.put(tokens, None, (), stream)
        num_reqs = None if mode is RuntimeMode.PIECEWISE else 0
        ran = Ran(mode, tokens, (tokens,) * self.replicas, split)
        self.give_back(await self.compute(ran, (tokens,), num_reqs, stream))
        if mode is target.mode:
            self.graphs.record(CaptureSize(tokens, mode, uniform))

    # ---- a step

    async def run(self, input_batch: InputBatch, outgoing: Mapping[str, Buffer]) -> dict[str, Buffer]:
        rows, tokens = input_batch.batch.rows, input_batch.batch.num_tokens
        ran = self.agreed()
        self.put(ran.num_tokens, input_batch, input_batch.spans, self.main)
        outputs = await self.compute(ran, [row.scheduled for row in rows], len(rows), self.main)
        self.copy_output(self.context(ran, len(rows), self.main), outputs, outgoing)
        self.give_back(outputs)
        return {name: buffer.view(0, tokens) for name, buffer in outgoing.items()}

    async def dummy(self) -> None:
        """Run padding tokens through all layers."""
        ran = self.agreed()
        self.put(ran.num_tokens, None, (), self.main)
        self.give_back(await self.compute(ran, (ran.num_tokens,), 1, self.main))

    def agreed(self) -> Ran:
        """The agreement of the current step. Without captures, its mode is NONE."""
        assert isinstance(self.graphs, AgreedGraphs)
        assert self.graphs.agreed is not None, "a forward without an agreement"
        ran = self.graphs.agreed
        if ran.microbatched:
            self.rank.probe(SPLIT)
        return ran if self.config.capture_graphs else ran._replace(mode=RuntimeMode.NONE)

    def context(self, ran: Ran, num_reqs: int | None, stream: Stream) -> ForwardContext:
        return ForwardContext(ran.mode, Descriptor(ran.num_tokens), stream, num_reqs, ran.counts)

    async def compute(self, ran: Ran, scheduled: Sequence[int], num_reqs: int | None, stream: Stream) -> Outputs:
        """Run a forward, as microbatches if the ranks agreed on them. `scheduled`: the tokens of each request."""
        context, buffers = self.context(ran, num_reqs, stream), (self.tokens, self.positions, self.slots)
        parts = None
        if ran.microbatched:
            slices = self.form.slicing().slices(scheduled, ran.num_tokens, len(scheduled), self.config.num_ubatches)
            parts = [
                self.part(OverlapContext(context._replace(counts=one.counts(self.replicas)), buffers, one.tokens.start))
                for one in slices.padded
            ]
        forward = OverlapContext(context, buffers)
        with self.state.during(forward):
            return await self.ubatches(forward, self.inputs(0, ran.num_tokens), parts)

    def part(self, forward: OverlapContext) -> UbatchMetadata:
        return UbatchMetadata(forward, self.inputs(forward.first_token, self.num_tokens(forward.context)))

    def inputs(self, first: int, tokens: int) -> tuple[Buffer, ...]:
        return (self.slice(self.hidden["hidden"], first, tokens),)

    # ---- the layers

    async def all_layers(self, context: ForwardContext, inputs: tuple[Buffer, ...]) -> Outputs:
        return await self.forward(context)

    def num_tokens(self, context: ForwardContext) -> int:
        return context.counts[self.replica]

    def rows(self, buffer: Buffer, stop: int) -> Buffer:
        """The rows of the running forward or microbatch, by the installed forward context."""
        first = 0 if self.state.forward is None else self.state.forward.first_token
        return self.slice(buffer, first, stop)

    def slice(self, buffer: Buffer, first: int, tokens: int) -> Buffer:
        """A view of a buffer. Equal arguments give the same view, so addresses do not change (invariant I-CG-8)."""
        key = buffer, first, tokens
        if key not in self.between:
            self.between[key] = buffer.view(first, first + tokens)
        return self.between[key]

    async def mixture(self, layer: int, context: ForwardContext, state: Buffer) -> None:
        """Send the tokens to their experts, run this rank's expert, and bring the tokens back."""
        received = await self.exchange.dispatch(layer, state)
        stream = self.dbo.stream
        workspace = await self.library.workspace(stream)
        outgoing = stream.alloc(received.shape, received.dtype, "expert.out")
        added, writes = (mark(self.experts.index, layer),), [workspace, outgoing]
        stream.launch("expert", expert, reads=[received], writes=writes, args=added, cost=EXPERT_NS)
        received.free()
        combined = await self.exchange.combine(outgoing, state.shape[0])
        self.dbo.stream.launch("experts.take", copy, reads=[combined], writes=[state], cost=0)
        combined.free()


class SplitWorker(StageWorker):
    """A worker whose layers contain the experts."""

    async def dummy(self) -> None:
        self.rank.probe("pp.dummy_step")
        await self.agree_on(self.agreement.dummy())
        assert isinstance(self.model, SplitLayers)
        await self.model.dummy()
        self.executed = None if self.is_last else self.dummy_record()

    def run_experts(self, tokens: int) -> None:
        """Does nothing, because each layer has already run the experts."""


def split_by(agreement: StageAgreement, form: type[OverlapForward]) -> type[Layers]:
    """The class of layers with the graphs of an agreement, and the microbatches of a form."""
    manager = type("Agreed", (AgreedGraphs,), {"wanted": tuple(agreement.captures())})
    return type("AgreedSplitLayers", (SplitLayers,), {"manager": manager, "form": form})
