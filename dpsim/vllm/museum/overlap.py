"""Variants of dual-batch overlap: the mutants of specification 4.13 that need no graph.

Each is the healthy protocol with one mistake. Some mistakes are races on Python state that threads share. Their variant
calls a flag where the threads meet, so that a search tries both orders (`Program.ordered_by_flags`).

    protocol: {name: dbo, form: "0.33", variant: M-BT-2}       config: {enable_dbo: true}
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

HEALTHY = "healthy: an extension of the protocol, the twin of"


def mutant(name: str, expected: str | None, reason: str = "", twin: str = "") -> Callable[[type[Any]], type[Any]]:
    return register_variant(name, protocol="dbo", form="0.33", expected=expected, reason=reason, twin=twin)


# ---- entering, leaving, and the baton


@mutant("dbo-low-latency", None, f"{HEALTHY} M-BT-1 and M-BT-14")
class LowLatencyForward(Forward033):
    """The all-to-all of low latency, whose receives the next microbatch completes."""

    all_to_all = LowLatency


@mutant("M-BT-1", "CRASH:ATTRIBUTEERROR", twin="dbo-low-latency")
class SkipsBarrier(LowLatencyForward):
    """No thread waits until all are there: a microbatch leaves its receive to one that has not registered yet."""

    class Skipped(ReadyBarrier):
        async def meet(self, number: int) -> None:
            pass

        async def main(self) -> None:
            pass

    barrier = Skipped


@mutant("M-BT-2", "CRASH:ASSERTIONERROR")
class DoesNotClear(Forward033):
    """A microbatch does not clear its own event: its next wait would return at once, and two would run."""

    class Context(UBatchContext):
        def clear_own(self) -> None:
            pass

    ubatch_context = Context


@mutant("M-BT-3", "CRASH:WRONGFORWARD")
class DoesNotRestore(Forward033):
    """After a yield the forward context stays that of the other microbatch."""

    class Context(UBatchContext):
        def restore(self) -> None:
            if self.state.forward is None:
                super().restore()

    ubatch_context = Context


@mutant("M-BT-6", "HANG:FLAG:THREAD_ENDED")
class SetsItsOwn(Forward033):
    """A microbatch hands the baton to itself: nothing ever releases the other one."""

    class Context(UBatchContext):
        def next_event(self) -> Flag:
            return self.wait_event

    ubatch_context = Context


@mutant("dbo-first-is-last", None, f"{HEALTHY} M-BT-7")
class FirstIsLast(Forward033):
    """The first microbatch yields once more than the second, which ends before it (4.7)."""

    async def mixture(self, layer: int, attended: Buffer) -> Buffer:
        hidden = await super().mixture(layer, attended)
        if layer == self.layers - 1 and self.dbo.current_ubatch_id == 0:
            await self.dbo.yield_()
        return hidden


@mutant("M-BT-7", "CRASH:WRONGSUM", twin="dbo-first-is-last")
class InOrderOfCompletion(FirstIsLast):
    """The wrapper concatenates outputs in the order of their arrival."""

    class Wrapper(UBatchWrapper):
        def ordered(self, results: list[tuple[int, Outputs]]) -> list[tuple[int, Outputs]]:
            return results

    wrapper_of = Wrapper


@mutant("M-BT-11", "HANG:FLAG:*")
class YieldsOnceMore(Forward033):
    """The second microbatch yields once more than the first, as a loop over its own number of chunks would."""

    async def mixture(self, layer: int, attended: Buffer) -> Buffer:
        if layer and self.dbo.current_ubatch_id == 1:
            await self.dbo.yield_()
            await self.dbo.yield_()
        return await super().mixture(layer, attended)


@mutant("M-BT-20", "CRASH:KEYERROR")
class MainAsks(Forward033):
    """The main thread asks for its stream as a microbatch would, while microbatches are registered."""

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
    """A microbatch records the end of its computing after the yield: communication waits for the other one, too."""

    class Context(UBatchContext):
        def signal_compute_done(self) -> None:
            pass

        def wait_compute_done(self) -> None:
            super().signal_compute_done()
            super().wait_compute_done()

    ubatch_context = Context


@mutant("M-BT-5", "RACE:BUFFER")
class DoesNotWaitForComm(Forward033):
    """The compute stream does not wait for the communication whose results it uses."""

    class Context(UBatchContext):
        def wait_comm_done(self) -> None:
            pass

    ubatch_context = Context


@mutant("M-BT-10", "RACE:BUFFER")
class KeepsEvents(Forward033):
    """Device events outlive their step: a microbatch takes an event of an earlier step for the current one."""

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
    """Both microbatches keep the handle of their dispatch in one place."""

    class Shared(HighThroughput):
        def handle(self) -> int:
            return 0

    all_to_all = Shared


@mutant("M-BT-14", "RACE:BUFFER", twin="dbo-low-latency")
class OwnHook(LowLatencyForward):
    """A microbatch registers the hook of its receive on itself, and runs it after it has read the result."""

    class Context(UBatchContext):
        def hook_owner(self) -> UBatchContext:
            return self

    ubatch_context = Context


@mutant("M-BT-17", "RACE:REUSED_IN_FLIGHT")
class FreesCrossing(Forward033):
    """A microbatch frees a buffer that another stream still uses: the allocator gives it to the other microbatch."""

    class Frees(HighThroughput):
        def drop(self, buffer: Buffer, used_on: Stream) -> None:
            buffer.free()

    all_to_all = Frees
