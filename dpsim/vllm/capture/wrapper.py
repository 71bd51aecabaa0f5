"""A part of the model as CUDA graphs: captured once for each key, and replayed from then on (specification 5.7).

A wrapper has one fixed mode. All wrappers of a model get the same forward context, and its mode selects which of them
act. The FULL wrapper is around the whole model, and the PIECEWISE ones are around the pieces between its attention
ops.

                   NONE        PIECEWISE                           FULL
    whole model    just run    just run                            capture, or replay
    its pieces     just run    capture, or replay, one by one      just run: they are part of the whole

A replay copies nothing. The caller has put the inputs where the capture found them, and finds the outputs where it left
them. These are *weak* references, good until a graph writes other memory of the pool (I-CG-7).
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
    """The parameters of a forward, at every depth.

    `key`: the graph that its batch runs in. `num_reqs`: the number of requests for attention; None: attention gets no
    metadata, and does nothing (a PIECEWISE capture, I-CG-11). `counts`: tokens of each data-parallel rank. `capturing`:
    a capture records the calls, and does not run them.
    """

    mode: RuntimeMode
    key: Descriptor
    stream: Stream
    num_reqs: int | None
    counts: tuple[int, ...]
    capturing: bool = False


class Outputs(NamedTuple):
    """The outputs of a part of the model. `owned`: the caller frees them; else they are a graph's, weak references."""

    buffers: tuple[Buffer, ...]
    owned: bool


Runnable: TypeAlias = Callable[[ForwardContext, tuple[Buffer, ...]], Awaitable[Outputs]]
"""A part of the model: from its inputs to its outputs."""


class Captures:
    """The state that all wrappers of a rank share: the pool of their graphs, and whether they may still capture."""

    def __init__(self, rank: Rank, pool: str = "graphs", offloader: Offloader | None = None) -> None:
        self.rank = rank
        self.pool = pool
        self.offloader = offloader
        self.allowed = True
        self.count = 0

    def check(self, name: str) -> None:
        """Raise AssertionError once serving began: then a rank captures nothing any more (I-CG-9)."""
        assert self.allowed, f"graph {name} was never captured, and serving began: nothing is captured now (I-CG-9)"


class CUDAGraphEntry(NamedTuple):
    """A graph, with the inputs that its capture found and the outputs that it left."""

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
        """Capture the part as a graph. Nothing runs. The caller frees the outputs, and those of the entry are weak."""
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
        """Capture in mode "global", which is torch's default: no thread of the rank may make a forbidden call."""
        return graph.capture(stream)

    def graph_name(self, key: Descriptor) -> str:
        return f"{self.name}.{graph_word(key)}"

    def check_addresses(self, entry: CUDAGraphEntry, inputs: tuple[Buffer, ...]) -> None:
        """Check that the inputs are where the capture found them (I-CG-8)."""
        same = all(one is other for one, other in zip(entry.inputs, inputs, strict=True))
        assert same, f"the inputs of graph {entry.graph.name} are not where its capture found them (I-CG-8)"

    def replay(self, context: ForwardContext, entry: CUDAGraphEntry) -> None:
        self.before(context)
        entry.graph.replay(context.stream, f"{self.name}.replay")

    def before(self, context: ForwardContext) -> None:
        """Before a graph, captured or replayed, wait for weights that an eager forward requested (5.9)."""
        if self.captures.offloader is not None:
            self.captures.offloader.sync_prev_onload(context.stream)

    def join(self, context: ForwardContext) -> None:
        """At the end of a capture join the streams that it forked (I-CG-12)."""
        if self.captures.offloader is not None:
            self.captures.offloader.join_after_forward(context.stream)


def graph_word(key: Descriptor) -> str:
    """A key as part of a name.

    >>> graph_word(Descriptor(8)), graph_word(Descriptor(4, 2, uniform=True, has_lora=True))
    ('8', '4.2.uniform.lora')
    """
    parts = [str(key.num_tokens), *([] if key.num_reqs is None else [str(key.num_reqs)])]
    return ".".join(parts + ["uniform"] * key.uniform + ["lora"] * key.has_lora)
