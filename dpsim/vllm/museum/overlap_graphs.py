"""Variants of microbatches in a CUDA graph: mutants of the engine's specification, and bugs that engines really had.

A rank captures the threads of all microbatches in one CUDA graph (mutants of section 4.13). Some bugs need code that
the default program does not have, such as a watchdog thread. For such a bug, a healthy variant adds the code and is its
twin.
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
    """The rank ends the capture before the microbatch threads end, so the graph does not contain their later calls."""

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
    """A library whose threads do not pass their handles on: each thread allocates a new workspace."""

    def leave(self) -> None:
        for key in [key for key in self.workspaces if key[0] == self.rank.thread]:
            self.give_up(self.workspaces.pop(key))

    def give_up(self, workspace: Buffer) -> None:
        pass


@mutant("M-BT-9", "CRASH:CAPTUREERROR")
class StartsInCapture(Forward033):
    """The microbatch threads start after the capture began, and use the library there for the first time.

    So each thread allocates a new handle within the capture, which CUDA does not allow.
    """

    class Wrapper(UBatchWrapper):
        async def capture_ubatches(self, parts: Sequence[UbatchMetadata]) -> Outputs:
            stream = parts[0].forward.context.stream
            async with self.rank.graph("ubatches.late", self.pool).capture(stream):
                return await self.run_ubatches([part._replace(forward=captured(part.forward)) for part in parts])

    wrapper_of = Wrapper
    library_of = OwnHandles


@mutant("M-BT-15", "CRASH:CAPTUREDAGAIN")
class KeyOfFirst(Forward033):
    """A step looks a graph up by twice the tokens of the first microbatch: with an odd total it never finds the graph.

    Source page 001 (`gpu_ubatch_wrapper.py`) and release 0.14 do this.
    """

    graph_keys = Keys001


@mutant("ubatch-graph-key", "CRASH:CAPTUREDAGAIN")
class KeyOfTwo(Forward033):
    """A rank stores a graph by the tokens of two microbatches, but looks it up by those of all (vllm issue 43145)."""

    graph_keys = Keys017


@mutant("M-BT-16", "CRASH:CAPTUREERROR")
class LeavesModeFull(Forward033):
    """The forward contexts of microbatches keep mode FULL, so an inner graph wrapper begins a second capture."""

    class Wrapper(UBatchWrapper):
        def inner(self, context: ForwardContext) -> ForwardContext:
            return context

    wrapper_of = Wrapper


@mutant("M-BT-19", "CRASH:ASSERTIONERROR")
class CapturesPlain(Forward033):
    """A batch that the rank does not split looks up a plain graph, although only a graph of microbatches exists."""

    class Wrapper(UBatchWrapper):
        async def eager_model(self, context: Any, inputs: tuple[Buffer, ...]) -> Outputs:
            return await self.model(context, inputs)

    wrapper_of = Wrapper


@mutant("dbo-thread-workspace", "STALE:FREED")
class WorkspaceOfThread(Forward033):
    """A thread frees its workspace when it ends, but a graph still uses this memory (pytorch issue 192061)."""

    class Freed(OwnHandles):
        def give_up(self, workspace: Buffer) -> None:
            workspace.free()

    library_of = Freed


@mutant("dbo-fresh-pool", None, "healthy: each graph of microbatches has a separate memory pool")
class FreshPool(Forward033):
    """Each graph of microbatches allocates from a separate memory pool."""

    class Wrapper(UBatchWrapper):
        pool = None

    wrapper_of = Wrapper


# ---- the watchdog thread of the communication library

CAPTURE_NS = 400_000_000
"""The host time of a capture in nanoseconds, in which a watchdog polls several times."""


@mutant("watchdog-flush", None, f"{HEALTHY} watchdog-query-capture")
class Flushes(Forward033):
    """The communication library has a watchdog thread that polls device events. The rank flushes it before a capture.

    To flush, the rank waits until the watchdog has polled the completion of all work (pytorch pull request 104487).
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
            """Synchronizes with the stream's work, and starts the watchdog thread that still has to poll it."""
            self.work = stream.record()
            await self.work.synchronize("capture.drain")
            return self.captures.rank.start("watchdog", self.asks)

        async def asks(self, rank: Rank) -> None:
            await self.work.synchronize("watchdog.query")  # stands for the last query of the watchdog's loop

    wrapper = Flushed


@mutant("watchdog-query-capture", "CRASH:CAPTUREERROR", twin="watchdog-flush")
class Queries(Flushes):
    """The rank does not wait for the watchdog before a capture, so the watchdog polls an event during the capture.

    In capture mode "global", a poll by another thread invalidates the capture (pytorch pull requests 102542 and 148594,
    sglang issue 29235).
    """

    class Unflushed(Flushes.Flushed):
        async def capture(self, context: ForwardContext, inputs: tuple[Buffer, ...]) -> Outputs:
            watchdog = await self.watched(context.stream)
            outputs = await CUDAGraphWrapper.capture(self, context, inputs)
            await watchdog.join("watchdog.join")
            return outputs

    wrapper = Unflushed


@mutant("watchdog-thread-local", None, "healthy: a capture in thread-local mode, which no other thread can invalidate")
class ThreadLocal(Queries):
    """The rank does not wait for the watchdog, but the capture has mode "thread_local" and ignores other threads."""

    class OwnThread(Queries.Unflushed):
        def capturing(self, graph: Graph, stream: Stream) -> AbstractAsyncContextManager[None]:
            return graph.capture(stream, mode="thread_local")

    wrapper = OwnThread


# ---- offloaded weights, which a rank copies to the device layer by layer


@mutant("dbo-offload", None, f"{HEALTHY} dbo-offload-unsynced")
class MicrobatchesOffload(Forward033):
    """Four layers share two weight buffers on the device; the last microbatch of a layer releases its buffer.

    The earlier microbatches do not release the buffer, because the others still read it.
    """

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
        """Returns whether all other microbatches have read the weights of this layer."""
        return not self.dbo.enabled or self.dbo.current_ubatch_id == self.config.num_ubatches - 1


@mutant("dbo-offload-unsynced", "RACE:BUFFER", twin="dbo-offload")
class ReplaysUnsynced(MicrobatchesOffload):
    """A replay of microbatches does not wait for the weight copies of an earlier eager forward."""

    class Wrapper(UBatchWrapper):
        def replay(self, context: ForwardContext, entry: MicrobatchGraph) -> None:
            entry.graph.replay(context.stream, "ubatches.replay")

    wrapper_of = Wrapper
