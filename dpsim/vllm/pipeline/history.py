"""All calls of an engine, computed before the run: this module runs scheduler and batch queue to the last request.

The calls depend on the requests and the configuration only, because the tokens of the stand-in model do
(`dpsim.vllm.model.oracle`). So every stage computes the same history by itself, and no schedule of the ranks changes
it. One call is one tick of the step clock. Ticks in which the engine has nothing to do are left out.

    >>> from dpsim.vllm.config import EngineConfig
    >>> from dpsim.vllm.params.arguments import Request
    >>> calls = History([Request(0, 5, 2)], stages=2, config=EngineConfig()).calls
    >>> [[row.scheduled for row in call.batch.rows] for call in calls if call.batch]
    [[5], [], [1], [], []]
    >>> [call.takes for call in calls]
    [False, True, True, True, True, True]

The experts are spread over all replicas (data-parallel engines), so these make their calls in the same ticks. A replica
that computes nothing in a tick, while another one does, runs a *dummy step*:

    >>> for one in histories([Request(0, 5, 2)], 2, stages=2, config=EngineConfig()):
    ...     print(*["dummy" if call.dummy else [row.scheduled for row in call.batch.rows] for call in one.calls])
    [5] dummy [1] dummy dummy dummy
    dummy dummy dummy dummy dummy dummy

Sources: specification 1.8, 6.7, 7.4 and 7.5.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from dpsim.contract.program import Unsuitable
from dpsim.vllm.config import EngineConfig
from dpsim.vllm.model.oracle import Oracle
from dpsim.vllm.params.arguments import Request
from dpsim.vllm.pipeline.batches import Batch
from dpsim.vllm.pipeline.scheduler import PipelineScheduler, RequestState, RowOutput

STEP_NS = 20_000_000


class Call(NamedTuple):
    """`batch`: what it schedules. `takes`: it then reads the oldest result. `dummy`: a dummy step follows.

    `masks`: a row's kinds of permitted tokens, by place; empty without a grammar. `deferred`: it reads the oldest
    result first, because the masks depend on it.
    """

    batch: Batch | None
    takes: bool
    dummy: bool = False
    masks: tuple[tuple[int, ...], ...] = ()
    deferred: bool = False


class History:
    """All calls of one engine. `mine`: its requests in the order of arrival; None for all.

    Raises Unsuitable for a request that never ends, or that can never be scheduled.
    """

    def __init__(
        self,
        requests: Sequence[Request],
        stages: int,
        config: EngineConfig,
        step_ns: int = STEP_NS,
        scheduler: type[PipelineScheduler] = PipelineScheduler,
        mine: Sequence[int] | None = None,
    ) -> None:
        self.requests, self.stages, self.config = requests, stages, config
        for number, request in enumerate(requests):
            if request.prompt_tokens < 1 or request.output_tokens < 1:
                raise Unsuitable(f"request {number} needs at least one prompt and one output token, has {request}")
        self.keys = keys(requests)
        self.oracles = self._oracles()
        for number, request in enumerate(requests):
            tokens = self.oracles[number].prompt_tokens + request.output_tokens
            most = config.blocks(tokens + 2 * config.uniform_decode_query_len)
            if config.num_gpu_blocks_override is not None and most > config.num_gpu_blocks_override:
                raise Unsuitable(
                    f"config.num_gpu_blocks_override: expected at least {most}, the blocks of {config.block_size} "
                    f"tokens that request {number} may need alone, got {config.num_gpu_blocks_override}"
                )
        self.calls: list[Call] = []
        self.ticks: list[int] = []  # of the calls
        self.mine = in_turn(requests) if mine is None else list(mine)
        self.delivered_tokens: list[tuple[int, ...]] = []  # of each batch, by row: tokens that clients receive
        self._play(scheduler(stages, config), step_ns, self.mine)

    @property
    def ends(self) -> dict[int, tuple[int, bool]]:
        """For each request, the tokens of its client, and whether an abort may make them fewer."""
        own = {number: self.requests[number] for number in self.mine}
        leaving = {self.keys[number] for number, request in own.items() if request.abort_ns is not None}
        return {number: (request.length, self.keys[number] in leaving) for number, request in own.items()}

    @property
    def most_tokens(self) -> int:
        """The tokens of the longest request, with drafts."""
        each = zip(self.oracles, self.requests, strict=True)
        longest = max((oracle.prompt_tokens + request.output_tokens for oracle, request in each), default=1)
        return longest + 2 * self.config.uniform_decode_query_len

    @property
    def largest(self) -> int:
        """The tokens of the largest batch, at least 1."""
        return max((call.batch.num_tokens for call in self.calls if call.batch), default=0) or 1

    def keep_step(self, ticks: Sequence[int]) -> None:
        """Make a call in each of these ticks. Where the engine computes nothing, the call is a dummy step."""
        own = dict(zip(self.ticks, self.calls, strict=True))
        calls = [own.get(tick, Call(None, False)) for tick in ticks]
        self.ticks = list(ticks)
        self.calls = [call._replace(dummy=call.batch is None or not call.batch.rows) for call in calls]

    def _oracles(self) -> list[Oracle]:
        """In a session, the tokens of a request begin with those of the requests before it."""
        oracles: dict[int, Oracle] = {}
        ended: dict[int, tuple[int, ...]] = {}
        for number in in_turn(self.requests):
            request, key = self.requests[number], self.keys[number]
            oracle = Oracle(number, request.prompt_tokens, request.structured_output, ended.get(key, ()))
            if request.session is not None:
                ended[key] = oracle.first(oracle.prompt_tokens + request.length)
            oracles[number] = oracle
        return [oracles[number] for number in range(len(self.requests))]

    def _play(self, scheduler: PipelineScheduler, step_ns: int, order: Sequence[int]) -> None:
        requests = self.requests
        arrivals = deque((-(-requests[number].arrival_ns // step_ns), number) for number in order)
        aborts = deque(
            sorted((-(-when // step_ns), number) for number in order if (when := requests[number].abort_ns) is not None)
        )
        queue: deque[list[RowOutput]] = deque()
        tick = 0
        while arrivals or queue or scheduler.has_requests:
            while arrivals and arrivals[0][0] <= tick:
                _, number = arrivals.popleft()
                if (abort := requests[number].abort_ns) is None or -(-abort // step_ns) > tick:
                    key = self.keys[number]
                    more = requests[number].session is not None and key in {self.keys[one] for _, one in arrivals}
                    scheduler.add(RequestState(number, requests[number], self.oracles[number], key, more))
            while aborts and aborts[0][0] <= tick:
                scheduler.abort(self.keys[aborts.popleft()[1]])
            batch, deferred = None, False
            masks: tuple[tuple[int, ...], ...] = ()
            if scheduler.has_requests:
                batch, results = scheduler.schedule()
                deferred = scheduler.defers(results)
                if not deferred:
                    masks = scheduler.masks(batch, results)
                    queue.append(results)
            elif not queue:
                if arrivals:
                    tick = max(tick + 1, arrivals[0][0])
                continue
            takes = batch is None or deferred or not scheduler.returns_early(batch, len(queue))
            if takes:
                scheduler.update_from_output(queue.popleft())
            if batch is not None and deferred:
                masks = scheduler.masks(batch, results)
                queue.append(results)
            self.calls.append(Call(batch, takes, masks=masks, deferred=deferred))
            self.ticks.append(tick)
            tick += 1
        self.delivered_tokens = scheduler.delivered_tokens


def in_turn(requests: Sequence[Request]) -> list[int]:
    """The numbers of the requests, in the order of their arrival."""
    return sorted(range(len(requests)), key=lambda number: (requests[number].arrival_ns, number))


def keys(requests: Sequence[Request]) -> list[int]:
    """The session of each request, by the number of its first one. Without a session, a request is its own."""
    first: dict[str, int] = {}
    found = {}
    for number in in_turn(requests):
        session = requests[number].session
        found[number] = number if session is None else first.setdefault(session, number)
    return [found[number] for number in range(len(requests))]


def histories(
    requests: Sequence[Request],
    replicas: int,
    stages: int,
    config: EngineConfig,
    step_ns: int = STEP_NS,
    scheduler: type[PipelineScheduler] = PipelineScheduler,
) -> list[History]:
    """One for each replica. Replicas get the sessions in turn, in the order of their first requests."""
    key, order = keys(requests), in_turn(requests)
    sessions = [number for number in order if key[number] == number]
    made = []
    for replica in range(replicas):
        own = set(sessions[replica::replicas])
        mine = [number for number in order if key[number] in own]
        made.append(History(requests, stages, config, step_ns, scheduler, mine))
    if replicas > 1:
        ticks = sorted({tick for history in made for tick in history.ticks})
        for history in made:
            history.keep_step(ticks)
    return made
