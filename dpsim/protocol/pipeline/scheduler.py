"""Requests on a pipeline: the engine's scheduler, on the virtual step clock. `history` plays it.

An engine with P stages keeps several batches under way. In each *call* it schedules a batch, if there is anything to
schedule, and puts it into the batch queue; it comes back at once while the queue has room, and else takes the oldest
batch out, waits for its result and tells the scheduler (specification 7.5, the rule of 0.33: where the queue is not
full it waits for nothing unless the scheduler has no requests left). A batch without tokens is a batch too.

So the scheduler knows a result some steps late. What it counts as computed is an upper bound while drafts may still be
rejected (6.4), requests end steps after their last token was sampled, and a slot can be given back, by an end, an abort
or a preemption, at any point between the launch of a step and the arrival of its tokens.

Sources: specification chapters 6.2, 6.7, 7.4 and 7.5; vLLM's V1 scheduler for admission and preemption.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from dpsim.config import EngineConfig
from dpsim.program import Request
from dpsim.protocol.model.oracle import Oracle
from dpsim.protocol.pipeline.batches import Admission, Batch, Row


class Tracked:
    """A request, as the scheduler sees it, and its truth."""

    def __init__(self, number: int, request: Request) -> None:
        self.number = number
        self.oracle = Oracle(number, request.prompt_tokens)
        self.prompt, self.wanted = request.prompt_tokens, request.output_tokens
        self.made = 0  # output tokens that the scheduler has heard of
        self.computed = 0
        self.prefill = request.prompt_tokens
        self.position = 0  # tokens really computed
        self.eligible = 0  # first step that it may run in again
        self.unheard = 0  # steps whose sampled tokens the scheduler has not heard of

    @property
    def limit(self) -> int:
        return self.prompt + self.wanted


class Outcome(NamedTuple):
    """What came of a row."""

    tracked: Tracked
    sampled: int
    rejected: int


class PipelineScheduler:
    """The engine's scheduler."""

    def __init__(self, stages: int, config: EngineConfig) -> None:
        self.config, self.stages = config, stages
        self.waiting: deque[Tracked] = deque()
        self.running: list[Tracked] = []
        self.ended: list[int] = []  # the stages have not been told yet
        self.steps = 0

    @property
    def has_requests(self) -> bool:
        return bool(self.waiting or self.running or self.ended)

    def cadence(self) -> int:
        """Steps from one that samples to the next of the same request: as long as the token is on its way (6.7)."""
        return self.stages

    def depth(self) -> int:
        """Batches that the queue holds: one a stage, and one more if scheduling is asynchronous (7.4)."""
        return self.stages + int(self.config.async_scheduling)

    def returns_early(self, batch: Batch, queued: int) -> bool:
        """Whether a call waits for no result: the queue has room, and there was or is something to schedule."""
        return queued < self.depth() and (batch.num_tokens > 0 or self.has_requests)

    def abort(self, number: int) -> None:
        """Drop a request, wherever it is."""
        self.ended += [tracked.number for tracked in self.running if tracked.number == number]
        self.running = [tracked for tracked in self.running if tracked.number != number]
        self.waiting = deque(tracked for tracked in self.waiting if tracked.number != number)

    def schedule(self) -> tuple[Batch, list[Outcome]]:
        """The next batch, and what will come of it."""
        number, budget = self.steps, self.config.max_num_batched_tokens
        self.steps += 1
        rows: list[tuple[Tracked, int]] = []
        preempted: list[int] = []
        for tracked in list(self.running):
            if tracked not in self.running or not self._may_run(tracked, number):
                continue
            tokens = self._tokens(tracked, budget)
            while tokens and tracked in self.running and not self._fits(tracked, tokens):
                preempted.append(self._preempt())
            if tokens and tracked in self.running:
                rows.append((tracked, tokens))
                budget -= tokens
                tracked.computed += tokens
        admitted = []
        while self.waiting and budget and not preempted and len(self.running) < self.config.max_num_seqs:
            tracked = self.waiting[0]
            tracked.prefill = tracked.prompt + tracked.made
            # After a preemption all its tokens are its prompt, so those on their way are waited for.
            if tracked.unheard or not self._fits(tracked, tracked.prefill):
                break
            tokens = min(tracked.prefill, budget)
            self.running.append(self.waiting.popleft())
            admitted.append(Admission(tracked.number, tracked.oracle.first(tracked.prefill)))
            rows.append((tracked, tokens))
            budget -= tokens
            tracked.computed = tokens
        freed, self.ended = tuple(sorted(self.ended + preempted)), []
        results, scheduled = [], []
        for tracked, tokens in rows:
            computed = tracked.computed - tokens
            row = Row(tracked.number, computed, tokens, tracked.prefill, tracked.limit, tracked.position)
            scheduled.append(row)
            results.append(self._run(tracked, row, number))
        return Batch(number, freed, tuple(admitted), tuple(scheduled)), results

    def hear(self, results: Sequence[Outcome]) -> None:
        """The result of a batch. That of a request that was aborted meanwhile changes nothing (I-PS-12)."""
        for tracked, sampled, rejected in results:
            if not sampled:
                continue
            tracked.unheard -= 1
            tracked.made = min(tracked.made + sampled, tracked.wanted)
            if tracked in self.running:  # one that was preempted begins anew, when all is heard
                tracked.computed -= rejected
            if tracked.made == tracked.wanted:
                if tracked in self.running:
                    self.ended.append(tracked.number)
                self.running = [other for other in self.running if other is not tracked]
                self.waiting = deque(other for other in self.waiting if other is not tracked)

    def _may_run(self, tracked: Tracked, number: int) -> bool:
        """Whether its last token is there, by the clock, and, unless scheduling is asynchronous, was heard of; and
        whether it needs another one for sure.
        """
        if number < tracked.eligible or (tracked.unheard and not self.config.async_scheduling):
            return False
        return tracked.made + tracked.unheard < tracked.wanted

    def _tokens(self, tracked: Tracked, budget: int) -> int:
        """Tokens of its next step: a chunk of its prompt, or one and its drafts, all of them or none."""
        if tracked.computed < tracked.prefill:
            return min(tracked.prefill - tracked.computed, budget)
        q = self.config.uniform_decode_query_len
        return q if q <= budget else 0

    def _fits(self, tracked: Tracked, tokens: int) -> bool:
        """Whether the KV cache has blocks for so many more tokens of a request."""
        blocks, others = self.config.blocks, (other for other in self.running if other is not tracked)
        held = blocks(tracked.computed + tokens) + sum(blocks(other.computed) for other in others)
        most = self.config.num_gpu_blocks_override
        return most is None or held <= most

    def _preempt(self) -> int:
        """The last that came has to give its slot back, and begins anew later."""
        victim = self.running.pop()
        victim.computed = victim.position = 0
        self.waiting.appendleft(victim)
        return victim.number

    def _run(self, tracked: Tracked, row: Row, number: int) -> Outcome:
        """What the model does with a row."""
        if not row.samples:
            tracked.position += row.scheduled
            return Outcome(tracked, 0, 0)
        accepted = tracked.oracle.accepted(tracked.position, row.drafts)
        tracked.position += row.scheduled if row.prefilling else accepted + 1
        tracked.eligible = number + self.cadence()
        tracked.unheard += 1
        return Outcome(tracked, accepted + 1, row.drafts - accepted)


__all__ = ["Admission", "Batch", "Outcome", "PipelineScheduler", "Row", "Tracked"]
