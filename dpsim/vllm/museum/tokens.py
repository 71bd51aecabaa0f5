"""Variants of sampled tokens: the mutants of specification 6.11, area 3.

Each is the healthy protocol with one mistake; `scenarios/museum/` has the smallest world that shows it. A variant that
costs only speed, or nothing, says why; tests/vllm/pipeline/test_scopes.py enumerates small worlds of it completely.
Hidden states are in `dpsim.vllm.museum.pipeline`, dummy steps in `dpsim.vllm.museum.steps`, historical bugs in
`dpsim.vllm.museum.pipeline_bugs`.

    protocol: {name: pp_tokens, form: source-002, variant: M-PP-2}
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dpsim.contract.interface import Buffer, DeviceCommunicator
from dpsim.contract.registry import register_variant
from dpsim.vllm.pipeline.batches import Batch, InputBatch, Row
from dpsim.vllm.pipeline.need_mask import needs_024
from dpsim.vllm.pipeline.sampled_tokens import DROPPED, Arrived, PendingTokens, SampledTokens
from dpsim.vllm.pipeline.scheduler import PipelineScheduler
from dpsim.vllm.pipeline.stage import Stage

WRONG = "CRASH:WRONG*"
"""Any difference from the oracle: the world decides which of them is the first."""


def mutant(
    name: str, expected: str | None, reason: str = "", form: str = "source-002", twin: str = ""
) -> Callable[[type[Any]], type[Any]]:
    return register_variant(name, protocol="pp_tokens", form=form, expected=expected, reason=reason, twin=twin)


@mutant("M-PP-1", WRONG)
class NoGeneration(SampledTokens):
    """The stages ignore generations: a slot's new request gets a token of the old one.

    Its last token is right soon after. Its length, its history and its count of computed tokens stay wrong.
    """

    def outdated(self, entry: PendingTokens, row: int) -> bool:
        return False


@mutant("M-PP-2", WRONG)
class LongerQueue(SampledTokens):
    """The queue has one entry too many: a stage takes a token over one step after the request runs again."""

    def length(self) -> int:
        return super().length() + 1


@mutant(
    "M-PP-3",
    None,
    "performance only: stages take tokens over before they need them, and the main stream waits for them, a bubble",
)
class ShorterQueue(SampledTokens):
    """The queue has one entry too few: the main stream waits for tokens that it does not need yet."""

    def length(self) -> int:
        return super().length() - 1


@mutant("M-PP-4", WRONG)
class SkipsEmptySteps(Stage):
    """In a step without tokens a stage takes nothing from the queue, which then lags behind."""

    def before_inputs(self, batch: Batch) -> None:
        if batch.rows:
            self.consume()
        self.update_slots(batch)


@mutant("M-PP-5", WRONG)
class OneStepEarly(PipelineScheduler):
    """A request runs again one step before its token arrives."""

    def cadence(self) -> int:
        return super().cadence() - 1


@mutant("M-PP-6", "MISMATCH:COLLECTIVE:COUNT")
class ReceivesWidest(SampledTokens):
    """The receivers expect room for drafts in every step (source page 002), the sender only in steps with drafts.

    NCCL hangs until the watchdog ends it, and all ranks report that they joined (pull request 46994).
    """

    def received_width(self, rows: Sequence[Row]) -> int:
        return 1 + self.drafts


@mutant("M-PP-7", "*:COLLECTIVE:*")
class SendsAlways(SampledTokens):
    """The last stage also sends tokens that no row needs. The others do not receive them, or take them for later ones.

    It has two faces. If the root of a broadcast waits, the run hangs. If it does not, as on NCCL, the run completes and
    the ledger names the step.
    """

    def skips_send(self, need: tuple[bool, ...] | None) -> bool:
        return False


@mutant("M-PP-8", "RACE:BUFFER")
class WaitsForNothing(SampledTokens):
    """The main stream does not wait for the tokens that it takes over."""

    def wait(self, entry: PendingTokens) -> None:
        pass


@mutant("M-PP-9", "RACE:BUFFER")
class SendsUnsampled(SampledTokens):
    """The last stage's side stream does not wait for the main stream: it sends tokens before they are sampled."""

    def join_side(self) -> None:
        if not self.is_last:
            super().join_side()


@mutant("M-PP-10", "RACE:REUSED_IN_FLIGHT")
class KeepsNothing(SampledTokens):
    """The allocator does not know that the other stream uses the tokens, and hands their memory out again."""

    def keep(self, buffer: Buffer) -> None:
        pass


