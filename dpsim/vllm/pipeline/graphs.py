"""A stage's layers as CUDA graphs, as source page 004 describes them (specification 5.3, 5.6 and 5.8).

    hidden -> [ embed, project ] -> attention -> [ mix, project ] -> attention -> [ mix ] -> output

In mode PIECEWISE, each bracketed *piece* is a separate graph, and attention runs eagerly between the pieces. In mode
FULL, all pieces and attention are one graph, which ends with the copy into the output buffers.

Buffers contain, for each token, its id, its position and the cache slot of its request. The cache has one spare slot
behind those of requests, to which padding tokens write. So padded rows have no effect (invariant I-CG-11).

The stages need no agreement before a capture. All have the same configuration, so they capture the same sizes, the
largest first. The first dummy run allocates output buffers that have room for all sizes (invariant I-CG-13). In a
capture, a stage neither sends nor receives hidden states; it runs on the content of its buffers. In a step, all stages
choose the same graph, because they have the same batch. The ranks of a stage reduce each layer inside the graph.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from dpsim.contract.interface import Buffer, Graph, Rank, Stream
from dpsim.vllm.capture.session import CaptureSession, Target
from dpsim.vllm.capture.wrapper import Captures, CUDAGraphWrapper, ForwardContext, Outputs
from dpsim.vllm.config import EngineConfig, RuntimeMode
from dpsim.vllm.graphs.capture import CaptureSize
from dpsim.vllm.graphs.dispatcher import Descriptor
from dpsim.vllm.graphs.manager import GraphManager
from dpsim.vllm.model import kernels
from dpsim.vllm.model.arrays import count, namespace, of_host
from dpsim.vllm.model.kernels import MODULUS, Span, layout
from dpsim.vllm.pipeline.batches import InputBatch
from dpsim.vllm.pipeline.layers import Layers

LAYER_NS = 20_000  # reference: one small layer


class ManagedSession(CaptureSession):
    """A capture session in the order of the graph manager, which is that of source page 004."""

    def order(self, targets: Iterable[Target]) -> list[Target]:
        return list(targets)


class CapturedLayers(Layers):
    """The layers of one rank, and their graphs. A run calls the methods in the order of this file."""

    spare_slots = 1  # for tokens that only pad
    session: type[CaptureSession] = ManagedSession
    manager: type[GraphManager] = GraphManager

    def __init__(
        self,
        rank: Rank,
        config: EngineConfig,
        layers: tuple[int, ...],
        cache: Buffer,
        hidden: Mapping[str, Buffer],
        is_first: bool,
        tensor_parallel_size: int,
    ) -> None:
        super().__init__(rank, config, layers, cache, hidden, is_first, tensor_parallel_size)
        self.graphs = self.manager(config)
        self.captures = Captures(rank)
        largest = hidden["hidden"].shape[0]
        self.tokens = self.main.alloc(largest, "int64", "token.ids")
        self.positions = self.main.alloc(largest, "int64", "token.positions")
        self.slots = self.main.alloc(largest, "int64", "token.slots")
        self.output: dict[str, Buffer] = {}
        self.whole: dict[int, Graph] = {}
        self.views: dict[tuple[Buffer, int], Buffer] = {}
        self.pieces = [
            CUDAGraphWrapper(f"piece{number}", RuntimeMode.PIECEWISE, self.piece(number), self.captures)
            for number in range(len(layers) + 1)
        ]

    @classmethod
    def largest(cls, config: EngineConfig) -> int:
        return max(cls.manager(config).sizes, default=1)

    # ---- the session

    async def capture(self, kinds: tuple[str, ...]) -> None:
        targets = [Target(one.mode, Descriptor(one.num_tokens, None, one.uniform_decode)) for one in self.wanted()]
        await self.session(self.rank, kinds).run(targets, self.dummy_run)
        self.captures.allowed = False

    def wanted(self) -> list[CaptureSize]:
        """The captures, in their order."""
        return self.graphs.captures()

    async def dummy_run(self, target: Target, mode: RuntimeMode, stream: Stream) -> None:
        """Run the layers for one entry of the session: as a warm-up if `mode` is NONE, else under capture.

        Each rank runs the token count of the target.
        """
        tokens = target.key.num_tokens
        self.put(tokens, None, (), stream)
        if not self.output:
            self.output = {name: self.main.alloc(tokens, "int64", f"{name}.output") for name in self.hidden}
            stream.wait_stream(self.main)
        metadata = None if mode is RuntimeMode.PIECEWISE else 0
        context = ForwardContext(mode, Descriptor(tokens), stream, metadata, (tokens,))
        if mode is RuntimeMode.FULL:
            await self.capture_whole(context, target)
        else:
            self.give_back(await self.forward(context))
        if mode is target.mode:
            self.graphs.record(CaptureSize(tokens, mode, target.key.uniform))

    async def capture_whole(self, context: ForwardContext, target: Target) -> None:
        """Capture all layers as one graph, with the copy into the output buffers."""
        tokens = target.key.num_tokens
        name = f"model.{tokens}"
        graph = self.whole[tokens] = self.rank.graph(name, self.captures.pool)
        async with graph.capture(context.stream):
            outputs = await self.forward(context._replace(capturing=True))
            self.copy_output(context, outputs, self.output)
            self.give_back(outputs)

    # ---- a step

    async def run(self, input_batch: InputBatch, outgoing: Mapping[str, Buffer]) -> dict[str, Buffer]:
        rows, tokens = input_batch.batch.rows, input_batch.batch.num_tokens
        mode, size = self.graphs.runtime_mode(len(rows), tokens, max([row.scheduled for row in rows]))
        padded = size or tokens
        self.put(padded, input_batch, input_batch.spans, self.main)
        context = ForwardContext(mode, Descriptor(padded), self.main, len(rows), (padded,))
        self.rank.probe(f"pp.{mode.name.lower()}")
        if mode is RuntimeMode.FULL:
            assert padded in self.whole, f"no FULL graph of {padded} tokens was captured"
            self.whole[padded].replay(self.main, "model.replay")
            return {name: buffer.view(0, tokens) for name, buffer in self.output.items()}
        outputs = await self.forward(context)
        self.copy_output(context, outputs, outgoing)
        self.give_back(outputs)
        return {name: buffer.view(0, tokens) for name, buffer in outgoing.items()}

    def put(self, tokens: int, input_batch: InputBatch | None, spans: tuple[Span, ...], stream: Stream) -> None:
        """Write the inputs of a forward of this many tokens. In a capture there is no batch, and all tokens are
        padding.
        """
        into = [self.rows(one, tokens) for one in (self.tokens, self.positions, self.slots)]
        dummy_slot = self.cache.shape[1] - 1
        if input_batch is None:
            stream.launch("token.clear", no_tokens, writes=into, args=(dummy_slot,), cost=0)
        else:
            reads = [input_batch.inputs, input_batch.mapping]
            stream.launch("token.put", put_tokens, reads=reads, writes=into, args=(spans, dummy_slot), cost=0)

    def rows(self, buffer: Buffer, stop: int) -> Buffer:
        """A view of the first rows of a buffer. Each call returns the same view, because a graph reads fixed addresses
        (invariant I-CG-8).
        """
        if (buffer, stop) not in self.views:
            self.views[buffer, stop] = buffer.view(0, stop)
        return self.views[buffer, stop]

    def num_tokens(self, context: ForwardContext) -> int:
        """The tokens of this rank's forward."""
        return context.counts[0]

    def copy_output(self, context: ForwardContext, outputs: Outputs, into: Mapping[str, Buffer]) -> None:
        tokens, [state] = self.num_tokens(context), outputs.buffers
        for name, source in (("hidden", state), ("residual", self.rows(self.hidden["residual"], tokens))):
            target = self.rows(into[name], tokens)
            context.stream.launch(f"{name}.output", kernels.copy, reads=[source], writes=[target], cost=0)

    def give_back(self, outputs: Outputs) -> None:
        if outputs.owned:
            for buffer in outputs.buffers:
                buffer.free()

    # ---- the layers

    async def forward(self, context: ForwardContext) -> Outputs:
        """Run all layers. At the end, free intermediate buffers, except for those that belong to a graph."""
        state = self.rows(self.hidden["hidden"], self.num_tokens(context))
        outputs = await self.pieces[0](context, (state,))
        between = []
        for number in range(1, len(self.layers) + 1):
            *_, kv, attention = outputs.buffers
            self.attend(number - 1, context, kv, attention)
            between.append(outputs)
            outputs = await self.pieces[number](context, (state, attention))
            state = outputs.buffers[0]
        for one in between:
            self.give_back(one)
        return outputs

    def piece(self, number: int) -> Callable[[ForwardContext, tuple[Buffer, ...]], Awaitable[Outputs]]:
        """The piece `number`: before the first attention, between two layers, or behind the last attention."""

        async def run(context: ForwardContext, inputs: tuple[Buffer, ...]) -> Outputs:
            state = inputs[0]
            made: tuple[Buffer, ...] = ()
            if number:
                state = self.mix(number - 1, context, *inputs)
                await self.mixture(self.layers[number - 1], context, state)
                made = (state,)
            elif self.is_first:
                self.embed(context, state)
            if number < len(self.layers):
                return Outputs((*made, *self.project(number, context, state)), owned=True)
            return Outputs(made, owned=True)

        return run

    async def mixture(self, layer: int, context: ForwardContext, state: Buffer) -> None:
        """Run the experts of a layer. Here it does nothing, because the experts run behind all layers
        (`PipelineWorker.run_experts`).
        """

    def embed(self, context: ForwardContext, state: Buffer) -> None:
        tokens = self.num_tokens(context)
        reads = [self.rows(self.tokens, tokens), self.rows(self.positions, tokens)]
        writes = [state, self.rows(self.hidden["residual"], tokens)]
        context.stream.launch("embed", embed, reads=reads, writes=writes)

    def project(self, index: int, context: ForwardContext, state: Buffer) -> tuple[Buffer, Buffer]:
        """Compute the tokens' values for the cache, and allocate the output of attention."""
        stream, tokens = context.stream, self.num_tokens(context)
        kv, attention = (stream.alloc(tokens, "int64", site) for site in ("kv", "attention"))
        reads = [state, self.rows(self.positions, tokens)]
        stream.launch("project", project, reads=reads, writes=[kv], args=(self.layers[index],), cost=0)
        return kv, attention

    def attend(self, index: int, context: ForwardContext, kv: Buffer, attention: Buffer) -> None:
        """Run attention. No piece contains it, so in mode PIECEWISE it runs outside of the graphs."""
        stream, tokens = context.stream, self.num_tokens(context)
        if context.num_reqs is None:
            stream.launch("attention.skip", kernels.fill, writes=[attention], args=(0,), cost=0)
            return
        reads = [kv, self.rows(self.positions, tokens), self.rows(self.slots, tokens)]
        stream.launch("attention", attend, reads=reads, writes=[self.cache, attention], args=(index,), cost=LAYER_NS)

    def mix(self, index: int, context: ForwardContext, state: Buffer, attention: Buffer) -> Buffer:
        """Compute the output of a layer, and reduce it over the ranks of the stage."""
        stream = context.stream
        mixed = stream.alloc(self.num_tokens(context), "int64", "mixed")
        stream.launch("mix", mix, reads=[attention, state], writes=[mixed], args=(self.layers[index],), cost=0)
        if self.peers is not None:
            self.peers.all_reduce(mixed, stream, site="layer.reduce")
            stream.launch("layer.share", share, writes=[mixed], args=(self.peers.size,), cost=0)
        return mixed


