"""Variants of sampled tokens in a pipeline: each class is the healthy program with one planted mistake.

The mistakes are mutants of the engine's specification, section 6.11 (keys such as M-PP-2; see docs/keys.md). A variant
that costs only speed, or nothing, contains the reason; tests/vllm/pipeline/test_scopes.py enumerates small worlds of it
completely (a world: a scenario with fixed parameters).
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
"""Any difference from the expected tokens. The scenario determines which difference the program finds first."""


def mutant(
    name: str, expected: str | None, reason: str = "", form: str = "source-002", twin: str = ""
) -> Callable[[type[Any]], type[Any]]:
    return register_variant(name, protocol="pp_tokens", form=form, expected=expected, reason=reason, twin=twin)


@mutant("M-PP-1", WRONG)
class NoGeneration(SampledTokens):
    """The stages ignore slot generations, so a new request in a slot takes a token of the previous request.

    Soon afterwards its last token is right again. Its length, history and count of computed tokens stay wrong.
    """

    def outdated(self, entry: PendingTokens, row: int) -> bool:
        return False


@mutant("M-PP-2", WRONG)
class LongerQueue(SampledTokens):
    """The token queue is one entry too long: a stage applies a token one step after the request already runs again."""

    def length(self) -> int:
        return super().length() + 1


@mutant(
    "M-PP-3",
    None,
    "performance only: stages apply tokens before they need them, and the main stream waits for them (a bubble)",
)
class ShorterQueue(SampledTokens):
    """The token queue is one entry too short, so the main stream waits for tokens that it does not need yet."""

    def length(self) -> int:
        return super().length() - 1


@mutant("M-PP-4", WRONG)
class SkipsEmptySteps(Stage):
    """In a step without tokens a stage takes no entry from the token queue, so later entries are late."""

    def before_inputs(self, batch: Batch) -> None:
        if batch.rows:
            self.consume()
        self.update_slots(batch)


@mutant("M-PP-5", WRONG)
class OneStepEarly(PipelineScheduler):
    """The scheduler runs a request again one step before its token arrives."""

    def cadence(self) -> int:
        return super().cadence() - 1


@mutant("M-PP-6", "MISMATCH:COLLECTIVE:COUNT")
class ReceivesWidest(SampledTokens):
    """The receivers expect room for draft tokens in every step, the sender includes it only in steps with drafts.

    Source page 002 (`pp_utils.py`) does this. NCCL hangs until its watchdog ends the job, although all ranks report
    that they joined (vllm pull request 46994).
    """

    def received_width(self, rows: Sequence[Row]) -> int:
        return 1 + self.drafts


@mutant("M-PP-7", "*:COLLECTIVE:*")
class SendsAlways(SampledTokens):
    """The last stage also broadcasts tokens that no row needs, and the other stages do not receive them.

    If the root of the broadcast waits for receivers, the run hangs. If it does not wait, as on NCCL, the run completes:
    the others receive these tokens as those of a later step. Then the ledger of collectives names the step.
    """

    def skips_send(self, need: tuple[bool, ...] | None) -> bool:
        return False


@mutant("M-PP-8", "RACE:BUFFER")
class WaitsForNothing(SampledTokens):
    """The main stream does not wait for the tokens that it reads."""

    def wait(self, entry: PendingTokens) -> None:
        pass


@mutant("M-PP-9", "RACE:BUFFER")
class SendsUnsampled(SampledTokens):
    """The side stream of the last stage does not wait for the main stream.

    So it broadcasts tokens before the main stream has sampled them.
    """

    def join_side(self) -> None:
        if not self.is_last:
            super().join_side()


@mutant("M-PP-10", "RACE:REUSED_IN_FLIGHT")
class KeepsNothing(SampledTokens):
    """The allocator does not record that the other stream reads the tokens, and reuses their memory too early."""

    def keep(self, buffer: Buffer) -> None:
        pass


@mutant("M-PP-10-counts", "RACE:REUSED_IN_FLIGHT")
class KeepsTokensOnly(SampledTokens):
    """The allocator records the use of the tokens by the side stream, but not the use of the two arrays of counts."""

    def kept(self, *sources: Buffer) -> Sequence[Buffer]:
        return sources[:1]


@mutant("M-PP-11", WRONG)
class TakesOverLate(Stage):
    """A stage applies received tokens after it has read its inputs, so the first stage embeds the previous token."""

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
    "performance only: the next step takes the tokens before others arrive there, in all of 5,906 small worlds",
)
class OldestPlace(SampledTokens):
    """A stage stores a step's tokens in the oldest entry of the queue, not in the newest.

    The order of steps stays right, because the next step takes the entry, so the queue never contains more than one.
    Tokens arrive as early as in mutant M-PP-3, and none is lost. An enumeration of small worlds confirms this: two or
    three stages, one or two slots, up to three requests, none or one draft token (tests/vllm/pipeline/test_scopes.py).
    """

    def put(self, entry: PendingTokens) -> None:
        self.queue[0] = entry


@mutant("pp-mapping-unfiltered", WRONG)
class MappingOfTheBatch(Stage):
    """A stage applies tokens with the original row-to-slot mapping of the batch, even after it dropped rows.

    If no row was dropped, this mapping is right and saves a copy. No report of this bug is known.
    """

    def mapping_of(self, arrived: Arrived) -> Buffer:
        return arrived.batch_mapping


@mutant(
    "M-PP-13",
    None,
    "performance only: all stages use the communicator in the order of steps, in all of 5,906 small worlds, every form",
)
class OneCommunicator(SampledTokens):
    """The last stage broadcasts tokens over the communicator of the hidden states.

    So the next send of a stage waits for the tokens of this step, and nothing overlaps. A deadlock would need two ranks
    that issue tokens and hidden states of different steps in opposite orders. But each stage issues the same calls in
    the same order, even if a grammar defers sampling (specification 7.5). So each worker samples at the same position
    of its sequence. No deadlock occurs in 1,260 small worlds with deferred sampling.
    """

    def communicator(self) -> DeviceCommunicator:
        return self.rank.device("pp")


@mutant("M-PP-14", WRONG)
class FinishedByBound(SampledTokens):
    """A stage assumes that a request ends, by an optimistic count, and skips its token (source page 002).

    If the target model rejects drafts, the request continues, and the earlier stages use its old token (vllm pull
    request 54436).
    """

    def row_needs(self, row: Row) -> bool:
        return needs_024(row)


@mutant("M-PP-15", WRONG)
class DraftsOfDropped(Stage):
    """A stage stores drafts through a mapping that still contains -1: as an index, -1 is the last slot.

    So the drafts of a dropped row overwrite those of another request.
    """

    def store_drafts(self, arrived: Arrived, drafts: Buffer, mapping: Buffer) -> None:
        last = self.slots.count - 1
        wrapped = self.put(tuple(last if slot == DROPPED else slot for slot in arrived.mapping), "wrapped.mapping")
        super().store_drafts(arrived, drafts, wrapped)
        wrapped.free()


@mutant("M-PP-17", WRONG)
class CountsExchanged(Stage):
    """A stage exchanges the count of sampled tokens and the count of rejected tokens."""

    def take_over(self, arrived: Arrived) -> None:
        swapped = self.main.alloc(arrived.counts.shape, "int32", "counts.swapped")
        self.main.launch("counts.swap", swap_rows, reads=[arrived.counts], writes=[swapped])
        super().take_over(arrived._replace(counts=swapped))
        swapped.free()


def swap_rows(rows: Any, swapped: Any) -> None:
    """Kernel: exchanges the two rows of a table."""
    swapped[0], swapped[1] = rows[1], rows[0]


@mutant("M-PP-18", None, "equivalent: tokens travel by batch row, and nothing uses a slot across ranks")
class FreesInAnotherOrder(Stage):
    """The stages before the last free slots in the opposite order."""

    def in_order(self, freed: Sequence[int]) -> Sequence[int]:
        return sorted(freed, reverse=not self.is_last)
