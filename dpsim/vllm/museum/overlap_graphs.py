"""Variants of captured microbatches: mutants of specification 4.13, and bugs of engines.

protocol: {name: dbo, form: "0.33", variant: M-BT-16}      config: {enable_dbo: true, capture_graphs: true}
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from dpsim.contract.interface import Buffer, Graph, Rank, Stream, Thread
from dpsim.vllm.capture.offloader import Offloader
from dpsim.vllm.capture.wrapper import Captures, CUDAGraphWrapper, ForwardContext, Outputs, Runnable
from dpsim.vllm.config import RuntimeMode
from dpsim.vllm.museum.overlap import HEALTHY, mutant
from dpsim.vllm.overlap.forms import Forward033
from dpsim.vllm.overlap.graph_keys import Keys001, Keys017
from dpsim.vllm.overlap.library import Library
from dpsim.vllm.overlap.wrapper import MicrobatchGraph, UbatchMetadata, UBatchWrapper, captured


@mutant("M-BT-8", "CRASH:RUNTIMEERROR")
class JoinsAfterCapture(Forward033):
    """The capture ends before the threads do: their later calls are not part of it."""

    class Wrapper(UBatchWrapper):
        async def capture_ubatches(self, parts: Sequence[UbatchMetadata]) -> Outputs:
            stream, before = parts[0].forward.context.stream, self.state.forward
            running = self.start([part._replace(forward=captured(part.forward)) for part in parts], capturing=True)
            await self.barrier.main()
            async with self.rank.graph("ubatches.early", self.pool).capture(stream):
                running.contexts[0].wait_event.set("baton.first")
            results = await self.joined(running)
            self.state.forward = before
            return self.concatenated(results, stream)

    wrapper_of = Wrapper


class OwnHandles(Library):
    """A thread keeps no handle for the next one."""

    def leave(self) -> None:
        for key in [key for key in self.workspaces if key[0] == self.rank.thread]:
            self.give_up(self.workspaces.pop(key))

    def give_up(self, workspace: Buffer) -> None:
        pass


@mutant("M-BT-9", "CRASH:CAPTUREERROR")
class StartsInCapture(Forward033):
    """Threads start after the capture began, and there use the library for the first time, with new handles."""

    class Wrapper(UBatchWrapper):
        async def capture_ubatches(self, parts: Sequence[UbatchMetadata]) -> Outputs:
            stream = parts[0].forward.context.stream
            async with self.rank.graph("ubatches.late", self.pool).capture(stream):
                return await self.run_ubatches([part._replace(forward=captured(part.forward)) for part in parts])

    wrapper_of = Wrapper
    library_of = OwnHandles


@mutant("M-BT-15", "CRASH:CAPTUREDAGAIN")
class KeyOfFirst(Forward033):
    """A step looks a graph up under twice the tokens of the first microbatch: with an odd number it never finds one.

    Source 001 and release 0.14 do this.
    """

    graph_keys = Keys001


@mutant("ubatch-graph-key", "CRASH:CAPTUREDAGAIN")
class KeyOfTwo(Forward033):
    """A graph is stored under the tokens of two microbatches, and looked up under those of all (vllm issue 43145)."""

    graph_keys = Keys017


@mutant("M-BT-16", "CRASH:CAPTUREERROR")
class LeavesModeFull(Forward033):
    """Forward contexts of microbatches keep mode FULL, so that the wrapper within captures, too."""

    class Wrapper(UBatchWrapper):
        def inner(self, context: ForwardContext) -> ForwardContext:
            return context

    wrapper_of = Wrapper


@mutant("M-BT-19", "CRASH:ASSERTIONERROR")
class CapturesPlain(Forward033):
    """A batch that is not split looks up a plain graph, although there is only one of microbatches."""

    class Wrapper(UBatchWrapper):
        async def eager_model(self, context: Any, inputs: tuple[Buffer, ...]) -> Outputs:
            return await self.model(context, inputs)

    wrapper_of = Wrapper


@mutant("dbo-thread-workspace", "STALE:FREED")
class WorkspaceOfThread(Forward033):
    """Workspaces end with their threads, but a graph still uses them (pytorch issue 192061)."""

    class Freed(OwnHandles):
        def give_up(self, workspace: Buffer) -> None:
            workspace.free()

    library_of = Freed


@mutant("dbo-fresh-pool", None, "healthy: each graph of microbatches has separate memory")
class FreshPool(Forward033):
    """Each graph of microbatches gets its memory from a separate pool."""

    class Wrapper(UBatchWrapper):
        pool = None

    wrapper_of = Wrapper


# ---- the communication library's own thread

CAPTURE_NS = 400_000_000
"""The time of a capture on the host: a few turns of a watchdog."""


@mutant("watchdog-flush", None, f"{HEALTHY} watchdog-query-capture")
class Flushes(Forward033):
    """The library of the communicator has a thread that polls whether its work is done. Before a capture begins, the
    rank waits until that thread has polled all of it (pytorch pull request 104487).
    """

    class Flushed(CUDAGraphWrapper):
        def __init__(self, name: str, mode: RuntimeMode, runnable: Runnable, captures: Captures) -> None:
            async def compiled(context: ForwardContext, inputs: tuple[Buffer, ...]) -> Outputs:
                if context.capturing and context.mode is mode:
                    await captures.rank.sleep(CAPTURE_NS, "capture.compile")
                return await runnable(context, inputs)

            super().__init__(name, mode, compiled, captures)

        async def capture(self, context: ForwardContext, inputs: tuple[Buffer, ...]) -> Outputs:
            watchdog = await self.watched(context.stream)
            await watchdog.join("watchdog.flush")
            return await super().capture(context, inputs)

        async def watched(self, stream: Stream) -> Thread:
            """Wait for the stream's work, which the watchdog still has to poll."""
            self.work = stream.record()
            await self.work.synchronize("capture.drain")
            return self.captures.rank.start("watchdog", self.asks)

        async def asks(self, rank: Rank) -> None:
            await self.work.synchronize("watchdog.query")  # a loop of queries: the one that finds it done

    wrapper = Flushed


