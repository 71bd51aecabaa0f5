"""Requests on a pipeline: the engine's scheduler and its queue of batches, on the virtual step clock.

An engine with P stages keeps several batches under way. In each *call* it schedules a batch, if there is anything to
schedule, and puts it into the batch queue; it comes back at once while the queue has room, and else takes the oldest
batch out, waits for its result and tells the scheduler (specification 7.5, the rule of 0.33: where the queue is not
full it waits for nothing unless the scheduler has no requests left). A batch without tokens is a batch too.

So the scheduler knows a result some steps late. What it counts as computed is an upper bound while drafts may still be
rejected (6.4), requests end steps after their last token was sampled, and a slot can be given back, by an end, an abort
or a preemption, at any point between the launch of a step and the arrival of its tokens.

The whole history of calls is a pure function of requests and configuration, because the model's tokens are
(`dpsim.protocol.oracle`): every stage computes it alone, and no machine can change it. One call is one tick.

    >>> from dpsim.config import EngineConfig
    >>> calls = History([Request(0, 5, 2)], stages=2, config=EngineConfig()).calls
    >>> [[row.scheduled for row in call.batch.rows] for call in calls if call.batch]
    [[5], [], [1], [], []]
    >>> [call.takes for call in calls]
    [False, True, True, True, True, True]

Sources: specification chapters 6.2, 6.7, 7.4 and 7.5; vLLM's V1 scheduler for admission and preemption.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from dpsim.config import EngineConfig
from dpsim.protocol.oracle import Oracle
from dpsim.protocol.scheduler import Request


class Row(NamedTuple):
    """A request's part of a batch. `computed`: tokens of it that count as computed before the step, as the scheduler
    knows it: an upper bound. `prefill`: tokens that it has to compute before it decodes; `limit`: all it may have.
    `position` is what only the oracle knows: the tokens that really are computed.
    """

    request: int
    computed: int
    scheduled: int
    prefill: int
    limit: int
    position: int

    @property
    def prefilling(self) -> bool:
        return self.computed < self.prefill

    @property
    def samples(self) -> bool:
        """Whether a token comes of it: it is no chunk of a prompt with more to come."""
        return self.computed + self.scheduled >= self.prefill

    @property
    def drafts(self) -> int:
        return 0 if self.prefilling else self.scheduled - 1


class Admission(NamedTuple):
    """A request that gets a slot, and the tokens that are known of it: its prompt, and after a preemption more."""

    request: int
    tokens: tuple[int, ...]


class Batch(NamedTuple):
    """What the engine tells every stage: requests whose slots are given back, requests that get one, rows to run."""

    number: int
    freed: tuple[int, ...]
    admitted: tuple[Admission, ...]
    rows: tuple[Row, ...]

    @property
    def num_tokens(self) -> int:
        return sum(row.scheduled for row in self.rows)


class Call(NamedTuple):
    """One call of the engine: the batch that it schedules, and whether it takes the oldest result after that."""

    batch: Batch | None
    takes: bool


class _Tracked:
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
        self.life = 0  # preemptions so far

    @property
    def limit(self) -> int:
        return self.prompt + self.wanted


class _Result(NamedTuple):
    tracked: _Tracked
    life: int
    sampled: int
    rejected: int


class PipelineScheduler:
    """The engine's scheduler. `kv_tokens`: how many tokens the KV cache holds; None if it never is too small."""

    def __init__(self, stages: int, config: EngineConfig, kv_tokens: int | None = None) -> None:
        self.config, self.kv_tokens = config, kv_tokens
        self.stages = stages
        self.waiting: deque[_Tracked] = deque()
        self.running: list[_Tracked] = []
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

    def schedule(self) -> tuple[Batch, list[_Result]]:
        """The next batch, and what will come of it."""
        number, budget = self.steps, self.config.max_num_batched_tokens
        self.steps += 1
        rows: list[tuple[_Tracked, int]] = []
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

    def hear(self, results: Sequence[_Result]) -> None:
        """The result of a batch. That of a request that was aborted meanwhile changes nothing (I-PS-12)."""
        for tracked, life, sampled, rejected in results:
            if not sampled:
                continue
            tracked.unheard -= 1
            tracked.made = min(tracked.made + sampled, tracked.wanted)
            if life == tracked.life:
                tracked.computed -= rejected
            if tracked.made == tracked.wanted:
                if tracked in self.running:
                    self.ended.append(tracked.number)
                self.running = [other for other in self.running if other is not tracked]
                self.waiting = deque(other for other in self.waiting if other is not tracked)

    def _may_run(self, tracked: _Tracked, number: int) -> bool:
        """Whether its last token is there, by the clock, and, unless scheduling is asynchronous, was heard of; and
        whether it needs another one for sure.
        """
        if number < tracked.eligible or (tracked.unheard and not self.config.async_scheduling):
            return False
        return tracked.made + tracked.unheard < tracked.wanted

    def _tokens(self, tracked: _Tracked, budget: int) -> int:
        """Tokens of its next step: a chunk of its prompt, or one and its drafts, all of them or none."""
        if tracked.computed < tracked.prefill:
            return min(tracked.prefill - tracked.computed, budget)
        q = self.config.uniform_decode_query_len
        return q if q <= budget else 0

    def _fits(self, tracked: _Tracked, tokens: int) -> bool:
        held = sum(other.computed for other in self.running)
        return self.kv_tokens is None or held + tokens <= self.kv_tokens

    def _preempt(self) -> int:
        """The last that came has to give its slot back, and begins anew later."""
        victim = self.running.pop()
        victim.computed = victim.position = 0
        victim.life += 1
        self.waiting.appendleft(victim)
        return victim.number

    def _run(self, tracked: _Tracked, row: Row, number: int) -> _Result:
        """What the model does with a row."""
        if not row.samples:
            tracked.position += row.scheduled
            return _Result(tracked, tracked.life, 0, 0)
        accepted = tracked.oracle.accepted(tracked.position, row.drafts)
        tracked.position += row.scheduled if row.prefilling else accepted + 1
        tracked.eligible = number + self.cadence()
        tracked.unheard += 1
        return _Result(tracked, tracked.life, accepted + 1, row.drafts - accepted)


