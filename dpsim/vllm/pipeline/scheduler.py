"""The scheduler of an engine with pipeline stages. It runs on the virtual step clock, and `history` calls it.

In each *call*, the engine schedules a batch, if it has any requests, and puts the batch into the *batch queue*. If the
queue still has room, the call returns at once. Otherwise it removes the oldest batch, waits for its result, and updates
the scheduler (specification 7.5). This is the rule of 0.33: with room in the queue, a call waits only if the scheduler
has no requests left.

Because of the batch queue, the scheduler gets a result some steps late:

* Its computed count is an upper bound while the target model may still reject drafts (specification 6.4).
* A request ends some steps after its last token was sampled. If that is a stop token, the stages meanwhile run steps
  that the request does not need, and the scheduler drops their results.
* A request may lose its slot by an end, an abort or a preemption while the stages still send tokens to the slot.

The engine treats the requests of a *session* as one request. When one of them ends, the session keeps its slot until
the next one arrives. The next one starts with all tokens so far, and the stages compute these again. If results of the
earlier request are still in the pipeline, the scheduler drops them.

Sources: specification 6.2, 6.7, 7.4 and 7.5; vLLM's V1 scheduler for admission and preemption.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from dpsim.vllm.config import EngineConfig
from dpsim.vllm.model.oracle import Oracle
from dpsim.vllm.params.arguments import Request
from dpsim.vllm.pipeline.batches import Admission, Batch, Row


class RequestState:
    """A request, with its oracle. `key`: its session. `more`: the session has a later request."""

    def __init__(self, number: int, request: Request, oracle: Oracle, key: int, more: bool) -> None:
        self.number, self.key, self.more = number, key, more
        self.oracle = oracle
        self.num_prompt_tokens, self.max_tokens = oracle.prompt_tokens, request.output_tokens
        self.length = request.length  # tokens until it ends; the scheduler must not use it before the result
        self.drafts = request.drafts
        self.decodes = 0  # so far
        self.ended = False
        self.num_output_tokens = 0  # as far as the results of batches are known
        self.num_computed_tokens = 0
        self.prefill = self.num_prompt_tokens
        self.position = 0  # tokens that the model has really computed
        self.eligible = 0  # first step that it may run in again
        self.in_flight = 0  # steps that sample, whose result is not known yet

    @property
    def limit(self) -> int:
        return self.num_prompt_tokens + self.max_tokens


class RowOutput(NamedTuple):
    """The result of a row: the number of sampled tokens, and the number of rejected drafts."""

    state: RequestState
    sampled: int
    rejected: int


class PipelineScheduler:
    """The scheduler of an engine with `stages` pipeline stages."""

    def __init__(self, stages: int, config: EngineConfig) -> None:
        self.config, self.stages = config, stages
        self.waiting: deque[RequestState] = deque()
        self.running: list[RequestState] = []
        self.finished: list[int] = []  # requests that ended; the next batch names them to the stages
        self.held: dict[int, RequestState] = {}  # by session: the last request that ended, whose slot the next one gets
        self.queued: dict[int, deque[RequestState]] = {}  # by session: requests behind one that waits or runs
        self.working: set[int] = set()  # sessions with a request that waits or runs
        self.closed: set[int] = set()  # sessions that a client aborted
        self.delivered_tokens: list[tuple[int, ...]] = []  # of each batch, by row: tokens that clients receive
        self.steps = 0
        self.admits = True  # whether waiting requests may join

    @property
    def has_requests(self) -> bool:
        return bool(self.waiting or self.running or self.finished)

    def cadence(self) -> int:
        """The steps from a sample to the next one: those that the token needs to arrive (specification 6.7)."""
        return self.stages

    def depth(self) -> int:
        """The batches that fit into the queue: one for each stage, and one more with asynchronous scheduling
        (specification 7.4).
        """
        return self.stages + int(self.config.async_scheduling)

    def returns_early(self, batch: Batch, queued: int) -> bool:
        """Whether a call returns without waiting for a result. The queue must have room, and there must be work."""
        return queued < self.depth() and (batch.num_tokens > 0 or self.has_requests)

    def add(self, state: RequestState) -> None:
        """Add a request. If an earlier request of its session is not finished, it waits for it. If its session keeps a
        slot, it goes before all other waiting requests.
        """
        if state.key in self.closed:
            return
        if state.key in self.working:
            self.queued.setdefault(state.key, deque()).append(state)
            return
        self.working.add(state.key)
        if state.key in self.held:
            self.waiting.appendleft(state)
        else:
            self.waiting.append(state)

    def abort(self, key: int) -> None:
        """Drop a request and its session, in any state. `key`: the session, or the request's number."""
        holding = [*self.running, *self.held.values()]
        self.finished += [state.number for state in holding if state.key == key]
        for state in (*self.running, *self.waiting):
            state.ended = state.ended or state.key == key
        self.running = [state for state in self.running if state.key != key]
        self.waiting = deque(state for state in self.waiting if state.key != key)
        self.held.pop(key, None)
        self.queued.pop(key, None)
        self.working.discard(key)
        self.closed.add(key)

    def schedule(self) -> tuple[Batch, list[RowOutput]]:
        """The next batch, and the results that it will have."""
        number, budget = self.steps, self.config.max_num_batched_tokens
        self.steps += 1
        rows: list[tuple[RequestState, int]] = []
        preempted: list[int] = []
        for state in list(self.running):
            if state not in self.running or not self._may_run(state, number):
                continue
            tokens = self._tokens(state, budget)
            while tokens and state in self.running and not self._fits(state, tokens):
                preempted.append(self._preempt())
            if tokens and state in self.running:
                rows.append((state, tokens))
                budget -= tokens
                state.num_computed_tokens += tokens
        admitted = []
        while self.waiting and budget and self.may_admit(preempted) and self.has_seat(self.waiting[0]):
            state = self.waiting[0]
            state.prefill = state.num_prompt_tokens + state.num_output_tokens
            # After a preemption all its tokens become its prompt, so the scheduler waits for those on their way.
            if state.in_flight or not self._fits(state, state.prefill):
                break
            tokens = min(state.prefill, budget)
            self.running.append(self.waiting.popleft())
            former = self.held.pop(state.key, None)
            tokens_known = state.oracle.first(state.prefill)
            admitted.append(Admission(state.number, tokens_known, None if former is None else former.number))
            rows.append((state, tokens))
            budget -= tokens
            state.num_computed_tokens = tokens
        freed, self.finished = tuple(sorted(self.finished + preempted)), []
        results, scheduled = [], []
        for state, tokens in rows:
            computed = state.num_computed_tokens - tokens
            row = Row(state.number, computed, tokens, state.prefill, state.limit, state.position)
            scheduled.append(row)
            results.append(self._run(state, row, number))
        drafts = max([self._drafts(state) for state, _, _ in results], default=0)
        return Batch(number, freed, tuple(admitted), tuple(scheduled), tuple(sorted(preempted)), drafts), results

    def may_admit(self, preempted: Sequence[int]) -> bool:
        """Whether waiting requests may get a slot. They may not in a step that preempts others."""
        return self.admits and not preempted

    def defers(self, results: Sequence[RowOutput]) -> bool:
        """Whether the engine reads an older result before it samples, because a grammar needs it."""
        return any(state.oracle.structured and sampled and state.in_flight > 1 for state, sampled, _ in results)

    def masks(self, batch: Batch, results: Sequence[RowOutput]) -> tuple[tuple[int, ...], ...]:
        """For each row, the tokens that the grammar permits after the known ones; empty if no row has a grammar."""
        found = [
            state.oracle.mask(state.num_prompt_tokens + state.num_output_tokens - 1, row.drafts)
            if sampled and not state.ended
            else ()
            for row, (state, sampled, _) in zip(batch.rows, results, strict=True)
        ]
        return tuple(found) if any(found) else ()

    def has_seat(self, state: RequestState) -> bool:
        """Whether there is a slot for a request. A slot that a session keeps is free only for a request of this
        session.
        """
        return len(self.running) + len(self.held) - (state.key in self.held) < self.config.max_num_seqs

    def update_from_output(self, results: Sequence[RowOutput]) -> None:
        """Account for the result of a batch."""
        self.delivered_tokens.append(tuple(self._take(*one) if one.sampled else 0 for one in results))

    def drops(self, state: RequestState) -> bool:
        """Whether the scheduler drops the result of a row, because its request ended or was aborted meanwhile
        (invariant I-PS-12).
        """
        return state.ended

    def _take(self, state: RequestState, sampled: int, rejected: int) -> int:
        state.in_flight -= 1
        if self.drops(state):
            return 0
        delivered = min(sampled, self.ends_at(state) - state.num_output_tokens)
        state.num_output_tokens += delivered
        if state in self.running:  # a preempted request starts again when no result is in flight
            state.num_computed_tokens -= rejected
        if state.num_output_tokens == self.ends_at(state):
            self._end(state)
        return delivered

    def ends_at(self, state: RequestState) -> int:
        """The output tokens with which a request ends: all that it asks for, or those up to a stop token."""
        return state.length

    def _end(self, state: RequestState) -> None:
        state.ended = True
        if state in self.running and state.more:
            self.held[state.key] = state
        elif state in self.running:
            self.finished.append(state.number)
        self.running = [other for other in self.running if other is not state]
        self.waiting = deque(other for other in self.waiting if other is not state)
        self.working.discard(state.key)
        if self.queued.get(state.key):
            self.add(self.queued[state.key].popleft())

    def _may_run(self, state: RequestState, number: int) -> bool:
        """Its last token must have arrived on the stages; without asynchronous scheduling, its result, too."""
        if number < state.eligible or (state.in_flight and not self.config.async_scheduling):
            return False
        return state.num_output_tokens + state.in_flight < state.max_tokens

    def _tokens(self, state: RequestState, budget: int) -> int:
        if state.num_computed_tokens < state.prefill:
            return min(state.prefill - state.num_computed_tokens, budget)
        return min(1 + self._drafts(state), budget)

    def _drafts(self, state: RequestState) -> int:
        most = self.config.num_speculative_tokens
        if state.drafts is None:
            return most
        return min(most, state.drafts[min(state.decodes, len(state.drafts) - 1)])

    def _fits(self, state: RequestState, tokens: int) -> bool:
        blocks, others = self.config.blocks, (other for other in self.running if other is not state)
        held = blocks(state.num_computed_tokens + tokens) + sum(blocks(other.num_computed_tokens) for other in others)
        most = self.config.num_gpu_blocks_override
        return most is None or held <= most

    @property
    def kv_cache_usage(self) -> float:
        """The share of the KV cache that requests use, from 0 to 1; 0 if the cache has no limit."""
        held = sum(self.config.blocks(state.num_computed_tokens) for state in self.running)
        return held / (self.config.num_gpu_blocks_override or math.inf)

    def _preempt(self) -> int:
        """The request that was admitted last starts again later. Returns its number."""
        victim = self.running.pop()
        victim.num_computed_tokens = victim.position = 0
        self.waiting.appendleft(victim)
        return victim.number

    def _run(self, state: RequestState, row: Row, number: int) -> RowOutput:
        if not row.samples:
            state.position += row.scheduled
            return RowOutput(state, 0, 0)
        state.decodes += not row.prefilling
        accepted = state.oracle.accepted(state.position, row.drafts)
        state.position += row.scheduled if row.prefilling else accepted + 1
        state.eligible = number + self.cadence()
        state.in_flight += 1
        return RowOutput(state, accepted + 1, row.drafts - accepted)