@mutant("watchdog-query-capture", "CRASH:CAPTUREERROR", twin="watchdog-flush")
class Queries(Flushes):
    """The rank does not wait for the watchdog before a capture. The watchdog polls its event during a capture in mode
    "global" (pytorch pull requests 102542 and 148594, sglang issue 29235).
    """

    class Unflushed(Flushes.Flushed):
        async def capture(self, context: ForwardContext, inputs: tuple[Buffer, ...]) -> Outputs:
            watchdog = await self.watched(context.stream)
            outputs = await CUDAGraphWrapper.capture(self, context, inputs)
            await watchdog.join("watchdog.join")
            return outputs

    wrapper = Unflushed


@mutant("watchdog-thread-local", None, "healthy: a capture in thread-local mode, which no other thread can break")
class ThreadLocal(Queries):
    """The rank does not wait for the watchdog, and a capture refuses only calls of its thread."""

    class OwnThread(Queries.Unflushed):
        def capturing(self, graph: Graph, stream: Stream) -> AbstractAsyncContextManager[None]:
            return graph.capture(stream, mode="thread_local")

    wrapper = OwnThread


# ---- weights that a rank copies layer by layer


@mutant("dbo-offload", None, f"{HEALTHY} dbo-offload-unsynced")
class MicrobatchesOffload(Forward033):
    """Four layers have their weights in two places. The last microbatch gives a place back, for all read it."""

    layers = 4

    def make_offloader(self) -> Offloader:
        return Offloader(self.rank, self.layers, places=2)

    async def project(self, layer: int, context: ForwardContext, hidden: Buffer) -> Outputs:
        outputs = await super().project(layer, context, hidden)
        assert self.offloader is not None
        if self.through():
            self.offloader.after_layer(layer, self.dbo.stream, context.capturing)
        return outputs

    def through(self) -> bool:
        """Whether all other microbatches have read the weights of this layer."""
        return not self.dbo.enabled or self.dbo.current_ubatch_id == self.config.num_ubatches - 1


@mutant("dbo-offload-unsynced", "RACE:BUFFER", twin="dbo-offload")
class ReplaysUnsynced(MicrobatchesOffload):
    """A replay of microbatches does not wait for weights that an eager forward requested."""

    class Wrapper(UBatchWrapper):
        def replay(self, context: ForwardContext, entry: MicrobatchGraph) -> None:
            entry.graph.replay(context.stream, "ubatches.replay")

    wrapper_of = Wrapper
