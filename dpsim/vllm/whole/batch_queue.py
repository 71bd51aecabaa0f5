"""The loop of an engine with a batch queue: vLLM's `step_with_batch_queue` in the loop of a group (specification 7.5).

The depth is the number of batches for which the queue has room. While it has room, an iteration waits for no result:

    depth 1   schedule, execute, sample, wait, aborts, update: the plain step
    depth 2   the engine schedules a batch before it knows the result of the one before

The engine makes two calls for a batch with tokens: execute and sample (invariant I-PS-7). If a mask of a grammar
depends on the oldest result, the engine waits for this before it samples:

    schedule, execute, wait, aborts, update, sample

For a batch without tokens there is no forward, so a dummy forward follows, even if the iteration takes a result
(specification 7.5 and 2.3). If the group has stopped running, the engine still takes the results in the queue. It
processes aborts before the scheduler gets a result (invariant I-EL-12).
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from typing import Generic, Protocol, TypeAlias, TypeVar

from dpsim.contract.interface import Rank
from dpsim.vllm.engine.forward import EngineForward
from dpsim.vllm.engine.layout import Layout
from dpsim.vllm.engine.loop import EngineLoop
from dpsim.vllm.engine.pause import Control
from dpsim.vllm.engine.request_counts import RequestCounts
from dpsim.vllm.engine.scheduler import Finished, RequestId, Scheduler
from dpsim.vllm.engine.waves import EngineWaves, PauseState
from dpsim.vllm.params.arguments import Request


class Scheduled(Protocol):
    """A batch, as far as the loop uses it."""

    @property
    def num_tokens(self) -> int:
        """The number of tokens. With 0, there is nothing to compute."""


B = TypeVar("B", bound=Scheduled)
Masks: TypeAlias = tuple[tuple[int, ...], ...]
"""For each row, by place, the kinds of tokens that a grammar permits; empty if no row has a grammar."""


def number_of(request: RequestId) -> int:
    """The index of a request in the workload: 12 of the name "r12", which is all that messages contain."""
    return int(request[1:])


class LiveScheduler(Scheduler, Generic[B]):
    """A scheduler that the loop calls step by step. `requests`: the workload."""

    def __init__(self, requests: tuple[Request, ...], max_num_seqs: int) -> None:
        super().__init__(max_num_seqs)
        self.requests = requests

    def add(self, request: RequestId, steps: int, client: int) -> None:
        self.steps[request] = steps
        self.clients[request] = client
        self.admit(number_of(request), self.requests[number_of(request)])

    def abort_all(self) -> list[Finished]:
        return self.abort(list(self.steps))

    def has_unfinished(self, pause: PauseState) -> bool:
        if pause is PauseState.PAUSED_ALL:
            return False
        return len(self.steps) > (0 if pause is PauseState.UNPAUSED else self.num_waiting)

    @property
    def counts(self) -> tuple[int, int]:
        return self.num_waiting, len(self.steps) - self.num_waiting

    def has_requests(self, pause: PauseState) -> bool:
        """Whether the next iteration schedules a batch, even one without tokens."""
        return self.has_unfinished(pause)

    def _forget(self, request: RequestId) -> Finished:
        self.drop(number_of(request))
        del self.steps[request]
        return request, self.clients.pop(request)

    @property
    @abstractmethod
    def num_waiting(self) -> int:
        """The number of requests that wait for admission."""

    @abstractmethod
    def admit(self, number: int, request: Request) -> None:
        """Add a new request to the scheduler of the worker."""

    @abstractmethod
    def drop(self, number: int) -> None:
        """Drop a request that has ended or was aborted."""

    @abstractmethod
    def next_batch(self, pause: PauseState) -> B:
        """Schedule the next batch."""

    def defers(self) -> bool:
        """Whether the engine takes the oldest result before it samples, because a grammar needs it."""
        return False

    def masks(self, batch: B) -> Masks:
        """The masks of the batch just scheduled, from the results so far."""
        return ()

    @abstractmethod
    def taken(self, batch: B) -> list[Finished]:
        """Account for the result of the oldest batch. Returns the requests that end. Aborted requests get nothing
        (invariant I-PS-12).
        """


class BatchExecutor(EngineForward, Generic[B]):
    """Runs the batches of an engine: its only worker, or the calls to its workers."""

    @abstractmethod
    async def begin(self) -> None:
        """Prepare to serve."""

    @abstractmethod
    async def submit(self, batch: B) -> None:
        """Execute a batch, without waiting for its result."""

    def sample(self, batch: B, masks: Masks) -> None:
        """Sample a batch. Does nothing if `submit` has already done it."""

    @abstractmethod
    async def result(self, batch: B) -> None:
        """Wait for the result of the oldest batch."""

    @abstractmethod
    async def end(self) -> None:
        """End, after all batches."""


class QueuedLoop(EngineLoop, Generic[B]):
    """The loop with a batch queue. `depth`: the batches for which the queue has room (specification 7.4)."""

    def __init__(
        self,
        rank: Rank,
        layout: Layout,
        waves: EngineWaves,
        scheduler: LiveScheduler[B],
        worker: BatchExecutor[B],
        control: type[Control],
        counts: type[RequestCounts],
        depth: int,
    ) -> None:
        super().__init__(rank, layout, waves, scheduler, worker, control, counts)
        self.live, self.worker, self.depth = scheduler, worker, depth
        self.queue: deque[B] = deque()

    async def run(self) -> None:
        await self.worker.begin()
        await super().run()
        await self.worker.end()

    async def iterate(self) -> bool:
        """Do one iteration. An iteration without a forward, which only takes a result, is not a step of the group."""
        continues = await super().iterate()
        self.rank.step = max(self.steps - 1, 0)
        return continues

    def has_work(self) -> bool:
        return bool(self.queue) or super().has_work() or self.live.has_requests(self.waves.pause_state)

    async def step(self) -> bool:
        executed = False
        if self.live.has_requests(self.waves.pause_state):
            batch = self.live.next_batch(self.waves.pause_state)
            await self.worker.submit(batch)
            executed = batch.num_tokens > 0
            if self.live.defers():
                await self.take_result()
                self.sample(batch)
                return executed
            self.sample(batch)
            if self.returns_early(executed):
                return executed
        elif not self.queue:
            return False
        await self.take_result()
        return executed

    def sample(self, batch: B) -> None:
        """Sample the batch by a second call, if it has tokens, and put it into the queue."""
        if self.is_sampled(batch):
            self.worker.sample(batch, self.live.masks(batch))
        self.queue.append(batch)

    def is_sampled(self, batch: B) -> bool:
        """Whether there is anything to sample."""
        return batch.num_tokens > 0

    def returns_early(self, executed: bool) -> bool:
        """Whether this iteration waits for no result: the queue has room, and there is work."""
        return len(self.queue) < self.depth and (executed or self.live.has_requests(self.waves.pause_state))

    async def take_result(self) -> None:
        """Wait for the result of the oldest batch, because results come in the order of the batches
        (invariant I-PS-6).
        """
        oldest = self.queue.popleft()
        await self.worker.result(oldest)
        await self.take_aborts()
        self.answers.finished(self.live.taken(oldest))
