"""Requests on a pipeline: the engine's scheduler, on the virtual step clock. `history` plays it.

An engine with P stages keeps several batches under way. In each *call* it schedules a batch, if there is anything to
schedule, and puts it into the batch queue; it comes back at once while the queue has room, and else takes the oldest
batch out, waits for its result and updates the scheduler from it (specification 7.5, the rule of 0.33: where the queue
is not full it waits for nothing unless the scheduler has no requests left). A batch without tokens is a batch too.

So the scheduler knows a result some steps late. What it counts as computed is an upper bound while drafts may still be
rejected (6.4), requests end steps after their last token was sampled, and a slot can be given back, by an end, an abort
or a preemption, at any point between the launch of a step and the arrival of its tokens. Where the model says a stop
token before a request has all its tokens, steps were started for it that nobody needs: what comes of them is dropped.

Requests of a *session* are one request to the engine. When one of them has ended, its slot is held until the next one
comes, which goes on with all tokens so far; they are computed anew. What is under way of the former is for nobody.

Sources: specification chapters 6.2, 6.7, 7.4 and 7.5; vLLM's V1 scheduler for admission and preemption.
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
    """A request, as the scheduler sees it, and its truth. `key`: its session; `more`: another one of it will come."""

    def __init__(self, number: int, request: Request, oracle: Oracle, key: int, more: bool) -> None:
        self.number, self.key, self.more = number, key, more
        self.oracle = oracle
        self.num_prompt_tokens, self.max_tokens = oracle.prompt_tokens, request.output_tokens
        self.length = request.length  # tokens until it ends: only the results of batches say so
        self.drafts = request.drafts
        self.decodes = 0  # so far
        self.ended = False
        self.num_output_tokens = 0  # as far as the results of batches are known
        self.num_computed_tokens = 0
        self.prefill = self.num_prompt_tokens
        self.position = 0  # tokens really computed
        self.eligible = 0  # first step that it may run in again
        self.in_flight = 0  # steps that sample, whose result is not known yet

    @property
    def limit(self) -> int:
        return self.num_prompt_tokens + self.max_tokens


class RowOutput(NamedTuple):
    """What came of a row."""

    state: RequestState
    sampled: int
    rejected: int


class PipelineScheduler:
    """The engine's scheduler."""

    def __init__(self, stages: int, config: EngineConfig) -> None:
        self.config, self.stages = config, stages
        self.waiting: deque[RequestState] = deque()
        self.running: list[RequestState] = []
        self.finished: list[int] = []  # the stages learn it with the next batch
        self.held: dict[int, RequestState] = {}  # by session: the last that ended, and holds a slot for the next
        self.queued: dict[int, deque[RequestState]] = {}  # by session: those that came while one of it is at work
        self.working: set[int] = set()  # sessions of which one waits or runs
        self.closed: set[int] = set()  # sessions whose clients went away
        self.told: list[tuple[int, ...]] = []  # of each batch, by row: tokens that clients are told
        self.steps = 0
        self.admits = True  # whether waiting requests may join

    @property
    def has_requests(self) -> bool:
        return bool(self.waiting or self.running or self.finished)

    def cadence(self) -> int:
        """Steps from one that samples to the next of the same request: as long as the token is on its way (6.7)."""
        return self.stages

    def depth(self) -> int:
        """Batches that the queue holds: one a stage, and one more if scheduling is asynchronous (7.4)."""
        return self.stages + int(self.config.async_scheduling)

    def returns_early(self, batch: Batch, queued: int) -> bool:
        """Whether a call waits for no result: the queue has room, and there was or is something to schedule."""
        return queued < self.depth() and (batch.num_tokens > 0 or self.has_requests)

    def add(self, state: RequestState) -> None:
        """A request comes. One of a session waits for those before it, and does not wait for a slot that it has."""
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
        """Drop a request, wherever it is, with all of its session. `key`: of the session, or its own number."""
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
        """The next batch, and what will come of it."""
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
            # After a preemption all its tokens are its prompt, so those on their way are waited for.
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
        """Whether requests that wait may get a slot: not in a step in which others had to give theirs back."""
        return self.admits and not preempted

    def defers(self, results: Sequence[RowOutput]) -> bool:
        """Whether the batch just scheduled is sampled only when an older result is there, since a grammar needs it."""
        return any(state.oracle.structured and sampled and state.in_flight > 1 for state, sampled, _ in results)

    def masks(self, batch: Batch, results: Sequence[RowOutput]) -> tuple[tuple[int, ...], ...]:
        """Of each row what the grammar permits after the tokens that are known now; empty if no row has a grammar."""
        found = [
            state.oracle.mask(state.num_prompt_tokens + state.num_output_tokens - 1, row.drafts)
            if sampled and not state.ended
            else ()
            for row, (state, sampled, _) in zip(batch.rows, results, strict=True)
        ]
        return tuple(found) if any(found) else ()

    def has_seat(self, state: RequestState) -> bool:
        """Whether there is a slot for a request. Those that sessions hold are not free, but for the session itself."""
        return len(self.running) + len(self.held) - (state.key in self.held) < self.config.max_num_seqs

    def update_from_output(self, results: Sequence[RowOutput]) -> None:
        """The result of a batch."""
        self.told.append(tuple(self._take(*one) if one.sampled else 0 for one in results))

    def drops(self, state: RequestState) -> bool:
        """Whether what comes of a row is for nobody: its request ended or was aborted meanwhile (I-PS-12)."""
        return state.ended

    def _take(self, state: RequestState, sampled: int, rejected: int) -> int:
        """The result of a row. Returns how many tokens its client is told."""
        state.in_flight -= 1
        if self.drops(state):
            return 0
        told = min(sampled, self.ends_at(state) - state.num_output_tokens)
        state.num_output_tokens += told
        if state in self.running:  # one that was preempted begins anew, when none is in flight
            state.num_computed_tokens -= rejected
        if state.num_output_tokens == self.ends_at(state):
            self._end(state)
        return told

    def ends_at(self, state: RequestState) -> int:
        """Output tokens with which a request ends: those that it wants, or as many as there are up to a stop token."""
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
        """Whether its last token is there, by the clock, and, unless scheduling is asynchronous, is known; and
        whether it needs another one for sure.
        """
        if number < state.eligible or (state.in_flight and not self.config.async_scheduling):
            return False
        return state.num_output_tokens + state.in_flight < state.max_tokens

    def _tokens(self, state: RequestState, budget: int) -> int:
        """Tokens of its next step: a chunk of its prompt, or one and its drafts, as many as the budget still holds."""
        if state.num_computed_tokens < state.prefill:
            return min(state.prefill - state.num_computed_tokens, budget)
        return min(1 + self._drafts(state), budget)

    def _drafts(self, state: RequestState) -> int:
        """Drafts that there are for its next decode."""
        most = self.config.num_speculative_tokens
        if state.drafts is None:
            return most
        return min(most, state.drafts[min(state.decodes, len(state.drafts) - 1)])

    def _fits(self, state: RequestState, tokens: int) -> bool:
        """Whether the KV cache has blocks for so many more tokens of a request."""
        blocks, others = self.config.blocks, (other for other in self.running if other is not state)
        held = blocks(state.num_computed_tokens + tokens) + sum(blocks(other.num_computed_tokens) for other in others)
        most = self.config.num_gpu_blocks_override
        return most is None or held <= most

    @property
    def kv_cache_usage(self) -> float:
        """The share of the KV cache that is held, from 0 to 1; 0 where it is never too small."""
        held = sum(self.config.blocks(state.num_computed_tokens) for state in self.running)
        return held / (self.config.num_gpu_blocks_override or math.inf)

    def _preempt(self) -> int:
        """The last that came has to give its slot back, and begins anew later."""
        victim = self.running.pop()
        victim.num_computed_tokens = victim.position = 0
        self.waiting.appendleft(victim)
        return victim.number

    def _run(self, state: RequestState, row: Row, number: int) -> RowOutput:
        """What the model does with a row."""
        if not row.samples:
            state.position += row.scheduled
            return RowOutput(state, 0, 0)
        state.decodes += not row.prefilling
        accepted = state.oracle.accepted(state.position, row.drafts)
        state.position += row.scheduled if row.prefilling else accepted + 1
        state.eligible = number + self.cadence()
        state.in_flight += 1
        return RowOutput(state, accepted + 1, row.drafts - accepted)
