"""The layers of a forward that may be one of several microbatches (specification 4.4 and 4.6).

    project | attention | permute | dispatch | expert | combine | unpermute | project | attention | ...

The layers are those of `dpsim.vllm.data_parallel.layers`, with two changes. First, each rank has its own expert, and
two all-to-alls send the tokens there and back. Second, callers do not pass values that differ between microbatches. A
layer reads attention metadata, counts and the stream from the forward context, which each thread installs for its
microbatch.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from dpsim.contract.interface import Buffer, Rank
from dpsim.vllm.capture.wrapper import ForwardContext, Outputs
from dpsim.vllm.config import RuntimeMode
from dpsim.vllm.data_parallel import attention
from dpsim.vllm.data_parallel.captured import CapturedForward
from dpsim.vllm.data_parallel.flow import BatchFlow
from dpsim.vllm.data_parallel.timeline import Batches
from dpsim.vllm.overlap.all_to_all import AllToAll, HighThroughput
from dpsim.vllm.overlap.hooks import Dbo
from dpsim.vllm.overlap.library import Library
from dpsim.vllm.overlap.routing import expert, mark
from dpsim.vllm.overlap.sm_control import SMControl
from dpsim.vllm.overlap.state import ForwardState


class OverlapLayers(CapturedForward):
    """The layers of one rank. The costs of its kernels are nanoseconds of device time."""

    project_ns = 2_000
    attention_ns = 10_000
    expert_ns = 10_000
    all_to_all: type[AllToAll] = HighThroughput
    sm_control: type[SMControl] = SMControl
    library_of: type[Library] = Library

    def __init__(self, rank: Rank, flow: BatchFlow, timeline: Batches) -> None:
        super().__init__(rank, flow, timeline)
        self.state = ForwardState()
        self.dbo = Dbo(rank, self.state)
        self.sms = self.sm_control(self.config.enable_expert_parallel)
        self.library = self.library_of(rank)
        self.exchange = self.all_to_all(rank, self.state, self.dbo, self.sms, self.shares)

    def piece(self, number: int) -> Callable[[ForwardContext, tuple[Buffer, ...]], Awaitable[Outputs]]:
        """The piece `number`: before the first attention, between two layers, or behind the last attention."""

        async def run(context: ForwardContext, inputs: tuple[Buffer, ...]) -> Outputs:
            [hidden] = inputs
            if number == 0:
                return await self.project(0, context, hidden)
            mixed = await self.mixture(number - 1, hidden)
            if number == self.layers:
                return Outputs((mixed,), owned=True)
            outputs = await self.project(number, context, mixed)
            mixed.free()
            return outputs

        return run

    async def project(self, layer: int, context: ForwardContext, hidden: Buffer) -> Outputs:
        """The first half of a layer. It also allocates the output of attention, so that a graph owns this memory."""
        stream, weights = self.dbo.stream, self.layer_weights(layer, context)
        query = stream.alloc(hidden.shape, "int32", "query")
        attended = stream.alloc(hidden.shape, "int32", "attended")
        kernel, reads = attention.project, [hidden, weights]
        stream.launch("project", kernel, reads=reads, writes=[query], args=(layer,), cost=self.project_ns)
        return Outputs((query, attended), owned=True)

    def attend(self, layer: int, context: ForwardContext, query: Buffer, attended: Buffer) -> None:
        """Run attention with the metadata of the forward context."""
        forward = self.state.running_context()
        num_reqs = forward.context.num_reqs
        if num_reqs is None:
            super().attend(layer, context, query, attended)
            return
        uniform = context.key.uniform and context.mode is RuntimeMode.FULL
        self.dbo.stream.launch(
            "attention",
            attention.attend,
            reads=[query, *self.metadata_buffers(context, num_reqs)],
            writes=[self.caches[layer], attended],
            args=(self.flow.q if uniform else 0,),
            cost=self.attention_ns,
        )

    def metadata_buffers(self, context: ForwardContext, num_reqs: int) -> list[Buffer]:
        starts, lengths, slots = self.state.running_context().metadata
        return [starts.view(0, num_reqs + 1), lengths.view(0, num_reqs), slots.view(0, num_reqs)]

    async def mixture(self, layer: int, attended: Buffer) -> Buffer:
        """The second half of a layer: dispatch the tokens, run this rank's expert, and combine."""
        received = await self.exchange.dispatch(layer, attended)
        outgoing = await self.run_expert(layer, received)
        received.free()
        return await self.exchange.combine(outgoing, attended.shape[0])

    async def run_expert(self, layer: int, received: Buffer) -> Buffer:
        stream = self.dbo.stream
        workspace = await self.library.workspace(stream)
        outgoing = stream.alloc(received.shape, "int32", "expert.out")
        added = (mark(self.experts.index, layer),)
        writes = [workspace, outgoing]
        stream.launch("expert", expert, reads=[received], writes=writes, args=added, cost=self.expert_ns)
        return outgoing
