"""Variants of what requests are to the scheduler: stop tokens that are seen late, drafts by row, admission.

As `dpsim.museum.tokens`, which says more. No report of these bugs is known: they put in another place what
specification 6.5, 6.9 and 7.6 say of results that come late, of the width of a broadcast, and of preemption.

    protocol: {name: pp_tokens, form: source-002, variant: pp-late-results}
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsim.museum.tokens import mutant
from dpsim.protocol.pipeline.batches import Row
from dpsim.protocol.pipeline.sampled_tokens import SampledTokens
from dpsim.protocol.pipeline.scheduler import PipelineScheduler, RequestState


@mutant("pp-late-results", "CRASH:WRONGEND")
class TellsWasted(PipelineScheduler):
    """What steps say that were under way when a request ended is told to its client all the same (I-PS-12).

    Nobody notices while requests end by their number of tokens, which is known before: then no step is wasted.
    """

    def drops(self, state: RequestState) -> bool:
        return False

    def ends_at(self, state: RequestState) -> int:
        return state.max_tokens if state.ended else state.length


@mutant("pp-width-of-all", "MISMATCH:COLLECTIVE:COUNT")
class ExpectsDraftsOfAll(SampledTokens):
    """The receivers make room for drafts only if every row has some: where some rows have none, they expect less."""

    def received_width(self, rows: Sequence[Row]) -> int:
        return 1 + self.drafts if all(row.drafts for row in rows) else 1


@mutant("pp-admits-preempting", "CRASH:WRONGADMISSION")
class AdmitsWhilePreempting(PipelineScheduler):
    """A request gets a slot in the step in which another one had to give its own back.

    It is the one that lost its slot: there was no room for it with drafts, there is without, and so it comes and goes.
    """

    def may_admit(self, preempted: Sequence[int]) -> bool:
        return True