# ---- kernels: buffers that are read, buffers that are written, arguments


def no_tokens(tokens: Any, positions: Any, slots: Any, dummy_slot: int) -> None:
    """Kernel: write padding into all rows."""
    tokens[:] = 0
    positions[:] = 0
    slots[:] = dummy_slot


def put_tokens(
    inputs: Any, mapping: Any, tokens: Any, positions: Any, slots: Any, spans: tuple[Span, ...], dummy_slot: int
) -> None:
    """Kernel: write the tokens of a batch, their positions and slots, and padding into the rows behind them."""
    no_tokens(tokens, positions, slots, dummy_slot)
    real = inputs.shape[1]
    tokens[:real], positions[:real] = inputs[0], inputs[1]
    slots[:real] = mapping[of_host(mapping, layout(spans)[0])]


def embed(tokens: Any, positions: Any, hidden: Any, residual: Any) -> None:
    """Kernel: embed the tokens for the first layer."""
    hidden[:] = kernels.embedded(tokens, positions)
    residual[:] = tokens


def project(state: Any, positions: Any, kv: Any, layer: int) -> None:
    """Kernel: the value that a layer writes into the cache for each token."""
    kv[:] = kernels.cached(state, positions, layer)


def attend(kv: Any, positions: Any, slots: Any, cache: Any, attention: Any, index: int) -> None:
    """Kernel: write the tokens' values into the cache, and sum the cache with weights up to each token."""
    xp, width, own = namespace(kv), cache.shape[2], cache[index]
    own[slots, positions % width] = kv
    upto = xp.cumulative_sum(own[slots] * (count(kv, width)[None, :] + 1), axis=1)
    attention[:] = upto[count(kv, kv.shape[0]), positions % width] % MODULUS


def mix(attention: Any, state: Any, mixed: Any, layer: int) -> None:
    """Kernel: compute a layer's output."""
    mixed[:] = kernels.mixed(attention, state, layer)


def share(mixed: Any, ranks: int) -> None:
    """Kernel: divide the sum of equal ranks by their number."""
    mixed[:] = mixed // ranks
