"""Variants of sampled tokens and hidden states: mutants of specification 6.11 and 7.8 and historical bugs, area 3.

Each is the healthy protocol with one thing done wrong; `scenarios/museum/` has the smallest world that shows it. What
harms nothing but speed, or nothing at all, says why.

In tests/protocol/test_tokens_mutants.py, since their worlds have more sends than can be explored to the end: M-PP-1,
-12, -14, -15 and -18, M-PS-6, and pp-gate-from-mirror. Also there, since an exhibit is run on real backends, too, which
do not tell that memory is reused: M-PP-10 and pp-record-stream. Nowhere: M-PP-16 and M-PS-7, which need dummy steps, so
data-parallel ranks; M-PS-2 and -14, which need tensor parallelism; M-PS-10 and -11, which come with the engine;
M-PS-12, for aborts lie on the step clock and come before a step; M-PS-13, for what is sent is never freed.

    protocol: {name: pp_tokens, form: source-002, variant: M-PP-2}
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from dpsim.interface import Buffer, DeviceCommunicator, Event, HostArray
from dpsim.protocol.pipeline import Received, Transfer, WaitsForDescription
from dpsim.protocol.requests import Batch, PipelineScheduler, Row
from dpsim.protocol.sampled_tokens import Arrived, Entry, SampledTokens
from dpsim.protocol.stage import Result, Stage, Step
from dpsim.registry import register_variant

WRONG = "CRASH:WRONG*"
"""Any difference from the oracle: which of them comes first depends on the world."""


def mutant(name: str, expected: str | None, reason: str = "") -> Callable[[type[Any]], type[Any]]:
    return register_variant(name, protocol="pp_tokens", form="source-002", expected=expected, reason=reason)


# ---- the queue and the broadcast


@mutant("M-PP-2", WRONG)
class LongerQueue(SampledTokens):
    """The queue has one entry too many: a token is taken over one step after the request runs again."""

    def length(self) -> int:
        return super().length() + 1


@mutant(
    "M-PP-3",
    None,
    "performance only: tokens are taken over before they are needed, and the main stream waits for them, a bubble",
)
class ShorterQueue(SampledTokens):
    """The queue has one entry too few: the main stream waits for tokens that are not needed yet."""

    def length(self) -> int:
        return super().length() - 1


@mutant("M-PP-4", WRONG)
class SkipsEmptySteps(Stage):
    """A step without tokens takes nothing from the queue, which then lags behind."""

    def before_inputs(self, batch: Batch) -> None:
        if batch.rows:
            self.consume()
        self.update_slots(batch)


@mutant("M-PP-5", WRONG)
class OneStepEarly(PipelineScheduler):
    """A request runs again one step before its token is there."""

    def cadence(self) -> int:
        return super().cadence() - 1


@mutant("M-PP-6", "MISMATCH:COLLECTIVE:COUNT")
class ReceivesWidest(SampledTokens):
    """The receivers expect room for drafts in every step (source page 002), the sender has it where there are drafts.

    NCCL hangs until the watchdog ends it, and all ranks say that they joined (pull request 46994).
    """

    def received_width(self, rows: Sequence[Row]) -> int:
        return 1 + self.drafts


@mutant("M-PP-7", "*:COLLECTIVE:*")
class SendsAlways(SampledTokens):
    """The last stage also sends what nobody needs; the others do not receive it, or take it for the next step's."""

    def skips_send(self, need: tuple[bool, ...] | None) -> bool:
        return False


@mutant("M-PP-8", "RACE:BUFFER")
class WaitsForNothing(SampledTokens):
    """The main stream does not wait for the tokens that it takes over."""

    def wait(self, entry: Entry) -> None:
        pass


@mutant("M-PP-9", "RACE:BUFFER")
class SendsUnsampled(SampledTokens):
    """The last stage's side stream does not wait for the main stream: it sends what is not sampled yet."""

    def join_side(self) -> None:
        if not self.is_last:
            super().join_side()


