"""A wrapper around a part of the model. It captures the part into a CUDA graph once for each batch size, and replays it
(specification 5.7). All wrappers of a model get the same forward context.

The FULL wrapper is around the whole model. PIECEWISE wrappers are around the pieces between its attention ops. The mode
of the forward context selects which wrappers capture or replay; all others call their part as it is.

                   NONE        PIECEWISE                           FULL
    whole model    just run    just run                            capture, or replay
    its pieces     just run    capture, or replay, one by one      just run: they are part of the whole

A replay copies nothing. The caller writes the inputs into the buffers of the capture, and reads the outputs from the
buffers of the capture. The outputs are *weak* references: the next graph of the same pool may write their memory
(invariant I-CG-7).
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
    """The parameters of a forward. The wrappers pass it down to all parts of the model.

    `key`: the graph that the batch runs in. `num_reqs`: the requests for attention. With None, attention gets no
    metadata and computes nothing, as in a PIECEWISE capture (invariant I-CG-11). `counts`: the tokens of each
    data-parallel rank. `capturing`: whether a capture records the calls, so that they do not run.
    """

    mode: RuntimeMode
    key: Descriptor
    stream: Stream
    num_reqs: int | None
    counts: tuple[int, ...]
    capturing: bool = False


class Outputs(NamedTuple):
    """The outputs of a part of the model. `owned`: the caller has to free them; otherwise they belong to a graph."""

    buffers: tuple[Buffer, ...]
    owned: bool


Runnable: TypeAlias = Callable[[ForwardContext, tuple[Buffer, ...]], Awaitable[Outputs]]
"""A part of the model: a function from the input buffers to the outputs."""


class Captures:
    """What all wrappers of a rank share: the memory pool of their graphs, and whether they may still capture."""

    def __init__(self, rank: Rank, pool: str = "graphs", offloader: Offloader | None = None) -> None:
        self.rank = rank
        self.pool = pool
        self.offloader = offloader
        self.allowed = True
        self.count = 0

    def check(self, name: str) -> None:
        """Raises AssertionError if serving has begun, because then no rank captures (invariant I-CG-9)."""
        assert self.allowed, f"graph {name} was never captured, and serving began: nothing is captured now (I-CG-9)"


class CUDAGraphEntry(NamedTuple):
    """A captured graph, with the input buffers and the output buffers of its capture."""

    graph: Graph
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]


class CUDAGraphWrapper:
    """A part of the model, in one mode. A call of the wrapper calls the methods in the order of this file."""

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
        """Whether this wrapper captures or replays in this context: the mode of the context is its own."""
        return context.mode is self.mode

    async def capture(self, context: ForwardContext, inputs: tuple[Buffer, ...]) -> Outputs:
        """Capture the part, without running it. The caller frees the outputs; the entry keeps weak references."""
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
        """Mode "global", the default of torch: no thread of the process may make a call that a capture forbids."""
        return graph.capture(stream)

    def graph_name(self, key: Descriptor) -> str:
        return f"{self.name}.{graph_word(key)}"

    def check_addresses(self, entry: CUDAGraphEntry, inputs: tuple[Buffer, ...]) -> None:
        """Raises AssertionError if the inputs are in other buffers than at the capture (invariant I-CG-8)."""
        same = all(one is other for one, other in zip(entry.inputs, inputs, strict=True))
        assert same, f"the inputs of graph {entry.graph.name} are not where its capture found them (I-CG-8)"

    def replay(self, context: ForwardContext, entry: CUDAGraphEntry) -> None:
        self.before(context)
        entry.graph.replay(context.stream, f"{self.name}.replay")

    def before(self, context: ForwardContext) -> None:
        """Before a capture or a replay, wait for weights that an eager forward started to copy (specification 5.9)."""
        if self.captures.offloader is not None:
            self.captures.offloader.sync_prev_onload(context.stream)

    def join(self, context: ForwardContext) -> None:
        """At the end of a capture, join the streams that the capture forked (invariant I-CG-12)."""
        if self.captures.offloader is not None:
            self.captures.offloader.join_after_forward(context.stream)


def graph_word(key: Descriptor) -> str:
    """The key of a graph as a part of the graph's name.

    >>> graph_word(Descriptor(8)), graph_word(Descriptor(4, 2, uniform=True, has_lora=True))
    ('8', '4.2.uniform.lora')
    """
    parts = [str(key.num_tokens), *([] if key.num_reqs is None else [str(key.num_reqs)])]
    return ".".join(parts + ["uniform"] * key.uniform + ["lora"] * key.has_lora)
