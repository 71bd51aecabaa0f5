"""Variants of what goes on beside the tokens: dummy steps of replicas, and a queue of batches that is too deep.

Mutants of specification 6.11, 7.8 and 10.8; `scenarios/museum/` has the smallest world that shows each.

    protocol: {name: pp_tokens, form: source-002, variant: M-PS-7}
"""

from __future__ import annotations

from dpsim.museum.tokens import WRONG, mutant
from dpsim.protocol.pipeline.scheduler import PipelineScheduler
from dpsim.protocol.pipeline.stage import Stage


@mutant(
    "M-PP-16",
    None,
    "performance only, against the specification: the queue keeps its length, tokens are taken over before they are "
    "needed, and the main stream waits for them",
)
class DummyTakesOver(Stage):
    """A dummy step takes an entry from the queue of tokens, and puts an empty one in."""

    async def dummy(self) -> None:
        self.consume()
        await super().dummy()


@mutant("M-PP-16-push", WRONG)
class DummyPushes(Stage):
    """A dummy step puts an empty entry into the queue of tokens, which then lags behind."""

    async def dummy(self) -> None:
        if self.tokens is not None and not self.is_last:
            self.tokens.queue.append(None)
        await super().dummy()


@mutant("M-PS-7", "HANG:*")
class DummyReceives(Stage):
    """The last stage runs its dummy steps like any step, and waits for hidden states that nobody sends."""

    async def dummy(self) -> None:
        if self.transfer is not None and self.is_last:
            await self.transfer.receive()
        await super().dummy()


@mutant("M-PS-8-deep", "RACE:BUFFER")
class DeepQueue(PipelineScheduler):
    """The queue holds a batch more than there are staging buffers: one is written anew while it is in use."""

    def depth(self) -> int:
        return super().depth() + 1
