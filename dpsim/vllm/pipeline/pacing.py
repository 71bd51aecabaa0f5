"""When a request with drafts runs again, as releases with a V2 runner schedule it (specification 6.7, 6.10).

The sampled token of a step reaches the earlier stages as many steps later as there are stages. The asynchronous
scheduler of the engine therefore sets the step from which a request may decode again. The synchronous one reads that
step and never sets it. Without drafts the request still waits, as the scheduler has no token to compute before the
result. With drafts it has some, so the request runs at once, and the first stage computes with an older token:

    step         0        1                2
    0.33         prompt   drafts: stale    drafts: stale
    repaired     prompt   -                decode, and drafts (two stages)

Sources: vllm issue 52071 and pull request 52179, both open.
"""

from __future__ import annotations

from dpsim.vllm.pipeline.scheduler import PipelineScheduler, RequestState


class UnpacedDrafts(PipelineScheduler):
    """0.24 and 0.33: without asynchronous scheduling no rule paces a request that has drafts."""

    def unpaced(self, state: RequestState) -> bool:
        """Whether a decode may run while its last token is on its way."""
        decodes = state.num_computed_tokens >= state.prefill
        return not self.config.async_scheduling and self.stages > 1 and decodes and self._drafts(state) > 0

    def _may_run(self, state: RequestState, number: int) -> bool:
        if not self.unpaced(state):
            return super()._may_run(state, number)
        return state.num_output_tokens + state.in_flight < state.max_tokens

    def _tokens(self, state: RequestState, budget: int) -> int:
        """The token in flight is none that the scheduler knows, so it counts the drafts alone."""
        if self.unpaced(state) and state.in_flight:
            return min(self._drafts(state), budget)
        return super()._tokens(state, budget)
