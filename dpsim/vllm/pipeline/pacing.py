"""A defect of 0.24 and 0.33: without asynchronous scheduling, a request with drafts runs again before its token
arrived.

An earlier stage receives the sampled token of a step as many steps later as there are stages. With asynchronous
scheduling, the scheduler sets for each request the first step of its next decode. Without asynchronous scheduling, it
never sets this step. A request without drafts still waits, because the scheduler has no token for it before the result.
A request with drafts has some, so it runs at once, and the first stage computes with an older token:

    step         0        1                2
    0.33         prompt   drafts: stale    drafts: stale
    repaired     prompt   -                decode, and drafts (two stages)

Sources: specification 6.7 and 6.10; vLLM issue 52071 and pull request 52179, both open.
"""

from __future__ import annotations

from dpsim.vllm.pipeline.scheduler import PipelineScheduler, RequestState


class UnpacedDrafts(PipelineScheduler):
    """The scheduler of 0.24 and 0.33, which does not wait for the token of a request with drafts."""

    def unpaced(self, state: RequestState) -> bool:
        """Whether a decode of this request may run before its last token has arrived."""
        decodes = state.num_computed_tokens >= state.prefill
        return not self.config.async_scheduling and self.stages > 1 and decodes and self._drafts(state) > 0

    def _may_run(self, state: RequestState, number: int) -> bool:
        if not self.unpaced(state):
            return super()._may_run(state, number)
        return state.num_output_tokens + state.in_flight < state.max_tokens

    def _tokens(self, state: RequestState, budget: int) -> int:
        """The tokens of the next step. The scheduler does not know a token in flight, so it counts only the drafts."""
        if self.unpaced(state) and state.in_flight:
            return min(self._drafts(state), budget)
        return super()._tokens(state, budget)