@mutant("M-PP-10-counts", "RACE:REUSED_IN_FLIGHT")
class KeepsTokensOnly(SampledTokens):
    """The allocator knows of the tokens, but not of the two arrays of counts, which the side stream reads as well."""

    def kept(self, *sources: Buffer) -> Sequence[Buffer]:
        return sources[:1]


@mutant("M-PP-11", WRONG)
class TakesOverLate(Stage):
    """A stage takes tokens over after it reads the inputs: the first stage embeds the token before."""

    def before_inputs(self, batch: Batch) -> None:
        self.update_slots(batch)
        if not batch.rows:
            self.consume()

    def prepare(self, batch: Batch) -> InputBatch:
        input_batch = super().prepare(batch)
        self.consume()
        return input_batch


@mutant(
    "M-PP-12",
    None,
    "performance only: the next step takes them over before others arrive there; so in all 5,906 small worlds",
)
class OldestPlace(SampledTokens):
    """A step's tokens go into the oldest place of the queue, not into the newest.

    The specification says that this scrambles the order of steps. But the next step takes the place, so there is never
    more than one entry. Tokens come as early as in M-PP-3, and none is lost. The worlds: two or three stages, one or
    two slots, up to three requests, none or one draft (tests/vllm/pipeline/test_scopes.py).
    """

    def put(self, entry: PendingTokens) -> None:
        self.queue[0] = entry


@mutant("pp-mapping-unfiltered", WRONG)
class MappingOfTheBatch(Stage):
    """A stage takes tokens over with the mapping of the batch, even if rows were dropped since.

    If none was dropped, this mapping is right, and spares a copy. No report of this is known.
    """

    def mapping_of(self, arrived: Arrived) -> Buffer:
        return arrived.batch_mapping


@mutant(
    "M-PP-13",
    None,
    "performance only: all stages use the communicator in the order of steps; so in all 5,906 small worlds, every form",
)
class OneCommunicator(SampledTokens):
    """Tokens go over the communicator of the hidden states.

    So a stage's next send waits behind the tokens of this step, and nothing overlaps. The specification suspects a
    circle. Then two ranks would have to put a step's tokens and another step's hidden states on the communicator
    in opposite order. Here each stage does the same calls one by one, even if a grammar defers sampling (7.5). So every
    worker samples at the same place of its sequence, whatever is eager. None of 1,260 small worlds with deferred
    sampling shows more.
    """

    def communicator(self) -> DeviceCommunicator:
        return self.rank.device("pp")


@mutant("M-PP-14", WRONG)
class FinishedByBound(SampledTokens):
    """A decode needs no token if its optimistic count says that its request ends (source page 002).

    If the target rejects drafts, the request goes on, and the earlier stages use its old token (pull request 54436).
    """

    def row_needs(self, row: Row) -> bool:
        return needs_024(row)


@mutant("M-PP-15", WRONG)
class DraftsOfDropped(Stage):
    """A stage stores drafts with -1 left in the mapping. As an index, -1 is the last slot: another request's."""

    def store_drafts(self, arrived: Arrived, drafts: Buffer, mapping: Buffer) -> None:
        last = self.slots.count - 1
        wrapped = self.put(tuple(last if slot == DROPPED else slot for slot in arrived.mapping), "wrapped.mapping")
        super().store_drafts(arrived, drafts, wrapped)
        wrapped.free()


@mutant("M-PP-17", WRONG)
class CountsExchanged(Stage):
    """A stage exchanges the counts of sampled and of rejected tokens."""

    def take_over(self, arrived: Arrived) -> None:
        swapped = self.main.alloc(arrived.counts.shape, "int32", "counts.swapped")
        self.main.launch("counts.swap", swap_rows, reads=[arrived.counts], writes=[swapped])
        super().take_over(arrived._replace(counts=swapped))
        swapped.free()


def swap_rows(rows: Any, swapped: Any) -> None:
    """Kernel: exchange the two rows of a table."""
    swapped[0], swapped[1] = rows[1], rows[0]


@mutant("M-PP-18", None, "equivalent: tokens travel by batch row, and nothing uses a slot across ranks")
class FreesInAnotherOrder(Stage):
    """The stages before the last free slots in the opposite order."""

    def in_order(self, freed: Sequence[int]) -> Sequence[int]:
        return sorted(freed, reverse=not self.is_last)