@mutant("M-PP-11", WRONG)
class TakesOverLate(Stage):
    """Tokens are taken over after the inputs are read: the first stage embeds the token before."""

    def before_inputs(self, batch: Batch) -> None:
        self.update_slots(batch)
        if not batch.rows:
            self.consume()

    def prepare(self, batch: Batch) -> Step:
        step = super().prepare(batch)
        self.consume()
        return step


@mutant(
    "M-PP-13",
    None,
    "performance only: every stage puts hidden states and tokens on the communicator in the order of steps, so "
    "nobody waits in a circle; but a stage's next send stands behind the tokens of this step, and nothing overlaps",
)
class OneCommunicator(SampledTokens):
    """Tokens go over the communicator of the hidden states."""

    def communicator(self) -> DeviceCommunicator:
        return self.rank.device("pp")


@mutant("M-PP-17", WRONG)
class CountsExchanged(Stage):
    """Numbers of sampled and of rejected tokens are taken for each other."""

    def take_over(self, arrived: Arrived) -> None:
        swapped = self.main.alloc(arrived.counts.shape, "int32", "counts.swapped")
        self.main.launch("counts.swap", swap_rows, reads=[arrived.counts], writes=[swapped])
        super().take_over(arrived._replace(counts=swapped))
        swapped.free()


def swap_rows(rows: Any, swapped: Any) -> None:
    """Kernel: the two rows of a table, exchanged."""
    swapped[0], swapped[1] = rows[1], rows[0]


@mutant("page-002", "MISMATCH:COLLECTIVE:COUNT")
class Page002(ReceivesWidest):
    """Source page 002 as it stands: its width and its mask, both of which fail with speculative decoding.

    The mask leaves out a decode whose optimistic count says that it will be finished: if drafts are rejected it lives
    on, and the earlier stages go on from its old token (pull request 54436).
    """

    def row_needs(self, row: Row) -> bool:
        return row.samples and max(row.computed, row.prefill) + 1 < row.limit


# ---- historical bugs


@mutant("pp-unmatched-bcast", "HANG:COLLECTIVE:MISSING_RANK")
class ForgetsToSend(SampledTokens):
    """The receive came with a merge, the send did not (vllm-omni pull request 7393; vllm 33701, 40749)."""

    def skips_send(self, need: tuple[bool, ...] | None) -> bool:
        return True


# ---- hidden states and the queue of batches


@mutant("M-PS-1", "RACE:BUFFER")
class NeverWaitsForSends(WaitsForDescription):
    """The next forward overwrites what is still being sent."""

    def wait_sent(self, sent: Event) -> None:
        pass


@mutant("M-PS-3", WRONG)
class AnotherOrder(WaitsForDescription):
    """The sender goes through its tensors in another order than the one that it told: hidden and residual swapped."""

    def in_order(self, tensors: Mapping[str, Buffer]) -> list[tuple[str, Buffer]]:
        return super().in_order(tensors)[::-1]


@mutant("M-PS-4", "RACE:BUFFER")
class LooksAtOnce(WaitsForDescription):
    """Tensors are read before they came."""

    def first_access(self, received: Received) -> dict[str, Buffer]:
        return received.tensors


@mutant("M-PS-5", "CRASH:RUNTIMEERROR")
class WaitsTwice(Transfer):
    """A handle of a send over host memory is waited for twice: gloo then blocks for ever."""

    async def settle(self, work: Awaitable[HostArray]) -> None:
        await work
        await work


@mutant("M-PS-8", None, "performance only: the queue holds a batch less than there are stages, and one stage idles")
class ShallowQueue(PipelineScheduler):
    """The queue of batches is one too short."""

    def depth(self) -> int:
        return max(1, super().depth() - 1)


@mutant("M-PS-9", "CRASH:ASSERTIONERROR")
class NewestFirst(Stage):
    """The newest result is taken out of the queue and told as that of the oldest batch."""

    def next_result(self) -> Result:
        return self.results.pop()


@mutant("M-PS-15", None, "performance only: batches run one after the other, and tokens are there earlier than needed")
class WaitsAtOnce(PipelineScheduler):
    """The engine waits for each batch instead of filling the queue."""

    def returns_early(self, batch: Batch, queued: int) -> bool:
        return False
