"""Variants of sampled tokens: the mutants of specification 6.11, area 3.

Each is the healthy protocol with one thing done wrong; `scenarios/museum/` has the smallest world that shows it. What
harms nothing but speed, or nothing at all, says why; tests/vllm/pipeline/test_scopes.py enumerates small worlds of it
whole. Hidden states are in `dpsim.vllm.museum.pipeline`, dummy steps in `dpsim.vllm.museum.steps`, historical bugs in
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
"""Any difference from the oracle: which of them comes first depends on the world."""


def mutant(
    name: str, expected: str | None, reason: str = "", form: str = "source-002", twin: str = ""
) -> Callable[[type[Any]], type[Any]]:
    return register_variant(name, protocol="pp_tokens", form=form, expected=expected, reason=reason, twin=twin)


@mutant("M-PP-1", WRONG)
class NoGeneration(SampledTokens):
    """Nobody looks at generations: a slot's new request gets a token of the old one.

    Its last token is right soon after, so what shows are its length, its history and its count of computed tokens.
    """

    def outdated(self, entry: PendingTokens, row: int) -> bool:
        return False


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
    """The last stage also sends what nobody needs; the others do not receive it, or take it for the next step's.

    It has two faces: where the root of a broadcast waits, a hang; where it does not, as on NCCL, the run gets through
    and the ledger names the step.
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
    """The last stage's side stream does not wait for the main stream: it sends what is not sampled yet."""

    def join_side(self) -> None:
        if not self.is_last:
            super().join_side()


@mutant("M-PP-10", "RACE:REUSED_IN_FLIGHT")
class KeepsNothing(SampledTokens):
    """The allocator is not told that the other stream uses the tokens, and hands their memory out again."""

    def keep(self, buffer: Buffer) -> None:
        pass


@mutant("M-PP-10-counts", "RACE:REUSED_IN_FLIGHT")
class KeepsTokensOnly(SampledTokens):
    """The allocator is told of the tokens, and not of the two arrays of counts, which are sources as well."""

    def kept(self, *sources: Buffer) -> Sequence[Buffer]:
        return sources[:1]


@mutant("M-PP-11", WRONG)
class TakesOverLate(Stage):
    """Tokens are taken over after the inputs are read: the first stage embeds the token before."""

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
    "performance only: the next step takes them over, before others could be put there; so in all 5,906 small worlds",
)
class OldestPlace(SampledTokens):
    """A step's tokens go into the oldest place of the queue, not into the newest.

    Against the specification, which says that the order of steps is scrambled. A place is taken in the next step, so
    there is never more than one entry: tokens come as early as in M-PP-3, and none is lost. The worlds: two or three
    stages, one or two slots, up to three requests, none or one draft (tests/vllm/pipeline/test_scopes.py).
    """

    def put(self, entry: PendingTokens) -> None:
        self.queue[0] = entry


@mutant("pp-mapping-unfiltered", WRONG)
class MappingOfTheBatch(Stage):
    """Tokens are taken over with the mapping that the batch had, also where rows were dropped since.

    It is right, and spares a copy, where nothing was dropped. No report of this is known.
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

    A stage's next send then stands behind the tokens of this step, and nothing overlaps. For ranks to wait in a circle,
    as the specification suspects, two of them would have to put a step's tokens and another step's hidden states on
    the communicator in opposite order. Here each stage works through the same calls one by one, whatever is eager, also
    where a grammar puts sampling off (7.5): every worker samples at the same place of its sequence, and none of 1,260
    small worlds with sampling put off shows more.
    """

    def communicator(self) -> DeviceCommunicator:
        return self.rank.device("pp")


@mutant("M-PP-14", WRONG)
class FinishedByBound(SampledTokens):
    """A decode whose optimistic count says that it will be finished is left out (source page 002).

    If drafts are rejected it lives on, and the earlier stages go on from its old token (pull request 54436).
    """

    def row_needs(self, row: Row) -> bool:
        return needs_024(row)


@mutant("M-PP-15", WRONG)
class DraftsOfDropped(Stage):
    """Drafts are stored with -1 left in the mapping, which as an index is the last slot: another request's."""

    def store_drafts(self, arrived: Arrived, drafts: Buffer, mapping: Buffer) -> None:
        last = self.slots.count - 1
        wrapped = self.put(tuple(last if slot == DROPPED else slot for slot in arrived.mapping), "wrapped.mapping")
        super().store_drafts(arrived, drafts, wrapped)
        wrapped.free()


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


@mutant("M-PP-18", None, "equivalent: tokens travel by batch row, and nothing uses a slot across ranks")
class FreesInAnotherOrder(Stage):
    """The stages before the last free slots in the opposite order."""

    def in_order(self, freed: Sequence[int]) -> Sequence[int]:
        return sorted(freed, reverse=not self.is_last)
