"""The state that all host threads of a rank share: their microbatches, and the one forward context (specification 4.1).

In the engine, these are variables of the process, so a thread that gets its turn first installs its forward context.
Here they are plain Python without a lock, because by the baton only one thread of a rank runs at a time.

    ids        thread name -> microbatch, for the threads that are registered
    contexts   microbatch -> its context, None before it enters and after it left
    forward    the context of the running forward
    holder     the microbatch that has the baton, the right to run (invariant I-BT-1)
    aborted    whether a microbatch has raised, so that no other one continues
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from dpsim.contract.interface import Buffer
from dpsim.vllm.capture.wrapper import ForwardContext


class OverlapContext(NamedTuple):
    """`context`: mode, graph, counts of all ranks (vLLM's DP metadata), requests. `metadata`: its buffers.

    `first_token`: the place of the first token in the rank's batch, equal on all ranks.
    """

    context: ForwardContext
    metadata: tuple[Buffer, Buffer, Buffer]
    first_token: int = 0


class Registered(Protocol):
    """A registered context: a `dpsim.vllm.overlap.baton.UBatchContext`."""

    id: int


class TwoRun(AssertionError):
    """Two microbatches of a rank run at the same time (invariant I-BT-1)."""


class WrongForward(AssertionError):
    """The installed forward context is not that of the running microbatch (invariant I-BT-2)."""


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
        """Record that a microbatch runs. Raises TwoRun if another one still runs."""
        if self.holder is not None:
            raise TwoRun(f"microbatch {number} goes on while microbatch {self.holder} runs (I-BT-1)")
        self.holder = number

    def give(self, number: int) -> None:
        """Record that a microbatch stops running."""
        if self.holder == number:
            self.holder = None

    @contextmanager
    def during(self, forward: OverlapContext) -> Iterator[None]:
        """Install a forward context, as the runner does around the model.

        WrongForward: the model leaves another or none, and code behind it would read that (invariant I-BT-9).
        """
        self.forward = forward
        try:
            yield
            if self.forward is not forward:
                raise WrongForward("the forward context is not restored after the microbatches (I-BT-9)")
        finally:
            self.forward = None

    def running_context(self) -> OverlapContext:
        """The context of the running forward. Raises AssertionError outside of a forward."""
        assert self.forward is not None, "there is no forward context outside of a forward"
        return self.forward

    def end(self) -> None:
        """After the joins: threads left nothing. Raises AssertionError (invariant I-BT-9)."""
        assert not self.ids, f"threads {sorted(self.ids)} are still registered after they were joined (I-BT-9)"
        left = [number for number, context in enumerate(self.contexts) if context is not None]
        assert not left, f"contexts of microbatches {left} are left after the join (I-BT-9)"
        self.contexts = []
