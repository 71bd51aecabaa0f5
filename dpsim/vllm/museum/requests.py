"""Variants of the requests of a pipeline's scheduler: each class is the healthy program with one planted mistake.

The variants of this file concern late results, the width of a token broadcast, preemption, and sessions. A session is a
request that continues later with more input under the same id. No report of these bugs is known. Each variant applies a
rule of the engine's specification (sections 6.2, 6.5, 6.9 or 7.6) at the wrong point.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsim.contract.interface import Buffer
from dpsim.vllm.museum.tokens import WRONG, mutant
from dpsim.vllm.pipeline.batches import Admission, Row
from dpsim.vllm.pipeline.sampled_tokens import SampledTokens
from dpsim.vllm.pipeline.scheduler import PipelineScheduler, RequestState
from dpsim.vllm.pipeline.stage import Stage


@mutant("pp-late-results", "CRASH:WRONGEND")
class TellsWasted(PipelineScheduler):
    """A client also receives tokens of steps that were in flight when its request ended (invariant I-PS-12).

    Only a stop token reveals this. If all requests end by their number of tokens, the scheduler knows the end in
    advance and schedules no wasted step.
    """

    def drops(self, state: RequestState) -> bool:
        return False

    def ends_at(self, state: RequestState) -> int:
        return state.max_tokens if state.ended else state.length


@mutant("pp-width-of-all", "MISMATCH:COLLECTIVE:COUNT")
class ExpectsDraftsOfAll(SampledTokens):
    """The receivers of a broadcast expect draft tokens only if every row has some.

    The sender includes them if any row has some, so the two sizes differ.
    """

    def received_width(self, rows: Sequence[Row]) -> int:
        return 1 + self.drafts if all(row.drafts for row in rows) else 1


@mutant("drafts-in-every-step", "HANG:COLLECTIVE:EXTRA_CALL", form="0.33")
class ReceivesDraftsAlways(SampledTokens):
    """The first stage receives drafts after every step, although the last stage does not propose any in some steps.

    Specification 6.6 contains the correct rule.
    """

    def receive(self, rows: Sequence[Row], slots: Sequence[int], mapping: Buffer, drafts: int) -> bool:
        return super().receive(rows, slots, mapping, self.drafts)


@mutant("pp-token-dtype", "CRASH:ASSERTIONERROR")
class SamplesInt32(Stage):
    """The sampler writes int32 tokens, while the receivers allocate int64.

    An assertion of source page 002 (`pp_utils.py`) catches this. Without the assertion, the broadcast mixes element
    types on all stages.
    """

    token_dtype = "int32"


@mutant("pp-admits-preempting", "CRASH:WRONGADMISSION")
class AdmitsWhilePreempting(PipelineScheduler):
    """The scheduler admits a request in the same step in which it preempts one.

    Both are the same request: with draft tokens it has no room, without them it has. So the scheduler preempts and
    admits it again and again.
    """

    def may_admit(self, preempted: Sequence[int]) -> bool:
        return True


@mutant("pp-session-generation", WRONG)
class KeepsGeneration(Stage):
    """A session continues as a new request in its former slot, and no stage counts a new generation of that slot.

    So the new request receives the tokens in flight that belong to the former one.
    """

    def slot_for(self, admission: Admission) -> int:
        if admission.continues is not None:
            self.slots.give_back(admission.continues)
        return self.slots.hand_out(admission.request)


@mutant("pp-session-result", WRONG)
class ResultsById(PipelineScheduler):
    """A result goes to the request that has the id when the result arrives, not to the request that computed it.

    This may be the next request of a session, or a request that reuses the id.
    """

    def _take(self, state: RequestState, sampled: int, rejected: int) -> int:
        now = next((one for one in (*self.running, *self.waiting) if one.key == state.key), state)
        state.in_flight -= 1
        now.in_flight += 1
        return super()._take(now, sampled, rejected)


@mutant("pp-session-seat", "CRASH:INDEXERROR")
class ForgetsHeldSlots(PipelineScheduler):
    """The scheduler treats the slot of a session that waits for input as free, so the stages run out of slots."""

    def has_seat(self, state: RequestState) -> bool:
        return len(self.running) < self.config.max_num_seqs
