"""Variants of the scheduler's requests: stop tokens seen late, drafts by row, admission, sessions.

`dpsim.vllm.museum.tokens` explains more. No report of these bugs is known. Each moves a rule of specification 6.2, 6.5,
6.9 or 7.6 to another place. The rules are of late results, of the width of a broadcast, and of preemption. One is of an
id that comes again while its last batch is under way.

    protocol: {name: pp_tokens, form: source-002, variant: pp-late-results}
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
    """A client also receives the results of steps that were under way when its request ended (I-PS-12).

    If all requests end by their number of tokens, this does not show: the scheduler knows the end, and wastes no step.
    """

    def drops(self, state: RequestState) -> bool:
        return False

    def ends_at(self, state: RequestState) -> int:
        return state.max_tokens if state.ended else state.length


@mutant("pp-width-of-all", "MISMATCH:COLLECTIVE:COUNT")
class ExpectsDraftsOfAll(SampledTokens):
    """The receivers make room for drafts only if every row has some: if some rows have none, they expect less."""

    def received_width(self, rows: Sequence[Row]) -> int:
        return 1 + self.drafts if all(row.drafts for row in rows) else 1


@mutant("drafts-in-every-step", "HANG:COLLECTIVE:EXTRA_CALL", form="0.33")
class ReceivesDraftsAlways(SampledTokens):
    """The first stage receives drafts in every step, also in one after which the last stage proposes none (6.6)."""

    def receive(self, rows: Sequence[Row], slots: Sequence[int], mapping: Buffer, drafts: int) -> bool:
        return super().receive(rows, slots, mapping, self.drafts)


@mutant("pp-token-dtype", "CRASH:ASSERTIONERROR")
class SamplesInt32(Stage):
    """The sampler leaves int32, and the receivers have room for int64: the assertion of source page 002 sees it.

    Without the assertion the broadcast mixes element types on all stages.
    """

    token_dtype = "int32"


@mutant("pp-admits-preempting", "CRASH:WRONGADMISSION")
class AdmitsWhilePreempting(PipelineScheduler):
    """A request gets a slot in the step in which another one had to give its slot back.

    It is the same request: with drafts it had no room, without drafts it has. So it comes and goes.
    """

    def may_admit(self, preempted: Sequence[int]) -> bool:
        return True


@mutant("pp-session-generation", WRONG)
class KeepsGeneration(Stage):
    """A session goes on as a new request with an id that has a slot, and no stage notes that the slot was given back.

    The next request has the same slot, and takes over the tokens that are on their way to the former one.
    """

    def slot_for(self, admission: Admission) -> int:
        if admission.continues is not None:
            self.slots.give_back(admission.continues)
        return self.slots.hand_out(admission.request)


@mutant("pp-session-result", WRONG)
class ResultsById(PipelineScheduler):
    """A result goes to the request that has the id when it arrives: the session's next, or one that reuses the id."""

    def _take(self, state: RequestState, sampled: int, rejected: int) -> int:
        now = next((one for one in (*self.running, *self.waiting) if one.key == state.key), state)
        state.in_flight -= 1
        now.in_flight += 1
        return super()._take(now, sampled, rejected)


@mutant("pp-session-seat", "CRASH:INDEXERROR")
class ForgetsHeldSlots(PipelineScheduler):
    """A session that waits for input does not run, so its slot counts as free; the stages have none left to give."""

    def has_seat(self, state: RequestState) -> bool:
        return len(self.running) < self.config.max_num_seqs
