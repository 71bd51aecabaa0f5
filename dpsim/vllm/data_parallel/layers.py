"""The layers of a captured forward, and the persistent buffers from which they read their inputs.

    tokens -> [ project ] -> attention -> [ experts, project ] -> attention -> [ experts ] -> sums of all ranks

Each pair of brackets is a *piece*. In mode PIECEWISE, each piece is a separate CUDA graph, and attention runs eagerly
between the pieces. In mode FULL, the whole forward is one graph. Each layer ends in the collective of its experts, over
the rows of all data-parallel ranks.

Inputs that differ between steps are in persistent buffers, and a graph reads them in each replay
(`dpsim.vllm.data_parallel.attention`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from dpsim.contract.interface import Buffer, Rank
from dpsim.vllm.capture.offloader import Offloader
from dpsim.vllm.capture.wrapper import Captures, CUDAGraphWrapper, ForwardContext, Outputs
from dpsim.vllm.config import RuntimeMode
from dpsim.vllm.data_parallel import attention
from dpsim.vllm.data_parallel.flow import BatchFlow
from dpsim.vllm.data_parallel.timeline import Batches
from dpsim.vllm.model.kernels import fill

LAYER_NS = 10_000  # reference: attention of one small layer


class GraphedLayers:
    """The layers of one rank. A forward calls the methods in the order of this file."""

    layers = 2
    wrapper: type[CUDAGraphWrapper] = CUDAGraphWrapper

    def __init__(self, rank: Rank, flow: BatchFlow, timeline: Batches) -> None:
        self.rank, self.flow, self.config = rank, flow, flow.config
        self.main, self.experts = rank.stream("main"), rank.device("ep")
        self.ranks, self.index = rank.host("dp_cpu").size, rank.host("dp_cpu").index
        self.shares = self.experts.size // self.ranks
        requests, positions, tokens = timeline.extent()
        self.cached = timeline.cached_prefixes()
        largest = self.flow.padded(max(tokens, self.flow.q, *self.graph_sizes()))
        most = self.config.max_num_seqs
        self.ids = self.main.alloc(largest, "int32", "input.ids")
        self.metadata = self.make_metadata(most)
        self.caches = [self.main.alloc((requests + 1, positions), "int32", "kv.cache") for _ in range(self.layers)]
        self.weights = [self.main.alloc(1, "int32", "weights") for _ in range(self.layers)]
        for layer in range(self.layers):
            self.main.launch("kv.clear", fill, writes=[self.caches[layer]], args=(0,), cost=0)
            self.main.launch("weights.load", fill, writes=[self.weights[layer]], args=(layer + 1,), cost=0)
        self.offloader = self.make_offloader()
        self.captures = Captures(rank, offloader=self.offloader)
        self.model = self.wrapper("model", RuntimeMode.FULL, self.forward, self.captures)
        self.pieces = [
            self.wrapper(f"piece{number}", RuntimeMode.PIECEWISE, self.piece(number), self.captures)
            for number in range(self.layers + 1)
        ]
        self.inputs: dict[int, tuple[Buffer, ...]] = {}
        self.initialised: set[int] = set()

    def graph_sizes(self) -> Sequence[int]:
        """The token counts of all graphs. The input buffer has room for the largest one."""
        return self.flow.dispatcher.sizes

    def make_metadata(self, most: int) -> tuple[Buffer, Buffer, Buffer]:
        """Allocates the metadata buffers for at most `most` requests: starts, lengths and slots, int32."""
        starts, lengths, slots = ("query.starts", most + 1), ("sequence.lengths", most), ("cache.slots", most)
        first, second, third = (self.main.alloc(count, "int32", site) for site, count in (starts, lengths, slots))
        return first, second, third

    def make_offloader(self) -> Offloader | None:
        """The offloader, which copies the weights of a layer to the device when they are needed. None if the device has
        all weights.
        """
        return None

    def inputs_of(self, num_tokens: int) -> tuple[Buffer, ...]:
        """The input buffers of a forward. Forwards of the same size get the same view, so addresses do not change
        (invariant I-CG-8).
        """
        if num_tokens not in self.inputs:
            self.inputs[num_tokens] = (self.ids.view(0, num_tokens),)
        return self.inputs[num_tokens]

    async def forward(self, context: ForwardContext, inputs: tuple[Buffer, ...]) -> Outputs:
        """Run all layers. At the end the rank frees intermediate buffers, except for those that belong to a graph."""
        between = []
        for layer in range(self.layers):
            outputs = await self.pieces[layer](context, inputs)
            query, attended = outputs.buffers[0], outputs.buffers[1]
            self.attend(layer, context, query, attended)
            inputs = (attended,)
            between.append(outputs)
        result = await self.pieces[self.layers](context, inputs)
        for outputs in between:
            self.give_back(outputs)
        return result

    def piece(self, number: int) -> Callable[[ForwardContext, tuple[Buffer, ...]], Awaitable[Outputs]]:
        """The piece `number`: before the first attention, between two layers, or behind the last attention."""

        async def run(context: ForwardContext, inputs: tuple[Buffer, ...]) -> Outputs:
            [hidden] = inputs
            if number == 0:
                return await self.project(0, context, hidden)
            summed = self.run_experts(number - 1, context, hidden)
            if number == self.layers:
                return Outputs((summed,), owned=True)
            taken = self.take(context, summed, hidden.shape[0])
            outputs = await self.project(number, context, taken)
            taken.free()
            return outputs

        return run

    async def project(self, layer: int, context: ForwardContext, hidden: Buffer) -> Outputs:
        """The first half of a layer. It also allocates the output of attention, so that a graph owns this memory."""
        await self.initialise(context, hidden.shape[0])
        stream, weights = context.stream, self.layer_weights(layer, context)
        query = stream.alloc(hidden.shape, "int32", "query")
        attended = stream.alloc(hidden.shape, "int32", "attended")
        stream.launch("project", attention.project, reads=[hidden, weights], writes=[query], args=(layer,))
        if self.offloader is not None:
            self.offloader.after_layer(layer, stream, context.capturing)
        return Outputs((query, attended), owned=True)

    async def initialise(self, context: ForwardContext, num_tokens: int) -> None:
        """Tune the kernels for a new size. The host waits for the stream, so this call fails during a capture."""
        if num_tokens not in self.initialised:
            await context.stream.record().synchronize("kernel.tune")
            self.initialised.add(num_tokens)

    def layer_weights(self, layer: int, context: ForwardContext) -> Buffer:
        if self.offloader is None:
            return self.weights[layer]
        self.offloader.before_layer(layer, context.stream, context.capturing)
        return self.offloader.weights(layer)

    def attend(self, layer: int, context: ForwardContext, query: Buffer, attended: Buffer) -> None:
        """Run attention. No piece contains it, so in mode PIECEWISE it runs outside of the graphs."""
        if context.num_reqs is None:
            context.stream.launch("attention.skip", fill, writes=[attended], args=(0,), cost=0)
            return
        uniform = context.key.uniform and context.mode is RuntimeMode.FULL
        context.stream.launch(
            "attention",
            attention.attend,
            reads=[query, *self.metadata_buffers(context, context.num_reqs)],
            writes=[self.caches[layer], attended],
            args=(self.flow.q if uniform else 0,),
            cost=LAYER_NS,
        )

    def metadata_buffers(self, context: ForwardContext, num_reqs: int) -> list[Buffer]:
        """The metadata of `num_reqs` requests. A graph reads the values at its replay, not those at its capture."""
        starts, lengths, slots = self.metadata
        return [starts.view(0, num_reqs + 1), lengths.view(0, num_reqs), slots.view(0, num_reqs)]

    def run_experts(self, layer: int, context: ForwardContext, attended: Buffer) -> Buffer:
        """The second half of a layer: write this rank's rows, and sum the rows of all ranks."""
        stream, counts = context.stream, context.counts
        own = sum(counts[: self.index])
        summed = stream.alloc(sum(counts), "int32", "experts.rows")
        stream.launch("experts.write", attention.to_experts, reads=[attended], writes=[summed], args=(own,))
        self.combine(summed, context)
        return summed

    def combine(self, summed: Buffer, context: ForwardContext) -> None:
        self.experts.all_reduce(summed, context.stream, site="experts.combine")

    def take(self, context: ForwardContext, summed: Buffer, num_tokens: int) -> Buffer:
        """Copy this rank's rows out of the sum, for the next layer."""
        own = sum(context.counts[: self.index])
        hidden = context.stream.alloc(num_tokens, "int32", "hidden")
        mine = summed.view(own, own + num_tokens)
        context.stream.launch(
            "experts.take", attention.from_experts, reads=[mine], writes=[hidden], args=(self.shares,)
        )
        summed.free()
        return hidden

    def give_back(self, outputs: Outputs) -> None:
        if outputs.owned:
            for buffer in outputs.buffers:
                buffer.free()
