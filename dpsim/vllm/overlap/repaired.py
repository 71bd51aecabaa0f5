"""What no release does: a microbatch that raises lets its siblings go, and the step ends with what it raised.

    release        u0 raises, its exit sets event 1 | u1 runs, yields, waits for 0 without end
    repaired       u0 raises, and all events are set | u1 is Aborted where it waits | the main thread raises u0's error

0.33 says so in a comment, and leaves the baton as it is. Forms that protect have `repaired` in their name.

Sources: specification chapter 4.7; vLLM pull requests 55586 and 51700.
"""

from __future__ import annotations

from dpsim.vllm.overlap.baton import Aborted
from dpsim.vllm.overlap.forms import Forward033
from dpsim.vllm.overlap.wrapper import Running, UBatchWrapper


class RepairedWrapper(UBatchWrapper):
    """No microbatch stands and waits for one that has raised."""

    def failed(self, error: Exception, running: Running) -> None:
        super().failed(error, running)
        self.state.aborted = True
        self.barrier.abort()
        for context in running.contexts:
            context.wait_event.set("baton.abort")

    def surface(self, running: Running) -> None:
        """Raise what a microbatch has raised first."""
        for error in running.errors:
            if not isinstance(error, Aborted):
                raise error


class ForwardRepaired(Forward033):
    """0.33 on the V1 runner, repaired."""

    wrapper_of: type[UBatchWrapper] = RepairedWrapper
