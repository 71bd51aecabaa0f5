"""A repair that no release has: a microbatch that raises releases the others, and the step ends with its error.

    release        u0 raises, its exit sets event 1 | u1 runs, yields, waits for 0 without end
    repaired       u0 raises, and all events are set | u1 is Aborted where it waits | the main thread raises u0's error

Release 0.33 mentions this repair in a comment, but does not contain it.

Sources: specification 4.7; vLLM pull requests 55586 and 51700.
"""

from __future__ import annotations

from dpsim.vllm.overlap.baton import Aborted
from dpsim.vllm.overlap.forms import Forward033
from dpsim.vllm.overlap.wrapper import Running, UBatchWrapper


class RepairedWrapper(UBatchWrapper):
    """Runs microbatches so that none waits for one that has raised."""

    def failed(self, error: Exception, running: Running) -> None:
        super().failed(error, running)
        self.state.aborted = True
        self.barrier.abort()
        for context in running.contexts:
            context.wait_event.set("baton.abort")

    def surface(self, running: Running) -> None:
        """Raise the first error of a microbatch."""
        for error in running.errors:
            if not isinstance(error, Aborted):
                raise error


class ForwardRepaired(Forward033):
    """Release 0.33 on the V1 runner, with the repair."""

    wrapper_of: type[UBatchWrapper] = RepairedWrapper