class History:
    """All calls of an engine, for some requests; computed once, then read only.

    Raises ValueError for a request that could never end or be scheduled.
    """

    def __init__(
        self,
        requests: Sequence[Request],
        stages: int,
        config: EngineConfig,
        step_ns: int = 20_000_000,
        kv_tokens: int | None = None,
        scheduler: type[PipelineScheduler] = PipelineScheduler,
    ) -> None:
        self.requests, self.stages, self.config = requests, stages, config
        for number, request in enumerate(requests):
            if request.prompt_tokens < 1 or request.output_tokens < 1:
                raise ValueError(f"request {number} needs at least one prompt and one output token, has {request}")
            most = request.prompt_tokens + request.output_tokens + 2 * config.uniform_decode_query_len
            if kv_tokens is not None and most > kv_tokens:
                raise ValueError(f"request {number} needs room for {most} tokens, the KV cache has {kv_tokens}")
        self.oracles = [Oracle(number, request.prompt_tokens) for number, request in enumerate(requests)]
        self.calls: list[Call] = []
        self._play(scheduler(stages, config, kv_tokens), step_ns)

    @property
    def most_tokens(self) -> int:
        """Of a request, drafts included."""
        longest = max((one.prompt_tokens + one.output_tokens for one in self.requests), default=1)
        return longest + 2 * self.config.uniform_decode_query_len

    @property
    def largest(self) -> int:
        """Tokens of the largest batch, at least one."""
        return max((call.batch.num_tokens for call in self.calls if call.batch), default=0) or 1

    def _play(self, scheduler: PipelineScheduler, step_ns: int) -> None:
        requests = self.requests
        order = sorted(range(len(requests)), key=lambda number: (requests[number].arrival_ns, number))
        arrivals = deque((-(-requests[number].arrival_ns // step_ns), number) for number in order)
        aborts = deque(
            sorted((-(-when // step_ns), number) for number in order if (when := requests[number].abort_ns) is not None)
        )
        queue: deque[list[_Result]] = deque()
        tick = 0
        while arrivals or queue or scheduler.has_requests:
            while arrivals and arrivals[0][0] <= tick:
                _, number = arrivals.popleft()
                if (abort := requests[number].abort_ns) is None or -(-abort // step_ns) > tick:
                    scheduler.waiting.append(_Tracked(number, requests[number]))
            while aborts and aborts[0][0] <= tick:
                scheduler.abort(aborts.popleft()[1])
            batch = None
            if scheduler.has_requests:
                batch, results = scheduler.schedule()
                queue.append(results)
            elif not queue:
                if arrivals:
                    tick = max(tick + 1, arrivals[0][0])
                continue
            takes = batch is None or not scheduler.returns_early(batch, len(queue))
            if takes:
                scheduler.hear(queue.popleft())
            self.calls.append(Call(batch, takes))
            tick += 1


__all__ = ["Admission", "Batch", "Call", "History", "PipelineScheduler", "Row"]
