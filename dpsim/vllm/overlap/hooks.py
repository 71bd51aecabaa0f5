"""The operations of a microbatch for code that also runs without microbatches (specification 4.3).

The layers and the all-to-all call the functions of `Dbo` in every forward. Without microbatches, these functions do
nothing, and work stays on the stream of the forward. If the main thread calls one while there are microbatches, it gets
KeyError (mutant M-BT-20).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from dpsim.contract.interface import Rank, Stream
from dpsim.vllm.overlap.baton import UBatchContext
from dpsim.vllm.overlap.state import ForwardState

T = TypeVar("T")


class Dbo:
    """The functions `dbo_*` of vLLM, for one rank."""

    def __init__(self, rank: Rank, state: ForwardState) -> None:
        self.rank, self.state = rank, state

    @property
    def context(self) -> UBatchContext | None:
        """The microbatch of the calling thread; None while there are no microbatches."""
        if not self.state.ids:
            return None
        return cast(UBatchContext, self.state.contexts[self.state.ids[self.rank.thread]])

    @property
    def enabled(self) -> bool:
        return self.context is not None

    @property
    def current_ubatch_id(self) -> int:
        """The number of the calling thread's microbatch; 0 if there are none."""
        return 0 if self.context is None else self.context.id

    @property
    def stream(self) -> Stream:
        """The current stream of the calling thread."""
        context = self.context
        return self.state.running_context().context.stream if context is None else context.current_stream

    async def yield_(self) -> None:
        if (context := self.context) is not None:
            await context.yield_()

    async def yield_and_switch_from_compute_to_comm(self) -> None:
        if (context := self.context) is not None:
            await context.yield_and_switch_from_compute_to_comm()

    async def yield_and_switch_from_comm_to_compute(self) -> None:
        if (context := self.context) is not None:
            await context.yield_and_switch_from_comm_to_compute()

    def switch_to_comm(self) -> None:
        if (context := self.context) is not None:
            context.switch_to_comm()

    def switch_to_compute(self) -> None:
        if (context := self.context) is not None:
            context.switch_to_compute()

    def switch_to_comm_sync(self) -> None:
        if (context := self.context) is not None:
            context.switch_to_comm_sync()

    def switch_to_compute_sync(self) -> None:
        if (context := self.context) is not None:
            context.switch_to_compute_sync()

    def register_recv_hook(self, hook: Callable[[], None]) -> None:
        """Make the next microbatch complete a receive. Without microbatches, the receive completes now."""
        if (context := self.context) is not None:
            context.register_recv_hook(hook)
        else:
            hook()

    def maybe_run_recv_hook(self) -> None:
        if (context := self.context) is not None:
            context.maybe_run_recv_hook()

    def get_previous_event(self, capture: Callable[[Stream], T]) -> T | None:
        context = self.context
        return None if context is None else context.get_previous_event(capture)
