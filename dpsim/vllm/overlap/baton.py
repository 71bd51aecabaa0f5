"""The context of a microbatch, and the baton: exactly one microbatch of a rank runs at a time (specification 4.2).

Each microbatch runs in its own host thread. The threads form a ring, and the *baton* is the right to run. A microbatch
may run while its *wait event*, a flag on the host, is set. To yield, it sets the event of the next microbatch of the
ring, and waits for its own event:

    u0: attention | set event 1, wait for 0 ...                     | clear 0, all-to-all | set 1 ...
    u1:                       wait returns, clear 1 | attention     | set event 0, wait for 1 ...

All microbatches share one compute stream and one comm stream. A thread that leaves the compute stream records an event
*before* it yields. Its communication waits for this event only, and so overlaps kernels that others enqueue meanwhile.
Microbatches need no device events between them, because they enqueue work in the order of the baton (specification
4.5).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from dpsim.contract.interface import Event, Flag, Rank, Stream
from dpsim.vllm.overlap.barrier import ReadyBarrier
from dpsim.vllm.overlap.state import ForwardState, OverlapContext, WrongForward

T = TypeVar("T")


class Aborted(RuntimeError):
    """Another microbatch has raised, so this one must not continue."""


class UBatchContext:
    """One microbatch of one step. Every step clears its flags and records new events."""

    def __init__(
        self, number: int, rank: Rank, state: ForwardState, barrier: ReadyBarrier, forward: OverlapContext, comm: Stream
    ) -> None:
        self.id, self.rank, self.state, self.barrier = number, rank, state, barrier
        self.forward = forward
        self.compute_stream, self.comm_stream = forward.context.stream, comm
        self.current_stream = self.compute_stream
        self.compute_done: Event | None = None
        self.comm_done: Event | None = None
        self.recv_hook: Callable[[], None] | None = None
        self.wait_event: Flag = rank.flag(f"ubatch.{number}.event")
        self.wait_event.clear("ubatch.renew")
        self.signal_event = self.wait_event

    def signal(self, to: UBatchContext) -> None:
        """Make `to` the next microbatch of the ring."""
        self.signal_event = to.wait_event

    # ---- in and out

    async def enter(self) -> None:
        """Register, meet the others at the barrier, and wait for the first turn."""
        self.registry(self.id, "context.register")
        self.state.register(self.rank.thread, self)
        await self.meet()
        await self.take()
        self.restore()
        self.update_stream(self.compute_stream)

    def registry(self, number: int, site: str) -> None:
        """This thread next accesses the context of `number`, which all threads share.

        The call on a flag lets an exploration try all orders that neither barrier nor baton orders.
        """
        self.rank.flag(f"ubatch.{number}.context").set(site)

    async def meet(self) -> None:
        await self.barrier.meet(self.id)

    async def take(self) -> None:
        """Wait for this microbatch's turn. Raises Aborted if another microbatch has raised."""
        await self.wait_event.wait("baton.wait")
        self.clear_own()
        if self.state.aborted:
            raise Aborted(f"microbatch {self.id} may not continue, because another microbatch has raised")
        self.state.take(self.id)

    def clear_own(self) -> None:
        self.wait_event.clear("baton.clear")

    def exit(self) -> None:
        """Unregister, run a pending hook, and release the next microbatch, even after an exception."""
        self.state.unregister(self.rank.thread, self)
        self.state.give(self.id)
        self.maybe_run_recv_hook()
        self.let_go()
        self.wait_event.clear("baton.leave")

    def let_go(self) -> None:
        """Release the next microbatch."""
        self.next_event().set("baton.set")

    def next_event(self) -> Flag:
        return self.signal_event

    # ---- the forward context and the current stream

    def restore(self) -> None:
        """Install this microbatch's forward context, which the layers read."""
        self.state.forward = self.forward

    def update_stream(self, stream: Stream) -> None:
        """Make `stream` the current stream of this thread."""
        self.current_stream = stream

    # ---- yields

    async def cpu_yield(self) -> None:
        """Give the baton on, and wait for the next turn.

        WrongForward: another forward context is installed. AssertionError: its own event is set.
        """
        if self.state.forward is not self.forward:
            raise WrongForward(f"microbatch {self.id} runs with the forward context of another one (I-BT-2)")
        assert not await self.wait_event.query("baton.own"), f"the event of microbatch {self.id}, which runs, is set"
        self.state.give(self.id)
        self.let_go()
        await self.take()
        self.restore()

    async def yield_(self) -> None:
        """Yield, and continue on the same stream."""
        stream = self.current_stream
        await self.cpu_yield()
        self.update_stream(stream)

    async def yield_and_switch_from_compute_to_comm(self) -> None:
        """The comm stream waits for this microbatch's own computing before the yield only."""
        assert self.current_stream is self.compute_stream, f"microbatch {self.id} is not on its compute stream"
        self.signal_compute_done()
        await self.cpu_yield()
        self.update_stream(self.comm_stream)
        self.wait_compute_done()

    async def yield_and_switch_from_comm_to_compute(self) -> None:
        """Yield, and continue on the compute stream, which waits for this microbatch's communication."""
        assert self.current_stream is self.comm_stream, f"microbatch {self.id} is not on its comm stream"
        self.signal_comm_done()
        await self.cpu_yield()
        self.update_stream(self.compute_stream)
        self.wait_comm_done()

    # ---- the same without a yield

    def switch_to_comm(self) -> None:
        self.update_stream(self.comm_stream)

    def switch_to_compute(self) -> None:
        self.update_stream(self.compute_stream)

    def switch_to_comm_sync(self) -> None:
        self.signal_compute_done()
        self.update_stream(self.comm_stream)
        self.wait_compute_done()

    def switch_to_compute_sync(self) -> None:
        self.signal_comm_done()
        self.update_stream(self.compute_stream)
        self.wait_comm_done()

    # ---- device events

    def signal_compute_done(self) -> None:
        self.compute_done = self.compute_stream.record()

    def signal_comm_done(self) -> None:
        self.comm_done = self.comm_stream.record()

    def wait_compute_done(self) -> None:
        self.comm_stream.wait(cast(Event, self.compute_done))

    def wait_comm_done(self) -> None:
        self.compute_stream.wait(cast(Event, self.comm_done))

    # ---- hooks (4.3)

    def hook_owner(self) -> UBatchContext:
        """The next of the ring runs this one's hooks. AttributeError if it has left (specification 4.7)."""
        following = (self.id + 1) % len(self.state.contexts)
        self.registry(following, "hook.register")
        return cast(UBatchContext, self.state.contexts[following])

    def register_recv_hook(self, hook: Callable[[], None]) -> None:
        self.hook_owner().recv_hook = hook

    def maybe_run_recv_hook(self) -> None:
        """A hook that raises stays pending, and runs again at the exit, as in the engine."""
        if self.recv_hook is not None:
            self.recv_hook()
            self.recv_hook = None

    def get_previous_event(self, capture: Callable[[Stream], T]) -> T:
        """What a library records on the compute stream before the thread yields."""
        return capture(self.compute_stream)


def ring(contexts: list[UBatchContext]) -> None:
    """Close the ring: each microbatch releases the next one, and the last one releases the first."""
    for context in contexts:
        context.signal(contexts[(context.id + 1) % len(contexts)])
