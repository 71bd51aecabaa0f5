"""How a forward runs: in threads, by the main thread alone, captured, or replayed (specification 4.2, 4.8, 4.9).

    microbatches   mode               graph of microbatches    what happens
    none           NONE, PIECEWISE    -                        the plain model, whose pieces may be graphs
    none           FULL               there is one             the plain model: there is no plain graph of that size
    none           FULL               none                     the plain model as a graph
    some           FULL               none                     capture now, also while serving
    some           FULL               there is one             replay
    some           NONE, PIECEWISE    -                        threads, eagerly

A capture runs nothing. So a step that captures while serving has no outputs, as long as nobody replays the graph: what
the pages and releases do, and the witness of the program finds.

Whatever the mode is, microbatches run in mode NONE, so that no wrapper within them acts. Their outputs are kept by
number and put together in that order.

A microbatch that raises hangs its siblings in every release, unless it raises behind its last yield. Then the V1 runner
goes on with the rows of the others, and the V2 runner raises. `dpsim.vllm.overlap.repaired` lets the siblings go.

`UBatchWrapper` is made to be varied, as `UBatchContext` is.
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
    """One microbatch: what its forward is told, and its inputs."""

    forward: OverlapContext
    inputs: tuple[Buffer, ...]

    @property
    def num_tokens(self) -> int:
        return self.inputs[0].shape[0]


class MicrobatchGraph(NamedTuple):
    """A graph of microbatches, and where it leaves the outputs of all of them."""

    graph: Graph
    outputs: tuple[Buffer, ...]


class CapturedAgain(AssertionError):
    """Microbatches for which there is a graph are captured another time. No engine looks for it."""


class Running(NamedTuple):
    """Microbatches whose threads have been started. `results`: outputs of those that are through, by number."""

    contexts: list[UBatchContext]
    threads: list[Thread]
    results: dict[int, Outputs]
    errors: list[BaseException]


class UBatchWrapper:
    """The forwards of one rank. `model`: the wrapper of the plain model for mode FULL."""

    pool: str | None = "graphs"
    """Where graphs get their memory: the pool that all share, or None for one each."""

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
        """Run a forward whose context is installed, as microbatches where there are `parts`."""
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
        """Once weights that were asked for eagerly are there (5.9)."""
        self.model.before(context)
        entry.graph.replay(context.stream, "ubatches.replay")

    def decided(self, action: str) -> None:
        """Which row of the table it is: on all ranks the same, as it decides on their collectives."""
        self.rank.decide("overlap", action, "dp_cpu")

    # ---- without microbatches

    async def eager_model(self, context: Any, inputs: tuple[Buffer, ...]) -> Outputs:
        """The plain model, past its graphs."""
        return await self.model.runnable(context, inputs)

    # ---- in threads

    def renewed(self, parts: Sequence[UbatchMetadata]) -> list[UbatchMetadata]:
        """Each with a forward context of its own, in mode NONE."""
        return [
            part._replace(forward=part.forward._replace(context=self.inner(part.forward.context))) for part in parts
        ]

    def inner(self, context: ForwardContext) -> ForwardContext:
        """What layers see of it."""
        return context._replace(mode=RuntimeMode.NONE)

    async def run_ubatches(self, parts: Sequence[UbatchMetadata]) -> Outputs:
        """Eagerly."""
        before = self.state.forward
        try:
            running = self.start(parts, capturing=False)
            await self.barrier.main()
            results = await self.finish(running)
            return self.concatenated(results, running.contexts[0].compute_stream)
        finally:
            self.state.forward = before

    def start(self, parts: Sequence[UbatchMetadata], capturing: bool) -> Running:
        """Contexts and threads of all microbatches."""
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
        """All that the thread of a microbatch does. For a capture it uses the library before it enters."""
        try:
            if capturing:
                await self.touch(context)
            await context.enter()
            if not capturing:
                await self.touch(context)
            outputs = await self.model(part.forward.context, part.inputs)
        except Exception as error:
            self.failed(error, running)  # before its exit lets the next one go on
            raise
        finally:
            self.leave(context, running)
        self.keep(context.id, outputs, running)
        self.library.leave()

    def leave(self, context: UBatchContext, running: Running) -> None:
        """Its exit, which runs a hook that is left: that may raise as well, and then nobody was let go."""
        try:
            context.exit()
        except Exception as error:
            self.failed(error, running)
            raise

    async def touch(self, context: UBatchContext) -> None:
        """Make what the library makes at first use, on both streams."""
        for stream in (context.compute_stream, context.comm_stream):
            await self.library.workspace(stream)

    def keep(self, number: int, outputs: Outputs, running: Running) -> None:
        """After its exit: the next one may be through already. No flag says who comes first, so who relies on it has to
        say so by one, or a search with the promise does not try both (`Program.ordered_by_flags`).
        """
        running.results[number] = outputs

    def failed(self, error: Exception, running: Running) -> None:
        """A microbatch has raised. Its exit lets the next one go on once, which then waits for it without end (4.7)."""
        running.errors.append(error)

    async def finish(self, running: Running) -> list[tuple[int, Outputs]]:
        """Give the baton to the first one, and wait for all."""
        running.contexts[0].wait_event.set("baton.first")
        return await self.joined(running)

    async def joined(self, running: Running) -> list[tuple[int, Outputs]]:
        """Wait for all."""
        for thread in running.threads:
            await thread.join("ubatch.join")
        self.state.end()
        self.surface(running)
        return self.ordered([*running.results.items()])

    def surface(self, running: Running) -> None:
        """What a thread raised is printed on the V1 runner, and the step goes on with fewer rows. Without any row it
        raises what a microbatch raised first, in the place of the engine's IndexError.
        """
        if not running.results and running.errors:
            raise running.errors[0]

    def ordered(self, results: list[tuple[int, Outputs]]) -> list[tuple[int, Outputs]]:
        """By number, in whichever order they came."""
        return sorted(results, key=lambda result: result[0])

    def concatenated(self, results: list[tuple[int, Outputs]], stream: Stream) -> Outputs:
        """The rows of all, one after the other, on the stream that all of them end on (I-UB-10)."""
        buffers = [outputs.buffers[0] for _, outputs in results]
        whole = stream.alloc(sum(buffer.shape[0] for buffer in buffers), buffers[0].dtype, "ubatches.rows")
        stream.launch("ubatches.concatenate", concatenate, reads=buffers, writes=[whole], cost=0)
        for buffer in buffers:
            buffer.free()
        return Outputs((whole,), owned=True)

    # ---- as a graph (4.8)

    async def capture_ubatches(self, parts: Sequence[UbatchMetadata]) -> Outputs:
        """Threads are started and parked before the capture, and joined within it."""
        tokens = tuple([part.num_tokens for part in parts])
        if tokens in self.sizes:
            raise CapturedAgain(f"microbatches of {tokens} tokens are captured once more: their graph was not found")
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
    """The same forward, whose calls are kept and not run."""
    return forward._replace(context=forward.context._replace(capturing=True))


def concatenate(*buffers: Any) -> None:
    """Kernel: all but the last one after the other, in the last one."""
    *parts, whole = buffers
    start = 0
    for part in parts:
        whole[start : start + part.shape[0]] = part
        start += part.shape[0]
