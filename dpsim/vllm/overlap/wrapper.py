"""How a forward runs: in threads, in the main thread, captured, or replayed (specification 4.2, 4.8 and 4.9).

    microbatches   mode               graph of microbatches    what happens
    none           NONE, PIECEWISE    -                        the plain model, whose pieces may be graphs
    none           FULL               there is one             the plain model: there is no plain graph of that size
    none           FULL               none                     the plain model as a graph
    some           FULL               none                     capture now, even while serving
    some           FULL               there is one             replay
    some           NONE, PIECEWISE    -                        threads, eagerly

A capture executes no kernel. So if a step captures a graph while the engine serves, the step has no outputs until a
replay. The source pages and releases do this, and the witness of the program reports it.

In each mode, the forward contexts of microbatches have mode NONE, so that no wrapper inside of them captures or
replays. The wrapper concatenates outputs in the order of the microbatches' numbers.

If a microbatch raises, the others hang in every release, unless it raises behind its last yield. Then the V1 runner
continues with the rows of the others, and the V2 runner raises. In `dpsim.vllm.overlap.repaired`, the others do not
hang.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from dpsim.contract.interface import Buffer, Graph, Rank, Stream, Thread
from dpsim.vllm.capture.wrapper import Captures, CUDAGraphWrapper, ForwardContext, Outputs
from dpsim.vllm.config import RuntimeMode
from dpsim.vllm.overlap.barrier import ReadyBarrier
from dpsim.vllm.overlap.baton import UBatchContext, ring
from dpsim.vllm.overlap.graph_keys import GraphKeys
from dpsim.vllm.overlap.library import Library
from dpsim.vllm.overlap.sm_control import SMControl
from dpsim.vllm.overlap.state import ForwardState, OverlapContext


class UbatchMetadata(NamedTuple):
    """One microbatch: its forward context, and its inputs."""

    forward: OverlapContext
    inputs: tuple[Buffer, ...]

    @property
    def num_tokens(self) -> int:
        return self.inputs[0].shape[0]


class MicrobatchGraph(NamedTuple):
    """A graph of microbatches, and the buffers of their concatenated outputs."""

    graph: Graph
    outputs: tuple[Buffer, ...]


class CapturedAgain(AssertionError):
    """A rank captures microbatches of a size for which it already has a graph. No engine checks this."""


class Running(NamedTuple):
    """Microbatches whose threads have started. `results`: by number, the outputs of those that have ended."""

    contexts: list[UBatchContext]
    threads: list[Thread]
    results: dict[int, Outputs]
    errors: list[BaseException]


class UBatchWrapper:
    """The forwards of one rank. `model`: the wrapper that runs the plain model as a graph in mode FULL."""

    pool: str | None = "graphs"
    """The memory pool that all graphs share; None: each graph has its own."""

    def __init__(
        self,
        rank: Rank,
        state: ForwardState,
        model: CUDAGraphWrapper,
        captures: Captures,
        library: Library,
        sms: SMControl,
        keys: GraphKeys,
        barrier: ReadyBarrier,
        context: type[UBatchContext],
    ) -> None:
        self.rank, self.state, self.model, self.captures = rank, state, model, captures
        self.library, self.sms, self.keys = library, sms, keys
        self.barrier, self.context = barrier, context
        self.comm = rank.stream("comm")
        self.entries: dict[int, MicrobatchGraph] = {}
        self.sizes: set[tuple[int, ...]] = set()

    async def __call__(
        self, forward: OverlapContext, inputs: tuple[Buffer, ...], parts: Sequence[UbatchMetadata] | None
    ) -> Outputs:
        """Run a forward whose context is installed. `parts`: its microbatches, None if the batch is not split."""
        full = forward.context.mode is RuntimeMode.FULL
        if parts is None:
            if full and self.keys.plain(inputs[0].shape[0]) in self.entries:
                self.decided("eager")
                return await self.eager_model(forward.context, inputs)
            self.decided("graph" if full else "plain")
            return await self.model(forward.context, inputs)
        if not full:
            self.decided("threads")
            with self.sms.shared_out():
                return await self.run_ubatches(self.renewed(parts))
        entry = self.entries.get(self.keys.looked_up([part.num_tokens for part in parts]))
        if entry is None:
            self.decided("capture")
            with self.sms.shared_out():
                return await self.capture_ubatches(self.renewed(parts))
        self.decided("replay")
        self.replay(forward.context, entry)
        return Outputs(entry.outputs, owned=False)

    def replay(self, context: ForwardContext, entry: MicrobatchGraph) -> None:
        """Replay a graph, after the weights have arrived that an eager forward started to copy (specification 5.9)."""
        self.model.before(context)
        entry.graph.replay(context.stream, "ubatches.replay")

    def decided(self, action: str) -> None:
        """The row of the table is equal on all ranks, because their collectives depend on it."""
        self.rank.decide("overlap", action, "dp_cpu")

    # ---- without microbatches

    async def eager_model(self, context: Any, inputs: tuple[Buffer, ...]) -> Outputs:
        """Run the plain model without its FULL graph."""
        return await self.model.runnable(context, inputs)

    # ---- in threads

    def renewed(self, parts: Sequence[UbatchMetadata]) -> list[UbatchMetadata]:
        """The microbatches, each with a copy of its forward context in mode NONE."""
        return [
            part._replace(forward=part.forward._replace(context=self.inner(part.forward.context))) for part in parts
        ]

    def inner(self, context: ForwardContext) -> ForwardContext:
        """The forward context that the layers of a microbatch read."""
        return context._replace(mode=RuntimeMode.NONE)

    async def run_ubatches(self, parts: Sequence[UbatchMetadata]) -> Outputs:
        """Run microbatches eagerly."""
        before = self.state.forward
        try:
            running = self.start(parts, capturing=False)
            await self.barrier.main()
            results = await self.finish(running)
            return self.concatenated(results, running.contexts[0].compute_stream)
        finally:
            self.state.forward = before

    def start(self, parts: Sequence[UbatchMetadata], capturing: bool) -> Running:
        """Make the contexts of all microbatches, and start their threads."""
        self.state.begin(len(parts))
        self.barrier.begin(len(parts))
        contexts = [
            self.context(number, self.rank, self.state, self.barrier, part.forward, self.comm)
            for number, part in enumerate(parts)
        ]
        ring(contexts)
        self.state.forward = None
        running = Running(contexts, [], {}, [])
        for context, part in zip(contexts, parts, strict=True):
            running.threads.append(self.start_one(context, part, running, capturing))
        return running

    def start_one(self, context: UBatchContext, part: UbatchMetadata, running: Running, capturing: bool) -> Thread:
        async def ubatch(rank: Rank) -> None:
            await self.run_ubatch(context, part, running, capturing)

        return self.rank.start(f"ubatch.{context.id}", ubatch)

    async def run_ubatch(self, context: UBatchContext, part: UbatchMetadata, running: Running, capturing: bool) -> None:
        """The program of a microbatch's thread. For a capture, it calls the library before it enters."""
        try:
            if capturing:
                await self.touch(context)
            await context.enter()
            if not capturing:
                await self.touch(context)
            outputs = await self.model(part.forward.context, part.inputs)
        except Exception as error:
            self.failed(error, running)  # before its exit releases the next one
            raise
        finally:
            self.leave(context, running)
        self.keep(context.id, outputs, running)
        self.library.leave()

    def leave(self, context: UBatchContext, running: Running) -> None:
        """Exit the context. The exit runs a pending hook; if the hook raises, the exit releases no other microbatch."""
        try:
            context.exit()
        except Exception as error:
            self.failed(error, running)
            raise

    async def touch(self, context: UBatchContext) -> None:
        """Call the library on both streams, so that it allocates its workspaces."""
        for stream in (context.compute_stream, context.comm_stream):
            await self.library.workspace(stream)

    def keep(self, number: int, outputs: Outputs, running: Running) -> None:
        """Store the outputs after the exit, when the next microbatch may have ended: no flag orders the threads.

        Code that relies on an order has to set one, so that an exploration tries both (`Program.ordered_by_flags`).
        """
        running.results[number] = outputs

    def failed(self, error: Exception, running: Running) -> None:
        """The exit releases the next one once, which then waits without end (specification 4.7)."""
        running.errors.append(error)

    async def finish(self, running: Running) -> list[tuple[int, Outputs]]:
        """Give the baton to the first microbatch, and wait for all."""
        running.contexts[0].wait_event.set("baton.first")
        return await self.joined(running)

    async def joined(self, running: Running) -> list[tuple[int, Outputs]]:
        """Wait for all threads. Returns their results by number."""
        for thread in running.threads:
            await thread.join("ubatch.join")
        self.state.end()
        self.surface(running)
        return self.ordered([*running.results.items()])

    def surface(self, running: Running) -> None:
        """Raise the first error if there are no rows (the engine: IndexError); else V1 goes on with fewer rows."""
        if not running.results and running.errors:
            raise running.errors[0]

    def ordered(self, results: list[tuple[int, Outputs]]) -> list[tuple[int, Outputs]]:
        """Sort the results by the number of the microbatch, in whatever order they ended."""
        return sorted(results, key=lambda result: result[0])

    def concatenated(self, results: list[tuple[int, Outputs]], stream: Stream) -> Outputs:
        """On the compute stream, where all of them end (invariant I-UB-10)."""
        buffers = [outputs.buffers[0] for _, outputs in results]
        whole = stream.alloc(sum(buffer.shape[0] for buffer in buffers), buffers[0].dtype, "ubatches.rows")
        stream.launch("ubatches.concatenate", concatenate, reads=buffers, writes=[whole], cost=0)
        for buffer in buffers:
            buffer.free()
        return Outputs((whole,), owned=True)

    # ---- as a graph (4.8)

    async def capture_ubatches(self, parts: Sequence[UbatchMetadata]) -> Outputs:
        """One graph. Threads start and wait before the capture, and end within it. Raises CapturedAgain."""
        tokens = tuple([part.num_tokens for part in parts])
        if tokens in self.sizes:
            raise CapturedAgain(f"microbatches of {tokens} tokens are captured again: the rank did not find the graph")
        parts = [part._replace(forward=captured(part.forward)) for part in parts]
        before = self.state.forward
        stream = parts[0].forward.context.stream
        try:
            running = self.start(parts, capturing=True)
            await self.barrier.main()
            graph = self.rank.graph(f"ubatches.{self.captures.count}", self.pool)
            self.model.before(parts[0].forward.context)
            async with graph.capture(stream):
                outputs = self.concatenated(await self.finish(running), stream)
                self.model.join(parts[0].forward.context)
        finally:
            self.state.forward = before
        self.entries[self.keys.stored(tokens)] = MicrobatchGraph(graph, outputs.buffers)
        self.sizes.add(tokens)
        self.captures.count += 1
        return outputs


def captured(forward: OverlapContext) -> OverlapContext:
    """The same forward under capture, which records calls instead of running them."""
    return forward._replace(context=forward.context._replace(capturing=True))


def concatenate(*buffers: Any) -> None:
    """Kernel: concatenate all buffers but the last one into the last one."""
    *parts, whole = buffers
    start = 0
    for part in parts:
        whole[start : start + part.shape[0]] = part
        start += part.shape[0]
