"""Requests to batches: the scheduler of each rank, a small model of vLLM's continuous batching, on a virtual clock.

The batches depend only on the requests and the configuration. The clock ticks every `step_duration`. Requests go
round-robin over the data-parallel ranks in the order of their arrival. In each tick, the scheduler of a rank first
schedules running requests: one decode, or the next chunk of a prompt. Then it admits waiting requests, as long as its
token budget and its slots allow, as vLLM's V1 scheduler does.

A step is a tick in which *some* rank has work. Ranks without work run a dummy in this step. Ticks in which no rank has
work are not steps: the clock jumps to the next arrival.

    >>> from dpsim.vllm.config import EngineConfig
    >>> timeline = Timeline([Request(0, 5, 2), Request(0, 3, 1)], ranks=2, config=EngineConfig(), step_ns=20_000_000)
    >>> [[batch.num_tokens for batch in timeline.batches(step)] for step in range(timeline.steps)]
    [[5, 3], [1, 0]]

Sources: specification 1.6 a and 1.8. Simplified: each decode accepts one token, whatever its number of drafts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dpsim.vllm.config import EngineConfig
from dpsim.vllm.data_parallel.prefixes import PrefixCache
from dpsim.vllm.model.rows import Piece
from dpsim.vllm.params.arguments import Request


class Batch(NamedTuple):
    """The batch of one rank in one step.

    `scheduled`: for each request its index in the list of requests, its tokens in this step, and the position of the
    first. `max_query_len`: the most tokens of one request. `encoder_reqs`: the number of requests that bring encoder
    inputs. `cascade_attention`: all requests share a prefix that is long enough for cascade attention.
    `reads_unwritten`: a request reads cache blocks that another request of this step writes. `drafts`: the most drafts
    that one of its requests has in its next decode; with 0, the drafter has nothing to propose. A chunk of a prompt
    counts as well, because the drafter computes with it. `allow_microbatching` and `forced_uniform`: settings of the
    caller, which do not depend on the requests.
    """

    scheduled: tuple[Piece, ...]
    num_tokens: int
    max_query_len: int
    num_loras: int = 0
    force_eager: bool = False
    is_dummy: bool = False
    encoder_reqs: int = 0
    cascade_attention: bool = False
    reads_unwritten: bool = False
    allow_microbatching: bool = True
    forced_uniform: bool = False
    drafts: int = 0

    @property
    def num_reqs(self) -> int:
        return len(self.scheduled)

    def uniform_decode(self, q: int) -> bool:
        """Whether every request has exactly q tokens (specification 1.6 a), or the caller forces it."""
        return self.forced_uniform or (self.max_query_len == q and self.num_tokens == q * max(self.num_reqs, 1))


IDLE = Batch((), 0, 0)


class RankScheduler:
    """The scheduler of one data-parallel rank. `admits`: whether it admits waiting requests."""

    def __init__(self, config: EngineConfig) -> None:
        self.budget = config.max_num_batched_tokens
        self.max_num_seqs = config.max_num_seqs
        self.q = config.uniform_decode_query_len
        self.waiting: deque[tuple[int, Request]] = deque()
        self.running: list[_Running] = []
        self.cache = PrefixCache(config.block_size)
        self.admits = True

    @property
    def has_work(self) -> bool:
        return bool(self.waiting or self.running)

    def add(self, index: int, request: Request) -> None:
        self.waiting.append((index, request))

    def abort(self, index: int) -> None:
        """Drop a request in any state. For a finished request, the call has no effect."""
        self.waiting = deque(item for item in self.waiting if item[0] != index)
        self.running = [item for item in self.running if item.index != index]

    def step(self) -> Batch:
        """Schedule one step, and account for its results at once. Frees the requests that the step finishes."""
        budget, scheduled, longest, reads_unwritten = self.budget, [], 0, False
        admitted = self.running
        while True:
            for item in admitted:
                tokens = min(item.next_tokens(self.q), budget)
                if tokens:
                    budget -= tokens
                    longest = max(longest, tokens)
                    scheduled.append((item, tokens))
                    if item.prompt:
                        self.cache.note(item.request.prefix, item.computed + tokens)
            if not (self.admits and self.waiting and budget and len(self.running) < self.max_num_seqs):
                break
            index, request = self.waiting.popleft()
            cached = self.cache.hit(request.prefix, request.prompt_tokens)
            admitted = [_Running(index, request, cached)]
            self.running = self.running + admitted
            several = min(request.prompt_tokens - cached, budget) > 1
            reads_unwritten = reads_unwritten or (several and self.cache.unwritten(request.prefix, cached))
        requests = [item.request for item, _ in scheduled]
        batch = Batch(
            tuple([(item.index, tokens, item.computed) for item, tokens in scheduled]),
            self.budget - budget,
            longest,
            num_loras=len({request.lora for request in requests} - {None}),
            force_eager=any(request.force_eager for request in requests),
            encoder_reqs=sum([item.request.encoder_inputs and not item.computed for item, _ in scheduled]),
            cascade_attention=self._cascades(scheduled),
            reads_unwritten=reads_unwritten,
        )
        self.cache.end_step()
        for item, tokens in scheduled:
            item.account(tokens)
        self.running = [item for item in self.running if item.remaining]
        return batch._replace(drafts=max([item.drafts(self.q) for item, _ in scheduled], default=0))

    def _cascades(self, scheduled: Sequence[tuple[_Running, int]]) -> bool:
        in_common = min([min(item.computed, item.request.prompt_tokens) for item, _ in scheduled], default=0)
        return self.cache.cascades([item.request.prefix for item, _ in scheduled], in_common)


class _Running:
    """A request with a slot of the scheduler. `prompt`: its prompt tokens still to compute. `remaining`: its output
    tokens still to sample. `computed`: its tokens in the cache; at first those of a cached prefix. `decodes`: its
    decodes so far.
    """

    __slots__ = ("computed", "decodes", "index", "prompt", "remaining", "request")

    def __init__(self, index: int, request: Request, cached: int = 0) -> None:
        self.index = index
        self.request = request
        self.computed = cached
        self.decodes = 0
        self.prompt = request.prompt_tokens - cached
        self.remaining = request.length  # simplified: the length is known before the stop token is sampled

    def next_tokens(self, q: int) -> int:
        return self.prompt or 1 + self.drafts(q)

    def drafts(self, q: int) -> int:
        """The drafts of the next decode. A decode has at most q tokens, and one of them is no draft."""
        own = self.request.drafts
        return q - 1 if own is None else min(q - 1, own[min(self.decodes, len(own) - 1)])

    def account(self, tokens: int) -> None:
        if self.prompt:
            self.prompt -= tokens
            self.computed += tokens
        else:
            self.computed += 1
            self.decodes += 1
        if not self.prompt:
            self.remaining -= 1


class Batches(ABC):
    """The batches of all ranks, as far as they are known: for a whole workload, or those recorded so far."""

    @property
    @abstractmethod
    def steps(self) -> int:
        """The number of steps so far."""

    @abstractmethod
    def batches(self, step: int) -> Sequence[Batch]:
        """The batch of each data-parallel rank. The batch of a rank without work has no tokens."""

    @abstractmethod
    def extent(self) -> tuple[int, int, int]:
        """Upper bounds: the requests, the positions of the longest, and the tokens of the largest batch."""

    @abstractmethod
    def cached_prefixes(self) -> Mapping[int, int]:
        """For each request that begins behind a cached prefix, the first position that it computes."""


class Timeline(Batches):
    """All batches of all ranks. `own`: configurations of ranks that differ from `config`.

    ValueError: a request without a prompt token or without an output token.
    """

    def __init__(
        self,
        requests: Sequence[Request],
        ranks: int,
        config: EngineConfig,
        step_ns: int,
        own: Mapping[int, EngineConfig] | None = None,
    ) -> None:
        for index, request in enumerate(requests):
            if request.prompt_tokens < 1 or request.length < 1:
                raise ValueError(f"request {index} needs at least one prompt and one output token, has {request}")
        self._ticks: list[int] = []
        self._batches: list[tuple[Batch, ...]] = []
        order = sorted(range(len(requests)), key=lambda index: (requests[index].arrival_ns, index))
        arrivals = deque((-(-requests[index].arrival_ns // step_ns), index) for index in order)
        owner = {index: place % ranks for place, index in enumerate(order)}
        aborts = deque(
            sorted((-(-when // step_ns), index) for index in order if (when := requests[index].abort_ns) is not None)
        )
        schedulers = [RankScheduler((own or {}).get(rank, config)) for rank in range(ranks)]
        tick = 0
        while arrivals or any(scheduler.has_work for scheduler in schedulers):
            while arrivals and arrivals[0][0] <= tick:
                _, index = arrivals.popleft()
                if (abort := requests[index].abort_ns) is None or abort > requests[index].arrival_ns:
                    schedulers[owner[index]].add(index, requests[index])
            while aborts and aborts[0][0] <= tick:
                _, index = aborts.popleft()
                schedulers[owner[index]].abort(index)
            batches = tuple(scheduler.step() if scheduler.has_work else IDLE for scheduler in schedulers)
            if any(batch.num_tokens for batch in batches):
                self._ticks.append(tick)
                self._batches.append(batches)
                tick += 1
            elif arrivals:
                tick = max(tick, arrivals[0][0])

    @property
    def steps(self) -> int:
        return len(self._ticks)

    def tick(self, step: int) -> int:
        """The clock tick at which a step runs."""
        return self._ticks[step]

    def batches(self, step: int) -> tuple[Batch, ...]:
        return self._batches[step]

    def extent(self) -> tuple[int, int, int]:
        batches = [batch for step in self._batches for batch in step]
        pieces = [piece for batch in batches for piece in batch.scheduled]
        requests = max([request + 1 for request, _, _ in pieces], default=1)
        positions = max([first + tokens for _, tokens, first in pieces], default=1)
        return requests, positions, max([batch.num_tokens for batch in batches], default=1)

    def cached_prefixes(self) -> dict[int, int]:
        begins: dict[int, int] = {}
        for step in self._batches:
            for batch in step:
                for request, _, first in batch.scheduled:
                    begins.setdefault(request, first)
        return {request: first for request, first in begins.items() if first}
