"""The state that all host threads of a rank share: their microbatches, and the one forward context (specification 4.1).

In the engine these are variables of the process. No caller passes a layer its attention metadata and token counts. The
layer reads the *forward context*, of which there is one for all threads. So a thread that continues first installs its
own context. If it does not, it computes with the numbers of the other microbatch.

    ids        thread name -> microbatch, for the threads that are registered
    contexts   microbatch -> its context, None before it enters and after it left
    forward    the context of the running forward
    holder     the microbatch that has the baton: between its wait and its set of the next one's event (I-BT-1)
    aborted    one microbatch has raised: no other one goes on

A `ForwardState` is plain Python. Only one thread of a rank may touch it at a time, and the baton ensures this.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from dpsim.contract.interface import Buffer
from dpsim.vllm.capture.wrapper import ForwardContext


class OverlapContext(NamedTuple):
    """The forward context. `context`: mode, graph, counts of all ranks (the DP metadata), and the number of requests
    for attention. `metadata`: the buffers with their starts, lengths and slots. `first_token`: the place of the first
    token in the rank's batch, which is equal on all ranks.
    """

    context: ForwardContext
    metadata: tuple[Buffer, Buffer, Buffer]
    first_token: int = 0


class Registered(Protocol):
    """A registered context: a `dpsim.vllm.overlap.baton.UBatchContext`."""

    id: int


class TwoRun(AssertionError):
    """Two microbatches of a rank run at the same time (I-BT-1)."""


class WrongForward(AssertionError):
    """The forward context is not that of the running microbatch (I-BT-2)."""


class ForwardState:
    """The variables of one rank's process."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}
        self.contexts: list[Registered | None] = []
        self.forward: OverlapContext | None = None
        self.holder: int | None = None
        self.aborted = False

    def begin(self, num_ubatches: int) -> None:
        """Reset the state: no microbatch has entered yet."""
        self.contexts = [None] * num_ubatches
        self.holder, self.aborted = None, False

    def register(self, thread: str, context: Registered) -> None:
        self.ids[thread] = context.id
        self.contexts[context.id] = context

    def unregister(self, thread: str, context: Registered) -> None:
        self.ids.pop(thread, None)  # the thread may have raised before it entered
        self.contexts[context.id] = None

    def take(self, number: int) -> None:
        """Note that a microbatch runs. Raises TwoRun if another one has not stopped."""
        if self.holder is not None:
            raise TwoRun(f"microbatch {number} goes on while microbatch {self.holder} runs (I-BT-1)")
        self.holder = number

    def give(self, number: int) -> None:
        """Note that a microbatch stops."""
        if self.holder == number:
            self.holder = None

    @contextmanager
    def during(self, forward: OverlapContext) -> Iterator[None]:
        """Install a forward context, as the runner does around the model. Raises WrongForward if the model leaves
        another one, or none: the code after it would read the context of a microbatch (I-BT-9).
        """
        self.forward = forward
        try:
            yield
            if self.forward is not forward:
                raise WrongForward("the forward context is not restored after the microbatches (I-BT-9)")
        finally:
            self.forward = None

    def told(self) -> OverlapContext:
        """The context of the running forward. Raises AssertionError outside of a forward."""
        assert self.forward is not None, "there is no forward context outside of a forward"
        return self.forward

    def end(self) -> None:
        """Check, after the main thread has joined all threads, that they left nothing (I-BT-9)."""
        assert not self.ids, f"threads {sorted(self.ids)} are still registered after they were joined (I-BT-9)"
        left = [number for number, context in enumerate(self.contexts) if context is not None]
        assert not left, f"contexts of microbatches {left} are left after the join (I-BT-9)"
        self.contexts = []
