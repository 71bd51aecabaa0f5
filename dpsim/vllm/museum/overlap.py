"""Variants of dual-batch overlap: each class is the healthy program with one planted mistake, and none needs a graph.

The mistakes are mutants of the engine's specification, section 4.13 (keys such as M-BT-2; see docs/keys.md). Some are
races on Python objects that the threads share. A variant with such a race sets a flag before each access, so that a
search tries both orders of the threads (`Program.ordered_by_flags`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from dpsim.contract.interface import Buffer, Event, Flag, Stream
from dpsim.contract.registry import register_variant
from dpsim.vllm.capture.wrapper import Outputs
from dpsim.vllm.overlap.all_to_all import HighThroughput, LowLatency
from dpsim.vllm.overlap.barrier import ReadyBarrier
from dpsim.vllm.overlap.baton import UBatchContext
from dpsim.vllm.overlap.forms import Forward033
from dpsim.vllm.overlap.hooks import Dbo
from dpsim.vllm.overlap.wrapper import Running, UBatchWrapper

HEALTHY = "healthy: the program with additional code, the twin of"


def mutant(name: str, expected: str | None, reason: str = "", twin: str = "") -> Callable[[type[Any]], type[Any]]:
    return register_variant(name, protocol="dbo", form="0.33", expected=expected, reason=reason, twin=twin)


# ---- the start and the end of a microbatch, and the baton


@mutant("dbo-low-latency", None, f"{HEALTHY} M-BT-1 and M-BT-14")
class LowLatencyForward(Forward033):
    """A forward with the low-latency all-to-all: the next microbatch runs the receive hook of each microbatch."""

    all_to_all = LowLatency


@mutant("M-BT-1", "CRASH:ATTRIBUTEERROR", twin="dbo-low-latency")
class SkipsBarrier(LowLatencyForward):
    """A microbatch starts without the barrier of all threads.

    So it may leave its receive hook to a thread that has not registered yet.
    """

    class Skipped(ReadyBarrier):
        async def meet(self, number: int) -> None:
            pass

        async def main(self) -> None:
            pass

    barrier = Skipped


@mutant("M-BT-2", "CRASH:ASSERTIONERROR")
class DoesNotClear(Forward033):
    """A microbatch does not clear its own event after it wakes.

    So its next wait would return at once, and two microbatches would run at the same time.
    """

    class Context(UBatchContext):
        def clear_own(self) -> None:
            pass

    ubatch_context = Context


@mutant("M-BT-3", "CRASH:WRONGFORWARD")
class DoesNotRestore(Forward033):
    """After a yield, a microbatch does not restore its forward context, and runs with that of the other microbatch."""

    class Context(UBatchContext):
        def restore(self) -> None:
            if self.state.forward is None:
                super().restore()

    ubatch_context = Context


@mutant("M-BT-6", "HANG:FLAG:THREAD_ENDED")
class SetsItsOwn(Forward033):
    """A microbatch hands the baton to itself, so no thread ever wakes the other microbatch."""

    class Context(UBatchContext):
        def next_event(self) -> Flag:
            return self.wait_event

    ubatch_context = Context


@mutant("dbo-first-is-last", None, f"{HEALTHY} M-BT-7")
class FirstIsLast(Forward033):
    """The first microbatch yields once more than the second, so the second ends first (specification 4.7)."""

    async def mixture(self, layer: int, attended: Buffer) -> Buffer:
        hidden = await super().mixture(layer, attended)
        if layer == self.layers - 1 and self.dbo.current_ubatch_id == 0:
            await self.dbo.yield_()
        return hidden


@mutant("M-BT-7", "CRASH:WRONGSUM", twin="dbo-first-is-last")
class InOrderOfCompletion(FirstIsLast):
    """The wrapper concatenates the outputs of microbatches in the order in which the threads end."""

    class Wrapper(UBatchWrapper):
        def ordered(self, results: list[tuple[int, Outputs]]) -> list[tuple[int, Outputs]]:
            return results

    wrapper_of = Wrapper


@mutant("M-BT-11", "HANG:FLAG")
class YieldsOnceMore(Forward033):
    """The second microbatch yields once more than the first, as a loop over its own number of chunks would."""

    async def mixture(self, layer: int, attended: Buffer) -> Buffer:
        if layer and self.dbo.current_ubatch_id == 1:
            await self.dbo.yield_()
            await self.dbo.yield_()
        return await super().mixture(layer, attended)


@mutant("M-BT-20", "CRASH:KEYERROR")
class MainAsks(Forward033):
    """The main thread switches its stream with a microbatch's function while microbatches are registered.

    The function looks the calling thread up among the microbatches, and finds none.
    """

    class Wrapper(UBatchWrapper):
        async def finish(self, running: Running) -> list[tuple[int, Outputs]]:
            Dbo(self.rank, self.state).switch_to_compute()
            return await super().finish(running)

    wrapper_of = Wrapper


# ---- streams and memory


@mutant(
    "M-BT-4",
    None,
    "performance only: a stream waits for more than it needs, and nothing waits in a circle",
)
class RecordsLate(Forward033):
    """A microbatch records the end of its computation after the yield instead of before it.

    So its communication also waits for the computation of the other microbatch.
    """

    class Context(UBatchContext):
        def signal_compute_done(self) -> None:
            pass

        def wait_compute_done(self) -> None:
            super().signal_compute_done()
            super().wait_compute_done()

    ubatch_context = Context


@mutant("M-BT-5", "RACE:BUFFER")
class DoesNotWaitForComm(Forward033):
    """The compute stream does not wait for the communication whose results it reads."""

    class Context(UBatchContext):
        def wait_comm_done(self) -> None:
            pass

    ubatch_context = Context


@mutant("M-BT-10", "RACE:BUFFER")
class KeepsEvents(Forward033):
    """A microbatch waits for a device event of an earlier step instead of the current one.

    The variant keeps the events of a step, and does not record them again.
    """

    class Context(UBatchContext):
        def signal_comm_done(self) -> None:
            kept: dict[int, Event] = vars(self.barrier).setdefault("kept", {})
            self.comm_done = kept.get(self.id)
            if self.comm_done is None:
                super().signal_comm_done()
                kept[self.id] = cast(Event, self.comm_done)

    ubatch_context = Context


@mutant("M-BT-13", "CRASH:WRONGSUM")
class SharedHandle(Forward033):
    """Both microbatches store the handle of their dispatch in the same variable."""

    class Shared(HighThroughput):
        def handle(self) -> int:
            return 0

    all_to_all = Shared


@mutant("M-BT-14", "RACE:BUFFER", twin="dbo-low-latency")
class OwnHook(LowLatencyForward):
    """A microbatch leaves the receive hook to itself, and so runs the hook after it has read the result."""

    class Context(UBatchContext):
        def hook_owner(self) -> UBatchContext:
            return self

    ubatch_context = Context


@mutant("M-BT-17", "RACE:REUSED_IN_FLIGHT")
class FreesCrossing(Forward033):
    """A microbatch frees a buffer that another stream still uses, and the other microbatch allocates its memory."""

    class Frees(HighThroughput):
        def drop(self, buffer: Buffer, used_on: Stream) -> None:
            buffer.free()

    all_to_all = Frees
