"""The context of a microbatch, and the baton: exactly one microbatch of a rank runs at a time (specification 4.2).

The right to run is the set state of a microbatch's *wait event*, a flag. To yield is to set the event of the next
microbatch of the ring and to wait for one's own:

    u0: attention | set event 1, wait for 0 ...                     | clear 0, all-to-all | set 1 ...
    u1:                       wait returns, clear 1 | attention     | set event 0, wait for 1 ...

All microbatches share one stream to compute and one to communicate. That a thread leaves the compute stream it marks
with an event *before* it yields: what the other microbatch computes meanwhile is not waited for, and that is the
overlap. Between microbatches no device event is needed, as the streams are filled in baton order (4.5).

`UBatchContext` is made to be varied: each method is one operation of 4.2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from dpsim.contract.interface import Event, Flag, Rank, Stream
from dpsim.vllm.overlap.barrier import ReadyBarrier
from dpsim.vllm.overlap.state import ForwardState, OverlapContext, WrongForward

T = TypeVar("T")


class Aborted(RuntimeError):
    """Another microbatch has raised, and this one must not go on."""


class UBatchContext:
    """One microbatch of one step. All flags and events are as new in every step."""

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
        """Put it into the ring: `to` is who runs after it."""
        self.signal_event = to.wait_event

    # ---- in and out

    async def enter(self) -> None:
        """Register, meet the others, wait for the baton for the first time."""
        self.registry(self.id, "context.register")
        self.state.register(self.rank.thread, self)
        await self.meet()
        await self.take()
        self.restore()
        self.update_stream(self.compute_stream)

    def registry(self, number: int, site: str) -> None:
        """A place among the contexts that all threads share is written or read next. That is a call on a flag of this
        place, so that a search tries all orders of such calls that no barrier and no baton settles.
        """
        self.rank.flag(f"ubatch.{number}.context").set(site)

    async def meet(self) -> None:
        await self.barrier.meet(self.id)

    async def take(self) -> None:
        """Stand until it is this microbatch's turn. Raises Aborted if there is none any more."""
        await self.wait_event.wait("baton.wait")
        self.clear_own()
        if self.state.aborted:
            raise Aborted(f"microbatch {self.id} must not go on")
        self.state.take(self.id)

    def clear_own(self) -> None:
        self.wait_event.clear("baton.clear")

    def exit(self) -> None:
        """Unregister, run a hook that is left, let the next one go on. Whatever happened in between."""
        self.state.unregister(self.rank.thread, self)
        self.state.give(self.id)
        self.maybe_run_recv_hook()
        self.let_go()
        self.wait_event.clear("baton.leave")

    def let_go(self) -> None:
        """It is the next one's turn."""
        self.next_event().set("baton.set")

    def next_event(self) -> Flag:
        return self.signal_event

    # ---- the forward context and the current stream

    def restore(self) -> None:
        """Put the own forward context where layers ask for it."""
        self.state.forward = self.forward

    def update_stream(self, stream: Stream) -> None:
        """From now on the work of this thread goes there."""
        self.current_stream = stream

    # ---- yields

    async def cpu_yield(self) -> None:
        """Hand the baton to the next microbatch, and stand until it comes back.

        Raises AssertionError if another forward context than the own one is installed, or the own event is set.
        """
        if self.state.forward is not self.forward:
            raise WrongForward(f"microbatch {self.id} runs with the forward context of another one (I-BT-2)")
        assert not await self.wait_event.query("baton.own"), f"the event of microbatch {self.id}, which runs, is set"
        self.state.give(self.id)
        self.let_go()
        await self.take()
        self.restore()

    async def yield_(self) -> None:
        """Yield on whatever stream the thread is."""
        stream = self.current_stream
        await self.cpu_yield()
        self.update_stream(stream)

    async def yield_and_switch_from_compute_to_comm(self) -> None:
        """Communicate next, after what was computed so far, and not after what others compute until then."""
        assert self.current_stream is self.compute_stream, f"microbatch {self.id} is not on its compute stream"
        self.signal_compute_done()
        await self.cpu_yield()
        self.update_stream(self.comm_stream)
        self.wait_compute_done()

    async def yield_and_switch_from_comm_to_compute(self) -> None:
        """Compute next, after the own communication."""
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
        """Who runs the hooks of this microbatch: the next one. AttributeError follows where it has left (4.7)."""
        following = (self.id + 1) % len(self.state.contexts)
        self.registry(following, "hook.register")
        return cast(UBatchContext, self.state.contexts[following])

    def register_recv_hook(self, hook: Callable[[], None]) -> None:
        self.hook_owner().recv_hook = hook

    def maybe_run_recv_hook(self) -> None:
        if self.recv_hook is not None:
            hook, self.recv_hook = self.recv_hook, None
            hook()

    def get_previous_event(self, capture: Callable[[Stream], T]) -> T:
        """What a library notes of the compute stream before the thread yields."""
        return capture(self.compute_stream)


def ring(contexts: list[UBatchContext]) -> None:
    """Close the ring: each lets the next one go on, and the last one the first."""
    for context in contexts:
        context.signal(contexts[(context.id + 1) % len(contexts)])
