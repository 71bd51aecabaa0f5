"""A part of the model as CUDA graphs: captured once for each key, and replayed from then on (specification 5.7).

A wrapper has one fixed mode. What tells it whether to act is the context of the forward, which all wrappers of a model
get alike: the FULL wrapper is around the whole model, the PIECEWISE ones are around the pieces between its attention
ops, and the mode of the context selects which of them act.

                   NONE        PIECEWISE                           FULL
    whole model    just run    just run                            capture, or replay
    its pieces     just run    capture, or replay, one by one      just run: they are part of the whole

A replay copies nothing. Whoever calls has put the inputs where the capture found them, and the outputs are where the
capture left them: a *weak* reference, good until other memory of the pool is written (I-CG-7).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, TypeAlias

from dpsim.contract.interface import Buffer, Graph, Rank, Stream
from dpsim.vllm.capture.offloader import Offloader
from dpsim.vllm.config import RuntimeMode
from dpsim.vllm.graphs.dispatcher import Descriptor


class ForwardContext(NamedTuple):
    """What a forward is told, at every depth.

    `key`: the graph that its batch runs in. `num_reqs`: requests that attention is told of; None: attention gets no
    metadata, and does nothing (a PIECEWISE capture, I-CG-11). `counts`: tokens of each data-parallel rank. `capturing`:
    what is called now is kept, and not run.
    """

    mode: RuntimeMode
    key: Descriptor
    stream: Stream
    num_reqs: int | None
    counts: tuple[int, ...]
    capturing: bool = False


class Outputs(NamedTuple):
    """What a part of the model leaves. `owned`: its caller gives it back; else it is a graph's, a weak reference."""

    buffers: tuple[Buffer, ...]
    owned: bool


Runnable: TypeAlias = Callable[[ForwardContext, tuple[Buffer, ...]], Awaitable[Outputs]]
"""A part of the model: from its inputs to its outputs."""


class Captures:
    """What all wrappers of a rank share: the pool of their graphs, and whether a graph may still be captured."""

    def __init__(self, rank: Rank, pool: str = "graphs", offloader: Offloader | None = None) -> None:
        self.rank = rank
        self.pool = pool
        self.offloader = offloader
        self.allowed = True
        self.count = 0

    def check(self, name: str) -> None:
        """Raise AssertionError once serving began: nothing is captured any more (I-CG-9)."""
        assert self.allowed, f"graph {name} was never captured, and serving began: nothing is captured now (I-CG-9)"


class CUDAGraphEntry(NamedTuple):
    """A graph: what it found and what it left."""

    graph: Graph
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]


class CUDAGraphWrapper:
    """A part of the model, in one mode. Methods in the order in which a call calls them."""

    def __init__(self, name: str, mode: RuntimeMode, runnable: Runnable, captures: Captures) -> None:
        self.name, self.mode, self.runnable, self.captures = name, mode, runnable, captures
        self.entries: dict[Descriptor, CUDAGraphEntry] = {}

    async def __call__(self, context: ForwardContext, inputs: tuple[Buffer, ...]) -> Outputs:
        if not self.acts(context):
            return await self.runnable(context, inputs)
        entry = self.entries.get(context.key)
        if entry is None:
            return await self.capture(context, inputs)
        self.check_addresses(entry, inputs)
        self.replay(context, entry)
        return Outputs(entry.outputs, owned=False)

    def acts(self, context: ForwardContext) -> bool:
        """Whether the context means this wrapper, and not the one around it or those within."""
        return context.mode is self.mode

    async def capture(self, context: ForwardContext, inputs: tuple[Buffer, ...]) -> Outputs:
        """Keep the part as a graph. Nothing runs; the caller gives the outputs back, and the entry's are weak then."""
        name = self.graph_name(context.key)
        self.captures.check(name)
        self.before(context)
        graph = self.captures.rank.graph(name, self.captures.pool)
        async with self.capturing(graph, context.stream):
            outputs = await self.runnable(context._replace(capturing=True), inputs)
            self.join(context)
        self.entries[context.key] = CUDAGraphEntry(graph, inputs, outputs.buffers)
        self.captures.count += 1
        return outputs

    def capturing(self, graph: Graph, stream: Stream) -> AbstractAsyncContextManager[None]:
        """In mode "global", which is torch's own: no thread of the rank may ask for anything."""
        return graph.capture(stream)

    def graph_name(self, key: Descriptor) -> str:
        return f"{self.name}.{graph_word(key)}"

    def check_addresses(self, entry: CUDAGraphEntry, inputs: tuple[Buffer, ...]) -> None:
        """The inputs are where the capture found them (I-CG-8)."""
        same = all(one is other for one, other in zip(entry.inputs, inputs, strict=True))
        assert same, f"the inputs of graph {entry.graph.name} are not where its capture found them (I-CG-8)"

    def replay(self, context: ForwardContext, entry: CUDAGraphEntry) -> None:
        self.before(context)
        entry.graph.replay(context.stream, f"{self.name}.replay")

    def before(self, context: ForwardContext) -> None:
        """Before a graph, captured or replayed: weights that were asked for eagerly are there (5.9)."""
        if self.captures.offloader is not None:
            self.captures.offloader.sync_prev_onload(context.stream)

    def join(self, context: ForwardContext) -> None:
        """At the end of a capture: streams that it forked are joined again (I-CG-12)."""
        if self.captures.offloader is not None:
            self.captures.offloader.join_after_forward(context.stream)


def graph_word(key: Descriptor) -> str:
    """A key as part of a name.

    >>> graph_word(Descriptor(8)), graph_word(Descriptor(4, 2, uniform=True, has_lora=True))
    ('8', '4.2.uniform.lora')
    """
    parts = [str(key.num_tokens), *([] if key.num_reqs is None else [str(key.num_reqs)])]
    return ".".join(parts + ["uniform"] * key.uniform + ["lora"] * key.has_lora)
